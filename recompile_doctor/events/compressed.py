"""The bytes of a log that may be packed with gzip or zstd, or UTF-16, a chunk at a time."""

import codecs
import gzip
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import BinaryIO

import zstandard

CHUNK = 1 << 18
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# Zstd can grow a few bytes to 128 kB, so that small pieces keep even a hostile file's share small.
_ZSTD_PIECE = 1 << 10


class _Rejoined:
    """A stream whose first bytes were read to learn what it is."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._head = head
        self._stream = stream

    def read(self, size: int = CHUNK) -> bytes:
        """Return at most ``size`` bytes, and none at the end only."""
        if self._head:
            part, self._head = self._head[:size], self._head[size:]
            return part
        return self._stream.read(size)


class Unpacked:
    """Iterates over a stream's bytes, unpacked as its first bytes ask, whatever its name.

    ``cut_short`` tells, once all is read, that the packed data end in the middle or are damaged;
    what could be unpacked before that point has been yielded.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.cut_short = False

    def __iter__(self) -> Iterator[bytes]:
        head = self._first_bytes(len(_ZSTD_MAGIC))
        source = _Rejoined(head, self._stream)
        if head.startswith(_GZIP_MAGIC):
            return self._gzip(source)
        if head == _ZSTD_MAGIC:
            return self._zstd(source)
        return iter(source.read, b"")

    def _first_bytes(self, count: int) -> bytes:
        head = b""
        while len(head) < count and (part := self._stream.read(count - len(head))):
            head += part
        return head

    def _gzip(self, source: _Rejoined) -> Iterator[bytes]:
        unpacker = gzip.GzipFile(fileobj=source, mode="rb")  # type: ignore[call-overload]
        while True:
            try:
                chunk = unpacker.read1(CHUNK)
            except (EOFError, zlib.error, gzip.BadGzipFile):
                self.cut_short = True
                return
            if not chunk:
                return
            yield chunk

    def _zstd(self, source: _Rejoined) -> Iterator[bytes]:
        # stream_reader() would not tell a cut frame from a whole one.
        frame = zstandard.ZstdDecompressor().decompressobj()
        rest = b""
        while piece := rest or source.read(_ZSTD_PIECE):
            if frame.eof:
                frame = zstandard.ZstdDecompressor().decompressobj()
            try:
                chunk = frame.decompress(piece)
            except zstandard.ZstdError:
                self.cut_short = True
                return
            rest = frame.unused_data if frame.eof else b""
            if chunk:
                yield chunk
        self.cut_short = not frame.eof


_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def as_utf_8(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the chunks; UTF-16, which PowerShell makes of redirected output, is converted."""
    rest = iter(chunks)
    first = next(rest, b"")
    if not first.startswith(_UTF_16_MARKS):
        yield from chain((first,), rest)
        return
    decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
    for chunk in chain((first,), rest):
        yield decoder.decode(chunk).encode(errors="replace")
    yield decoder.decode(b"", final=True).encode(errors="replace")
