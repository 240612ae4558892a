"""Any input a user may name, as one stream of events: files, folders, pipes, of either log."""

import io
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

from recompile_doctor.errors import DoctorError
from recompile_doctor.events.compressed import Unpacked
from recompile_doctor.events.text import LinesSeen, iter_text_events
from recompile_doctor.events.text_lines import LogLines, is_trace_record
from recompile_doctor.events.trace import iter_trace_events
from recompile_doctor.events.vocabulary import (
    ForeignLines,
    IssueKind,
    LogKind,
    ParseIssue,
    Position,
    ReadItem,
)

# How far the first line of torch's is looked for before a file is taken for text.
_HEAD = 1 << 20
_KEPT_IN_MEMORY = 16 << 20
_PIECE = 1 << 20

# A bundle is two levels deep, a folder of bundles three.
_DEEPEST = 4
_MOST_FILES = 10_000
_LOG_NAME = re.compile(
    r"(?:dedicated_log_torch_trace.*|.*\.(?:log|txt|out|err)(?:\.[0-9]+)?)(?:\.(?:gz|zst))?\Z"
)

_HOW_TO_GET_ONE = (
    "Give a folder or file made by TORCH_TRACE, or the output of a program that ran with "
    "TORCH_LOGS=dynamic,recompiles,graph_breaks."
)


def detect_kind(head: bytes) -> LogKind | None:
    """Return which log the first bytes of a file, packed or not, are of.

    The first line with torch's prefix decides: JSON follows it in a trace. None when there is no
    such line.
    """
    for line in LogLines(Unpacked(io.BytesIO(head))):
        if line.is_torch:
            return LogKind.TRACE if is_trace_record(line.text) else LogKind.TEXT
    return None


def read_events(sources: Iterable[Path | BinaryIO]) -> Iterator[ReadItem]:
    """Yield what all ``sources`` tell, one after the other.

    A source is a file of either log or of both mixed, packed or not; a folder, searched for such
    files; or a binary stream, which need not be seekable. What is wrong with a source as a whole
    is a DoctorError; what is wrong inside of it is a ParseIssue.
    """
    for source in sources:
        if not isinstance(source, Path):
            yield from _read_stream(source, "-")
        elif stat.S_ISDIR(_mode(source)):
            yield from _read_folder(source)
        elif stat.S_ISREG(_mode(source)):
            yield from _read_named(_log_file(source))
        elif stat.S_ISCHR(_mode(source)) or stat.S_ISBLK(_mode(source)):
            raise DoctorError(
                f"{source} is a device, not a log.",
                slug="unreadable-input",
                hint="Give a file or a folder, or `-` for standard input.",
            )
        else:
            # A named pipe, as of a shell's <(...), gives its bytes once.
            with _open(source) as stream:
                yield from _read_stream(stream, str(source))


def log_files(path: Path) -> tuple[tuple[Path, LogKind], ...]:
    """Return the logs that ``path`` stands for, itself or those below it, with what each is.

    Files that are no logs, and copies, are left out.
    """
    paths = [path] if stat.S_ISREG(_mode(path)) else list(_files_below(path))
    logs = _without_copies([_log_file(each) for each in paths])
    kinds = ((Path(log.name), detect_kind(_head(log))) for log in logs)
    return tuple((path, kind) for path, kind in kinds if kind is not None)


@dataclass(frozen=True, slots=True)
class _Log:
    """A log that can be read more than once. ``name`` is what the user calls it."""

    name: str
    open: Callable[[], IO[bytes]]


@dataclass(slots=True)
class _Found:
    """What reading a log has shown it to be."""

    is_torch: bool = False
    is_basic_format: bool = False


def _log_file(path: Path) -> _Log:
    return _Log(str(path), lambda: _open(path))


def _open(path: Path) -> IO[bytes]:
    try:
        # A buffer here would lose what stands before a bad sector.
        return path.open("rb", buffering=0)
    except OSError as error:
        raise _unreadable(str(path), error) from error


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except (OSError, ValueError) as error:
        raise _unreadable(str(path), error) from error


class _Steady(io.RawIOBase):
    """A stream that ends where it can no longer be read, and remembers that it did."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__()
        self._stream = stream
        self.has_failed = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        try:
            data = self._stream.read(len(buffer))
        except OSError:
            self.has_failed = True
            return 0
        buffer[: len(data)] = data
        return len(data)


# --- One log -------------------------------------------------------------------------------------


def _read_named(log: _Log) -> Iterator[ReadItem]:
    """Yield what a log tells that the user named; raise when it is none."""
    found = _Found()
    yield from _read_log(log, found)
    if not found.is_torch:
        raise _no_log(log, found)


def _read_stream(stream: IO[bytes], name: str) -> Iterator[ReadItem]:
    """Yield what a stream tells. It is copied first, since two readers may have to see it."""
    with tempfile.SpooledTemporaryFile(_KEPT_IN_MEMORY) as copy:
        try:
            shutil.copyfileobj(stream, copy, _PIECE)
        except OSError as error:
            raise _unreadable(name, error) from error

        def rewound() -> IO[bytes]:
            copy.seek(0)
            return io.BufferedReader(_Steady(copy))

        yield from _read_named(_Log(name, rewound))


def _read_log(log: _Log, found: _Found) -> Iterator[ReadItem]:
    """Yield what a log tells, and note in ``found`` what it is.

    The reader of what comes first in the log runs first; the other one runs only when both logs
    are mixed in it.
    """
    if detect_kind(_head(log)) is LogKind.TRACE:
        found.is_torch = True
        if (yield from _read_trace(log)):
            yield from _read_text(log)
        return
    seen = yield from _read_text(log)
    found.is_torch = seen.torch > 0 or seen.raised > 0
    found.is_basic_format = seen.basic_format > 0
    if seen.trace_records:
        yield from _read_trace(log)


def _head(log: _Log) -> bytes:
    head = bytearray()
    with log.open() as stream:
        for chunk in Unpacked(io.BufferedReader(_Steady(stream))):
            head += chunk
            if len(head) >= _HEAD:
                break
    return bytes(head)


def _read_trace(log: _Log) -> Generator[ReadItem, None, bool]:
    """Yield what the records of TORCH_TRACE tell; return whether anything else stands there."""
    has_others = False
    with log.open() as stream:
        steady = _Steady(stream)
        for item in iter_trace_events(io.BufferedReader(steady), log.name):
            if isinstance(item, ForeignLines):
                has_others = True
            else:
                yield item
    yield from _reading_issues(log, steady)
    return has_others


def _read_text(log: _Log) -> Generator[ReadItem, None, LinesSeen]:
    with log.open() as stream:
        steady = _Steady(stream)
        seen = yield from iter_text_events(io.BufferedReader(steady), log.name)
    yield from _reading_issues(log, steady)
    return seen


def _reading_issues(log: _Log, steady: _Steady) -> Iterator[ParseIssue]:
    if steady.has_failed:
        position = Position(log.name, 1)
        yield ParseIssue(position, IssueKind.CUT_SHORT, "the file cannot be read to its end", 0)


# --- Folders -------------------------------------------------------------------------------------


def _read_folder(folder: Path) -> Iterator[ReadItem]:
    """Yield what the logs in a folder tell; what is no log there is left out."""
    is_torch = False
    for log in _without_copies([_log_file(path) for path in _files_below(folder)]):
        found = _Found()
        foreign: list[ForeignLines] = []
        for item in _read_log(log, found):
            if isinstance(item, ForeignLines):
                foreign.append(item)
            else:
                yield item
        if found.is_torch:
            is_torch = True
            yield from foreign
    if not is_torch:
        raise DoctorError(
            f"No file in {folder} has a line of torch.compile's logs.",
            slug="not-a-log",
            hint=f"{_HOW_TO_GET_ONE} Files named *.log, *.txt, *.out and *.err were looked at.",
        )


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield the files that are named like logs, in the order of their names."""
    seen: set[tuple[int, int]] = set()
    left = _MOST_FILES
    waiting = [(folder, 0)]
    while waiting:
        current, depth = waiting.pop()
        identity = _identity(current)
        if identity in seen:
            # A symbolic link that leads back.
            continue
        seen.add(identity)
        try:
            files, folders = _entries(current)
        except DoctorError:
            if depth == 0:
                raise
            continue  # somebody else's folder below the one that the user named
        yield from files[:left]
        left -= len(files[:left])
        if depth < _DEEPEST:
            waiting += [(path, depth + 1) for path in reversed(folders)]


def _identity(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise _unreadable(str(path), error) from error
    return status.st_dev, status.st_ino


def _entries(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the log files and the folders in ``folder``."""
    try:
        with os.scandir(folder) as entries:
            paths = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise _unreadable(str(folder), error) from error
    files = [Path(entry) for entry in paths if _LOG_NAME.match(entry.name) and _is(entry.is_file)]
    return files, [Path(entry) for entry in paths if _is(entry.is_dir)]


def _is(question: Callable[[], bool]) -> bool:
    """Return the answer; what a link leads to may be out of reach, and then it is nothing."""
    try:
        return question()
    except OSError:
        return False


def _without_copies(logs: list[_Log]) -> list[_Log]:
    """Return the logs without those that are part of another one.

    With TORCH_LOGS_OUT torch writes each line to standard error too, so that a folder often has
    both. The longer one has all of it: what was raised, or the runs before. A line of torch's
    tells time and process, so that equal first lines are one line.
    """
    groups: dict[str | int, list[_Log]] = {}
    for number, log in enumerate(logs):
        groups.setdefault(_first_torch_line(log) or number, []).append(log)
    return [max(group, key=_size) if len(group) > 1 else group[0] for group in groups.values()]


def _first_torch_line(log: _Log) -> str | None:
    lines = (line.text for line in LogLines([_head(log)]) if line.is_torch)
    return next(lines, None)


def _size(log: _Log) -> int:
    with log.open() as stream:
        return sum(len(chunk) for chunk in Unpacked(io.BufferedReader(_Steady(stream))))


# --- What is no log ------------------------------------------------------------------------------


def _unreadable(name: str, error: Exception) -> DoctorError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return DoctorError(
        f"{name} cannot be read: {reason}.",
        slug="unreadable-input",
        hint="Check the path and its permissions.",
    )


def _no_log(log: _Log, found: _Found) -> DoctorError:
    """Return why a log is none."""
    head = _head(log)
    if not head:
        return DoctorError(
            f"{log.name} is empty.",
            slug="empty-input",
            hint=f"Nothing was compiled, or the program logged elsewhere. {_HOW_TO_GET_ONE}",
        )
    if found.is_basic_format:
        return DoctorError(
            f"{log.name} was written with TORCH_LOGS_FORMAT, which leaves out compile ids.",
            slug="text-log-format",
            hint="Run the program again without TORCH_LOGS_FORMAT.",
        )
    what = "is a binary file, not a log" if b"\0" in head else "has no line of torch.compile's logs"
    return DoctorError(
        f"{log.name} {what}.",
        slug="not-a-log",
        hint=f"{_HOW_TO_GET_ONE} Their lines hold 'V1130 04:20:29.133000 24523 torch/...py:57]'.",
    )
