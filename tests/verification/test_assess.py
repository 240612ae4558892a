"""The verdict on a trial: better only when nothing measured speaks against it."""

from dataclasses import replace
from pathlib import Path

import pytest

from recompile_doctor.capture.applied import Applied, AppliedMark
from recompile_doctor.capture.calls import Calls
from recompile_doctor.capture.overlay import OverlayApplied
from recompile_doctor.verification.assess import assess
from recompile_doctor.verification.equivalence import OutputsCompared, Sameness
from recompile_doctor.verification.facts import RunFacts
from recompile_doctor.verification.pace import Pace
from recompile_doctor.verification.trial_run import Baseline, Ending
from recompile_doctor.verification.verdict import Judgement, Verdict
from tests.prescription.called import called
from tests.verification.runs import cause, graph_break, run
from tests.verification.test_pace import run as calls_of

SAME = OutputsCompared(Sameness.SAME, "all the same", 9)
BEFORE = run(cause(recompiles=(1, 2, 3)))
AFTER = run()


def judged(
    facts: RunFacts = AFTER,
    *,
    before: RunFacts = BEFORE,
    counts: tuple[int, ...] = (3, 3),
    noise: Pace | None = None,
    ending: Ending = Ending.WHOLE,
    outputs: OutputsCompared = SAME,
    applied: Applied = Applied(),  # noqa: B008
    before_calls: Calls = Calls(),  # noqa: B008
    calls: Calls = Calls(),  # noqa: B008
    pace: Pace | None = None,
    overlay: OverlayApplied | None = None,
) -> Judgement:
    return assess(
        Baseline((Path("a"),), before, counts, noise=noise),
        facts,
        ending=ending,
        outputs=outputs,
        applied=applied,
        before_calls=before_calls,
        calls=calls,
        pace=pace,
        overlay=overlay,
    )


def test_fewer_recompiles_and_the_same_outputs_are_a_fix() -> None:
    assert judged() == Judgement(Verdict.FIXED, ("recompiles 3 -> 0",))


def test_other_outputs_are_a_broken_program_however_few_recompiles() -> None:
    different = OutputsCompared(Sameness.DIFFERENT, "f, call 3: shape (1,), before ()", 9)
    found = judged(outputs=different)
    assert found.verdict is Verdict.BROKE
    assert found.reasons[0] == "the outputs differ: f, call 3: shape (1,), before ()"


def test_unknown_outputs_do_not_hide_a_gain() -> None:
    unknown = OutputsCompared(Sameness.UNKNOWN, "the program varies", 0)
    assert judged(outputs=unknown).verdict is Verdict.FIXED


def test_a_crash_is_a_broken_program() -> None:
    assert judged(replace(AFTER, exit_code=1)).verdict is Verdict.BROKE


def test_recompiles_that_became_breaks_are_worse() -> None:
    assert judged(run(graph_break())).verdict is Verdict.WORSE


def test_calls_that_raise_now_are_worse_though_the_program_swallows_it() -> None:
    before = calls_of(called("f", ({"L['x']": (4,)}, 9)))
    function = replace(before.functions[0], raised_calls=2)
    found = judged(before_calls=before, calls=calls_of(function))
    assert found.verdict is Verdict.WORSE
    assert found.reasons == ("calls of compiled functions that raise an error: 0 -> 2",)


def test_a_run_that_calls_less_is_no_better_run() -> None:
    before = calls_of(called("f", ({"L['x']": (4,)}, 9)))
    after = calls_of(called("f", ({"L['x']": (4,)}, 3)))
    found = judged(before_calls=before, calls=after)
    assert found.verdict is Verdict.WORSE
    assert found.reasons == ("fewer calls of compiled functions were made: 9 -> 3",)


def test_unobserved_calls_prove_nothing() -> None:
    before = calls_of(called("f", ({"L['x']": (4,)}, 9)))
    assert judged(before_calls=before, calls=Calls()).verdict is Verdict.FIXED


@pytest.mark.parametrize(
    ("pace", "noise", "verdict"),
    [
        (Pace(0.001, 0.0021, 20), None, Verdict.WORSE),
        (Pace(0.001, 0.0021, 20), Pace(0.001, 0.0018, 20), Verdict.FIXED),
        (Pace(0.001, 0.0021, 20), Pace(0.0018, 0.001, 20), Verdict.FIXED),
        (Pace(0.001, 0.0021, 3), None, Verdict.FIXED),
        (Pace(0.00001, 0.0001, 20), None, Verdict.FIXED),
        (Pace(0.001, 0.0005, 20), None, Verdict.FIXED),
    ],
)
def test_much_slower_calls_are_worse_beyond_the_noise(
    pace: Pace, noise: Pace | None, verdict: Verdict
) -> None:
    assert judged(pace=pace, noise=noise).verdict is verdict


def test_somewhat_slower_calls_are_a_reservation() -> None:
    found = judged(pace=Pace(0.001, 0.0015, 20))
    assert found.verdict is Verdict.FIXED
    assert found.reservations == (
        "calls that compile nothing are slower: 1 ms -> 1.5 ms a call of the same sizes "
        "(measured, in one run)",
    )


def test_a_mark_without_effect_is_a_reservation() -> None:
    applied = Applied((AppliedMark("L['x']", 0, "unbacked"),), {"torch._x": "no such setting"})
    assert judged(applied=applied).reservations == (
        "the mark on dimension 0 of L['x'] took no effect",
        "the setting torch._x took no effect (no such setting)",
    )


def test_what_varies_by_itself_is_no_gain() -> None:
    found = judged(run(cause(recompiles=(1, 2))), counts=(3, 2))
    assert found.verdict is Verdict.UNCHANGED
    assert "2 to 3 times" in found.reservations[0]


def test_more_recompiles_within_what_varies_are_not_worse() -> None:
    found = judged(run(cause(recompiles=(1, 2, 3, 4))), counts=(3, 4))
    assert found.verdict is Verdict.UNCHANGED
    assert judged(run(cause(recompiles=range(1, 6))), counts=(3, 4)).verdict is Verdict.WORSE


@pytest.mark.parametrize(
    ("ending", "verdict"),
    [(Ending.TIMED_OUT, Verdict.BROKE), (Ending.STOPPED_EARLY, Verdict.WORSE)],
)
def test_a_run_that_was_ended_is_never_better(ending: Ending, verdict: Verdict) -> None:
    assert judged(ending=ending).verdict is verdict


def test_a_patch_that_the_run_did_not_use_is_not_tried() -> None:
    unused = OverlayApplied(missing=(Path("/home/user/model.py"),), problems=("it is in a zip",))
    found = judged(overlay=unused)
    assert found.verdict is Verdict.UNKNOWN
    assert found.reasons == (
        "the run did not use the patched /home/user/model.py (it is in a zip)",
    )


def test_a_patch_that_was_used_is_judged_like_all() -> None:
    used = OverlayApplied(frozenset({Path("/home/user/model.py")}))
    assert judged(overlay=used).verdict is Verdict.FIXED
