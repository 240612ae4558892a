"""A run held against one before it: nothing may be worse, neither in a function nor by cause."""

from collections.abc import Callable, Iterator

from recompile_doctor.diagnosis.finding import OVERVIEWS, Finding
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.verification.budget import Metric
from recompile_doctor.verification.diff import Change, Difference, FrameDiff, compiles_again
from recompile_doctor.verification.facts import limit_hits, own_breaks
from recompile_doctor.verification.tally import Tally, same_function
from recompile_doctor.verification.verdict import no_longer_compiled
from recompile_doctor.verification.violation import Check, Kind, Violation


def not_worse(difference: Difference, before: Tally, after: Tally) -> Check:
    """Return the check that the second run of a difference is nowhere worse than the first."""
    violations = tuple(_worse(difference, before, after))
    detail = f"compared with {difference.before.subject}"
    return Check("nothing is worse than the baseline", detail, violations)


def _worse(difference: Difference, before: Tally, after: Tally) -> Iterator[Violation]:
    """Yield each cause that is new or costs more, then functions where no cause tells of it."""
    revived = [each.frame for each in difference.frames if _is_revived(each)]
    told: list[FrameKey] = []
    for diff in difference.findings:
        finding = diff.after
        if finding is None or diff.change not in (Change.NEW, Change.WORSE):
            continue
        view = finding.rule in OVERVIEWS or finding.together_with is not None
        if (
            view
            or not after.counts(finding)
            or any(same_function(finding.frame, f) for f in revived)
        ):
            continue
        told.append(finding.frame)
        yield Violation(Kind.WORSE, _grown(diff.before, finding), (finding,), finding.frame)
    for frame_diff in difference.frames:
        if not any(same_function(frame_diff.frame, each) for each in told):
            yield from _frame_worse(frame_diff, before, after)
    for frame, text in no_longer_compiled(difference):
        yield Violation(Kind.WORSE, text, (), frame)


def _is_revived(diff: FrameDiff) -> bool:
    """Return whether a function ran eagerly in the baseline and is compiled now."""
    if diff.before is None or diff.after is None:
        return False
    return compiles_again(diff.before.counts, diff.after.counts)


def _grown(before: Finding | None, after: Finding) -> str:
    place = after.source or ""
    if after.source is not None and after.dim is not None:
        place += f" dim {after.dim}"
    subject = f"{after.title}{f' ({place})' if place else ''} in {after.frame}"
    if before is None:
        return f"new since the baseline: {subject}"
    numbers = [
        f"{noun} {number(before)} -> {number(after)}"
        for noun, number in _NUMBERS
        if number(after) != number(before)
    ]
    return f"worse than the baseline: {subject}: {', '.join(numbers) or 'not expected any more'}"


def _recompiles(finding: Finding) -> int:
    return len(finding.recompiles)


_NUMBERS: tuple[tuple[str, Callable[[Finding], int]], ...] = (
    ("recompiles", _recompiles),
    ("graph breaks", own_breaks),
    ("limit hits", limit_hits),
)


def _frame_worse(diff: FrameDiff, before: Tally, after: Tally) -> Iterator[Violation]:
    if diff.before is None or diff.after is None or _is_revived(diff):
        return
    for metric in (Metric.RECOMPILES, Metric.GRAPH_BREAKS):
        old = before.of_frame(metric, diff.before)
        new = after.of_frame(metric, diff.after)
        if new > old:
            text = f"worse than the baseline: {metric.noun}s in {diff.frame} {old} -> {new}"
            yield Violation(Kind.WORSE, text, after.to_blame(metric, diff.frame), diff.frame)


def baseline_warnings(difference: Difference) -> Iterator[str]:
    """Yield what makes the comparison with a baseline doubtful."""
    for note in difference.notes:
        if not note.startswith("after: "):
            yield note.replace("before: ", "baseline: ", 1)
    for each in difference.frames:
        if _is_revived(each):
            yield f"{each.frame} ran eagerly in the baseline and is compiled now: not compared"
