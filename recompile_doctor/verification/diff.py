"""Two runs compared: functions and causes are matched, and what became of each is told.

Compile ids are renumbered in each run and a patch moves lines, so functions are matched by file
and name, and causes by rule, function, source and dimension.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath
from typing import TypeVar

from recompile_doctor.diagnosis.finding import Finding, LocationRole
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.verification.facts import (
    COLD,
    Counts,
    FrameFacts,
    RunFacts,
    is_fixable,
    limit_hits,
    own_breaks,
)

_T = TypeVar("_T")
_Key = TypeVar("_Key", bound=Hashable)


class Change(Enum):
    """What became of a function or of a cause. GONE: the function is not compiled any more."""

    FIXED = "fixed"
    IMPROVED = "improved"
    UNCHANGED = "unchanged"
    WORSE = "worse"
    NEW = "new"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class FrameDiff:
    """One function in both runs; None where a run does not have it."""

    change: Change
    before: FrameFacts | None
    after: FrameFacts | None

    @property
    def frame(self) -> FrameKey:
        """Return the function, as the newer run that has it names it."""
        facts = self.after or self.before
        assert facts is not None
        return facts.frame


@dataclass(frozen=True, slots=True)
class FindingDiff:
    """One cause in both runs; None where a run does not have it."""

    change: Change
    before: Finding | None
    after: Finding | None

    @property
    def finding(self) -> Finding:
        """Return the finding of the newer run that has it."""
        finding = self.after or self.before
        assert finding is not None
        return finding


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between two runs. ``times_differ_because`` is why seconds do not compare."""

    before: RunFacts
    after: RunFacts
    frames: tuple[FrameDiff, ...]
    findings: tuple[FindingDiff, ...]
    times_differ_because: str | None
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether no function and no cause differs."""
        changes = {each.change for each in self.frames} | {each.change for each in self.findings}
        return changes <= {Change.UNCHANGED}


def compare(before: RunFacts, after: RunFacts) -> Difference:
    """Return what differs between two runs, the functions and causes of ``before`` first."""
    pairs = match_frames(before.frames, after.frames)
    return Difference(
        before,
        after,
        tuple(FrameDiff(frame_change(old, new), old, new) for old, new in pairs),
        tuple(_findings(before.findings, after.findings, pairs)),
        _why_times_differ(before, after),
        tuple(_notes(before, after)),
    )


def match_frames(
    before: Iterable[FrameFacts], after: Iterable[FrameFacts]
) -> list[tuple[FrameFacts | None, FrameFacts | None]]:
    """Return the functions of two runs in pairs, None where one has no like.

    First those of the same file and name, then those of the same name in a file of the same name
    elsewhere, then those in files that have another name now. Among several of one name (closures,
    lambdas) their order in the file decides, and where their numbers differ, the first line.
    """
    before, after = list(before), list(after)
    old, new = list(before), list(after)
    pairs = _paired(old, new, lambda facts: (facts.frame.file, facts.frame.function))
    pairs += _paired(old, new, lambda facts: (_file_name(facts.frame), facts.frame.function))
    pairs += _in_renamed_files(old, new, pairs)
    matched: dict[int, FrameFacts] = {id(first): second for first, second in pairs}
    rest: list[tuple[FrameFacts | None, FrameFacts | None]] = [(None, each) for each in new]
    return [(each, matched.get(id(each))) for each in before] + rest


def _in_renamed_files(
    old: list[FrameFacts], new: list[FrameFacts], pairs: list[tuple[FrameFacts, FrameFacts]]
) -> list[tuple[FrameFacts, FrameFacts]]:
    """Return the pairs among files of which nothing is matched, by names that are there once."""
    files = {each.frame.file for pair in pairs for each in pair}
    names = Counter(each.frame.function for each in old) | Counter(
        each.frame.function for each in new
    )

    def could_be_renamed(facts: FrameFacts) -> bool:
        name = facts.frame.function
        return name is not None and names[name] == 1 and facts.frame.file not in files

    left, right = (list(filter(could_be_renamed, each)) for each in (old, new))
    found = _paired(left, right, lambda facts: facts.frame.function)
    taken = {id(each) for pair in found for each in pair}
    old[:] = [each for each in old if id(each) not in taken]
    new[:] = [each for each in new if id(each) not in taken]
    return found


def _file_name(frame: FrameKey) -> str | None:
    return None if frame.file is None else PurePath(frame.file).name


def _paired(
    old: list[FrameFacts], new: list[FrameFacts], key: Callable[[FrameFacts], _Key]
) -> list[tuple[FrameFacts, FrameFacts]]:
    """Return the pairs of one key, and take them from both lists."""
    groups: dict[_Key, tuple[list[FrameFacts], list[FrameFacts]]] = {}
    for each in old:
        groups.setdefault(key(each), ([], []))[0].append(each)
    for each in new:
        groups.setdefault(key(each), ([], []))[1].append(each)
    pairs = [pair for first, second in groups.values() for pair in _in_order(first, second)]
    taken = {id(each) for pair in pairs for each in pair}
    old[:] = [each for each in old if id(each) not in taken]
    new[:] = [each for each in new if id(each) not in taken]
    return pairs


def _in_order(
    first: list[FrameFacts], second: list[FrameFacts]
) -> Iterator[tuple[FrameFacts, FrameFacts]]:
    """Yield the pairs among functions of one name, the most alike paths and lines first."""
    if len(first) == len(second) and _one_file(first) and _one_file(second):
        by_line = (
            sorted(group, key=lambda each: each.frame.line or 0) for group in (first, second)
        )
        yield from zip(*by_line, strict=True)
        return
    likeness = sorted(
        (-_common_folders(a.frame, b.frame), _lines_apart(a.frame, b.frame), i, j)
        for i, a in enumerate(first)
        for j, b in enumerate(second)
    )
    used: tuple[set[int], set[int]] = (set(), set())
    for _, _, i, j in likeness:
        if i not in used[0] and j not in used[1]:
            used[0].add(i)
            used[1].add(j)
            yield first[i], second[j]


def _one_file(group: list[FrameFacts]) -> bool:
    return len({each.frame.file for each in group}) == 1


def _common_folders(a: FrameKey, b: FrameKey) -> int:
    """Return how many last parts of two paths are the same."""
    first, second = (PurePath(each.file or "").parts[::-1] for each in (a, b))
    count = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        count += 1
    return count


def _lines_apart(a: FrameKey, b: FrameKey) -> int:
    return abs((a.line or 0) - (b.line or 0))


def frame_change(before: FrameFacts | None, after: FrameFacts | None) -> Change:
    """Return what became of a function."""
    if before is None or after is None:
        return Change.NEW if before is None else Change.GONE
    old, new = before.counts, after.counts
    if any(worse(old, new)):
        return Change.WORSE
    if not any(better(old, new)):
        return Change.UNCHANGED
    spotless = not (new.recompiles or new.graph_breaks or new.recompile_limit_hits)
    return Change.FIXED if spotless and not new.runs_eagerly else Change.IMPROVED


def compiles_again(old: Counts, new: Counts) -> bool:
    """Return whether a function that ran eagerly is compiled now: then counts may rise from 0."""
    return old.runs_eagerly and bool(new.graphs_captured)


def worse(old: Counts, new: Counts) -> Iterator[bool]:
    """Yield of each thing that counts whether it got worse.

    More recompiles are not worse where the function ran eagerly before, or where the recompile
    limit cut their number off.
    """
    yield new.recompile_limit_hits > old.recompile_limit_hits
    yield bool(old.graphs_captured) and new.runs_eagerly
    yield more_recompiles(old, new)
    yield more_breaks(old, new)


def more_recompiles(old: Counts, new: Counts) -> bool:
    """Return whether a function recompiles more often, and no good reason explains it."""
    capped = old.recompile_limit_hits > new.recompile_limit_hits
    return new.recompiles > old.recompiles and not compiles_again(old, new) and not capped


def more_breaks(old: Counts, new: Counts) -> bool:
    """Return whether a function's graph breaks at more places, and it was compiled before."""
    return new.graph_breaks > old.graph_breaks and not compiles_again(old, new)


def better(old: Counts, new: Counts) -> Iterator[bool]:
    """Yield of each thing that counts whether it got better."""
    yield new.recompiles < old.recompiles
    yield new.graph_breaks < old.graph_breaks
    yield new.recompile_limit_hits < old.recompile_limit_hits
    yield compiles_again(old, new)


def _findings(
    before: tuple[Finding, ...],
    after: tuple[Finding, ...],
    pairs: list[tuple[FrameFacts | None, FrameFacts | None]],
) -> Iterator[FindingDiff]:
    """Yield the causes of ``before`` in order, then those that are new."""
    places = _Places(pairs)
    waiting: dict[Hashable, list[Finding]] = {}
    for finding in after:
        waiting.setdefault(places.key(finding, is_after=True), []).append(finding)
    matched: set[int] = set()
    for finding in before:
        alike = waiting.get(places.key(finding, is_after=False))
        like = alike.pop(0) if alike else None
        matched.add(id(like))
        yield FindingDiff(_finding_change(finding, like, places), finding, like)
    for finding in after:
        if id(finding) not in matched:
            yield FindingDiff(Change.NEW, None, finding)


class _Places:
    """Knows which functions of the two runs are the same."""

    def __init__(self, pairs: list[tuple[FrameFacts | None, FrameFacts | None]]) -> None:
        self._before: dict[Hashable, int] = {}
        self._after: dict[Hashable, int] = {}
        self._gone: set[int] = set()
        for number, (old, new) in enumerate(pairs):
            for facts, numbers in ((old, self._before), (new, self._after)):
                if facts is not None:
                    numbers[facts.frame] = number
                    numbers.setdefault(_name(facts.frame), number)
            if new is None:
                self._gone.add(number)

    def _number(self, frame: FrameKey, *, is_after: bool) -> int | None:
        numbers = self._after if is_after else self._before
        return numbers.get(frame, numbers.get(_name(frame)))

    def key(self, finding: Finding, *, is_after: bool) -> Hashable:
        """Return what is the same for one cause in both runs."""
        number = self._number(finding.frame, is_after=is_after)
        return (finding.rule, number, finding.source, finding.dim, _code_of_break(finding))

    def is_gone(self, finding: Finding) -> bool:
        """Return whether the function of a finding of the first run is not in the second."""
        return self._number(finding.frame, is_after=False) in self._gone


def _name(frame: FrameKey) -> Hashable:
    return (frame.function, frame.file)


def _code_of_break(finding: Finding) -> str | None:
    location = finding.location
    if finding.source is not None or location is None or location.role is not LocationRole.BREAK:
        return None
    return location.frame.code


def _finding_change(before: Finding, after: Finding | None, places: _Places) -> Change:
    if after is None:
        return Change.GONE if places.is_gone(before) else Change.FIXED
    old, new = _weight(before), _weight(after)
    if any(b > a for a, b in zip(old, new, strict=True)):
        return Change.WORSE
    return Change.IMPROVED if new != old else Change.UNCHANGED


def _weight(finding: Finding) -> tuple[int, ...]:
    return (
        int(is_fixable(finding)),
        len(finding.recompiles),
        own_breaks(finding),
        limit_hits(finding),
    )


def _why_times_differ(before: RunFacts, after: RunFacts) -> str | None:
    if None in (before.totals.compile_seconds, after.totals.compile_seconds):
        return None
    if before.caches == after.caches == COLD:
        return None
    if before.caches is None or after.caches is None:
        return "it is not known whether the compile caches were cold in both runs"
    return "only runs with cold compile caches compare, and not both were"


def _notes(before: RunFacts, after: RunFacts) -> Iterator[str]:
    if before.torch_version != after.torch_version:
        old, new = (each.torch_version or "an unknown release" for each in (before, after))
        yield f"the torch releases differ: {old} before, {new} after"
    if before.ranks != after.ranks:
        yield f"the numbers of ranks differ: {before.ranks} before, {after.ranks} after"
    if (before.source == "text") != (after.source == "text"):
        yield "one of the two is a text log, which tells less of graphs and first compiles"
    for name, facts in (("before", before), ("after", after)):
        if facts.is_warm:
            yield f"{name}: caches and a profile of earlier runs were used: they save recompiles"
        for _, text in facts.doubts:
            yield f"{name}: {text}"
