"""Which of the calls that the probe saw belong to which code object of the log, and their sizes.

The probe names the user's function and its arguments; torch may have compiled a wrapper around it
instead (a module whose ``forward`` lies in torch's own files), where the same arguments are
``L['args'][0]`` or ``L['kwargs']['mask']``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from recompile_doctor.capture.calls import (
    CalledFunction,
    CallRow,
    OtherArgument,
    TensorArgument,
)
from recompile_doctor.events.user_code import is_torch_frame
from recompile_doctor.model.frame import FrameKey, resume_point
from recompile_doctor.model.run import Compilation, Run
from recompile_doctor.model.source import Item, Local, Source, parse_source

_ARGS, _KWARGS = "args", "kwargs"
# Each takes ``*args, **kwargs`` and hands them on: torch/_dynamo/external_utils.py (wrap_inline),
# torch/nn/modules/module.py.
_WRAPPERS = frozenset({"inner", "_call_impl", "_wrapped_call_impl"})


@dataclass(frozen=True, slots=True)
class SeenCalls:
    """Calls that the probe saw with the same arguments: sizes of tensors and ints, by source."""

    arguments: Mapping[str, tuple[int, ...] | int]
    calls: int

    def size(self, source: str, dim: int) -> int | None:
        """Return the size of a dimension, or None where it is not known or not there."""
        found = self.arguments.get(source)
        return found[dim] if isinstance(found, tuple) and dim < len(found) else None

    def int(self, source: str) -> int | None:
        """Return the value of an int, or None where it is not known or not there."""
        found = self.arguments.get(source)
        return None if isinstance(found, tuple) else found


def seen_calls(run: Run, functions: Iterable[CalledFunction]) -> dict[FrameKey, list[SeenCalls]]:
    """Return the calls of each code object, by the names that its sources have in the log.

    Resume functions have none: what is a local variable there need not be the argument any more.
    """
    functions = tuple(functions)
    if not functions:
        return {}
    compiled: dict[FrameKey, list[Compilation]] = {}
    for each in run.compilations:
        if not is_resume(each):
            compiled.setdefault(each.frame, []).append(each)
    wrappers = {key for key in compiled if _is_wrapper(key)}
    found: dict[FrameKey, list[SeenCalls]] = {}
    left = []
    for function in functions:
        own = [key for key in compiled if is_code_of(key, function)]
        if not own:
            left.append(function)
        for key in own:
            found.setdefault(key, []).extend(map(_seen, function.rows))
    for key in wrappers:
        for rows in _wrapped(left, compiled[key]):
            found.setdefault(key, []).extend(rows)
    return found


def is_resume(compilation: Compilation) -> bool:
    """Return whether it compiled the continuation of a function after a graph break."""
    return resume_point(compilation.code_name or "") is not None


def is_code_of(key: FrameKey, function: CalledFunction) -> bool:
    """Return whether a code object of the log is that of the function that was called."""
    return (key.function, key.file, key.line) == (
        function.key.function,
        function.key.file,
        function.key.line,
    )


def _is_wrapper(key: FrameKey) -> bool:
    return key.function in _WRAPPERS and key.file is not None and is_torch_frame(key.file)


def _seen(row: CallRow, names: "_Names | None" = None) -> SeenCalls:
    values: dict[str, tuple[int, ...] | int] = {}
    for each in row.arguments:
        if isinstance(each, OtherArgument):
            continue
        source = each.source if names is None else names.of(each.source)
        if source is not None:
            values[source] = each.sizes if isinstance(each, TensorArgument) else each.value
    return SeenCalls(values, row.calls)


# Calls of a wrapper


def _wrapped(
    functions: Sequence[CalledFunction], compilations: Sequence[Compilation]
) -> Iterator[list[SeenCalls]]:
    """Yield the calls of each function that was called through a wrapper, in its words.

    One wrapper serves all functions of a program, so the sizes have to show which are its own.
    """
    by_keyword = frozenset(_keywords(compilations))
    inputs = [
        sizes
        for each in compilations
        if (sizes := {one.source: tuple(one.sizes) for one in each.inputs})
    ]
    for function in functions:
        names = _Names(function, by_keyword)
        compiling = [_seen(row, names).arguments for row in function.rows if row.compiled_calls]
        if any(_agree(one, other) for one in compiling for other in inputs):
            yield [_seen(row, names) for row in function.rows]


def _agree(call: Mapping[str, object], compiled: Mapping[str, object]) -> bool:
    shared = call.keys() & compiled.keys()
    return bool(shared) and all(call[source] == compiled[source] for source in shared)


def _keywords(compilations: Iterable[Compilation]) -> Iterator[str]:
    """Yield the names of arguments that a wrapper was handed by keyword."""
    for compilation in compilations:
        for each in compilation.inputs:
            match parse_source(each.source):
                case Source(root=Local(name), steps=(Item(str(key)), *_)) if name == _KWARGS:
                    yield key


class _Names:
    """The names of one function's arguments in a wrapper around it."""

    def __init__(self, function: CalledFunction, by_keyword: frozenset[str]) -> None:
        self._function = function
        self._by_keyword = by_keyword
        # What is handed by keyword stands behind all that is handed by position.
        self._positions = [each for each in function.parameters if each not in by_keyword]
        self._known: dict[str, str | None] = {}

    def of(self, source: str) -> str | None:
        """Return the name of an argument, or a part of it, or None when it is handed to none."""
        if source not in self._known:
            self._known[source] = self._name(parse_source(source))
        return self._known[source]

    def _name(self, source: Source) -> str | None:
        function = self._function
        if not isinstance(source.root, Local):
            return None
        name, steps = source.root.name, source.steps
        if name in self._by_keyword:
            return str(Source(Local(_KWARGS), (Item(name), *steps)))
        if name in self._positions:
            return str(Source(Local(_ARGS), (Item(self._positions.index(name)), *steps)))
        match steps:
            case (Item(int(number)), *rest) if name == function.varargs:
                position = len(self._positions) + number
                return str(Source(Local(_ARGS), (Item(position), *rest)))
            case (Item(str(key)), *rest) if name == function.varkw:
                return str(Source(Local(_KWARGS), (Item(key), *rest)))
            case _:
                return None
