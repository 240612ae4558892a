"""The calls of compiled functions that the probe saw, read back: which sizes, how often, how long.

A log of torch tells only of calls that made torch compile. The probe counts all of them, also those
that a cached graph served, and those that ran uncompiled after the recompile limit.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from recompile_doctor.bundle import Bundle

_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, lt=1e12)]


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """A tensor among the arguments, below a list or dict too; ``source`` is torch's full name."""

    source: str
    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...] = ()
    device: str | None = None


@dataclass(frozen=True, slots=True)
class IntArgument:
    """An int that is no bool."""

    source: str
    value: int


@dataclass(frozen=True, slots=True)
class OtherArgument:
    """Another argument: a bool, None, string or float by its ``repr``, else the type alone."""

    source: str
    value: str | None = None
    type: str | None = None


Argument = TensorArgument | IntArgument | OtherArgument


@dataclass(frozen=True, slots=True)
class CallRow:
    """Calls with the same arguments as far as the probe tells them apart.

    ``first_call`` is the number of the first of them among the function's calls.
    ``steady_seconds`` is the sum over those calls that neither compiled nor raised.
    """

    arguments: tuple[Argument, ...]
    calls: int
    compiled_calls: int = 0
    first_call: int = 0
    steady_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class SteadySeconds:
    """How long the calls took that neither compiled nor raised; ``median`` is of a sample."""

    sum: _Seconds = 0.0
    min: _Seconds | None = None
    max: _Seconds | None = None
    median: _Seconds | None = None
    samples: _Count = 0


@dataclass(frozen=True, slots=True)
class FunctionKey:
    """A compiled function of the user's, the same in every process."""

    function: str
    qualname: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class CalledFunction:
    """One compiled callable in one process, and its calls.

    ``parameters`` are the names by position without the ``self`` of a bound method or a module.
    ``clock`` tells whether seconds are those of the wall or of the device.
    """

    key: FunctionKey
    parameters: tuple[str, ...] = ()
    varargs: str | None = None
    varkw: str | None = None
    kind: str = "function"
    calls: int = 0
    compiled_calls: int = 0
    raised_calls: int = 0
    first_seconds: float | None = None
    compiling_seconds: float = 0.0
    steady_calls: int = 0
    steady_seconds: SteadySeconds = SteadySeconds()
    clock: str = "wall"
    rows: tuple[CallRow, ...] = ()
    calls_without_row: int = 0


@dataclass(frozen=True, slots=True)
class CalledProcess:
    """What the probe saw in one process. ``complete`` is False when it did not come to its end.

    The calls of ``unwatched`` functions are not all among them.
    """

    pid: int
    complete: bool
    functions: tuple[CalledFunction, ...] = ()
    rank: Mapping[str, str] = field(default_factory=dict)
    started: float | None = None
    device_memory_peak: Mapping[str, int] = field(default_factory=dict)
    unwatched: int = 0


@dataclass(frozen=True, slots=True)
class UnreadCalls:
    """A file of calls that could not be read, and why."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class Steady:
    """The time of the calls of one function that neither compiled nor raised, over all processes.

    ``median`` is that of the process in the middle, where each counts by its calls: the times of
    single calls are not kept. ``clocks`` has two members when processes measured differently; then
    no number here means much.
    """

    calls: int
    seconds: float
    shortest: float | None
    longest: float | None
    median: float | None
    clocks: frozenset[str]

    @property
    def mean(self) -> float | None:
        """Return the seconds of one call on average, or None without calls."""
        return self.seconds / self.calls if self.calls else None


@dataclass(frozen=True, slots=True)
class Calls:
    """What the probe saw of the calls in a run; empty when it saw none."""

    processes: tuple[CalledProcess, ...] = ()
    unread: tuple[UnreadCalls, ...] = ()

    @property
    def functions(self) -> tuple[CalledFunction, ...]:
        """Return the compiled callables of all processes."""
        return tuple(each for process in self.processes for each in process.functions)

    @property
    def total(self) -> int:
        """Return how many calls the probe saw."""
        return sum(each.calls for each in self.functions)

    @property
    def raised(self) -> int:
        """Return how many of them raised an exception."""
        return sum(each.raised_calls for each in self.functions)

    def steady(self) -> dict[FunctionKey, Steady]:
        """Return the steady-state time of each function, summed over processes and callables."""
        groups: dict[FunctionKey, list[CalledFunction]] = {}
        for each in self.functions:
            groups.setdefault(each.key, []).append(each)
        return {key: _steady(group) for key, group in groups.items()}


def _steady(functions: Iterable[CalledFunction]) -> Steady:
    timed = [each for each in functions if each.steady_calls]
    return Steady(
        calls=sum(each.steady_calls for each in timed),
        seconds=sum(each.steady_seconds.sum for each in timed),
        shortest=min(_known(each.steady_seconds.min for each in timed), default=None),
        longest=max(_known(each.steady_seconds.max for each in timed), default=None),
        median=_middle(timed),
        clocks=frozenset(each.clock for each in timed),
    )


def _known(values: Iterable[float | None]) -> Iterator[float]:
    return (each for each in values if each is not None)


def _middle(functions: Iterable[CalledFunction]) -> float | None:
    """Return the median of the function that holds the call in the middle."""
    medians = sorted(
        (each.steady_seconds.median, each.steady_calls)
        for each in functions
        if each.steady_seconds.median is not None
    )
    left = sum(calls for _, calls in medians) / 2
    for median, calls in medians:
        left -= calls
        if left <= 0:
            return median
    return None


def read_calls(bundle: Bundle) -> Calls:
    """Return the calls that the processes of a run made of their compiled functions.

    A file that cannot be read is left out and named in ``unread``.
    """
    read = [_read(path) for path in bundle.calls_files()]
    return Calls(
        tuple(each for each in read if isinstance(each, CalledProcess)),
        tuple(each for each in read if isinstance(each, UnreadCalls)),
    )


# As the probe writes them


class _Argument(msgspec.Struct, frozen=True):
    source: str
    dtype: str | None = None
    sizes: tuple[_Count, ...] | None = None
    strides: tuple[int, ...] = ()
    device: str | None = None
    number: int | None = msgspec.field(name="int", default=None)
    value: str | None = None
    type: str | None = None

    def argument(self) -> Argument:
        if self.sizes is not None and self.dtype is not None:
            return TensorArgument(self.source, self.dtype, self.sizes, self.strides, self.device)
        if self.number is not None:
            return IntArgument(self.source, self.number)
        return OtherArgument(self.source, self.value, self.type)


class _Row(msgspec.Struct, frozen=True):
    arguments: tuple[_Argument, ...]
    calls: _Count
    compiled_calls: _Count = 0
    first_call: _Count = 0
    steady_seconds: _Seconds = 0.0

    def row(self) -> CallRow:
        return CallRow(
            tuple(each.argument() for each in self.arguments),
            self.calls,
            self.compiled_calls,
            self.first_call,
            self.steady_seconds,
        )


class _Function(msgspec.Struct, frozen=True):
    function: str
    file: str
    line: int
    calls: _Count
    qualname: str = ""
    parameters: tuple[str, ...] = ()
    varargs: str | None = None
    varkw: str | None = None
    kind: str = "function"
    compiled_calls: _Count = 0
    raised_calls: _Count = 0
    first_seconds: _Seconds | None = None
    compiling_seconds: _Seconds = 0.0
    steady_calls: _Count = 0
    steady_seconds: SteadySeconds = SteadySeconds()
    clock: str = "wall"
    rows: tuple[_Row, ...] = ()
    calls_without_row: _Count = 0

    def called(self) -> CalledFunction:
        return CalledFunction(
            key=FunctionKey(self.function, self.qualname or self.function, self.file, self.line),
            parameters=self.parameters,
            varargs=self.varargs,
            varkw=self.varkw,
            kind=self.kind,
            calls=self.calls,
            compiled_calls=self.compiled_calls,
            raised_calls=self.raised_calls,
            first_seconds=self.first_seconds,
            compiling_seconds=self.compiling_seconds,
            steady_calls=self.steady_calls,
            steady_seconds=self.steady_seconds,
            clock=self.clock,
            rows=tuple(each.row() for each in self.rows),
            calls_without_row=self.calls_without_row,
        )


class _Process(msgspec.Struct, frozen=True):
    format: Literal[1]
    pid: int
    complete: bool
    functions: tuple[_Function, ...] = ()
    rank: dict[str, str] = {}
    started: float | None = None
    device_memory_peak: dict[str, _Count] = {}
    unwatched: _Count = 0

    def called(self) -> CalledProcess:
        return CalledProcess(
            pid=self.pid,
            complete=self.complete,
            functions=tuple(each.called() for each in self.functions),
            rank=self.rank,
            started=self.started,
            device_memory_peak=self.device_memory_peak,
            unwatched=self.unwatched,
        )


def _read(path: Path) -> CalledProcess | UnreadCalls:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Process).called()
    except (OSError, msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        return UnreadCalls(path, str(error))
