"""TORCH_LOGS text, pure or inside the output of a program, as events."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from recompile_doctor.events.compressed import Unpacked
from recompile_doctor.events.text_decoders.graph_breaks import ITEM_WARNING
from recompile_doctor.events.text_decoders.raised import Raised, RaisedErrors
from recompile_doctor.events.text_lines import LogLine, LogLines, is_trace_record
from recompile_doctor.events.text_messages import AssembledMessage, Assembly
from recompile_doctor.events.vocabulary import (
    ForeignLines,
    GraphBroke,
    IssueKind,
    ParseIssue,
    Position,
    ReadItem,
)

_EXCERPT = 200
_MOST_PROCESSES = 10_000

# TORCH_LOGS_FORMAT=short (or basic) makes it logging.BASIC_FORMAT, without process or compile id.
_BASIC_FORMAT = tuple(
    f"{level}:torch" for level in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
)


@dataclass(slots=True)
class LinesSeen:
    """How many lines of each sort stood in a log; ``raised`` counts errors without a prefix."""

    torch: int = 0
    trace_records: int = 0
    raised: int = 0
    basic_format: int = 0


def iter_text_events(stream: BinaryIO, file_name: str) -> Generator[ReadItem, None, LinesSeen]:
    """Yield what torch says in a text log, in the order in which its messages begin.

    The log may be packed with gzip or zstd. Any bytes give items, never an exception. Lines that
    torch did not write are counted in one ``ForeignLines`` at the end; errors that the program
    raised are looked for in them. Records of TORCH_TRACE are passed over.

    The generator returns (``yield from`` has it) which lines it saw.
    """
    unpacked = Unpacked(stream)
    lines = LogLines(unpacked)
    reader = _TextReader(file_name)
    for line in lines:
        items = reader.take(line)
        if items:
            yield from items
    yield from reader.finish(is_cut=lines.is_cut, is_damaged=unpacked.cut_short)
    return reader.seen


class _TextReader:
    """Turns lines into items."""

    def __init__(self, file_name: str) -> None:
        self._file = file_name
        self._assembly = Assembly(file_name)
        self._raised = RaisedErrors(file_name)
        self._item_warnings = _ItemWarnings()
        self._foreign = _ForeignCount(file_name)
        self._last_line: LogLine | None = None
        self._in_payload = False
        self.seen = LinesSeen()

    def take(self, line: LogLine) -> list[ReadItem]:
        """Return the items that are complete with ``line``."""
        self._last_line = line
        if not line.is_torch:
            return self._take_foreign(line)
        self.seen.torch += 1
        self._in_payload = is_trace_record(line.text)
        if self._in_payload:
            self.seen.trace_records += 1
            return []
        return self._take_torch(line)

    def _take_foreign(self, line: LogLine) -> list[ReadItem]:
        if self._in_payload and line.text.startswith("\t"):
            return []
        self._in_payload = False
        if line.text.startswith(_BASIC_FORMAT):
            self.seen.basic_format += 1
        self._foreign.add(line)
        raised = self._raised.take(line)
        if not raised:
            return []
        self._assembly.follow(raised)
        return self._ready()

    def _take_torch(self, line: LogLine) -> list[ReadItem]:
        items: list[ReadItem] = []
        self._assembly.follow(self._raised.interrupt())
        if not self._assembly.take(line):
            items.append(self._issue(line, IssueKind.BAD_PREFIX))
        elif not line.is_clean and self._assembly.is_needed():
            items.append(self._issue(line, IssueKind.BAD_ENCODING))
        return items + self._ready()

    def _ready(self) -> list[ReadItem]:
        return [item for ready in self._assembly.messages() for item in self._decode(ready)]

    def finish(self, is_cut: bool, is_damaged: bool) -> Iterator[ReadItem]:
        """Yield what is left at the end of the log."""
        last = self._last_line
        self._assembly.follow(self._raised.finish())
        for assembled in self._assembly.rest():
            yield from self._decode(assembled, is_end_missing=is_cut or is_damaged)
        yield from self._item_warnings.rest()
        if last is not None and is_damaged:
            yield self._issue(last, IssueKind.CUT_SHORT)
        yield from self._foreign.total()

    def _decode(
        self, assembled: AssembledMessage | Raised, is_end_missing: bool = False
    ) -> list[ReadItem]:
        if not isinstance(assembled, AssembledMessage):
            self.seen.raised += 1
            return [assembled] if self._raised.is_new(assembled) else []
        last = self._last_line
        is_last = last is not None and assembled.last_number == last.number
        message, kind = assembled.whole(is_end_missing and is_last), assembled.kind
        if kind is None:
            return [message.issue(IssueKind.CUT_SHORT)]
        decoded = kind.read(message)
        self._raised.remember(decoded)
        if kind is ITEM_WARNING:
            return [item for item in decoded if not self._item_warnings.hold(item)]
        self._item_warnings.forget_repeated(decoded)
        return [*decoded]

    def _issue(self, line: LogLine, kind: IssueKind) -> ParseIssue:
        position = Position(self._file, line.number)
        return ParseIssue(position, kind, line.text[:_EXCERPT], line.size)


class _ItemWarnings:
    """Holds back the warnings about ``.item()`` of processes that may log breaks anyway.

    Torch warns once in a process, before it logs the same break if it logs breaks at all.
    """

    def __init__(self) -> None:
        self._held: dict[str, GraphBroke] = {}
        self._loud: set[str] = set()

    def hold(self, item: object) -> bool:
        """Return whether ``item`` is such a warning, to be told at the end if at all."""
        if not isinstance(item, GraphBroke) or len(self._held) >= _MOST_PROCESSES:
            return False
        process = item.origin.process
        if process not in self._loud:
            self._held.setdefault(process, item)
        return True

    def forget_repeated(self, decoded: tuple[object, ...]) -> None:
        """Drop the warnings of a process that logs breaks."""
        for item in decoded:
            if isinstance(item, GraphBroke) and len(self._loud) < _MOST_PROCESSES:
                self._loud.add(item.origin.process)
                self._held.pop(item.origin.process, None)

    def rest(self) -> Iterator[GraphBroke]:
        """Yield the warnings that nothing repeated."""
        yield from self._held.values()


class _ForeignCount:
    """Counts the lines that are not torch's; blank ones say nothing and are left out."""

    def __init__(self, file_name: str) -> None:
        self._file = file_name
        self._first = 0
        self._lines = 0
        self._size = 0

    def add(self, line: LogLine) -> None:
        if not line.text or line.text.isspace():
            return
        self._first = self._first or line.number
        self._lines += 1
        self._size += line.size

    def total(self) -> Iterator[ForeignLines]:
        """Yield the count, if there is anything to count."""
        if self._lines:
            yield ForeignLines(Position(self._file, self._first), self._lines, self._size)
