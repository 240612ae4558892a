"""How many recompiles would be left: the seen calls, replayed through torch's own rules.

An estimate. Only calls that torch compiled are in a log, and of each cached entry torch names one
failed guard, not all of them. Torch's rules (torch/_dynamo/pgo.py and variables/builder.py): the
first size of a dimension is a constant; when it changes, the dimension is dynamic from the next
compile on; 0 and 1 are constants always. A dimension that is marked dynamic skips the warm-up, an
unbacked one takes every size, a static one none but its own. Ints do the same, but a marked int
has no special 0 and 1. Guards that are not about sizes stay as they were.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from recompile_doctor.diagnosis.attribution import parse_size
from recompile_doctor.events.vocabulary import MarkKind
from recompile_doctor.model.expression import Expression
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.model.guard import ShapeGuardKind, Variable, fails_for
from recompile_doctor.model.reason import (
    AttributeMissing,
    GuardFailure,
    ShapeGuardFailure,
    SizeMismatch,
    ValueMismatch,
)
from recompile_doctor.model.run import CompileKey
from recompile_doctor.model.source import SizeSource, Source, parse_source
from recompile_doctor.prescription.marks import Mark
from recompile_doctor.prescription.observed import (
    ALL_MEMBERS,
    INT,
    Call,
    ObservedFrame,
    Place,
    container_of,
    size_place,
)

_DEFAULT_LIMIT = 8
_GENERAL = 2  # the smallest size that a dynamic dimension stands for


@dataclass(frozen=True, slots=True)
class _Constant:
    value: int


class _Open(Enum):
    """What an entry takes in a place that is no constant: sizes of 2 and more, or any."""

    GENERAL = "2 and more"
    ANY = "any"


_Treatment = _Constant | _Open


class _Mode(Enum):
    """How torch treats what nobody marked."""

    AUTOMATIC = "a constant first, dynamic after a change"
    STATIC = "dynamic=False"
    DYNAMIC = "dynamic=True"


@dataclass(slots=True)
class _Entry:
    """A cached graph: the call that made it, and what it takes."""

    call: Call
    takes: dict[Place, _Treatment]


def estimated_recompiles(
    frames: Iterable[ObservedFrame], marks: Sequence[Mark], limit: int | None = None
) -> int:
    """Return how many recompiles are left of ``frames`` under ``marks``, as an estimate."""
    return sum(
        _Replay(frame, marks, _DEFAULT_LIMIT if limit is None else limit).recompiles()
        for frame in frames
    )


@dataclass(slots=True)
class _Replay:
    """The calls of one code object, replayed."""

    frame: ObservedFrame
    marks: Sequence[Mark]
    limit: int
    _kinds: dict[Place, MarkKind] = field(init=False)
    _mode: _Mode = field(init=False)
    _symbolic: frozenset[str] = field(init=False)
    _guards: tuple[Expression, ...] = field(init=False)
    _holds: dict[tuple[Expression, CompileKey], bool | None] = field(init=False)

    def __post_init__(self) -> None:
        self._kinds = {
            place: mark.kind
            for mark in self.marks
            if _holds_in(mark.frame, self.frame)
            for place in _places_of(mark, self.frame)
        }
        self._mode = _mode_of(self.frame)
        self._symbolic = frozenset(
            symbol.source for call in self.frame.calls for symbol in call.compilation.symbols
        )
        self._guards = tuple(self._branches())
        self._holds = {}

    def recompiles(self) -> int:
        """Return how often this code object is compiled again, over all processes."""
        sequences: dict[tuple[str, int], list[Call]] = {}
        for call in self.frame.calls:
            key = call.compilation.key
            sequences.setdefault((key.process, key.epoch), []).append(call)
        return sum(self._of_one_process(calls) for calls in sequences.values())

    def _of_one_process(self, calls: list[Call]) -> int:
        entries: list[_Entry] = []
        seen: dict[Place, int | None] = {}  # None: dynamic from now on
        recompiles = 0
        for call in calls:
            retry = not call.compilation.failures and entries
            if retry or any(self._serves(entry, call) for entry in entries):
                continue
            if entries:
                if recompiles + 1 >= self.limit:
                    continue
                recompiles += 1
            entries.append(_Entry(call, self._compiled(call, seen)))
        return recompiles

    def _compiled(self, call: Call, seen: dict[Place, int | None]) -> dict[Place, _Treatment]:
        """Return what the graph of a call takes, and note its sizes for automatic dynamic."""
        takes: dict[Place, _Treatment] = {}
        for place, value in call.values.items():
            first = place not in seen
            if first:
                seen[place] = value
            elif seen[place] != value:
                seen[place] = None
            takes[place] = self._treatment(place, value, changed=seen[place] is None)
        return takes

    def _treatment(self, place: Place, value: int, *, changed: bool) -> _Treatment:
        kind = self._kinds.get(place)
        if kind is MarkKind.UNBACKED or (kind is MarkKind.DYNAMIC and place.is_int):
            return _Open.ANY
        if kind is MarkKind.DYNAMIC:
            return _Open.GENERAL if value >= _GENERAL else _Constant(value)
        if kind is MarkKind.STATIC or not self._may_be_dynamic(place):
            return _Constant(value)
        general = value >= _GENERAL or (place.is_int and value < 0)
        dynamic = changed or self._mode is _Mode.DYNAMIC
        if dynamic and self._mode is not _Mode.STATIC and general:
            return _Open.GENERAL
        return _Constant(value)

    def _may_be_dynamic(self, place: Place) -> bool:
        """Return whether torch ever makes it dynamic by itself.

        Parameters are constants, and so are the ints of modules, for which no symbol is made.
        """
        if place.source in self.frame.parameters:
            return False
        return not place.is_int or place.source in self._symbolic

    def _serves(self, entry: _Entry, call: Call) -> bool:
        for place, treatment in entry.takes.items():
            value = call.values.get(place)
            if value is None:
                continue
            if isinstance(treatment, _Constant):
                if treatment.value != value:
                    return False
            elif treatment is _Open.GENERAL and 0 <= value < _GENERAL:
                return False
        if any(self._differ(guard, entry.call, call) for guard in self._guards):
            return False
        return not any(self._stays(failure, entry, call) for failure in self._failures(entry, call))

    def _failures(self, entry: _Entry, call: Call) -> tuple[GuardFailure, ...]:
        """Return the guards of the entry that torch reported as failed for this call."""
        key = entry.call.compilation.key
        return next(
            (
                each.failures
                for each in call.candidates
                if each.entry is not None and each.entry.key == key
            ),
            (),
        )

    def _stays(self, failure: GuardFailure, entry: _Entry, call: Call) -> bool:
        """Return whether a guard that failed in the log would fail under the marks too."""
        match failure:
            case SizeMismatch(source=source, dim=dim, actual=actual):
                place = Place(str(source), dim)
                if place in entry.takes and place in call.values:
                    return False  # replayed from the values
                kind = self._kinds.get(place)
                return not (
                    kind is MarkKind.UNBACKED or (kind is MarkKind.DYNAMIC and actual >= _GENERAL)
                )
            case ShapeGuardFailure():
                return self._shape_guard_stays(failure, call)
            case ValueMismatch(source=Source() as source):
                return Place(str(source), INT) not in self._kinds
            case AttributeMissing(source=source, attribute="size", type_name="NoneType"):
                return not self._views_are_unbacked(source)
            case _:
                return True

    def _shape_guard_stays(self, failure: ShapeGuardFailure, call: Call) -> bool:
        source = failure.source
        if failure.kind is ShapeGuardKind.STORAGE_OFFSET:
            return source is None or not self._has_unbacked(str(source))
        if failure.kind is ShapeGuardKind.STRIDE:
            return True
        sizes = failure.sizes
        if not sizes:
            return not any(
                isinstance(each, Source) and Place(str(each), INT) in self._kinds
                for each in failure.variables
            )
        if failure.kind is ShapeGuardKind.EQUAL_SIZES and failure.duck_note:
            return not any(size_place(size) in self._kinds for size in sizes)
        if any(_is_base(size.source) for size in sizes):
            return not self._views_are_unbacked(sizes[0].source.parent())
        # Bounds and branches are replayed from the values where these are known.
        unknown = [size for size in sizes if size_place(size) not in call.values]
        return bool(unknown) and not self._all_unbacked(unknown)

    def _differ(self, guard: Expression, one: Call, other: Call) -> bool:
        first, second = self._fails(guard, one), self._fails(guard, other)
        return first is not None and second is not None and first != second

    def _fails(self, guard: Expression, call: Call) -> bool | None:
        key = (guard, call.compilation.key)
        if key not in self._holds:
            self._holds[key] = fails_for(guard, _sizes(call))
        return self._holds[key]

    def _branches(self) -> Iterable[Expression]:
        """Yield the guards that tell calls apart by more than 0 and 1: branches and ties."""
        found: dict[Expression, None] = {}
        for call in self.frame.calls:
            for candidate in call.candidates:
                for failure in candidate.failures:
                    if (
                        isinstance(failure, ShapeGuardFailure)
                        and failure.kind in _TELL_APART
                        and not (failure.kind is ShapeGuardKind.EQUAL_SIZES and failure.duck_note)
                        and not failure.exclusion_note
                        and failure.sizes
                        and not any(_is_base(size.source) for size in failure.sizes)
                        and not self._all_unbacked(failure.sizes)
                    ):
                        found[failure.expression] = None
        return found

    def _all_unbacked(self, sizes: Iterable[SizeSource]) -> bool:
        return all(self._kinds.get(size_place(size)) is MarkKind.UNBACKED for size in sizes)

    def _has_unbacked(self, source: str) -> bool:
        return any(
            place.source == source and kind is MarkKind.UNBACKED
            for place, kind in self._kinds.items()
        )

    def _views_are_unbacked(self, source: Source | None) -> bool:
        """Return whether all that varies of the tensor (of any, when unknown) is unbacked."""
        return all(
            self._kinds.get(place) is MarkKind.UNBACKED
            for place in self.frame.varying
            if not place.is_int and (source is None or place.source == str(source))
        )


_TELL_APART = frozenset(
    {
        ShapeGuardKind.RANGE,
        ShapeGuardKind.NOT_EQUAL,
        ShapeGuardKind.EQUAL_SIZES,
        ShapeGuardKind.DIVISIBLE,
        ShapeGuardKind.DERIVED,
        ShapeGuardKind.RELATION,
    }
)


def _holds_in(marked: FrameKey | None, frame: ObservedFrame) -> bool:
    return marked is None or marked == frame.key


def _places_of(mark: Mark, frame: ObservedFrame) -> Iterator[Place]:
    dim = INT if mark.dim is None else mark.dim
    if not mark.source.endswith(ALL_MEMBERS):
        yield Place(mark.source, dim)
        return
    container = mark.source.removesuffix(ALL_MEMBERS)
    for place in frame.columns:
        if place.dim == dim and container_of(place.source) == container:
            yield place


def _sizes(call: Call) -> Mapping[Variable, int]:
    return {
        SizeSource(parse_source(place.source), place.dim): value
        for place, value in call.values.items()
        if not place.is_int
    }


def _is_base(source: Source) -> bool:
    return source.is_view_base


def _mode_of(frame: ObservedFrame) -> _Mode:
    """Return how torch treats unmarked sizes, as the log shows it.

    With dynamic=True the first compile makes symbols; with dynamic=False a size changes to
    another of 2 and more and none is made.
    """
    first = frame.calls[0].compilation
    marked = {mark.source for mark in first.marks} | {
        each.source for each in first.inputs if each.dynamic_dims
    }
    sizes = [parse_size(symbol.source) for symbol in first.symbols]
    if any(size is not None and str(size.source) not in marked for size in sizes):
        return _Mode.DYNAMIC
    made = {
        size_place(size)
        for call in frame.calls
        for symbol in call.compilation.symbols
        if (size := parse_size(symbol.source)) is not None
    }
    described = any(call.compilation.inputs for call in frame.calls)
    for place in frame.varying if described and not made else ():
        if place.is_int or place.source in frame.parameters:
            continue
        general = [each for each in frame.values(place) if each >= _GENERAL]
        if len(set(general)) > 1 and len(general) > _GENERAL:
            return _Mode.STATIC
    return _Mode.AUTOMATIC
