"""What looks like a fix in the cases and is none: judged from what real runs showed.

The runs are in fixtures/verify-logs; tests/end_to_end/test_traps_torch.py makes them anew.
"""

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from recompile_doctor.bundle import Bundle
from recompile_doctor.capture.applied import Applied
from recompile_doctor.capture.calls import Calls
from recompile_doctor.pipeline import examine
from recompile_doctor.reports.run_facts import facts_of
from recompile_doctor.verification.assess import assess
from recompile_doctor.verification.equivalence import (
    OutputsCompared,
    Sameness,
    compare_outputs,
)
from recompile_doctor.verification.facts import COLD, RunFacts
from recompile_doctor.verification.trial_run import Baseline, Ending
from recompile_doctor.verification.verdict import Judgement, Verdict
from tests.truth import read_truth

FIXTURES = Path(__file__).parents[2] / "fixtures"
LOGS = FIXTURES / "verify-logs"
UNKNOWN = OutputsCompared(Sameness.UNKNOWN, "not recorded", 0)
VERDICTS = {
    "01_last_batch_one": Verdict.UNCHANGED,
    "06_auto_dynamic_wrong_dim": Verdict.IMPROVED,
    "11_dict_keys_change": Verdict.BROKE,
    "12_train_eval_toggle": Verdict.WORSE,
    "17_kv_cache_cat_decode": Verdict.WORSE,
    "22_tolist_split_repeat_interleave": Verdict.BROKE,
    "24_unbacked_hits_user_branch": Verdict.WORSE,
    "25_pad_to_multiple": Verdict.BROKE,
    "27_attention_mask_len_one": Verdict.BROKE,
    "33_hooks_and_call_wrapper": Verdict.BROKE,
    "36_unet_image_sizes": Verdict.IMPROVED,
    "46_squeeze_rank_changes": Verdict.BROKE,
    "51_unbacked_list": Verdict.WORSE,
}


def manifest(case: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((LOGS / case / "manifest.yaml").read_text("utf-8"))
    return content


def facts(folder: Path, exit_code: int) -> RunFacts:
    found = facts_of(examine(folder).document)
    return replace(found, caches=COLD, exit_code=exit_code, torch_version="2.13.0")


def outputs(case: str, where: Path) -> OutputsCompared:
    """Return how the stored fingerprints compare; unknown for a case that has none."""
    if not (LOGS / case / "outputs").is_dir():
        return UNKNOWN
    bundles = []
    for name in ("before", "after"):
        probe = where / name / "probe"
        probe.mkdir(parents=True)
        packed = (LOGS / case / "outputs" / f"{name}.jsonl.gz").read_bytes()
        (probe / "7.outputs.jsonl").write_bytes(gzip.decompress(packed))
        bundles.append(Bundle(where / name))
    return compare_outputs(*bundles)


def judged(case: str, where: Path) -> Judgement:
    before = "51_attention_block" if case == "51_unbacked_list" else case
    baseline = facts(FIXTURES / "case-logs" / before, 0)
    return assess(
        Baseline((where,), baseline, (baseline.totals.recompiles,)),
        facts(LOGS / case, manifest(case)["exit_code"]),
        ending=Ending.WHOLE,
        outputs=outputs(case, where),
        applied=Applied(),
        before_calls=Calls(),
        calls=Calls(),
        pace=None,
    )


@pytest.mark.parametrize("case", sorted(VERDICTS))
def test_each_trap_gets_its_verdict(case: str, tmp_path: Path) -> None:
    assert judged(case, tmp_path).verdict is VERDICTS[case]


def test_every_case_with_a_bad_suggestion_is_here() -> None:
    folders = [path for path in (FIXTURES / "cases").iterdir() if path.is_dir()]
    bad = {path.name for path in folders if "env" in read_truth(path).get("bad_suggestion", {})}
    assert bad <= set(VERDICTS)
    assert {path.name for path in LOGS.iterdir()} == set(VERDICTS)


def test_the_variables_of_a_stored_run_are_those_of_the_case() -> None:
    for case in VERDICTS:
        if case != "51_unbacked_list":
            truth = read_truth(FIXTURES / "cases" / case)
            assert manifest(case)["environment"] == truth["bad_suggestion"]["env"]


def test_a_hook_that_never_runs_is_seen_in_the_outputs_alone(tmp_path: Path) -> None:
    """No recompile, exit code 0: only the values tell."""
    case = "33_hooks_and_call_wrapper"
    found = judged(case, tmp_path)
    assert found.reasons[0].startswith("the outputs differ: ")
    assert facts(LOGS / case, 0).totals.recompiles == 0


def test_a_dropped_dimension_is_seen_in_the_shape_alone(tmp_path: Path) -> None:
    found = judged("46_squeeze_rank_changes", tmp_path)
    assert "has shape (1,), before ()" in found.reasons[0]
