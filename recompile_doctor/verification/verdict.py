"""The verdict on a change: what two runs say of it, not by recompiles alone."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from recompile_doctor.model.frame import FrameKey
from recompile_doctor.verification.diff import (
    Change,
    Difference,
    FrameDiff,
    compiles_again,
    more_breaks,
    more_recompiles,
)
from recompile_doctor.verification.facts import (
    TOO_FEW,
    Counts,
    Doubt,
    RunFacts,
    explains_recompiles,
    is_fixable,
    recompile_keys,
)

_NOTHING = Counts()


class Verdict(Enum):
    """How the second run stands against the first. UNKNOWN: too little is known to say."""

    FIXED = "fixed"
    IMPROVED = "improved"
    UNCHANGED = "unchanged"
    WORSE = "worse"
    BROKE = "broke the program"
    UNKNOWN = "cannot tell"

    @property
    def is_bad(self) -> bool:
        """Return whether nobody should take the change on this evidence."""
        return self in (Verdict.WORSE, Verdict.BROKE, Verdict.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, the facts that it rests on, and what speaks against them."""

    verdict: Verdict
    reasons: tuple[str, ...]
    reservations: tuple[str, ...] = ()


def judge(difference: Difference) -> Judgement:
    """Return the verdict on the second run of a difference.

    A run that failed, that captures no graphs where it did, that hits the recompile limit, or
    that breaks graphs where it recompiled, is not better for having fewer recompiles. A run whose
    logs may hold too little can be shown to be worse, but not to be better.
    """
    before, after = difference.before, difference.after
    if _failed(after) and before.exit_code == 0:
        return Judgement(
            Verdict.BROKE, (f"the program ends with exit code {after.exit_code}, before with 0",)
        )
    worse = tuple(_worse(difference))
    better = tuple(_better(difference))
    if worse:
        return Judgement(Verdict.WORSE, worse, better)
    doubt = after.doubt(Doubt.FAILED, *TOO_FEW)
    if doubt is not None and not (_failed(before) and after.doubt(*TOO_FEW) is None):
        return Judgement(Verdict.UNKNOWN, (doubt,), better)
    if not better:
        return Judgement(Verdict.UNCHANGED, ("nothing that counts changed",))
    verdict = Verdict.FIXED if _is_clean(after) else Verdict.IMPROVED
    return Judgement(verdict, better, tuple(_although(difference)))


# Ctrl-C and a polite kill come from outside: they say nothing of the program.
_STOPPED = (128 + 2, 128 + 15)


def _failed(facts: RunFacts) -> bool:
    return bool(facts.exit_code) and facts.exit_code not in _STOPPED


def _counts(diff: FrameDiff) -> tuple[Counts, Counts]:
    return (
        _NOTHING if diff.before is None else diff.before.counts,
        _NOTHING if diff.after is None else diff.after.counts,
    )


def _worse(difference: Difference) -> Iterator[str]:
    yield from _nothing_left(difference)
    old, new = difference.before.totals, difference.after.totals
    if new.recompile_limit_hits > old.recompile_limit_hits:
        yield (
            f"the recompile limit is hit: {old.recompile_limit_hits} -> {new.recompile_limit_hits}"
        )
    yield from (text for _, text in no_longer_compiled(difference))
    breaks = _sums(difference, lambda counts: counts.graph_breaks, more_breaks)
    if breaks[1] > breaks[0]:
        became = new.recompiles < old.recompiles
        yield f"{'recompiles became ' if became else ''}graph breaks: {breaks[0]} -> {breaks[1]}"
    recompiles = _sums(difference, lambda counts: counts.recompiles, more_recompiles)
    if recompiles[1] > recompiles[0]:
        yield f"more recompiles: {recompiles[0]} -> {recompiles[1]}"


def _nothing_left(difference: Difference) -> Iterator[str]:
    """Yield a reason when nothing is compiled that was; a text log of recompiles cannot tell."""
    before, after = difference.before, difference.after
    knows_starts = before.doubt(Doubt.STARTS_UNKNOWN, Doubt.NOTHING_COMPILED) is None
    if knows_starts and after.doubt(Doubt.NOTHING_COMPILED) is not None:
        yield "nothing is compiled any more, or its logging is silenced"


def no_longer_compiled(difference: Difference) -> Iterator[tuple[FrameKey, str]]:
    """Yield the functions that were compiled and are not any more, and that in words.

    A function that is missing while a new one is compiled may only have another name. Where graph
    breaks are gone, it may be a part of its caller's graph now.
    """
    if difference.after.doubt(Doubt.NOTHING_COMPILED, Doubt.STARTS_UNKNOWN) is not None:
        return
    replaced = any(
        each.change is Change.NEW and not _counts(each)[1].runs_eagerly
        for each in difference.frames
    )
    inlined = difference.after.totals.graph_breaks < difference.before.totals.graph_breaks and bool(
        difference.after.totals.graphs_captured
    )
    for diff in difference.frames:
        old, new = _counts(diff)
        graphs = old.graphs_captured
        if graphs and diff.after is not None and new.runs_eagerly:
            yield diff.frame, f"{diff.frame} runs eagerly: graphs captured {graphs} -> 0"
        elif graphs and diff.after is None and not (replaced or inlined):
            text = f"{diff.frame} is not compiled any more: graphs captured {graphs} -> 0"
            yield diff.frame, text


def _sums(
    difference: Difference,
    number: Callable[[Counts], int],
    rises: Callable[[Counts, Counts], bool],
) -> tuple[int, int]:
    """Return the totals of both runs, without functions whose counts rise for a good reason."""
    old_sum = new_sum = 0
    for diff in difference.frames:
        old, new = _counts(diff)
        if number(new) > number(old) and not rises(old, new):
            continue
        old_sum += number(old)
        new_sum += number(new)
    return old_sum, new_sum


def _better(difference: Difference) -> Iterator[str]:
    old, new = difference.before.totals, difference.after.totals
    for noun, first, second in (
        ("recompiles", old.recompiles, new.recompiles),
        ("graph breaks", old.graph_breaks, new.graph_breaks),
        ("recompile-limit hits", old.recompile_limit_hits, new.recompile_limit_hits),
    ):
        if second < first:
            yield f"{noun} {first} -> {second}"
    for diff in difference.frames:
        first_counts, second_counts = _counts(diff)
        if compiles_again(first_counts, second_counts):
            yield f"{diff.frame} is compiled: graphs captured 0 -> {second_counts.graphs_captured}"


def _although(difference: Difference) -> Iterator[str]:
    """Yield what got worse in one function while the whole got better, and what is gone."""
    left = difference.after.totals.recompiles
    if left and _is_clean(difference.after):
        yield f"recompiles that are left: {left}, expected or only once"
    if _rerecords(difference.after) and not _rerecords(difference.before):
        yield "torch warns that CUDA graphs are recorded for many sizes now: compare the times"
    for diff in difference.frames:
        old, new = _counts(diff)
        if diff.change is Change.WORSE or (diff.change is Change.NEW and new.recompiles):
            yield (
                f"{diff.frame}: recompiles {old.recompiles} -> {new.recompiles}, graph breaks "
                f"{old.graph_breaks} -> {new.graph_breaks}"
            )
        elif diff.change is Change.GONE:
            yield f"{diff.frame} is not compiled under this name any more"
        elif new.recompiles > old.recompiles:
            yield f"{diff.frame}: recompiles {old.recompiles} -> {new.recompiles}"


def _rerecords(facts: RunFacts) -> bool:
    """Return whether torch warned of CUDA graphs that are recorded anew for each size."""
    return any(each.rule == "cudagraph-rerecord" for each in facts.findings)


def _is_clean(facts: RunFacts) -> bool:
    """Return whether nothing is left to fix."""
    left = [each for each in facts.findings if explains_recompiles(each) and is_fixable(each)]
    return not (
        recompile_keys(left) or facts.totals.recompile_limit_hits or facts.totals.graph_breaks
    )
