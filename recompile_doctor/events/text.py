"""TORCH_LOGS text, pure or inside the output of a program, as events."""

from collections.abc import Iterator
from typing import BinaryIO

from recompile_doctor.events.text_decoders.graph_breaks import ITEM_WARNING
from recompile_doctor.events.text_decoders.raised import RaisedErrors
from recompile_doctor.events.text_lines import LogLine, LogLines
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


def iter_text_events(stream: BinaryIO, file_name: str) -> Iterator[ReadItem]:
    """Yield what torch says in a text log, in the order in which its messages begin.

    Any bytes give items, never an exception. Lines that torch did not write are counted in one
    ``ForeignLines`` at the end; errors that the program raised are looked for in them.
    """
    lines = LogLines(stream)
    reader = _TextReader(file_name)
    for line in lines:
        items = reader.take(line)
        if items:
            yield from items
    yield from reader.finish(is_cut=lines.is_cut, is_damaged=lines.is_damaged)


class _TextReader:
    """Turns lines into items."""

    def __init__(self, file_name: str) -> None:
        self._file = file_name
        self._assembly = Assembly(file_name)
        self._raised = RaisedErrors(file_name)
        self._item_warnings = _ItemWarnings()
        self._foreign = _ForeignCount(file_name)
        self._last_line: LogLine | None = None

    def take(self, line: LogLine) -> list[ReadItem]:
        """Return the items that are complete with ``line``."""
        self._last_line = line
        if not line.is_torch:
            self._foreign.add(line)
            return [*self._raised.take(line)]
        items: list[ReadItem] = [*self._raised.interrupt()]
        if not self._assembly.take(line):
            items.append(self._issue(line, IssueKind.BAD_PREFIX))
        elif not line.is_clean and self._assembly.is_needed():
            items.append(self._issue(line, IssueKind.BAD_ENCODING))
        for assembled in self._assembly.messages():
            items += self._decode(assembled)
        return items

    def finish(self, is_cut: bool, is_damaged: bool) -> Iterator[ReadItem]:
        """Yield what is left at the end of the log."""
        last = self._last_line
        for assembled in self._assembly.rest():
            has_end = last is None or assembled.last_number != last.number
            yield from self._decode(assembled, is_last=(is_cut or is_damaged) and not has_end)
        yield from self._raised.finish()
        yield from self._item_warnings.rest()
        if last is not None and is_damaged:
            yield self._issue(last, IssueKind.CUT_SHORT)
        yield from self._foreign.total()

    def _decode(self, assembled: AssembledMessage, is_last: bool = False) -> list[ReadItem]:
        message, kind = assembled.whole(is_last), assembled.kind
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
