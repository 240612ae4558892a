"""The verdict on a trial: what `diff` says of it, and what only a rerun can tell.

A run can have fewer recompiles and be worse: it may have ended early, raised errors that the
program swallows, returned other values, or call a slower graph.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from recompile_doctor.capture.applied import Applied
from recompile_doctor.capture.calls import Calls
from recompile_doctor.capture.overlay import OverlayApplied
from recompile_doctor.verification.diff import compare
from recompile_doctor.verification.equivalence import OutputsCompared, Sameness
from recompile_doctor.verification.facts import RunFacts
from recompile_doctor.verification.pace import Pace
from recompile_doctor.verification.trial_run import Baseline, Ending
from recompile_doctor.verification.verdict import Judgement, Verdict, judge

# Timings of a busy machine differ by some tens of percent; calls below this are all overhead.
_MUCH_SLOWER = 2.0
_SLOWER = 1.3
LEAST_CALLS = 10
_LEAST_SECONDS = 2e-4


def assess(
    baseline: Baseline,
    facts: RunFacts,
    *,
    ending: Ending,
    outputs: OutputsCompared,
    applied: Applied,
    before_calls: Calls,
    calls: Calls,
    pace: Pace | None,
    stopped_because: str = "",
    overlay: OverlayApplied | None = None,
    idle_entries: Sequence[str] = (),
) -> Judgement:
    """Return the verdict on a run under a prescription, from all that was measured.

    ``overlay`` tells of patched files whether the run used them; one that it did not is not tried.
    ``idle_entries`` are those of a list in a variable that hit nothing.
    """
    if overlay is not None and overlay.missing and ending is Ending.WHOLE:
        names = ", ".join(str(path) for path in overlay.missing)
        why = f" ({'; '.join(overlay.problems)})" if overlay.problems else ""
        return Judgement(Verdict.UNKNOWN, (f"the run did not use the patched {names}{why}",))
    if ending is Ending.TIMED_OUT:
        return Judgement(Verdict.BROKE, (f"{stopped_because or ending.value}",))
    if ending is Ending.STOPPED_EARLY:
        return Judgement(Verdict.WORSE, (stopped_because or ending.value,))
    judged = judge(compare(baseline.facts, facts))
    if judged.verdict is Verdict.BROKE:
        return judged
    if outputs.sameness is Sameness.DIFFERENT:
        return Judgement(Verdict.BROKE, (f"the outputs differ: {outputs.reason}", *judged.reasons))
    worse = (*_calls_lost(before_calls, calls), *_much_slower(baseline.noise, pace))
    reservations = (
        *judged.reservations,
        *_without_effect(applied),
        *(f"{entry} hits no input of the program" for entry in idle_entries),
        *_slower(baseline.noise, pace),
        *_within_noise(baseline, facts, judged),
    )
    if judged.verdict is Verdict.WORSE and _is_within_noise(baseline, facts, judged):
        return Judgement(Verdict.UNCHANGED, judged.reasons, reservations)
    if worse and judged.verdict in (Verdict.FIXED, Verdict.IMPROVED, Verdict.UNCHANGED):
        return Judgement(Verdict.WORSE, worse, (*judged.reasons, *reservations))
    if _within_noise(baseline, facts, judged) and judged.verdict in (
        Verdict.FIXED,
        Verdict.IMPROVED,
    ):
        return Judgement(Verdict.UNCHANGED, judged.reasons, reservations)
    return replace(judged, reservations=tuple(dict.fromkeys(reservations)))


def _calls_lost(before: Calls, after: Calls) -> Iterator[str]:
    """Yield a reason where calls raise that did not, or are not made any more."""
    if not before.total or not after.total:
        return
    if after.raised > before.raised:
        yield (
            f"calls of compiled functions that raise an error: {before.raised} -> {after.raised}"
        )
    if after.total < before.total:
        yield f"fewer calls of compiled functions were made: {before.total} -> {after.total}"


def _much_slower(noise: Pace | None, pace: Pace | None) -> Iterator[str]:
    if _slowdown(noise, pace) >= _MUCH_SLOWER:
        yield f"calls that compile nothing are slower: {pace} (measured)"


def _slower(noise: Pace | None, pace: Pace | None) -> Iterator[str]:
    if _SLOWER <= _slowdown(noise, pace) < _MUCH_SLOWER:
        yield f"calls that compile nothing are slower: {pace} (measured, in one run)"


def _slowdown(noise: Pace | None, pace: Pace | None) -> float:
    """Return how many times as long calls take, less what two equal runs differ by."""
    if pace is None or pace.calls < LEAST_CALLS or pace.after < _LEAST_SECONDS:
        return 1.0
    by_itself = 1.0 if noise is None else max(noise.ratio, 1 / noise.ratio)
    return pace.ratio / by_itself


def _without_effect(applied: Applied) -> Iterator[str]:
    for mark in applied.without_effect:
        yield f"the mark on dimension {mark.dim} of {mark.source} took no effect"
    for name, result in applied.config.items():
        if result != "set":
            yield f"the setting {name} took no effect ({result})"


def _is_within_noise(baseline: Baseline, facts: RunFacts, judged: Judgement) -> bool:
    """Return whether all that got worse is a count that varies as much without any change."""
    return (
        facts.totals.recompiles <= max(baseline.recompiles)
        and len(set(baseline.recompiles)) > 1
        and all(each.startswith("more recompiles") for each in judged.reasons)
    )


def _within_noise(baseline: Baseline, facts: RunFacts, judged: Judgement) -> tuple[str, ...]:
    """Return a word when the program's own counts vary as much as the trial gained."""
    counts = baseline.recompiles
    if len(set(counts)) < 2 or facts.totals.recompiles < min(counts):
        return ()
    return (
        f"without any change the program recompiles {min(counts)} to {max(counts)} times, and "
        f"{facts.totals.recompiles} is within that",
    )
