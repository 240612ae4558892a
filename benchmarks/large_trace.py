"""Makes a large TORCH_TRACE: the records of real traces, repeated with frame ids of their own."""

import argparse
import gzip
import re
from collections.abc import Iterable
from pathlib import Path

_FRAME_ID = re.compile(rb'"frame_id": (\d+)')
_COMPILE_ID = re.compile(rb'"compile_id": "(\d+)/(\d+)')


def make(sources: Iterable[Path], target: Path, size: int) -> int:
    """Write a trace of about ``size`` bytes and return how many compiles are in it.

    Every record of every source is kept, in its order, whatever its kind. Copies get frame ids
    that no other copy has, so that each is compiles of new frames; interned strings keep their
    numbers, which are the same in each copy of one source, so one source is repeated at a time.
    """
    traces = [path.read_bytes() for path in sources]
    traces = [gzip.decompress(each) if each[:2] == b"\x1f\x8b" else each for each in traces]
    source = max(traces, key=len)
    written = compiles = copy = 0
    with target.open("wb") as out:
        while written < size:
            text = _renumbered(source, copy * 1000)
            out.write(text)
            written += len(text)
            compiles += source.count(b'{"dynamo_start"')
            copy += 1
    return compiles


def _renumbered(source: bytes, offset: int) -> bytes:
    """Return the records with ``offset`` added to each frame id."""

    def frame_id(match: re.Match[bytes]) -> bytes:
        return b'"frame_id": %d' % (int(match[1]) + offset)

    def compile_id(match: re.Match[bytes]) -> bytes:
        return b'"compile_id": "%d/%s' % (int(match[1]) + offset, match[2])

    return _COMPILE_ID.sub(compile_id, _FRAME_ID.sub(frame_id, source))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, nargs="+", help="a real TORCH_TRACE file, or its .gz")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--megabytes", type=int, default=200)
    arguments = parser.parse_args()
    number = make(arguments.source, arguments.output, arguments.megabytes * 1_000_000)
    print(f"{arguments.output}: {number} compiles")  # noqa: T201 - a script's result
