"""What the compiled functions of a run returned: the fingerprints of the probe, read back.

A file can hold twenty thousand calls with dozens of leaves each. So it is read twice: once for the
place of every call in the file, and then call by call, as they are asked for. Memory grows with the
number of calls, not with what they returned.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, BinaryIO, NamedTuple, TypeAlias, TypeVar

import msgspec

from recompile_doctor.bundle import Bundle

MOST_SAMPLES = 64  # a tensor with more elements is sampled evenly
_LONGEST_LINE = 1 << 26

# Python refuses to print a number of some thousand digits.
_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
_Real: TypeAlias = float | str | None  # "nan", "inf", "-inf" as strings: JSON has none of them


@dataclass(frozen=True, slots=True)
class Numbers:
    """What is known of the elements of a tensor, in float64.

    The sums and the extremes are over the finite elements. ``weighted`` gives each element another
    weight between 1 and 2, by its position. ``sample`` has every element of a small tensor.
    ``exact`` is the sum of whole numbers modulo 2**63.
    """

    count: int
    nan: int
    posinf: int
    neginf: int
    sum: float
    abs: float
    square: float
    weighted: float
    min: float
    max: float
    sample: tuple[float, ...]
    exact: int | None = None


@dataclass(frozen=True, slots=True)
class TensorLeaf:
    """One tensor: ``numbers`` is None where its values could not be read, and ``why`` says why.

    ``changed`` tells of an argument, or of what lives on one, that the call put or changed it.
    """

    path: str
    dtype: str
    sizes: tuple[int, ...]
    device: str
    numbers: Numbers | None
    why: str = ""
    grad: "TensorLeaf | None" = None
    changed: bool = False


@dataclass(frozen=True, slots=True)
class PlainLeaf:
    """One value that is no tensor, as text: a number, a string, or the name of its type.

    ``opaque`` tells that nothing but the type is known: what the object holds are no leaves.
    """

    path: str
    text: str
    opaque: bool = False


Leaf: TypeAlias = TensorLeaf | PlainLeaf


class CallKey(NamedTuple):
    """A call within one process: its number among the calls of this function in this thread."""

    function: int
    thread: int
    number: int


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """What a call gave: its result, or what it raised, and the tensors it was given, afterwards.

    ``random`` tells that it drew random numbers from a default generator of torch, ``cut`` that it
    gave more than was recorded.
    """

    raised: str | None
    outputs: tuple[Leaf, ...]
    arguments: tuple[Leaf, ...]
    random: bool = False
    cut: bool = False

    @property
    def raised_type(self) -> str | None:
        """Return the type of what the call raised, without its message."""
        return None if self.raised is None else self.raised.partition(":")[0].strip()


@dataclass(frozen=True, slots=True)
class RecordedFunction:
    """A compiled function, named by the innermost code that the user wrote."""

    name: str
    file: str
    line: int


class ParameterKey(NamedTuple):
    """A parameter: the class of its module, which module of that class, and its name in it."""

    module: str
    number: int
    name: str


@dataclass(frozen=True, slots=True)
class RecordedParameter:
    """A parameter when its module died or the process ended."""

    value: Leaf
    grad: Leaf | None


@dataclass(frozen=True, slots=True)
class ProcessOutputs:
    """One process: which calls it recorded, in their order, and where each is in the file.

    ``complete`` is False when the process did not come to its end. ``skipped`` calls came after
    the limit of the probe, ``unread`` lines were not understood. ``unwatched`` functions may have
    been called without a trace.
    """

    path: Path
    rank: dict[str, str] = field(default_factory=dict)
    started: float = 0.0
    functions: dict[int, RecordedFunction] = field(default_factory=dict)
    calls: dict[CallKey, int] = field(default_factory=dict)
    parameters: tuple[int, ...] = ()
    complete: bool = False
    skipped: int = 0
    unread: int = 0
    unwatched: int = 0

    @contextmanager
    def open(self) -> Iterator["OutputsReader"]:
        """Give a reader of what was recorded; a file that is gone gives nothing."""
        try:
            file = self.path.open("rb")
        except OSError:
            yield OutputsReader(self, None)
            return
        with file:
            yield OutputsReader(self, file)


@dataclass(frozen=True, slots=True)
class OutputsReader:
    """Reads single calls and the parameters of a process from its open file."""

    process: ProcessOutputs
    file: BinaryIO | None

    def call(self, key: CallKey) -> RecordedCall | None:
        """Return a call, or None when its line is not understood after all."""
        line = self._line(self.process.calls[key])
        call = _decode(line, _CALL)
        if call is None or (call.outputs is None and call.raised is None):
            return None
        outputs = _leaves(call.outputs or ())
        arguments = _leaves(call.arguments)
        if outputs is None or arguments is None:
            return None
        return RecordedCall(call.raised, outputs, arguments, call.random, call.cut)

    def parameters(self) -> dict[ParameterKey, RecordedParameter | None]:
        """Return the parameters in their order; None for one whose values are not understood."""
        found: dict[ParameterKey, RecordedParameter | None] = {}
        for offset in self.process.parameters:
            record = _decode(self._line(offset), _PARAMETERS)
            for each in () if record is None else record.parameters:
                key = ParameterKey(each.module, each.number, each.name)
                value = _leaf(each.value)
                grad = None if each.grad is None else _leaf(each.grad)
                lost = value is None or (grad is None and each.grad is not None)
                found[key] = None if lost or value is None else RecordedParameter(value, grad)
        return found

    def _line(self, offset: int) -> bytes:
        if self.file is None:
            return b""
        try:
            self.file.seek(offset)
            return self.file.readline(_LONGEST_LINE)
        except OSError:
            return b""


def read_outputs(bundle: Bundle) -> tuple[ProcessOutputs, ...]:
    """Return what the processes of a run recorded, in the order in which they started."""
    found = [read_process(path) for path in bundle.outputs_files()]
    return tuple(sorted(found, key=lambda each: (each.started, each.path.name)))


def read_process(path: Path) -> ProcessOutputs:
    """Return what one file holds. Any bytes give what can be read and a count of the rest."""
    index = _Index()
    try:
        with path.open("rb") as file:
            offset = 0
            for line, whole in _iter_lines(file):
                if whole:
                    index.add(line, offset)
                else:
                    index.unread += 1
                offset = file.tell()
    except OSError:
        index.unread += 1
    return ProcessOutputs(
        path,
        index.rank,
        index.started,
        index.functions,
        index.calls,
        tuple(index.parameters),
        index.complete,
        index.skipped,
        index.unread,
        index.unwatched,
    )


class _LeafRecord(msgspec.Struct, gc=False):
    """The spelling of a leaf in the file."""

    path: str
    dtype: str | None = None
    sizes: tuple[_Count, ...] = ()
    device: str = ""
    numel: _Count | None = None
    nan: _Count = 0
    posinf: _Count = 0
    neginf: _Count = 0
    sum: _Real = None
    abs: _Real = None
    square: _Real = None
    weighted: _Real = None
    min: _Real = None
    max: _Real = None
    sample: tuple[_Real, ...] | None = None
    exact: int | None = None
    values: str | None = None
    why: str = ""
    grad: "_LeafRecord | None" = None
    integer: int | None = msgspec.field(default=None, name="int")
    value: str | None = None
    type: str | None = None
    members: bool = False
    changed: bool = False


class _CallRecord(msgspec.Struct, gc=False):
    call: _Count
    function: _Count
    raised: str | None = None
    outputs: tuple[_LeafRecord, ...] | None = None
    arguments: tuple[_LeafRecord, ...] = ()
    random: bool = False
    cut: bool = False


class _ParameterRecord(msgspec.Struct, gc=False):
    module: str
    name: str
    value: _LeafRecord
    number: _Count = 0
    grad: _LeafRecord | None = None


class _ParametersRecord(msgspec.Struct, gc=False):
    parameters: tuple[_ParameterRecord, ...]


class _Line(msgspec.Struct, gc=False):
    """Any line of the file, without the leaves: what stands in the first pass."""

    pid: int | None = None
    rank: dict[str, str] = {}
    started: float = 0.0
    call: _Count | None = None
    function: _Count | None = None
    thread: _Count = 0
    name: str | None = None
    file: str = ""
    line: _Count = 0
    parameters: msgspec.Raw = msgspec.Raw()
    end: bool = False
    skipped: _Count = 0
    unwatched: _Count = 0


_LINE = msgspec.json.Decoder(_Line)
_CALL = msgspec.json.Decoder(_CallRecord)
_PARAMETERS = msgspec.json.Decoder(_ParametersRecord)
_Record = TypeVar("_Record")


class _Index:
    """Fills the description of a process, line by line."""

    def __init__(self) -> None:
        self.rank: dict[str, str] = {}
        self.started = 0.0
        self.functions: dict[int, RecordedFunction] = {}
        self.calls: dict[CallKey, int] = {}
        self.parameters: list[int] = []
        self.complete = False
        self.skipped = 0
        self.unread = 0
        self.unwatched = 0

    def add(self, text: bytes, offset: int) -> None:
        line = _decode(text, _LINE)
        if line is None or not self._add(line, text, offset):
            self.unread += 1

    def _add(self, line: _Line, text: bytes, offset: int) -> bool:
        """Take a line in and say whether it was understood."""
        if line.call is not None and line.function is not None:
            key = CallKey(line.function, line.thread, line.call)
            return line.function in self.functions and self.calls.setdefault(key, offset) == offset
        if line.function is not None and line.name is not None:
            function = RecordedFunction(line.name, line.file, line.line)
            return self.functions.setdefault(line.function, function) is function
        if bytes(line.parameters):
            self.parameters.append(offset)
            return _decode(text, _PARAMETERS) is not None
        if line.end:
            self.complete = True
            self.skipped = line.skipped
            self.unwatched = line.unwatched
            return True
        if line.pid is not None:
            self.rank = line.rank
            self.started = line.started
            return True
        return False


def _iter_lines(file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Yield each line that is not empty, and whether it is whole: one that is too long is not."""
    while line := file.readline(_LONGEST_LINE):
        whole = line.endswith(b"\n") or len(line) < _LONGEST_LINE
        rest = line
        while not rest.endswith(b"\n") and len(rest) == _LONGEST_LINE:
            rest = file.readline(_LONGEST_LINE)
        if line.strip():
            yield line, whole


def _decode(line: bytes, decoder: "msgspec.json.Decoder[_Record]") -> _Record | None:
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _leaves(records: tuple[_LeafRecord, ...]) -> tuple[Leaf, ...] | None:
    leaves = tuple(leaf for leaf in map(_leaf, records) if leaf is not None)
    return leaves if len(leaves) == len(records) else None


def _leaf(record: _LeafRecord) -> Leaf | None:
    if record.dtype is not None:
        return _tensor(record)
    if record.integer is not None:
        return PlainLeaf(record.path, str(record.integer))
    if record.value is not None:
        return PlainLeaf(record.path, record.value)
    if record.type is not None:
        return PlainLeaf(record.path, f"a {record.type}", opaque=not record.members)
    return None


def _tensor(record: _LeafRecord) -> TensorLeaf:
    numbers = None if record.values == "unknown" else _numbers(record)
    grad = None
    if record.grad is not None and record.grad.dtype is not None:
        grad = _tensor(record.grad)
    return TensorLeaf(
        record.path,
        record.dtype or "",
        record.sizes,
        record.device,
        numbers,
        "" if numbers is not None else record.why or "its numbers are incomplete",
        grad,
        record.changed,
    )


def _numbers(record: _LeafRecord) -> Numbers | None:
    """Return the numbers of a tensor, or None when one that is needed is missing."""
    if record.numel is None or record.sample is None:
        return None
    sample = tuple(map(_real, record.sample))
    if len(sample) != min(record.numel, MOST_SAMPLES) or None in sample:
        return None
    finite = record.numel - record.nan - record.posinf - record.neginf
    sums = tuple(map(_real, (record.sum, record.abs, record.square, record.weighted)))
    extremes = tuple(map(_real, (record.min, record.max)))
    if finite < 0 or (finite and None in (*sums, *extremes)):
        return None
    total, absolute, square, weighted = (0.0 if each is None else each for each in sums)
    low, high = (0.0 if each is None else each for each in extremes)
    return Numbers(
        record.numel,
        record.nan,
        record.posinf,
        record.neginf,
        total,
        absolute,
        square,
        weighted,
        low,
        high,
        tuple(each for each in sample if each is not None),
        record.exact,
    )


def _real(value: _Real) -> float | None:
    if isinstance(value, str):
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}.get(value)
    return value
