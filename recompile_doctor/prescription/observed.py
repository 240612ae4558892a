"""The sizes and ints of each compiled function over a run: what varied, what was always equal."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

from recompile_doctor.capture.calls import CalledFunction
from recompile_doctor.diagnosis.attribution import Candidate, EntryIndex, parse_size
from recompile_doctor.model.expression import IntLiteral
from recompile_doctor.model.frame import FrameKey, resume_point
from recompile_doctor.model.reason import GuardFailure, SizeMismatch, ValueMismatch
from recompile_doctor.model.run import Compilation, CompileKey, Run
from recompile_doctor.model.source import (
    Applied,
    Attribute,
    Called,
    Item,
    SizeSource,
    Source,
    parse_leaf,
    parse_source,
)
from recompile_doctor.prescription.called import SeenCalls, seen_calls

# Pairs of dimensions are compared only up to this number: a module with hundreds of inputs.
_MOST_COMPARED = 200


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """One dimension of a tensor, or with ``dim`` -1 an int. ``source`` is torch's full name."""

    source: str
    dim: int

    @property
    def is_int(self) -> bool:
        """Return whether it is an int and no dimension."""
        return self.dim == INT

    def __str__(self) -> str:
        return self.source if self.is_int else f"{self.source}:{self.dim}"


INT = -1
_Column = tuple[int | None, ...]
ALL_MEMBERS = "[...]"  # at the end of a mark's source: every member of a container


@dataclass(frozen=True, slots=True)
class Call:
    """One call that torch compiled, or refused to compile, with the values known of it."""

    compilation: Compilation
    values: Mapping[Place, int]
    candidates: tuple[Candidate, ...] = ()


@dataclass(frozen=True)
class ObservedFrame:
    """All calls that made torch compile one code object, over all processes of a run.

    ``code`` is the code object's own name, which for a resume function differs from the user's
    function in ``frame``. Calls that a cached entry served are in no log: ``rows`` has all calls
    that the probe saw, those that torch compiled among them, and is empty where it saw none.
    """

    frame: FrameKey
    code: str | None
    calls: tuple[Call, ...]
    parameters: frozenset[str] = field(default_factory=frozenset)
    rows: tuple[SeenCalls, ...] = ()

    @property
    def key(self) -> FrameKey:
        """Return the code object, a resume function by its own name."""
        return FrameKey(self.code or self.frame.function, self.frame.file, self.frame.line)

    @property
    def is_resume(self) -> bool:
        """Return whether it is the continuation of a function after a graph break."""
        return self.code is not None and resume_point(self.code) is not None

    @cached_property
    def columns(self) -> Mapping[Place, _Column]:
        """Return the value of each place in each call, None where it is unknown or absent."""
        places = dict.fromkeys(place for call in self.calls for place in call.values)
        return {place: tuple(call.values.get(place) for call in self.calls) for place in places}

    def restricted_to(self, places: Iterable[Place]) -> "ObservedFrame":
        """Return the calls with these places only, as calls of the user's function itself."""
        kept = frozenset(places)
        calls = tuple(
            replace(
                call, values={place: size for place, size in call.values.items() if place in kept}
            )
            for call in self.calls
        )
        return replace(self, code=None, calls=calls)

    def values(self, place: Place) -> tuple[int, ...]:
        """Return the values that torch compiled for, in order, as far as known."""
        return tuple(each for each in self.columns.get(place, ()) if each is not None)

    def weights(self, place: Place) -> Counter[int]:
        """Return how many of the calls that the probe saw had each value; empty when unknown."""
        counts: Counter[int] = Counter()
        for row in self.rows:
            value = _value(row, place)
            if value is not None:
                counts[value] += row.calls
        return counts

    def seen(self, place: Place) -> frozenset[int]:
        """Return all values that a place is known to have had, compiled for or not."""
        return frozenset((*self.values(place), *self.weights(place)))

    @property
    def observed_calls(self) -> int:
        """Return how many calls the probe saw with their arguments."""
        return sum(row.calls for row in self.rows)

    @cached_property
    def varying(self) -> tuple[Place, ...]:
        """Return the places that had two values or more."""
        return tuple(place for place in self.columns if len(set(self.values(place))) > 1)

    @cached_property
    def ties(self) -> tuple[tuple[Place, ...], ...]:
        """Return the sets of varying places that were equal in every call: two places or more.

        Compiles that torch refused are left out: little is known of their sizes. Calls that the
        probe saw can only take members away: it does not see all inputs that torch describes.
        """
        known = [call for call in self.calls if call.compilation.refused is None]
        columns: dict[tuple[int | None, ...], list[Place]] = {}
        for place in self.varying:
            column = tuple(call.values.get(place) for call in known)
            if len({each for each in column if each is not None}) > 1:
                columns.setdefault(column, []).append(place)
        return tuple(
            tuple(kept)
            for places in columns.values()
            for kept in self._never_apart(places)
            if len(kept) > 1
        )

    def _never_apart(self, places: Iterable[Place]) -> list[list[Place]]:
        """Return the places in sets of which no call that the probe saw had two that differ."""
        sets: list[dict[Place, _Column]] = []
        for place in places:
            column = self._column(place)
            fitting = (
                each for each in sets if not any(_apart(column, one) for one in each.values())
            )
            found = next(fitting, None)
            if found is None:
                sets.append({place: column})
            else:
                found[place] = column
        return [list(each) for each in sets]

    def _column(self, place: Place) -> _Column:
        """Return the value of a place in each row of calls that the probe saw."""
        return tuple(_value(row, place) for row in self.rows)

    def _observed(self, one: Place, other: Place) -> list[tuple[int, int]]:
        """Return the values of two places in the calls that the probe saw."""
        return _both(self._column(one), self._column(other))

    def always_equal(self, one: Place, other: Place) -> bool:
        """Return whether two places were equal in all calls where both are known, and varied."""
        pairs = _both(self.columns[one], self.columns[other])
        if len({a for a, _ in pairs}) < 2 or any(a != b for a, b in pairs):
            return False
        return not _apart(self._column(one), self._column(other))

    @cached_property
    def groups(self) -> tuple[tuple[Place, ...], ...]:
        """Return the ties among dimensions of inputs that a mark can reach in code."""
        found = []
        for tie in self.ties:
            members = tuple(
                each for each in tie if not each.is_int and each.source not in self.parameters
            )
            if len(members) > 1:
                found.append(members)
        return tuple(found)

    @cached_property
    def broadcast(self) -> frozenset[Place]:
        """Return the dimensions that look like they are 1 to broadcast.

        Such a dimension equals one of another tensor, with 2 or more, in some calls and is 1 in
        all others, where the other is larger.
        """
        dims = [
            each for each in self.varying if not each.is_int and each.source not in self.parameters
        ][:_MOST_COMPARED]
        suspects = set()
        for one, other in combinations(dims, 2):
            if one.source == other.source:
                continue
            pairs = _both(self.columns[one], self.columns[other])
            if _broadcasts(pairs) and _broadcasts(pairs + self._observed(one, other)):
                suspects.add(one)
                continue
            turned = [(b, a) for a, b in pairs]
            if _broadcasts(turned) and _broadcasts(turned + self._observed(other, one)):
                suspects.add(other)
        return frozenset(suspects)

    def typical(self, place: Place) -> int:
        """Return the most frequent size of 2 or more; without one the largest size.

        It is counted over all calls where the probe saw them, else over the compiled ones.
        """
        counts = self.weights(place) or Counter(self.values(place))
        general = Counter({value: times for value, times in counts.items() if value > 1})
        return general.most_common(1)[0][0] if general else max(self.seen(place))

    @property
    def recompiles(self) -> int:
        """Return how often torch compiled it again."""
        return sum(1 for call in self.calls if call.compilation.is_recompile)


def _value(seen: SeenCalls, place: Place) -> int | None:
    return seen.int(place.source) if place.is_int else seen.size(place.source, place.dim)


def _both(one: _Column, other: _Column) -> list[tuple[int, int]]:
    """Return the values of two columns where both are known."""
    return [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]


def _apart(one: _Column, other: _Column) -> bool:
    # Columns that are the same are the rule, and quickly compared.
    return one != other and any(a != b for a, b in _both(one, other))


def _broadcasts(pairs: Sequence[tuple[int, int]]) -> bool:
    equal = [a for a, b in pairs if a == b]
    different = [(a, b) for a, b in pairs if a != b]
    return (
        any(each > 1 for each in equal)
        and bool(different)
        and all(a == 1 < b for a, b in different)
    )


def observe(run: Run, called: Iterable[CalledFunction] = ()) -> tuple[ObservedFrame, ...]:
    """Return what is known of the calls of each code object, in the order of the first compile.

    ``called`` are the calls that the probe saw, of all processes.
    """
    index = EntryIndex(run)
    values: dict[int, dict[Place, int]] = {}
    by_key: dict[CompileKey, int] = {}
    candidates: dict[int, tuple[Candidate, ...]] = {}
    for number, compilation in enumerate(run.compilations):
        by_key[compilation.key] = number
        values[number] = dict(_values(compilation))
        candidates[number] = index.candidates(compilation) if compilation.failures else ()
    _add_reported(run, candidates, values, by_key)
    _add_automatic(run, values)
    groups: dict[tuple[FrameKey, str | None], list[int]] = {}
    for number, compilation in enumerate(run.compilations):
        groups.setdefault((compilation.frame, compilation.code_name), []).append(number)
    seen = seen_calls(run, called)
    frames = (
        ObservedFrame(
            frame,
            code,
            tuple(Call(run.compilations[each], values[each], candidates[each]) for each in numbers),
            frozenset(_parameters(run.compilations[each] for each in numbers)),
        )
        for (frame, code), numbers in groups.items()
    )
    return tuple(
        frame
        if frame.is_resume or frame.frame not in seen
        else replace(frame, rows=tuple(seen[frame.frame]))
        for frame in frames
    )


def _parameters(compilations: Iterable[Compilation]) -> Iterator[str]:
    for compilation in compilations:
        for each in compilation.inputs:
            if each.is_parameter or is_module_tensor(parse_source(each.source)):
                yield each.source


def is_module_tensor(source: Source) -> bool:
    """Return whether a source is a parameter or a buffer of a module."""
    names = ("_parameters", "_buffers")
    return any(
        (isinstance(step, Attribute) and step.name in names)
        or (isinstance(step, Item) and step.key in names)
        for step in source.steps
    )


def container_of(text: str) -> str | None:
    """Return the source of the list or dict that a source is a member of, or None."""
    source = parse_source(text)
    if not source.steps or not isinstance(source.steps[-1], Item):
        return None
    return str(source.parent())


def _values(compilation: Compilation) -> Iterator[tuple[Place, int]]:
    """Yield the sizes and ints of one compile: described inputs, and hints of symbols."""
    for each in compilation.inputs:
        if _is_input(parse_source(each.source)):
            for dim, length in enumerate(each.sizes):
                if length is not None:
                    yield Place(each.source, dim), length
    described = {each.source for each in compilation.inputs}
    for symbol in compilation.symbols:
        if symbol.hint is None or not symbol.hint.lstrip("-").isdigit():
            continue
        size = parse_size(symbol.source)
        if size is not None:
            if str(size.source) not in described and _is_input(size.source):
                yield Place(str(size.source), size.dim), int(symbol.hint)
        elif is_int_source(symbol.source):
            yield Place(symbol.source, INT), int(symbol.hint)


def _is_input(source: Source) -> bool:
    """Return whether a tensor is one that a mark can name.

    The base of a view follows its view, and a float that torch made a tensor is no input.
    """
    if isinstance(source.root, Applied) and source.root.function == "___as_tensor":
        return False
    return source.is_known and not any(
        isinstance(step, Attribute) and step.name == "_base" for step in source.steps
    )


def is_int_source(text: str) -> bool:
    """Return whether a symbol's source is an int and not something computed from a tensor."""
    leaf = parse_leaf(text)
    if not isinstance(leaf, Source) or not leaf.is_known:
        return False
    return not any(isinstance(step, Called) for step in leaf.steps)


def _add_reported(
    run: Run,
    candidates: Mapping[int, tuple[Candidate, ...]],
    values: Mapping[int, dict[Place, int]],
    by_key: Mapping[CompileKey, int],
) -> None:
    """Add what reasons tell of a call's sizes, and of the constants of the entries that failed."""
    for number in range(len(run.compilations)):
        for candidate in candidates[number]:
            entry = None if candidate.entry is None else by_key.get(candidate.entry.key)
            for failure in candidate.failures:
                _add_failure(failure, values[number], {} if entry is None else values[entry])


def _add_failure(failure: GuardFailure, call: dict[Place, int], entry: dict[Place, int]) -> None:
    if isinstance(failure, SizeMismatch):
        if _is_input(failure.source):
            place = Place(str(failure.source), failure.dim)
            call.setdefault(place, failure.actual)
            entry.setdefault(place, failure.expected)
    elif (
        isinstance(failure, ValueMismatch)
        and isinstance(failure.expected, IntLiteral)
        and failure.source is not None
    ):
        entry.setdefault(Place(str(failure.source), INT), failure.expected.value)


def _add_automatic(run: Run, values: Mapping[int, dict[Place, int]]) -> None:
    """Add the ints that automatic dynamic saw change, also those that no guard named."""
    last: dict[tuple[str, FrameKey, str | None], int] = {}
    for number, compilation in enumerate(run.compilations):
        key = (compilation.key.process, compilation.frame, compilation.code_name)
        for event in compilation.automatic:
            if event.what != "scalar":
                continue
            place = Place(event.name, INT)
            if event.new.lstrip("-").isdigit():
                values[number].setdefault(place, int(event.new))
                if event.cached.lstrip("-").isdigit() and key in last:
                    values[last[key]].setdefault(place, int(event.cached))
        last[key] = number


def size_place(size: SizeSource) -> Place:
    """Return the place that a size of a guard stands for."""
    return Place(str(size.source), size.dim)
