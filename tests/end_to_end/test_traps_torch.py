"""What looks like a fix in the cases and is none: verify refuses each with real torch.

Minutes each: ``python -m pytest -m slow tests/end_to_end/test_traps_torch.py``. What these runs
showed is stored, and judged again in tests/verification/test_traps.py in every run of the tests.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.truth import read_truth

pytestmark = [pytest.mark.torch, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
CASES = ROOT / "fixtures" / "cases"
TOOL = [sys.executable, "-m", "recompile_doctor"]
TRAPS = sorted(
    path.name
    for path in CASES.iterdir()
    if path.is_dir() and "env" in read_truth(path).get("bad_suggestion", {})
)
# Better than nothing, though short of the best fix: to refuse it would be wrong.
BETTER = {"06_auto_dynamic_wrong_dim": 2, "36_unet_image_sizes": 6}


def tool(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [*TOOL, *arguments], cwd=cwd, capture_output=True, text=True, check=False, env=environment
    )


@pytest.mark.parametrize("case", TRAPS)
def test_the_bad_suggestion_of_a_case_is_refused(case: str, tmp_path: Path) -> None:
    folder = Path(os.environ.get("TRAPS_FOLDER", tmp_path)) / case
    folder.mkdir(parents=True, exist_ok=True)
    bad = read_truth(CASES / case)["bad_suggestion"]
    environment = {name: str(value) for name, value in bad["env"].items()}
    content = {"prescription_version": 1, "id": "bad", "environment": environment}
    (folder / "bad.yaml").write_text(yaml.safe_dump(content), "utf-8")
    tool("run", "--quiet", "--name", "it", str(CASES / case / "case.py"), cwd=folder)
    options = ["--prescription", "bad.yaml", "--baseline-runs", "1", "--format", "json"]
    done = tool("verify", "it", *options, cwd=folder)
    found = json.loads(done.stdout)
    (trial,) = found["trials"]
    if case in BETTER:
        assert trial["verdict"] == "improved"
        assert trial["recompiles"] == BETTER[case]
        return
    assert done.returncode == 1, trial
    assert found["best"] is None
    assert trial["verdict"] in ("broke the program", "worse", "unchanged")
