"""The search, over runs that are told beforehand: what is tried, in which order, what is kept."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from recompile_doctor.bundle import Manifest, create_bundle, write_manifest
from recompile_doctor.capture.calls import Calls
from recompile_doctor.diagnosis.diagnose import Diagnosis, diagnose
from recompile_doctor.errors import DoctorError, ExitCode
from recompile_doctor.events.vocabulary import MarkKind
from recompile_doctor.pipeline import examine
from recompile_doctor.prescription.marks import Mark, Prescription
from recompile_doctor.prescription.prescription_file import Trial
from recompile_doctor.reports.run_facts import facts_of
from recompile_doctor.verification.facts import COLD, RunFacts
from recompile_doctor.verification.rerun import (
    STDERR_NAME,
    Finished,
    Order,
    Program,
    Rerunner,
)
from recompile_doctor.verification.search import Limits, Looked, Search
from recompile_doctor.verification.trial_run import Ending, TrialRun, Verification
from recompile_doctor.verification.verdict import Verdict
from tests.diagnosis.handmade import Maker

FIXTURES = Path(__file__).parents[2] / "fixtures"
ONE_BASELINE = Limits(baseline_runs=1)
Answer = Callable[[Trial | None], "Told"]


class Told:
    """What a run is to show."""

    def __init__(
        self,
        diagnosis: Diagnosis,
        facts: RunFacts,
        *,
        exit_code: int = 0,
        ending: Ending = Ending.WHOLE,
        because: str = "",
        errors: str = "",
        calls: Calls | None = None,
    ) -> None:
        self.looked = Looked(diagnosis, replace(facts, exit_code=exit_code), calls or Calls())
        self.exit_code = exit_code
        self.ending = ending
        self.because = because
        self.errors = errors


@cache
def stored(folder: str) -> Told:
    """Return what a stored log shows."""
    examined = examine(FIXTURES / folder)
    facts = replace(facts_of(examined.document), caches=COLD, torch_version="2.13.0")
    return Told(examined.diagnosis, facts)


def clean(
    function: str = "forward", file: str = "/home/user/cases/51_attention_block/case.py"
) -> Told:
    """Return a run with one graph and no recompile."""
    maker = Maker(file=file)
    maker.compile("0/0", function=function)
    diagnosis = diagnose(maker.run())
    before = stored("case-logs/51_attention_block").looked.facts
    totals = replace(before.totals, recompiles=0, compilations=1, graphs_captured=1, graph_breaks=0)
    frames = tuple(replace(each, counts=totals) for each in before.frames[:1])
    facts = replace(before, totals=totals, frames=frames, findings=())
    return Told(diagnosis, facts)


class Scripted(Rerunner):
    """Runs nothing: asks what each run is to show."""

    def __init__(self, root: Path, answer: Answer, jobs: int = 1) -> None:
        super().__init__(Program(("python", "train.py"), root, {}, ""), root / "trials", jobs)
        self.answer = answer
        self.told: dict[Path, Told] = {}
        self.orders: list[Order] = []

    def run_all(self, orders: Sequence[Order]) -> list[Finished]:
        made = []
        for order in orders:
            self.orders.append(order)
            told = self.answer(order.change.trial)
            bundle = create_bundle(self.root, order.name)
            write_manifest(
                bundle,
                Manifest(
                    ("python", "train.py"),
                    str(self.root),
                    {},
                    "now",
                    "cold",
                    ("dynamic",),
                    torch_version="2.13.0+cpu",
                    exit_code=told.exit_code,
                    wall_seconds=1.0,
                    complete=True,
                    cut_short_reason=None,
                ),
            )
            (bundle.path / STDERR_NAME).write_text(told.errors)
            self.told[bundle.path] = told
            made.append(Finished(bundle, told.ending, told.because))
        return made


def searched(
    tmp_path: Path, answer: Answer, limits: Limits = ONE_BASELINE, jobs: int = 1
) -> tuple[Verification, Scripted]:
    rerunner = Scripted(tmp_path, answer, jobs)
    search = Search(rerunner, lambda made: rerunner.told[made.bundle.path].looked, "run", limits)
    return search.best_of_suggestions(), rerunner


def kinds(marks: Sequence[Mark]) -> set[tuple[str, int | None, str]]:
    return {(mark.source, mark.dim, mark.kind.value) for mark in marks}


def attention(trial: Trial | None) -> Told:
    """Answer as torch 2.13 does for the attention block."""
    if trial is None:
        return stored("case-logs/51_attention_block")
    if any(mark.minimum == 1 and mark.shape_group for mark in trial.marks):
        return clean()
    return stored("verify-logs/51_unbacked_list")


def test_the_strongest_that_works_is_kept_when_a_smaller_one_does_not(tmp_path: Path) -> None:
    result, _ = searched(tmp_path, attention)
    assert [each.prescription.id for each in result.trials] == ["strongest", "strongest-plain"]
    assert [each.verdict for each in result.trials] == [Verdict.FIXED, Verdict.WORSE]
    assert result.best is result.trials[0]
    assert result.best.facts.totals.recompiles == 0
    assert len(result.best.prescription.marks) == 5


def test_what_needs_no_promises_loses_them(tmp_path: Path) -> None:
    """As torch 2.15 does: there the plain marks suffice."""

    def answer(trial: Trial | None) -> Told:
        return stored("case-logs/51_attention_block") if trial is None else clean()

    result, _ = searched(tmp_path, answer)
    assert result.best is not None
    assert result.best.prescription.id == "strongest-plain"
    assert all(mark.shape_group is None for mark in result.best.prescription.marks)
    assert result.best.content != result.trials[0].content


def test_a_failure_teaches_the_tie_and_the_bound(tmp_path: Path) -> None:
    """Where the suggestions lack them, the search finds them from what torch says."""

    def answer(trial: Trial | None) -> Told:
        if trial is None:
            return stored("case-logs/51_attention_block")
        grouped = {mark.shape_group for mark in trial.marks} - {None}
        if not grouped or all(mark.minimum is None for mark in trial.marks):
            return stored("verify-logs/51_unbacked_list")
        return clean()

    result, rerunner = searched(tmp_path, answer)
    assert result.best is not None
    assert result.best.verdict is Verdict.FIXED
    assert len(rerunner.orders) <= 7


def test_a_branch_of_the_program_ends_with_dynamic(tmp_path: Path) -> None:
    case = "24_unbacked_hits_user_branch"

    def answer(trial: Trial | None) -> Told:
        return stored(f"case-logs/{case}") if trial is None else stored(f"verify-logs/{case}")

    result, _ = searched(tmp_path, answer)
    assert result.best is None
    assert all(each.verdict.is_bad for each in result.trials)
    assert all(
        mark.kind is MarkKind.DYNAMIC for each in result.trials for mark in each.prescription.marks
    )


def test_a_crash_is_never_kept_and_says_what_torch_said(tmp_path: Path) -> None:
    case = "27_attention_mask_len_one"

    def answer(trial: Trial | None) -> Told:
        if trial is None:
            return stored(f"case-logs/{case}")
        crash = stored(f"verify-logs/{case}")
        return Told(crash.looked.diagnosis, crash.looked.facts, exit_code=1, errors="boom")

    result, _ = searched(tmp_path, answer)
    assert result.best is None
    assert {each.verdict for each in result.trials} == {Verdict.BROKE}
    assert result.trials[0].judgement.reasons[0].startswith("the program ends with exit code 1")
    assert any("keep" in each.finding_id for each in result.remaining)


@pytest.mark.parametrize(
    ("ending", "verdict"),
    [(Ending.TIMED_OUT, Verdict.BROKE), (Ending.STOPPED_EARLY, Verdict.WORSE)],
)
def test_a_run_without_an_end_is_no_proof(tmp_path: Path, ending: Ending, verdict: Verdict) -> None:
    def answer(trial: Trial | None) -> Told:
        if trial is None:
            return stored("case-logs/51_attention_block")
        good = clean()
        return Told(good.looked.diagnosis, good.looked.facts, ending=ending, because="it was slow")

    result, _ = searched(tmp_path, answer)
    assert result.best is None
    assert {each.verdict for each in result.trials} == {verdict}
    assert result.trials[0].judgement.reasons == ("it was slow",)


def test_no_more_trials_are_run_than_allowed(tmp_path: Path) -> None:
    def answer(trial: Trial | None) -> Told:
        name = "case-logs" if trial is None else "verify-logs"
        return stored(f"{name}/51_attention_block" if trial is None else f"{name}/51_unbacked_list")

    result, rerunner = searched(tmp_path, answer, Limits(max_trials=2, baseline_runs=1))
    assert len(result.trials) == 2
    assert len(rerunner.orders) == 3
    assert "the search ended at 2 trials (--max-trials)" in result.notes


def test_a_trial_is_told_what_it_has_to_beat(tmp_path: Path) -> None:
    _, rerunner = searched(tmp_path, attention)
    assert [each.most for each in rerunner.orders] == [None, 6, 0]


def test_nothing_to_try_is_a_result(tmp_path: Path) -> None:
    result, rerunner = searched(tmp_path, lambda trial: stored("case-logs/40_same_tensor_twice"))
    assert result.trials == ()
    assert result.best is None
    assert len(rerunner.orders) == 1


def test_without_a_word_of_torch_the_function_that_got_worse_is_spared(tmp_path: Path) -> None:
    """More recompiles, and nothing that torch could not decide: the marks get weaker, then go."""
    worse = stored("case-logs/51_attention_block").looked
    more = replace(worse.facts.totals, recompiles=9)
    frames = tuple(replace(each, counts=more) for each in worse.facts.frames)
    facts = replace(worse.facts, totals=more, frames=frames)

    def answer(trial: Trial | None) -> Told:
        if trial is None:
            return stored("case-logs/51_attention_block")
        return Told(worse.diagnosis, facts)

    result, _ = searched(tmp_path, answer)
    assert result.best is None
    reasons = [each.reason for each in result.trials]
    assert "only dynamic in forward, which got worse" in reasons


@pytest.mark.parametrize("name", ["../../evil", "a b/c", "x" * 300, "é\n", "-", ""])
def test_the_name_of_a_prescription_can_be_anything(tmp_path: Path, name: str) -> None:
    rerunner = Scripted(tmp_path, attention)
    search = Search(
        rerunner, lambda made: rerunner.told[made.bundle.path].looked, "run", ONE_BASELINE
    )
    result = search.of_one(Prescription(name, ""), Trial(name))
    assert result.trials[0].bundle.parent == tmp_path / "trials"
    assert result.trials[0].prescription.id == name


def test_the_same_runs_give_the_same_search(tmp_path: Path) -> None:
    first, _ = searched(tmp_path / "a", attention)
    second, _ = searched(tmp_path / "b", attention)
    assert [_shown(each) for each in first.trials] == [_shown(each) for each in second.trials]


def _shown(trial: TrialRun) -> tuple[str, str, str]:
    return trial.prescription.id, trial.content, trial.reason


def test_more_jobs_reach_the_same_count(tmp_path: Path) -> None:
    result, rerunner = searched(tmp_path, attention, jobs=2)
    assert result.best is not None
    assert result.best.facts.totals.recompiles == 0
    names = [each.name for each in rerunner.orders]
    assert len(names) == len(set(names))


def test_a_program_that_fails_by_itself_cannot_be_verified(tmp_path: Path) -> None:
    def answer(trial: Trial | None) -> Told:
        told = stored("case-logs/51_attention_block")
        return Told(
            told.looked.diagnosis,
            told.looked.facts,
            exit_code=3,
            errors=f"a{os.linesep}\nFileNotFoundError: no data\n",
        )

    with pytest.raises(DoctorError) as caught:
        searched(tmp_path, answer)
    assert caught.value.exit_code is ExitCode.PROGRAM_FAILED
    assert "FileNotFoundError: no data" in caught.value.message


def varying(*after: Told) -> Answer:
    """Answer with baselines of 6 and of 5 recompiles, and then with these trials in turn."""
    six = stored("case-logs/51_attention_block")
    totals = replace(six.looked.facts.totals, recompiles=5)
    five = Told(six.looked.diagnosis, replace(six.looked.facts, totals=totals))
    baselines, trials = iter((six, five)), iter(after)
    return lambda trial: next(baselines) if trial is None else next(trials)


def test_a_gain_is_tried_once_more_where_the_counts_vary(tmp_path: Path) -> None:
    result, _ = searched(tmp_path, varying(clean(), clean(), clean()), Limits(baseline_runs=2))
    assert result.best is not None
    assert result.trials[-1].prescription.id.endswith("-again")
    assert result.trials[-1].reason == "once more, since the program's own counts vary"


def test_a_gain_that_a_second_run_does_not_bear_out_is_none(tmp_path: Path) -> None:
    worse = stored("verify-logs/51_unbacked_list")
    answer = varying(clean(), worse, worse, worse, worse, worse, worse, worse, worse, worse)
    result, _ = searched(tmp_path, answer, Limits(baseline_runs=2))
    assert result.best is None
    first = result.trials[0]
    assert first.verdict is Verdict.UNCHANGED
    assert first.judgement.reasons[0].startswith("a second run does not bear it out: ")


def test_a_program_that_runs_eagerly_is_told_so(tmp_path: Path) -> None:
    def answer(trial: Trial | None) -> Told:
        told = stored("case-logs/20_item_branch")
        totals = replace(told.looked.facts.totals, graphs_captured=0)
        return Told(told.looked.diagnosis, replace(told.looked.facts, totals=totals))

    result, _ = searched(tmp_path, answer)
    assert any("runs eagerly" in each for each in result.notes)


def test_counts_that_vary_by_themselves_are_no_gain(tmp_path: Path) -> None:
    """Two baselines of 6 and 0 recompiles: a trial of 0 shows nothing."""
    baselines = iter((stored("case-logs/51_attention_block"), clean()))

    def answer(trial: Trial | None) -> Told:
        return next(baselines) if trial is None else clean()

    result, _ = searched(tmp_path, answer, Limits(baseline_runs=2))
    assert result.best is None
    assert result.baseline.recompiles == (6, 0)
    assert any("recompiles 0 to 6 times" in each for each in result.notes)
