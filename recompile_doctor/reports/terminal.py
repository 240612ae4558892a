"""The report for a terminal: what an engineer reads first, in ten seconds."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from recompile_doctor.diagnosis.finding import Finding, Severity
from recompile_doctor.reports import words
from recompile_doctor.reports.document import Document, FrameSummary, NoticeKind
from recompile_doctor.reports.layout import (
    Page,
    ends,
    evidence_line,
    joined,
    led,
    page_for,
    print_lines,
    quoted,
    shortened_end,
    wrapped,
)

_MOST_FUNCTIONS = 12
_MOST_EAGER = 3
_MOST_HINTS = 2
_LONGEST_HINT = 200
_LONGEST_TEXT = 1000
_MOST_EXAMPLES = 3
_INDENT = 3
_SHORT_INDENT = len("expected ")
_SEVERITY_STYLES = {
    Severity.HIGH: "bold red",
    Severity.MEDIUM: "yellow",
    Severity.LOW: "cyan",
    Severity.INFO: "dim",
}


def print_terminal(
    document: Document,
    console: Console,
    *,
    base: Path | None = None,
    quote_source: bool = True,
) -> None:
    """Print the report to ``console``, which decides on width, colour and encoding.

    Paths under ``base`` are shown relative to it. ``quote_source=False`` leaves out the lines of
    the user's program.
    """
    page = page_for(console, base, quote_source)
    print_lines(page, _report(document, page))


def _report(document: Document, page: Page) -> Iterator[Text]:
    yield from _notices(document, page)
    if words.all_well(document):
        yield from wrapped(page, words.headline(document), "bold green")
    else:
        yield from _headline(document, page)
        yield from _findings(document, page)
        yield from _functions(document, page)
    yield from _unread(document, page)
    if not words.all_well(document):
        yield from _origin(document, page)
    yield from _next(document, page)


def _notices(document: Document, page: Page) -> Iterator[Text]:
    notices = words.ranked_notices(document)
    for notice in notices:
        style = "bold yellow" if notice.kind is NoticeKind.WARNING else "bold"
        text = Text.assemble(
            (f"{notice.kind.value}: ", style),
            page.safe(notice.text),
            (f" [{page.safe(notice.slug)}]", "dim"),
        )
        yield from wrapped(page, text, hanging=2)
    if notices:
        yield Text()


def _headline(document: Document, page: Page) -> Iterator[Text]:
    bad = document.summary.recompile_limit_hits or words.nothing_compiled(document)
    yield from wrapped(page, words.headline(document), "bold red" if bad else "bold")
    if words.nothing_compiled(document):
        return
    yield from joined(page, words.totals(document), "dim")


def _findings(document: Document, page: Page) -> Iterator[Text]:
    groups = words.sections(document)
    printer = _FindingPrinter(document, page, groups)
    yield from _eager(document, page)
    for finding in groups.limits:
        yield from printer.block(finding)
    for finding in groups.causes:
        yield from printer.block(finding)
    for title, breaks in (
        ("Graph breaks on data", groups.data_breaks),
        ("Other graph breaks" if groups.data_breaks else "Graph breaks", groups.other_breaks),
    ):
        if breaks:
            yield from _heading(title)
        for number, finding in enumerate(breaks):
            yield from printer.block(finding)[0 if number else 1 :]
    if groups.quiet:
        yield from _heading("Once, or expected: nothing to do")
        for finding in groups.quiet:
            yield from printer.short(finding)


def _heading(title: str) -> Iterator[Text]:
    yield Text()
    yield Text(title, "bold underline")


def _eager(document: Document, page: Page) -> Iterator[Text]:
    eager = [frame for frame in document.frames if words.runs_eagerly(frame)]
    if not eager:
        return
    yield Text()
    for frame in eager[:_MOST_EAGER]:
        end = " runs eagerly: 0 graphs captured"
        name = page.name(str(frame.frame), page.width - len(end))
        yield Text.assemble((name, "bold"), (end, "bold red"))
    if len(eager) > _MOST_EAGER:
        more = words.counted(len(eager) - _MOST_EAGER, "more function")
        yield Text(f"{page.symbols.ellipsis} and {more} with 0 graphs", "bold red")


class _FindingPrinter:
    """Makes the lines of one finding after the other; numbers them, and says nothing twice."""

    def __init__(self, document: Document, page: Page, groups: words.Sections) -> None:
        self._document = document
        self._page = page
        self._groups = groups
        self._number = 0
        self._reasons: dict[str, int] = {}

    def block(self, finding: Finding) -> list[Text]:
        """Return a finding in full, after an empty line."""
        self._number += 1
        return [Text(), *self._title(finding), *self._body(finding)]

    def short(self, finding: Finding) -> Iterator[Text]:
        """Yield a finding that asks for nothing, in one or two lines."""
        page, document = self._page, self._document
        what = self._subject(finding)
        if finding.source is None:
            what = Text.assemble(page.safe(finding.title), ": " if what.plain else "", what)
        word = finding.disposition.value
        yield from led(page, Text(f"{word:<{_SHORT_INDENT}}", "green"), what)
        facts = (
            finding.rule,
            self._frame(finding),
            words.recompile_names(finding, document) if finding.recompiles else "",
            words.break_counts(finding) if finding.graph_breaks else "",
            words.cost(finding, document),
            words.call_weight(finding, document),
        )
        yield from joined(page, facts, "dim", indent=_SHORT_INDENT, hanging=2)

    def _title(self, finding: Finding) -> Iterator[Text]:
        style = _SEVERITY_STYLES[finding.severity]
        title = self._page.safe(words.title(finding))
        left = Text.assemble((f"{self._number}. ", style), (title, "bold"))
        facts = [finding.severity.value, words.cost(finding, self._document)]
        if finding.graph_breaks:
            facts.append(words.break_counts(finding))
        right = Text(f" {self._page.symbols.dot} ".join(each for each in facts if each), style)
        yield from ends(self._page, left, right, hanging=_INDENT)

    def _body(self, finding: Finding) -> Iterator[Text]:
        subject = self._subject(finding)
        if subject.plain:
            yield from self._line(subject)
        weight = words.call_weight(finding, self._document)
        if weight:
            yield from self._line(weight)
        yield from self._where(finding)
        if not words.says_it_all(finding):
            yield from self._line(self._page.safe(words.shortened(finding.message, _LONGEST_TEXT)))
        for location in (each for each in (finding.location, *finding.related) if each):
            remark = location.role.value
            yield from quoted(self._page, location.frame, remark, indent=_INDENT)
        yield from self._why(finding)
        yield from self._together(finding)
        for hint in finding.hints[:_MOST_HINTS]:
            text = self._page.safe(
                words.shortened(hint, _LONGEST_HINT, self._page.symbols.ellipsis)
            )
            yield from self._line(Text.assemble(("torch's hint: ", "dim"), text))
        rule = f"{finding.rule} {self._page.symbols.dot} "
        yield evidence_line(self._page, finding.evidence, indent=_INDENT, lead=rule)

    def _line(self, text: str | Text, style: str = "") -> Iterator[Text]:
        return wrapped(self._page, text, style, indent=_INDENT, hanging=2)

    def _subject(self, finding: Finding) -> Text:
        page = self._page
        subject = Text.assemble((page.safe(words.place(finding)), "bold cyan"))
        if finding.values:
            arrow, ellipsis = page.symbols.arrow, page.symbols.ellipsis
            safe = tuple(page.safe(each) for each in finding.values)
            values = words.values_seen(safe, arrow, ellipsis)
            subject.append(f": {values}" if subject.plain else values)
        return subject

    def _frame(self, finding: Finding) -> str:
        return self._page.name(str(finding.frame), self._page.width - 2 * _SHORT_INDENT)

    def _where(self, finding: Finding) -> Iterator[Text]:
        text = Text.assemble("in ", (self._frame(finding), "bold"))
        if finding.recompiles:
            text.append(f", {words.recompile_names(finding, self._document)}")
        yield from self._line(text)

    def _why(self, finding: Finding) -> Iterator[Text]:
        if not finding.why:
            return
        earlier = self._reasons.setdefault(finding.why, self._number)
        shown = f"as for {earlier}" if earlier != self._number else self._page.safe(finding.why)
        yield from self._line(Text.assemble(("why: ", "dim"), shown))

    def _together(self, finding: Finding) -> Iterator[Text]:
        folded = self._groups.folded.get(finding.id, [])
        if not folded:
            return
        names = ", ".join(self._page.safe(each) for each in words.places_together(folded))
        text = Text.assemble(
            ("also changes: ", "dim"),
            (names, "cyan"),
            (" (inferred from the sizes of the same calls)", "dim"),
        )
        yield from self._line(text)


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    cell: Callable[[FrameSummary], str]


_COLUMNS = (
    _Column("recompiles", lambda frame: words.number_text(frame.recompiles)),
    _Column("graphs", lambda frame: words.number_text(frame.graphs_captured)),
    _Column("breaks", lambda frame: words.number_text(frame.graph_breaks)),
    _Column("   time", lambda frame: words.time_text(frame.compile_seconds)),
)


def _functions(document: Document, page: Page) -> Iterator[Text]:
    frames = words.cut_frames(document, _MOST_FUNCTIONS)
    if not frames:
        return
    room = page.width - sum(len(column.title) + 2 for column in _COLUMNS)
    names = [page.name(str(frame.frame), room) for frame in frames]
    room = min(room, max(30, *(cell_len(name) for name in names)))
    yield Text()
    titles = "".join(f"  {column.title}" for column in _COLUMNS)
    yield Text.assemble(("Functions", "bold underline"), (" " * (room - 9) + titles, "dim"))
    for frame, name in zip(frames, names, strict=True):
        yield from _function(frame, name, room)
    more = len(document.frames) - len(frames)
    if more:
        yield Text(f"{page.symbols.ellipsis} and {words.counted(more, 'more function')}", "dim")


def _function(frame: FrameSummary, name: str, room: int) -> Iterator[Text]:
    cells = "".join(f"  {column.cell(frame):>{len(column.title)}}" for column in _COLUMNS)
    eager = words.runs_eagerly(frame)
    yield Text(name + " " * (room - cell_len(name)) + cells, "red" if eager else "")
    if eager:
        yield Text("  0 graphs: this function runs eagerly", "bold red")


def _unread(document: Document, page: Page) -> Iterator[Text]:
    unread = document.unread
    if not unread.records:
        return
    yield Text()
    yield from wrapped(page, words.unread_text(unread), "yellow", hanging=2)
    for example in unread.examples[:_MOST_EXAMPLES]:
        where = page.path(example.position.file, example.position.line, page.width - 5)
        yield from wrapped(page, f"{where}: {page.safe(example.why)}", indent=2, hanging=2)
        text = shortened_end(page.safe(example.text), page.width - 4, page.symbols.ellipsis)
        yield Text(f"    {text}", "dim")


def _origin(document: Document, page: Page) -> Iterator[Text]:
    torch = (
        "torch version unknown"
        if document.torch_version is None
        else f"torch {document.torch_version}"
    )
    subject = page.name(document.subject, page.width - len("read from "))
    yield Text()
    yield from joined(page, (f"read from {subject}", page.safe(torch)), "dim")
    if document.pages is not None:
        yield Text(f"tlparse's pages: {page.path(document.pages, None, page.width - 17)}", "dim")


def _next(document: Document, page: Page) -> Iterator[Text]:
    commands = [
        (page.safe(each.command), page.safe(each.purpose)) for each in document.next_commands
    ]
    if not commands:
        return
    yield Text()
    yield Text("Next", "bold underline")
    longest = max(cell_len(command) for command, _ in commands)
    beside = longest + 4 + max(cell_len(purpose) for _, purpose in commands) <= page.width
    for command, purpose in commands:
        # A command is never wrapped: it is there to be copied.
        line = Text(f"  {command}", "bold")
        if beside:
            line.append(" " * (longest - cell_len(command) + 2))
            line.append(purpose, "not bold dim")
        yield line
        if not beside:
            yield from wrapped(page, purpose, "dim", indent=6)
