"""TORCH_TRACE logs: from bytes to events, with constant memory, whatever the bytes are."""

import re
from collections.abc import Iterator
from typing import BinaryIO

from recompile_doctor.events.compressed import Unpacked, as_utf_8
from recompile_doctor.events.decoders import DECODERS, chromium_event
from recompile_doctor.events.decoders.record import Reading, TraceRecord, issue_of, new_reading
from recompile_doctor.events.envelope import split_prefix
from recompile_doctor.events.records import RawRecord, RecordReader
from recompile_doctor.events.vocabulary import (
    ForeignLines,
    IssueKind,
    ParseIssue,
    Position,
    ReadItem,
)

# Torch writes the event's key first, and an artifact's name first in it, so that most records can
# be passed over at the sight of a few bytes. The prefix before it is short.
_KIND = re.compile(rb'\] \{"(?P<event>\w+)"(?:: \{"name": "(?P<name>[^"\\]{0,200})")?')
_KIND_WITHIN = 4400
_DECODERS = {kind.encode(): decode for kind, decode in DECODERS.items()}
_RECORD_START = re.compile(rb"(?:\[rank[0-9]+\]:)?[VIWEC][0-9]{4} |[VIWEC][0-9]{0,4}\Z")


def iter_trace_events(stream: BinaryIO, file_name: str) -> Iterator[ReadItem]:
    """Yield what a TORCH_TRACE file tells, in its order; the file may be a gzip or a zstd one.

    Records of other kinds are passed over in silence. Lines that no torch wrote are counted and
    told at the end.
    """
    unpacked = Unpacked(stream)
    reader = RecordReader(as_utf_8(unpacked))
    reading = new_reading(file_name)
    foreign = _Foreign(file_name)
    judged = False  # a decoder tells itself whether its payload is whole
    for raw in reader:
        kind = _kind(raw.line)
        judged = False
        if kind is None:
            if not raw.whole and _RECORD_START.match(raw.line):
                yield issue_of(raw, file_name, IssueKind.CUT_SHORT)
            elif b"\0" in raw.line:
                # What a file system leaves of a file that was not written to its end.
                yield issue_of(raw, file_name, IssueKind.BAD_ENCODING)
            else:
                foreign.count(raw)
        elif kind in _DECODERS and _is_needed(kind, raw):
            judged = True
            yield from _items(kind, raw, reading)
    if reader.payload_is_cut and not judged:
        position = Position(file_name, reader.line_number)
        yield ParseIssue(position, IssueKind.CUT_SHORT, "the log ends within a payload", 0)
    if unpacked.cut_short:
        position = Position(file_name, reader.line_number)
        yield ParseIssue(position, IssueKind.CUT_SHORT, "the packed file ends here", 0)
    yield from foreign.items()


def _kind(line: bytes) -> bytes | None:
    match = _KIND.search(line, 0, _KIND_WITHIN)
    if match is None:
        return None
    event = match["event"]
    return b"artifact/%b" % (match["name"] or b"") if event == b"artifact" else event


def _is_needed(kind: bytes, raw: RawRecord) -> bool:
    """Tell whether to decode a record; 99 in 100 Chromium events are of no interest."""
    return kind != b"chromium_event" or chromium_event.NEEDLE in raw.payload().data


def _items(kind: bytes, raw: RawRecord, reading: Reading) -> Iterator[ReadItem]:
    json_start = raw.line.index(b"] {") + 2
    split = split_prefix(raw.line[: json_start - 1].decode(errors="replace"))
    if split is None:
        yield issue_of(raw, reading.file, IssueKind.BAD_PREFIX)
        return
    record = TraceRecord(raw, split[0], json_start, reading)
    yield from _DECODERS[kind](record)
    if record.issue is not None:
        yield record.issue


class _Foreign:
    """Counts the lines that are no records."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._first = 0
        self._lines = 0
        self._size = 0

    def count(self, raw: RawRecord) -> None:
        """Count a line, unless it is blank."""
        if raw.line.strip():
            self._first = self._first or raw.number
            self._lines += 1
            self._size += raw.size

    def items(self) -> Iterator[ForeignLines]:
        """Yield the count, if there is anything to count."""
        if self._lines:
            yield ForeignLines(Position(self._file, self._first), self._lines, self._size)
