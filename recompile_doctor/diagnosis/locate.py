"""The line of the user's program that a finding points to, and what that line is to it."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

from recompile_doctor.diagnosis.attribution import Cause, parse_size
from recompile_doctor.diagnosis.finding import LocationRole, UserLocation
from recompile_doctor.events.user_code import user_frames
from recompile_doctor.events.vocabulary import StackFrame, SymbolCreated
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.model.reason import GuardFailure, ShapeGuardFailure
from recompile_doctor.model.run import Compilation, Run


def guard_location(failure: GuardFailure, cause: Cause) -> UserLocation | None:
    """Return the line that torch names beside a failed guard.

    With the 0/1 note the line is where the value was first used; torch says itself that the
    guard is not due to it. The note is about the lower one of two bounds.
    """
    frame = failure.user_frame
    if frame is None or not user_frames((frame,)):
        stack = user_frames(cause.chosen.reported.stack)
        if not stack:
            return None
        return UserLocation(stack[-1], LocationRole.ASKED)
    frame = _with_whole_path(frame, cause)
    first_use = isinstance(failure, ShapeGuardFailure) and failure.zero_one_note
    return UserLocation(frame, LocationRole.FIRST_USE if first_use else LocationRole.ASKED)


def upper_bound_location(failure: GuardFailure, cause: Cause) -> UserLocation | None:
    """Return the line that asked for the upper one of two bounds that torch made one guard."""
    frame = failure.upper_user_frame if isinstance(failure, ShapeGuardFailure) else None
    if frame is None or not user_frames((frame,)):
        return None
    return UserLocation(_with_whole_path(frame, cause), LocationRole.ASKED)


def _with_whole_path(frame: StackFrame, cause: Cause) -> StackFrame:
    """Return a frame of a reason with its file's whole path, where the log has it elsewhere.

    Reasons show only the last characters of a path, so it can begin in the middle of a name.
    """
    entry = cause.chosen.entry
    known = [cause.recompile, *([entry] if entry is not None else [])]
    for compilation in known:
        stacks = (
            *(each.user_stack for each in compilation.symbols),
            *(each.user_stack for each in compilation.guards),
        )
        for each in chain.from_iterable(stacks):
            if each.line == frame.line and each.file.endswith(frame.file):
                return replace(frame, file=each.file)
    file = cause.recompile.frame.file
    if file is not None and file.endswith(frame.file):
        return replace(frame, file=file)
    return frame


class FirstUses:
    """Where each size was first used, by frame: from any compile that made a symbol for it."""

    def __init__(self, run: Run) -> None:
        self._lines: dict[tuple[FrameKey, str, int], StackFrame] = {}
        for compilation in run.compilations:
            for symbol in compilation.symbols:
                leaf = parse_size(symbol.source)
                stack = user_frames(symbol.user_stack)
                if leaf is not None and stack:
                    key = (compilation.frame, str(leaf.source), leaf.dim)
                    self._lines.setdefault(key, stack[-1])

    def of(self, frame: FrameKey, source: str, dim: int) -> StackFrame | None:
        """Return the line that used a size of a frame first, where a log names it."""
        return self._lines.get((frame, source, dim))


def size_location(source: str, dim: int, cause: Cause, uses: FirstUses) -> UserLocation | None:
    """Return where a size is first used, else where the compiled function is called or defined.

    A static size has no line of its own in the log. Where another compile of the same frame
    made a symbol for it, the first use is known from there.
    """
    recompile = cause.recompile
    nearest = [recompile, *([cause.chosen.entry] if cause.chosen.entry else [])]
    near = (_first_use(each.symbols, source, dim) for each in nearest)
    frame = next((each for each in near if each), None) or uses.of(recompile.frame, source, dim)
    if frame is not None:
        return UserLocation(frame, LocationRole.FIRST_USE)
    return call_location(recompile) or definition(recompile.frame)


def _first_use(symbols: Iterable[SymbolCreated], source: str, dim: int) -> StackFrame | None:
    for symbol in symbols:
        leaf = parse_size(symbol.source)
        if leaf is not None and leaf.dim == dim and str(leaf.source) == source:
            stack = user_frames(symbol.user_stack)
            return stack[-1] if stack else None
    return None


def call_location(compilation: Compilation) -> UserLocation | None:
    """Return the user's line that called the compiled function, where the log tells it."""
    callers = user_frames(compilation.callers)
    return UserLocation(callers[-1], LocationRole.CALL) if callers else None


def definition(frame: FrameKey) -> UserLocation | None:
    """Return the first line of the compiled function."""
    if frame.file is None or frame.line is None or frame.function is None:
        return None
    here = StackFrame(frame.file, frame.line, frame.function)
    return UserLocation(here, LocationRole.DEFINITION) if user_frames((here,)) else None
