"""Graph breaks by place: what broke the graph at each line, how often, and in which compiles."""

import re
from dataclasses import dataclass, field
from enum import Enum

from recompile_doctor.events.user_code import user_frames
from recompile_doctor.events.vocabulary import (
    DataDependentError,
    GraphBroke,
    Origin,
    StackFrame,
)
from recompile_doctor.model.frame import FrameKey, user_function
from recompile_doctor.model.run import Compilation, Run


class BreakMeaning(Enum):
    """Why a graph broke, as far as data is concerned."""

    SCALAR = "a Python number was taken out of a tensor"
    SHAPE = "an output's shape depends on data"
    BRANCH = "the program branches on a tensor"
    GUARD = "a size or number that depends on data had to be known"
    OTHER = "another construct that torch does not trace"


# torch's titles of graph breaks, 2.6 to 2.15 (torch/_dynamo/graph_break_registry.json, and the
# gb_type arguments of unimplemented() in torch/_dynamo/variables).
_TITLES = (
    (
        BreakMeaning.SCALAR,
        re.compile(r"Tensor\.item|Tensor\.tolist|Data[- ]dependent operator|_local_scalar_dense"),
    ),
    (
        BreakMeaning.SHAPE,
        re.compile(r"Dynamic shape operator|dynamic shape operator|data-dependent output shape"),
    ),
    (
        BreakMeaning.BRANCH,
        re.compile(
            r"Data-dependent branching|Data-dependent jump|Data-dependent assertion|"
            r"guard_scalar branch|generic_jump"
        ),
    ),
    (BreakMeaning.GUARD, re.compile(r"Could not guard on data-dependent|unbacked SymInt")),
)
_SYMBOLIC_JUMP = re.compile(r"SymNodeVariable")


@dataclass(slots=True)
class BreakPlace:
    """One line at which graphs break.

    ``frame`` is the function that holds the line (a resume function counts as its original),
    ``times`` how often the log reports a break there, ``compilations`` in which compiles.
    ``error`` is the data-dependent error raised there, if any; ``fatal`` tells that it ended a
    compile with an exception and no break was reported.
    """

    place: StackFrame
    frame: FrameKey
    meaning: BreakMeaning
    first: GraphBroke | None
    error: DataDependentError | None = None
    times: int = 0
    skipped_frame: bool = False
    compilations: list[Compilation] = field(default_factory=list)

    @property
    def origin(self) -> Origin:
        """Return where the log first tells of this place."""
        event = self.first or self.error
        assert event is not None
        return event.origin

    @property
    def title(self) -> str:
        """Return torch's title of the break in one line, empty where the log lost it."""
        kind = self.first.kind.strip() if self.first is not None else ""
        return kind.split("\n", 1)[0]

    @property
    def fatal(self) -> bool:
        """Return whether an exception ended the compile here instead of a graph break."""
        return self.first is None


class BreakTable:
    """All places at which the graphs of a run break, in the order in which they came up."""

    def __init__(self, run: Run) -> None:
        self._places: dict[tuple[str, int], BreakPlace] = {}
        self._lines = _first_lines(run)
        for compilation in run.compilations:
            for broke in compilation.graph_breaks:
                self._add_break(broke, compilation)
        for compilation in run.compilations:
            for error in compilation.data_dependent:
                self._add_error(error, compilation)
        for loose in run.loose_errors:
            if isinstance(loose, DataDependentError):
                self._add_error(loose, None)

    def places(self) -> tuple[BreakPlace, ...]:
        """Return all places, in order."""
        return tuple(self._places.values())

    def at(self, file: str | None, line: int) -> BreakPlace | None:
        """Return the place at a line of a file, if graphs break there."""
        return None if file is None else self._places.get((file, line))

    def _add_break(self, broke: GraphBroke, compilation: Compilation) -> None:
        place = broke.place or _innermost(broke.user_stack)
        if place is None:
            return
        found = self._places.get((place.file, place.line))
        if found is None:
            found = self._places[(place.file, place.line)] = BreakPlace(
                place, self._frame(place, broke.user_stack), meaning_of(broke), broke
            )
        found.times += 1
        found.skipped_frame = found.skipped_frame or broke.skipped_frame
        if not found.compilations or found.compilations[-1] is not compilation:
            found.compilations.append(compilation)

    def _add_error(self, error: DataDependentError, compilation: Compilation | None) -> None:
        place = _innermost(error.user_stack)
        if place is None and compilation is not None and not compilation.graph_breaks:
            place = _definition(compilation.frame)
        if place is None:
            return
        found = self._places.get((place.file, place.line))
        if found is None:
            found = self._places[(place.file, place.line)] = BreakPlace(
                place, self._frame(place, error.user_stack), BreakMeaning.GUARD, None, error
            )
        if found.error is None:
            found.error = error
            if found.meaning is BreakMeaning.OTHER:
                found.meaning = BreakMeaning.GUARD
        if found.fatal:
            found.times += 1
        if compilation is not None and compilation not in found.compilations:
            found.compilations.append(compilation)

    def _frame(self, place: StackFrame, stack: tuple[StackFrame, ...]) -> FrameKey:
        """Return the function that holds a place; its first line only where it is compiled."""
        named = next((each for each in reversed(stack) if _same_line(each, place)), place)
        function = user_function(named.function) or None
        return FrameKey(function, place.file, self._lines.get((function, place.file)))


def _same_line(one: StackFrame, other: StackFrame) -> bool:
    return (one.file, one.line) == (other.file, other.line)


def _innermost(stack: tuple[StackFrame, ...]) -> StackFrame | None:
    frames = user_frames(stack)
    return frames[-1] if frames else None


def _definition(frame: FrameKey) -> StackFrame | None:
    if frame.file is None or frame.line is None:
        return None
    return StackFrame(frame.file, frame.line, frame.function or "?")


def _first_lines(run: Run) -> dict[tuple[str | None, str | None], int]:
    return {
        (each.frame.function, each.frame.file): each.frame.line
        for each in run.compilations
        if each.frame.line is not None
    }


def meaning_of(broke: GraphBroke) -> BreakMeaning:
    """Return what a graph break is about, by torch's title and context of it."""
    for meaning, pattern in _TITLES:
        if pattern.search(broke.kind):
            if meaning is BreakMeaning.BRANCH and _SYMBOLIC_JUMP.search(broke.context):
                return BreakMeaning.GUARD
            return meaning
    if "data-dependent expression" in broke.exception:
        return BreakMeaning.GUARD
    return BreakMeaning.OTHER
