"""The raw records of a TORCH_TRACE log, with constant memory and nothing decoded.

A record is one line, and the lines after it that start with a tab are its payload.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# What is kept of one line and of one payload; torch's own are far below.
LINE_LIMIT = 8 << 20
PAYLOAD_LIMIT = 8 << 20

_PAYLOAD_END = re.compile(rb"\n(?=[^\t])")
_BLANK_LINES = re.compile(rb"\n+")
_TAB = 0x09
_LINE_FEED = 0x0A


@dataclass(frozen=True, slots=True)
class RawPayload:
    """A payload as it stands in the log, tabs and all.

    ``size`` counts all its bytes; ``whole`` tells that all are kept and that a line break ends
    them: without one, the log may end in the middle.
    """

    data: bytes
    size: int
    whole: bool

    def text(self) -> bytes:
        """Return the payload as torch made it."""
        data = self.data.replace(b"\r\n", b"\n")
        return data[1:].removesuffix(b"\n").replace(b"\n\t", b"\n")


_NO_PAYLOAD = RawPayload(b"", 0, True)


class RawRecord:
    """One line that is no payload, with access to the payload while the record is the latest.

    ``number`` counts lines from 1, ``size`` all bytes of the line; ``line`` is the line without
    its break, ``whole`` tells that nothing is missing from it, the break included.
    """

    __slots__ = ("_payload", "_reader", "line", "number", "size", "whole")

    def __init__(
        self, reader: "RecordReader", line: bytes, number: int, size: int, whole: bool
    ) -> None:
        self._reader = reader
        self._payload: RawPayload | None = None
        self.line = line
        self.number = number
        self.size = size
        self.whole = whole

    def payload(self) -> RawPayload:
        """Return the payload; the first call must come before the next record is read."""
        if self._payload is None:
            self._payload = self._reader.take_payload(PAYLOAD_LIMIT)
        return self._payload


class RecordReader:
    """Iterates over the raw records of a trace, given as chunks of bytes.

    ``payload_is_cut`` tells at the end that the last payload has no line break: torch writes one.
    Payloads that nobody asks for are skipped without being split into lines.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._buffer = b""
        self._at = 0
        self._number = 1
        self.payload_is_cut = False

    @property
    def line_number(self) -> int:
        """The number of the next line."""
        return self._number

    def __iter__(self) -> Iterator[RawRecord]:
        self.take_payload(0)
        while (record := self._take_line()) is not None:
            yield record
            self.take_payload(0)

    def take_payload(self, limit: int) -> RawPayload:
        """Return the payload that starts here, of which at most ``limit`` bytes are kept."""
        if self._at == len(self._buffer) and not self._fill():
            return _NO_PAYLOAD
        if self._buffer[self._at] != _TAB:
            return _NO_PAYLOAD
        parts: list[bytes] = []
        size = 0
        while True:
            match = _PAYLOAD_END.search(self._buffer, self._at)
            # A line break at the end of the buffer may be the payload's end: seen with more.
            end = match.end() if match else len(self._buffer) - self._buffer.endswith(b"\n")
            if size < limit:
                parts.append(self._buffer[self._at : min(end, self._at + limit - size)])
            size += end - self._at
            self._number += self._buffer.count(b"\n", self._at, end)
            self._at = end
            if match is not None:
                return RawPayload(b"".join(parts), size, size <= limit)
            if not self._fill():
                break_found = self._at < len(self._buffer)
                self.payload_is_cut = not break_found
                self._at = len(self._buffer)
                self._number += 1
                return RawPayload(b"".join(parts), size, break_found and size <= limit)

    def _take_line(self) -> RawRecord | None:
        if self._at == len(self._buffer) and not self._fill():
            return None
        # Runs of blank lines are passed over at once: a file can hold a hundred million.
        while self._buffer[self._at] == _LINE_FEED:
            blank = _BLANK_LINES.match(self._buffer, self._at)
            assert blank is not None
            self._number += blank.end() - self._at
            self._at = blank.end()
            if self._at == len(self._buffer) and not self._fill():
                return None
        number = self._number
        self._number += 1
        searched = self._at
        while (end := self._buffer.find(b"\n", searched)) < 0:
            if len(self._buffer) - self._at > LINE_LIMIT:
                return self._take_giant_line(number)
            searched = len(self._buffer) - self._at
            if not self._fill():
                return self._record(number, len(self._buffer), len(self._buffer), whole=False)
        return self._record(number, end, end + 1, whole=True)

    def _record(self, number: int, end: int, next_at: int, whole: bool) -> RawRecord:
        """Return the line up to ``end``, and go on at ``next_at``."""
        line = self._buffer[self._at : min(end, self._at + LINE_LIMIT)]
        whole = whole and end - self._at <= LINE_LIMIT
        record = RawRecord(self, line, number, next_at - self._at, whole)
        self._at = next_at
        return record

    def _take_giant_line(self, number: int) -> RawRecord:
        """Return what is kept of a line above the limit, and pass over the rest."""
        line = self._buffer[self._at : self._at + LINE_LIMIT]
        size = 0
        while (end := self._buffer.find(b"\n", self._at)) < 0:
            size += len(self._buffer) - self._at
            self._at = len(self._buffer)
            if not self._fill():
                return RawRecord(self, line, number, size, whole=False)
        size += end + 1 - self._at
        self._at = end + 1
        return RawRecord(self, line, number, size, whole=False)

    def _fill(self) -> bool:
        """Put the next chunk behind what is left in the buffer; return False at the end."""
        for chunk in self._chunks:
            if chunk:
                self._buffer = self._buffer[self._at :] + chunk
                self._at = 0
                return True
        return False
