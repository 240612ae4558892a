"""A text log as lines: decoded, stripped of what others put around torch's own words."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from recompile_doctor.events.compressed import as_utf_8

# Torch's longest lines are guards on large containers, some 10 kB. What is longer than this is
# no log line, and is not worth the memory.
_LONGEST_LINE = 4 << 20

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")

# Every line that the readers need was logged by a Python file, so that a line without this text
# needs no look at all. That is what makes a program's own output cheap.
_ANY_PREFIX = ".py:"

# A quotation mark in front tells that a program talks about a log line (a traceback that shows
# ``print("V1130 ...``, a dictionary, Markdown); a log line that something else was glued to has
# the end of that in front of it.
_TORCH_START = re.compile(
    r"""(?P<quote>["'`\\])?(?P<start>(?:\[rank[0-9]{1,9}\]:)?[VIWEC][0-9]{4}\ [0-9]{2}:[0-9]{2}
    :[0-9]{2}\.[0-9]{6}\ [0-9]{1,12}\ \S)""",
    re.VERBOSE,
)

# A record of TORCH_TRACE has nothing between the prefix and its JSON.
_TRACE_RECORD = re.compile(r'[^\]]*\] \{"')


class LogLine(NamedTuple):
    """One line of a log.

    ``number`` counts from 1, ``size`` is its length in bytes without the line break. ``text`` is
    free of colours; with ``is_torch`` it begins with torch's prefix, and what a CI system, a
    launcher or a progress bar put in front is gone. ``is_clean`` is False when bytes that are not
    UTF-8 were replaced.
    """

    number: int
    size: int
    text: str
    is_torch: bool
    is_clean: bool


class LogLines:
    """The lines of a log given as chunks of bytes, in order, at constant memory.

    Where torch's prefix starts is searched in the line, not expected at its begin: time stamps of
    GitHub, GitLab and Jenkins, ``name |`` of docker compose, ``[default0]:`` of torchrun,
    indentation by pytest, and progress bars that end without a line break all stand in front of
    it in real logs. A program that prints a line in torch's exact form cannot be told from torch.

    Only a line feed ends a line, as in torch: guards hold other line breaks in strings.

    After the iteration, ``is_cut`` tells that the last line has no line break.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.is_cut = False

    def __iter__(self) -> Iterator[LogLine]:
        # Blank lines are passed over here: a file can hold a hundred million of them.
        for number, raw in enumerate(self._raw_lines(), 1):
            if raw and raw != b"\r":
                yield _line(number, raw)

    def _raw_lines(self) -> Iterator[bytes]:
        rest = b""
        for chunk in as_utf_8(self._chunks):
            lines = (rest + chunk).split(b"\n")
            rest = _shortened(lines.pop())
            yield from lines
        if rest:
            self.is_cut = True
            yield rest


def is_trace_record(text: str) -> bool:
    """Return whether one of torch's lines is a record of TORCH_TRACE rather than text."""
    return _TRACE_RECORD.match(text) is not None


def _shortened(line: bytes) -> bytes:
    """Return ``line``, or its begin and its end, where a log line glued to it would stand."""
    if len(line) <= _LONGEST_LINE:
        return line
    half = _LONGEST_LINE // 4
    return line[:half] + line[-half:]


def _line(number: int, raw: bytes) -> LogLine:
    try:
        text, is_clean = raw.decode(), True
    except UnicodeDecodeError:
        text, is_clean = raw.decode(errors="replace"), False
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    text = text.rstrip("\r")
    if _ANY_PREFIX in text:
        start = _torch_start(text)
        if start is not None:
            return LogLine(number, len(raw), text[start:] if start else text, True, is_clean)
    return LogLine(number, len(raw), text, False, is_clean)


def _torch_start(text: str) -> int | None:
    """Return where torch's prefix starts in ``text``."""
    start = _TORCH_START.match(text)
    if start is None or start["quote"] is not None:
        start = next((m for m in _TORCH_START.finditer(text) if m["quote"] is None), None)
    if start is None:
        return None
    path_end = text.find(_ANY_PREFIX, start.end())
    if path_end < 0:
        return None
    if " " in text[start.end() : path_end]:
        # Few paths have a space: the line may be torn, with another one behind its begin.
        torn = [*_TORCH_START.finditer(text, start.end(), path_end)]
        start = torn[-1] if torn else start
    return start.start("start")
