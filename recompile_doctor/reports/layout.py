"""Lines of a terminal: wrapping, shortening, quoting of source lines, symbols that it can show."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.text import Text

from recompile_doctor.diagnosis.finding import Evidence
from recompile_doctor.events.vocabulary import StackFrame
from recompile_doctor.reports.source_lines import code_of
from recompile_doctor.reports.words import file_and_line, visible

# Longer lines are harder to read, and figures at their end are far from what they belong to.
_WIDEST = 120
_NARROWEST = 60
_SYMBOLS = "→…│·←"


@dataclass(frozen=True, slots=True)
class Symbols:
    """The few characters that an ASCII terminal has no like of."""

    arrow: str = "→"
    back: str = "←"
    ellipsis: str = "…"
    bar: str = "│"
    dot: str = "·"


_ASCII = Symbols(arrow="->", back="<-", ellipsis="...", bar="|", dot="-")


@dataclass(frozen=True, slots=True)
class Page:
    """What the lines are made for.

    ``base`` is the folder that paths are shown relative to. ``quote_source`` says whether lines
    of the user's program are shown.
    """

    console: Console
    width: int
    symbols: Symbols
    base: Path | None = None
    quote_source: bool = True

    def safe(self, text: str) -> str:
        """Return text from a log in a form that shows, in one line, what it is."""
        return visible(text, ascii_only=self.symbols is _ASCII)

    def name(self, text: str, room: int) -> str:
        """Return a name from a log, shortened in its middle to ``room`` cells."""
        return shortened_middle(self.safe(text), room, self.symbols.ellipsis)

    def path(self, file: str, line: int | None, room: int) -> str:
        """Return ``file:line``, relative to the base where it lies there, in ``room`` cells."""
        suffix = "" if line is None else f":{line}"
        room -= len(suffix)
        path = self.safe(file_and_line(file, None, self.base))
        path = shortened_path(path, room, self.symbols.ellipsis)
        return f"{shortened_middle(path, room, self.symbols.ellipsis)}{suffix}"


def page_for(console: Console, base: Path | None, quote_source: bool) -> Page:
    """Return the page for a console: its width, and symbols that its encoding has."""
    try:
        _SYMBOLS.encode(console.encoding)
        symbols = Symbols()
    except (UnicodeEncodeError, LookupError):
        symbols = _ASCII
    width = min(max(console.width, _NARROWEST), _WIDEST)
    return Page(console, width, symbols, base, quote_source)


def shortened_path(path: str, room: int, ellipsis: str) -> str:
    """Return ``path`` without folders in its middle, as many as it takes to fit ``room`` cells."""
    folders = path.split("/")
    start = 2 if path.startswith("/") else 1
    shown = path
    for end in range(start + 1, len(folders)):
        if cell_len(shown) <= room:
            break
        shown = "/".join([*folders[:start], ellipsis, *folders[end:]])
    return shown


def shortened_middle(text: str, room: int, ellipsis: str) -> str:
    """Return ``text`` in at most ``room`` cells; its end says most, so more of that is kept."""
    if cell_len(text) <= room:
        return text
    keep = max(room - len(ellipsis), 2)
    head = chop_cells(text[:keep], max(keep // 3, 1))[0]
    tail = chop_cells(text[: -keep - 1 : -1], max(keep - cell_len(head), 1))[0][::-1]
    return f"{head}{ellipsis}{tail}"


def wrapped(
    page: Page, text: str | Text, style: str = "", *, indent: int = 0, hanging: int = 0
) -> Iterator[Text]:
    """Yield the lines of ``text``, indented, and those after the first by ``hanging`` more."""
    whole = text if isinstance(text, Text) else Text(text, style)
    for number, line in enumerate(whole.wrap(page.console, page.width - indent - hanging)):
        yield _indented(line, indent + (hanging if number else 0))


def led(page: Page, lead: Text, text: Text) -> Iterator[Text]:
    """Yield the lines of ``text`` beside ``lead``, which stands in front of the first."""
    indent = lead.cell_len
    first, *rest = wrapped(page, text, indent=indent)
    yield Text.assemble(lead, first[indent:])
    yield from rest


def _indented(line: Text, indent: int) -> Text:
    indented = Text(" " * indent)
    indented.append_text(line)
    indented.rstrip()
    return indented


def ends(
    page: Page, left: Text, right: Text, *, indent: int = 0, hanging: int = 0
) -> Iterator[Text]:
    """Yield ``left`` with ``right`` at the end of the line, or below where there is no room."""
    gap = page.width - indent - left.cell_len - right.cell_len
    if gap >= 2 or not right.plain:
        line = left.copy()
        if right.plain:
            line.append(" " * gap)
            line.append_text(right)
        yield _indented(line, indent)
        return
    yield from wrapped(page, left, indent=indent, hanging=hanging)
    yield from wrapped(page, right, indent=indent + hanging)


def joined(
    page: Page, parts: Iterable[str], style: str, *, indent: int = 0, hanging: int = 0
) -> Iterator[Text]:
    """Yield parts with dots between them, in lines that break at a dot where they can."""
    dot = f" {page.symbols.dot} "
    line = ""
    for part in filter(None, parts):
        longer = f"{line}{dot}{part}" if line else part
        if line and cell_len(longer) > page.width - indent:
            yield from wrapped(page, line, style, indent=indent, hanging=hanging)
            longer = part
        line = longer
    yield from wrapped(page, line, style, indent=indent, hanging=hanging)


def quoted(page: Page, frame: StackFrame, remark: str, *, indent: int) -> Iterator[Text]:
    """Yield where a line is and what it is, and the line itself."""
    room = page.width - indent
    where = page.path(frame.file, frame.line, room - len("  :"))
    yield from wrapped(page, f"{where}: {remark}", indent=indent, hanging=2)
    code = code_of(frame) if page.quote_source else None
    if code is None:
        return
    bar = f"{page.symbols.bar} "
    shown = shortened_end(page.safe(code), room - len(bar), page.symbols.ellipsis)
    yield _indented(Text.assemble((bar, "dim"), (shown, "bold")), indent)


def shortened_end(text: str, room: int, ellipsis: str) -> str:
    """Return ``text`` cut at its end to at most ``room`` cells."""
    if cell_len(text) <= room:
        return text
    return chop_cells(text[:room], room - len(ellipsis))[0] + ellipsis


def evidence_line(
    page: Page, evidence: tuple[Evidence, ...], *, indent: int, lead: str = ""
) -> Text:
    """Return a dim line that says where in which log a fact stands, behind ``lead``."""
    position = evidence[0].position
    more = f" (+{len(evidence) - 1})" if len(evidence) > 1 else ""
    start = f"{' ' * indent}{lead}log: "
    room = page.width - len(start) - len(more)
    return Text(f"{start}{page.path(position.file, position.line, room)}{more}", "dim")


def print_lines(page: Page, lines: Iterable[Text]) -> None:
    """Print lines as they are: they are wrapped already, and a command must stay whole."""
    for line in lines:
        page.console.print(line, soft_wrap=True)
