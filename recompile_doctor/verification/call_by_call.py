"""What differs between the recorded calls of two runs, call by call; no judgement yet."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from recompile_doctor.capture.outputs import (
    CallKey,
    Leaf,
    OutputsReader,
    ParameterKey,
    PlainLeaf,
    ProcessOutputs,
    RecordedCall,
    TensorLeaf,
)
from recompile_doctor.verification.pairing import ProcessName, name_processes, pair_functions
from recompile_doctor.verification.tolerance import (
    ACCUMULATED,
    EXACT,
    Kind,
    LeafDifference,
    Tolerance,
    compare_leaves,
    widest_tolerance,
)

MOST_DIFFERENCES = 5

# Rounding grows from step to step, a wrong graph jumps. A difference of less than this many times
# one that came before it may be growth.
_GROWTH = 8.0

Place: TypeAlias = tuple[ProcessName, int | str]
"""What differs: a function by its number in the first run, ``PARAMETERS`` or ``PROCESS``."""
PARAMETERS = "parameters"
PROCESS = "process"


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference, in words that begin with what differs."""

    place: Place
    kind: Kind
    words: str


@dataclass(slots=True)
class Comparison:
    """What was found so far; of each place and kind only the first differences are kept.

    ``unsure`` are differences that have another explanation than a wrong result; ``gaps`` say why
    not all is known.
    """

    calls: int = 0
    found: list[Difference] = field(default_factory=list)
    unsure: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    unreadable: int = 0
    unread: int = 0
    dtypes: set[str] = field(default_factory=set)
    parameters: bool = False
    _kept: Counter[tuple[Place, Kind]] = field(default_factory=Counter)

    def add(self, place: Place, kind: Kind, words: str) -> None:
        """Note a difference."""
        self._kept[place, kind] += 1
        if self._kept[place, kind] <= MOST_DIFFERENCES:
            self.found.append(Difference(place, kind, words))

    def doubt(self, words: str) -> None:
        """Note a difference that may have another explanation than a wrong result."""
        if len(self.unsure) < MOST_DIFFERENCES:
            self.unsure.append(words)


def compare_calls(before: Sequence[ProcessOutputs], after: Sequence[ProcessOutputs]) -> Comparison:
    """Compare two runs, process by process."""
    comparison = Comparison(unread=sum(each.unread for each in (*before, *after)))
    for title, run in (("run without changes", before), ("run", after)):
        calls = sum(len(each.calls) for each in run)
        if not calls:
            comparison.gaps.append(f"no outputs were recorded in the {title}")
        elif not all(each.complete for each in run if each.calls):
            comparison.gaps.append(f"the {title} was cut short after {count_of(calls, 'call')}")
        unwatched = sum(each.unwatched for each in run)
        if unwatched:
            were = "was" if unwatched == 1 else "were"
            comparison.gaps.append(
                f"{count_of(unwatched, 'compiled function')} {were} not watched in the {title}"
            )
    olds, news = name_processes(before), name_processes(after)
    if not (olds and news):
        return comparison
    several = max(len(olds), len(news)) > 1
    for name, old in olds.items():
        if name in news:
            _Processes(comparison, name, old, news[name], several).compare()
        else:
            words = f"{name} recorded no calls, before {len(old.calls)}"
            _note_missing(comparison, name, words, after)
    for name, new in news.items():
        if name not in olds:
            words = f"{name} recorded {count_of(len(new.calls), 'call')}, before none"
            _note_missing(comparison, name, words, before)
    return comparison


def _note_missing(
    comparison: Comparison, name: ProcessName, words: str, run: Sequence[ProcessOutputs]
) -> None:
    """Note that ``run`` lacks a process, which proves nothing when it was cut short."""
    if all(map(_is_whole, run)):
        comparison.add((name, PROCESS), Kind.STRUCTURE, words)
    else:
        comparison.gaps.append(words)


def _is_whole(process: ProcessOutputs) -> bool:
    """Return whether the calls that are not there were not made."""
    lacking = process.skipped or process.unread or process.unwatched
    return process.complete and not lacking


class _Processes:
    """Compares one process of the first run with the same process of the second."""

    def __init__(
        self,
        comparison: Comparison,
        name: ProcessName,
        before: ProcessOutputs,
        after: ProcessOutputs,
        several: bool,
    ) -> None:
        self.comparison = comparison
        self.name = name
        self.before = before
        self.after = after
        self.prefix = f"{name}: " if several else ""
        self.pairs = pair_functions(before, after)
        self.old_threads = _threads(before)
        self.new_threads = _threads(after)
        self.totals = Counter((key.function, key.thread) for key in before.calls)
        self.spelled = Counter(each.name for each in before.functions.values())
        # The largest part of the tolerance that earlier calls of a function used up.
        self.worst: dict[int, float] = defaultdict(float)
        # Whether a call drew random numbers, and whether values differed from then on: a graph may
        # draw others than another graph does, and all that comes later can follow from them.
        self.random = False
        self.diverged = False
        # Whether calls of a function gave anything that shows what was computed.
        self.shows: dict[int, bool] = {}

    def compare(self) -> None:
        """Compare calls in the order of the first run, then their numbers, then parameters."""
        matched = 0
        with self.before.open() as old, self.after.open() as new:
            for key in self.before.calls:
                other = self._counterpart(key)
                if other is not None and other in self.after.calls:
                    self._compare_call(key, old.call(key), new.call(other))
                    matched += 1
            self._compare_counts()
            self._compare_parameters(old, new)
        self._note_what_shows_nothing()
        alone = max(len(self.before.calls), len(self.after.calls)) - matched
        if alone:
            words = f"{self.prefix}{count_of(alone, 'call')} without a counterpart in the other run"
            self.comparison.gaps.append(words)

    def _counterpart(self, key: CallKey) -> CallKey | None:
        """Return what a call is called in the second run.

        Threads are numbered by their first call of any function, which says nothing of a function
        that only one thread calls.
        """
        function = self.pairs.get(key.function)
        if function is None:
            return None
        place = self.old_threads[key.function].index(key.thread)
        threads = self.new_threads.get(function, [])
        return CallKey(function, threads[place], key.number) if place < len(threads) else None

    def _compare_call(
        self, key: CallKey, old: RecordedCall | None, new: RecordedCall | None
    ) -> None:
        if old is None or new is None:
            self.comparison.unread += 1
            return
        self.comparison.calls += 1
        self.random = self.random or old.random or new.random
        self._note_what_is_open(key.function, old, new)
        worst = self.worst[key.function]
        for subject, difference, share in self._differences(old, new):
            if difference is None:
                worst = max(worst, share)
            elif difference.kind is Kind.UNREADABLE:
                self.comparison.unreadable += 1
            else:
                total = self.totals[key.function, key.thread]
                words = (
                    f"{self._called(key.function)}, call {key.number + 1} of {total}: "
                    f"{subject}{difference.words}"
                )
                if self._note(key.function, difference, words):
                    worst = max(worst, share)
        self.worst[key.function] = worst

    def _note_what_is_open(self, function: int, old: RecordedCall, new: RecordedCall) -> None:
        """Note what a call gave that its record does not say."""
        if old.raised is not None or new.raised is not None:
            return
        name = self._called(function)
        if old.cut or new.cut:
            self._note_gap(f"{name} gives more values than are compared")
        opaque = _opaque(old)
        for path, text in _opaque(new).items():
            if opaque.get(path) == text:
                kind = text.removeprefix("a ")
                self._note_gap(f"{name} returns an object of {kind}, whose content is not compared")
        shows = any(map(_is_number, old.outputs)) or any(map(_is_changed, old.arguments))
        # An opaque result is open already.
        self.shows[function] = self.shows.get(function, False) or shows or bool(opaque)

    def _note_what_shows_nothing(self) -> None:
        """Note the functions whose results go where nothing of them was recorded."""
        if self.comparison.parameters:
            return
        for function, shows in self.shows.items():
            if not shows:
                self._note_gap(
                    f"{self._called(function)} returns no tensor: what it changes elsewhere is not "
                    "compared"
                )

    def _note_gap(self, words: str) -> None:
        if words not in self.comparison.gaps:
            self.comparison.gaps.append(words)

    def _note(self, function: int, difference: LeafDifference, words: str) -> bool:
        """Note a difference of a function, and return whether it may be grown rounding."""
        threads = max(len(self.old_threads[function]), len(self._new_threads_of(function)))
        if self._is_random(difference.kind):
            self._note_random(words)
        elif threads > 1:
            self.comparison.doubt(
                f"{self._called(function)} is called from {threads} threads, which may take turns "
                f"in another order ({words})"
            )
        elif _may_have_grown(difference, self.worst[function]):
            self._note_growth(words)
            return True
        else:
            self.comparison.add((self.name, function), difference.kind, words)
        return False

    def _is_random(self, kind: Kind) -> bool:
        """Return whether random numbers may explain a difference."""
        return self.diverged or (self.random and kind is Kind.VALUE)

    def _note_random(self, words: str) -> None:
        self.diverged = True
        self.comparison.doubt(
            "compiled functions draw random numbers, and another graph may draw others; with "
            f"--fallback-random they can be compared ({words})"
        )

    def _note_growth(self, words: str) -> None:
        self.comparison.doubt(
            f"the results drift apart little by little, as rounding lets them ({words})"
        )

    def _differences(
        self, old: RecordedCall, new: RecordedCall
    ) -> Iterator[tuple[str, LeafDifference | None, float]]:
        """Yield the name of each value, what differs in it, and how close its numbers are.

        What a call that raised left in its arguments is not looked at: compiled code may have been
        anywhere in it.
        """
        if old.raised_type != new.raised_type:
            yield "", LeafDifference(Kind.STRUCTURE, _raising(old, new)), 0.0
        if old.raised is not None or new.raised is not None:
            return
        least = widest_tolerance((*old.outputs, *old.arguments))
        yield from self._compare_results("output", old.outputs, new.outputs, least)
        yield from self._compare_results("argument", old.arguments, new.arguments, least)

    def _compare_results(
        self, noun: str, olds: tuple[Leaf, ...], news: tuple[Leaf, ...], least: Tolerance
    ) -> Iterator[tuple[str, LeafDifference | None, float]]:
        left = {leaf.path: leaf for leaf in news}
        for leaf in olds:
            subject = _subject(noun, leaf.path)
            other = left.pop(leaf.path, None)
            if other is None:
                yield subject, LeafDifference(Kind.STRUCTURE, "is not there any more"), 0.0
                continue
            yield (subject, *self._compare_leaf(leaf, other, 1.0, least))
            if isinstance(leaf, TensorLeaf) and isinstance(other, TensorLeaf):
                grads = self._compare_gradients(leaf.grad, other.grad, least)
                if grads is not None:
                    yield (f"the gradient of {subject}", *grads)
        for path in left:
            yield _subject(noun, path), LeafDifference(Kind.STRUCTURE, "was not there before"), 0.0

    def _compare_gradients(
        self, old: Leaf | None, new: Leaf | None, least: Tolerance = EXACT
    ) -> tuple[LeafDifference | None, float] | None:
        """Compare gradients, of which a run may have none; they add up over backward passes."""
        if old is None and new is None:
            return None
        if new is None:
            return LeafDifference(Kind.STRUCTURE, "is not there any more"), 0.0
        if old is None:
            return LeafDifference(Kind.STRUCTURE, "was not there before"), 0.0
        self.comparison.parameters = True
        return self._compare_leaf(old, new, ACCUMULATED, least)

    def _compare_leaf(
        self, old: Leaf, new: Leaf, factor: float, least: Tolerance = EXACT
    ) -> tuple[LeafDifference | None, float]:
        if isinstance(old, TensorLeaf):
            self.comparison.dtypes.add(old.dtype)
        compared = compare_leaves(old, new, factor=factor, least=least)
        return compared.difference, compared.share

    def _compare_counts(self) -> None:
        """Compare how often each function was called, unless a file may lack some calls."""
        counted = False
        olds = Counter(key.function for key in self.before.calls)
        news = Counter(key.function for key in self.after.calls)
        matched = {function: self.pairs.get(function) for function in self.before.functions}
        for function, other in matched.items():
            counts = olds[function], 0 if other is None else news[other]
            if self._counts_differ(*counts):
                counted = True
                name = self._called(function)
                words = f"{self._times(name, counts[1])}, before {_times(counts[0])}"
                self.comparison.add((self.name, function), Kind.STRUCTURE, words)
        for other in self.after.functions.keys() - set(self.pairs.values()):
            if self._counts_differ(0, news[other]):
                counted = True
                name = f"{self.prefix}{self.after.functions[other].name}"
                words = f"{self._times(name, news[other])}, before not at all"
                self.comparison.add((self.name, PROCESS), Kind.STRUCTURE, words)
        self._compare_skipped(counted)

    def _compare_skipped(self, counted: bool) -> None:
        old, new = self.before.skipped, self.after.skipped
        if not (old or new):
            return
        self.comparison.gaps.append(
            f"of {count_of(len(self.before.calls) + max(old, new), 'call')}, the last "
            f"{max(old, new)} were not recorded"
        )
        known = all(
            each.complete and not each.unread and not each.unwatched
            for each in (self.before, self.after)
        )
        if known and not counted:
            totals = len(self.before.calls) + old, len(self.after.calls) + new
            if totals[0] != totals[1]:
                words = f"{self.prefix}{totals[1]} calls were made, before {totals[0]}"
                self.comparison.add((self.name, PROCESS), Kind.STRUCTURE, words)

    def _counts_differ(self, old: int, new: int) -> bool:
        shorter = self.before if old < new else self.after
        return old != new and _is_whole(shorter)

    def _times(self, name: str, count: int) -> str:
        return f"{name} is called {_times(count)}"

    def _compare_parameters(self, old: OutputsReader, new: OutputsReader) -> None:
        olds, news = old.parameters(), new.parameters()
        shared = {_module(key) for key in olds} & {_module(key) for key in news}
        for key, first in olds.items():
            second = news.get(key)
            name = f"{self.prefix}{_spell(key)}"
            if key not in news:
                if _module(key) in shared and _is_whole(self.after):
                    self._note_parameter(f"{name} is not there any more", None, Kind.STRUCTURE)
            elif first is None or second is None:
                self.comparison.unreadable += 1
            else:
                self.comparison.parameters = True
                difference, _ = self._compare_leaf(first.value, second.value, ACCUMULATED)
                self._note_values(name, difference)
                grads = self._compare_gradients(first.grad, second.grad)
                if grads is not None:
                    self._note_values(f"{self.prefix}gradient of {_spell(key)}", grads[0])
        for key in news:
            if key not in olds and _module(key) in shared and _is_whole(self.before):
                name = f"{self.prefix}{_spell(key)}"
                self._note_parameter(f"{name} was not there before", None, Kind.STRUCTURE)

    def _note_values(self, name: str, difference: LeafDifference | None) -> None:
        if difference is None:
            return
        if difference.kind is Kind.UNREADABLE:
            self.comparison.unreadable += 1
        else:
            self._note_parameter(f"{name} {difference.words}", difference, difference.kind)

    def _note_parameter(self, words: str, difference: LeafDifference | None, kind: Kind) -> None:
        worst = max(self.worst.values(), default=0.0)
        if self._is_random(kind):
            self._note_random(words)
        elif difference is not None and _may_have_grown(difference, worst):
            self._note_growth(words)
        else:
            self.comparison.add((self.name, PARAMETERS), kind, words)

    def _new_threads_of(self, function: int) -> list[int]:
        other = self.pairs.get(function)
        return [] if other is None else self.new_threads.get(other, [])

    def _called(self, number: int) -> str:
        """Return the name of a function, with its place where another one has the same name."""
        function = self.before.functions[number]
        place = ""
        if self.spelled[function.name] > 1:
            place = f" ({function.file.rpartition('/')[2]}:{function.line})"
        return f"{self.prefix}{function.name}{place}"


def _threads(process: ProcessOutputs) -> dict[int, list[int]]:
    """Return the threads that call each function, in the order of their numbers."""
    threads: dict[int, set[int]] = defaultdict(set)
    for key in process.calls:
        threads[key.function].add(key.thread)
    return {function: sorted(numbers) for function, numbers in threads.items()}


def _subject(noun: str, path: str) -> str:
    if path.startswith("self."):  # what a call leaves on the object of its method
        noun = "attribute"
    return f"{noun} {path} " if path else f"the {noun} "


def _opaque(call: RecordedCall) -> dict[str, str]:
    """Return the results of which no more than their type is known, by their place."""
    return {
        leaf.path: leaf.text for leaf in call.outputs if isinstance(leaf, PlainLeaf) and leaf.opaque
    }


def _is_number(leaf: Leaf) -> bool:
    """Return whether a value is one that is computed: a tensor or a number."""
    if isinstance(leaf, TensorLeaf) or leaf.text in ("True", "False"):
        return True
    try:
        float(leaf.text)
    except ValueError:
        return False
    return True


def _is_changed(leaf: Leaf) -> bool:
    return isinstance(leaf, TensorLeaf) and (leaf.changed or leaf.grad is not None)


def _may_have_grown(difference: LeafDifference, worst: float) -> bool:
    return difference.kind is Kind.VALUE and difference.excess <= _GROWTH * worst


def _raising(old: RecordedCall, new: RecordedCall) -> str:
    if new.raised_type is None:
        return f"it returns, before it raised {old.raised_type}"
    before = "it returned" if old.raised_type is None else f"it raised {old.raised_type}"
    return f"it raises {new.raised_type}, before {before}"


def _module(key: ParameterKey) -> tuple[str, int]:
    return key.module, key.number


def _spell(key: ParameterKey) -> str:
    number = f" (number {key.number + 1})" if key.number else ""
    return f"{key.module}.{key.name}{number}"


def count_of(number: int, noun: str) -> str:
    """Return a number and what it counts."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _times(count: int) -> str:
    return {0: "not at all", 1: "once"}.get(count, f"{count} times")
