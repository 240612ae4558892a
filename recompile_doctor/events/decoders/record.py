"""What every decoder needs: a record's origin, its fields, its payload, and what came before it."""

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from recompile_doctor.events.decoders.stacks import is_passed_over
from recompile_doctor.events.envelope import Prefix
from recompile_doctor.events.messages import UNKNOWN
from recompile_doctor.events.records import RawRecord
from recompile_doctor.events.vocabulary import (
    IssueKind,
    LogKind,
    Origin,
    ParseIssue,
    Position,
    StackFrame,
)
from recompile_doctor.ids import CompileId

_EXCERPT = 200
_RANK_IN_NAME = re.compile(r"rank_([0-9]{1,9})_[^/\\]*\Z")
# Only hostile logs come near these: a run interns a name for each source file, and describes a
# tensor right before it says the tensor's source.
_STRING_LIMIT = 100_000
_STRING_LENGTH = 4096
_TENSOR_LIMIT = 10_000
_REPAIR_LIMIT = 1 << 20

_Form = TypeVar("_Form")

# What JSON of any bytes can raise: too large numbers and too deep nesting have their own errors.
JSON_ERRORS = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)


class Frame(msgspec.Struct, gc=False):
    """A stack frame; ``filename`` is the number of an interned string. Loc: torch 2.7 and later.

    Fields have no type here since one odd field must not cost the rest: ``TraceRecord`` checks.
    """

    line: object = None
    name: object = None
    filename: object = None
    loc: object = None


class Envelope(msgspec.Struct, gc=False):
    """The keys that any record has beside its event."""

    frame_id: object = None
    frame_compile_id: object = None
    attempt: object = None
    compiled_autograd_id: object = None
    rank: object = None
    has_payload: object = None


class DescribedTensor(msgspec.Struct, gc=False):
    """The fields of ``describe_tensor`` that matter; false ones and empty ones are left out."""

    id: object = None
    describer_id: object = None
    size: object = None
    stride: object = None
    dtype: object = None
    device: object = None
    is_parameter: object = None
    is_view: object = None
    requires_grad: object = None
    dynamo_dynamic_indices: object = None


@dataclass(slots=True)
class Reading:
    """What a trace's records share: the file's name, and what earlier records defined."""

    file: str
    rank: int | None = None
    strings: dict[tuple[str, int], str] = field(default_factory=dict)
    tensors: dict[tuple[str, int, int], DescribedTensor] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    last_fact: tuple[object, ...] = ()

    def intern(self, process: str, number: int, text: str) -> None:
        """Remember what a process means by the string ``number``."""
        if len(self.strings) < _STRING_LIMIT:
            self.strings[process, number] = text[:_STRING_LENGTH]

    def remember_tensor(
        self, process: str, describer: int, number: int, tensor: DescribedTensor
    ) -> None:
        """Keep a tensor until its source is told, and forget the oldest of too many."""
        if len(self.tensors) >= _TENSOR_LIMIT:
            del self.tensors[next(iter(self.tensors))]
        self.tensors[process, describer, number] = tensor

    def is_news(self, *fact: object) -> bool:
        """Tell whether ``fact`` is another than the last one asked about, and keep it.

        TORCH_DTRACE tells some facts twice in a row, in two kinds of records.
        """
        news = fact != self.last_fact
        self.last_fact = fact
        return news


def new_reading(file: str) -> Reading:
    """Return the state at the start of a trace file, whose name can tell the rank."""
    match = _RANK_IN_NAME.search(file)
    return Reading(file, None if match is None else int(match[1]))


class TraceRecord:
    """One record of a needed kind. What cannot be read becomes an issue, at most one a record."""

    def __init__(self, raw: RawRecord, prefix: Prefix, json_start: int, reading: Reading) -> None:
        self.raw = raw
        self.prefix = prefix
        self.reading = reading
        self.issue: ParseIssue | None = None
        self._json = raw.line[json_start:]

    @property
    def process(self) -> str:
        """The id of the process that wrote the record."""
        return self.prefix.process

    def report(self, kind: IssueKind) -> None:
        """Note that the record is not understood; the first reason counts."""
        if self.issue is None:
            self.issue = issue_of(self.raw, self.reading.file, kind)

    def decode(self, decoder: "msgspec.json.Decoder[_Form]") -> _Form | None:
        """Return the record's JSON in the decoder's form, or None after reporting why not."""
        return self.decode_json(decoder, self._json, self.raw.whole)

    def decode_json(
        self, decoder: "msgspec.json.Decoder[_Form]", data: bytes, whole: bool = True
    ) -> _Form | None:
        """Return some JSON of the record in the decoder's form, or None after reporting why not."""
        broken = IssueKind.BAD_JSON if whole else IssueKind.CUT_SHORT
        try:
            return decoder.decode(data)
        except msgspec.ValidationError:
            self.report(IssueKind.BAD_FIELD)
        except JSON_ERRORS:
            repaired = _repaired(data)
            if repaired is not None and repaired != data:
                return self.decode_json(decoder, repaired)
            self.report(broken if not whole or _is_text(data) else IssueKind.BAD_ENCODING)
        return None

    def payload(self) -> str | None:
        """Return the payload's text, or None after reporting that there is none."""
        payload = self.raw.payload()
        if not payload.data:
            self.report(IssueKind.CUT_SHORT)
            return None
        data = payload.text()
        if not payload.whole and not self._is_all(data):
            self.report(IssueKind.CUT_SHORT)
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.report(IssueKind.BAD_ENCODING)
            return data.decode(errors="replace")

    def _is_all(self, data: bytes) -> bool:
        """Tell whether a payload without line break at its end is whole after all.

        Torch writes its hash. Others are not compared, since a log whose paths somebody replaced
        is a good log.
        """
        return hashlib.md5(data, usedforsecurity=False).hexdigest().encode() in self.raw.line

    def origin(self, envelope: Envelope) -> Origin:
        """Return where the record's event comes from."""
        rank = self.integer(envelope.rank)
        return Origin(
            LogKind.TRACE,
            Position(self.reading.file, self.raw.number),
            self.process,
            self.reading.rank if rank is None else rank,
            self._compile_id(envelope),
            self.prefix.time,
        )

    def _compile_id(self, envelope: Envelope) -> CompileId | None:
        frame_id = self.integer(envelope.frame_id)
        frame_compile_id = self.integer(envelope.frame_compile_id)
        autograd_id = self.integer(envelope.compiled_autograd_id)
        attempt = self.integer(envelope.attempt) or 0
        if frame_id is None or frame_compile_id is None:
            if autograd_id is None:
                return None
            frame_id = frame_compile_id = None
        return CompileId(frame_id, frame_compile_id, attempt, autograd_id)

    def text(self, value: object) -> str | None:
        """Return a field that is a string or null."""
        if value is None or isinstance(value, str):
            return value
        self.report(IssueKind.BAD_FIELD)
        return None

    def needed_text(self, value: object) -> str | None:
        """Return a field that must be a string."""
        if isinstance(value, str):
            return value
        self.report(IssueKind.BAD_FIELD)
        return None

    def integer(self, value: object) -> int | None:
        """Return a field that is an integer or null."""
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        self.report(IssueKind.BAD_FIELD)
        return None

    def number(self, value: object) -> float | None:
        """Return a field that is a number or null."""
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return None if value is None else _float(value)
        self.report(IssueKind.BAD_FIELD)
        return None

    def truth(self, value: object) -> bool | None:
        """Return a field that is true, false or null."""
        if value is None or isinstance(value, bool):
            return value
        self.report(IssueKind.BAD_FIELD)
        return None

    def items(self, value: object) -> list[object]:
        """Return a field that is a list, or null for an empty one."""
        if isinstance(value, list):
            return value
        if value is not None:
            self.report(IssueKind.BAD_FIELD)
        return []

    def texts(self, value: object) -> tuple[str, ...]:
        """Return a field that is a list of strings, or null for an empty one."""
        return tuple(text for item in self.items(value) if (text := self.needed_text(item)))

    def stack(self, frames: list[Frame] | None) -> tuple[StackFrame, ...]:
        """Return a stack as torch ordered it, outermost first, with the file names put in."""
        return tuple(self._frame(frame) for frame in frames or ())

    def asking_frame(self, frames: list[Frame] | None) -> StackFrame | None:
        """Return the torch line that asked, as the text log names it in parentheses."""
        for frame in reversed(frames or ()):
            number = self.integer(frame.filename)
            if number is None or not is_passed_over(self.file_name(number)):
                return self._frame(frame)
        return None

    def _frame(self, frame: Frame) -> StackFrame:
        line = self.integer(frame.line)
        number = self.integer(frame.filename)
        file = UNKNOWN if number is None else self.file_name(number)
        name = self.text(frame.name) or UNKNOWN
        return StackFrame(file, line or 0, name, self.text(frame.loc) or None)

    def file_name(self, number: int) -> str:
        """Return an interned string. A forked child can use ids that only its parent defined."""
        return self.reading.strings.get((self.process, number), UNKNOWN)


def issue_of(raw: RawRecord, file: str, kind: IssueKind) -> ParseIssue:
    """Return the issue that a raw record of ``file`` has."""
    excerpt = raw.line[:_EXCERPT].decode(errors="replace")
    return ParseIssue(Position(file, raw.number), kind, excerpt, raw.size)


def _float(value: int | float) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _repaired(data: bytes) -> bytes | None:
    """Return JSON that Python's json module reads but msgspec does not, written anew.

    Torch writes with that module: NaN as it is, and odd bytes of a file name as lone surrogates.
    """
    if len(data) > _REPAIR_LIMIT or not (b"\\ud" in data or b"NaN" in data or b"Infinity" in data):
        return None
    try:
        value = json.loads(data, parse_constant=_nothing)
        return json.dumps(value, ensure_ascii=False).encode(errors="replace")
    except (ValueError, RecursionError):
        return None


def _nothing(_: str) -> None:
    return None
