"""The report for a pull request or an issue, in GitHub's Markdown.

Nothing that a log says can become a link, a mention, an image or a tag: code and names stand in
code, where GitHub changes nothing, and prose is escaped.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from recompile_doctor.diagnosis.finding import Finding
from recompile_doctor.reports import words
from recompile_doctor.reports.document import Document, FrameSummary
from recompile_doctor.reports.source_lines import code_of

# GitHub refuses a comment of more than 65,536 characters.
_LONGEST_REPORT = 60_000
_MOST_FINDINGS = 20
_MOST_FUNCTIONS = 20
_MOST_EVIDENCE = 3
_MOST_EXAMPLES = 3
_LONGEST = 400
_ARROW = "→"
_ELLIPSIS = "…"

_ODD_IN_CODE = re.compile(r"[`|\\]")
# What means something in Markdown or HTML; and what makes a link of a bare address.
_SPECIAL = re.compile(
    r"[&*<>\[\]\\`|~$@#]|:(?=//)|(?<=www)\.|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", re.IGNORECASE
)
# GitHub looks for mentions and issue numbers after it has resolved the entities.
_UNLINKED = re.compile(r"(&#64;|&#35;)")
_EMPTY = "&#8203;"


def render_markdown(
    document: Document, *, base: Path | None = None, quote_source: bool = True
) -> str:
    """Return the report; the options are those of ``print_terminal``."""
    return fitted(_Markdown(document, base, quote_source).blocks())


def fitted(blocks: Iterable[str]) -> str:
    """Return blocks with empty lines between them, as many as one comment takes."""
    kept: list[str] = []
    room = _LONGEST_REPORT
    for block in blocks:
        room -= len(block)
        if room < 0:
            kept.append("**The report is cut here: GitHub takes no longer one.**")
            break
        kept.append(block)
    return "\n\n".join(kept) + "\n"


def code(text: str) -> str:
    """Return text from a log as code, for a paragraph or a table."""
    shown = _shown(text)
    if not shown or _ODD_IN_CODE.search(shown):
        return html_code(text)
    return f"`{shown}`"


def html_code(text: str) -> str:
    """Return text from a log as code, also for places where Markdown is not read."""
    return f"<code>{_entities(_shown(text))}</code>"


def prose(text: str) -> str:
    """Return a sentence, which may hold text from a log, so that all of it is only text."""
    return _UNLINKED.sub(rf"\1{_EMPTY}", _entities(_shown(text)))


def _shown(text: str) -> str:
    return words.shortened(words.visible(text).strip(), _LONGEST, _ELLIPSIS)


def _entities(text: str) -> str:
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", text)


def table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table of cells that are markdown already."""
    head = list(titles)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code_block(lines: Iterable[str], language: str) -> str:
    """Return lines as a block of code that nothing in them can end, or make a line more of."""
    text = "\n".join(map(words.visible, lines))
    longest = max((len(each) for each in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


class _Markdown:
    """Makes the blocks of one report."""

    def __init__(self, document: Document, base: Path | None, quote_source: bool) -> None:
        self._document = document
        self._base = base
        self._quote_source = quote_source
        self._groups = words.sections(document)
        self._numbered = list(enumerate(self._groups.loud, start=1))

    def blocks(self) -> Iterator[str]:
        """Yield the blocks, between which empty lines are to stand."""
        document = self._document
        yield f"### recompile-doctor: {prose(words.headline(document))}"
        for notice in words.ranked_notices(document):
            yield f"> **{notice.kind.value.capitalize()}:** {prose(notice.text)}"
        if not words.all_well(document) and not words.nothing_compiled(document):
            yield " · ".join(prose(each) for each in words.totals(document))
        for frame in filter(words.runs_eagerly, document.frames[:_MOST_FUNCTIONS]):
            yield f"**{code(str(frame.frame))} runs eagerly: 0 graphs captured.**"
        yield from self._findings()
        yield from self._quiet()
        yield from self._functions()
        yield from self._unread()
        torch = document.torch_version
        version = "version unknown" if torch is None else prose(torch)
        yield f"<sub>read from {html_code(document.subject)}, torch {version}</sub>"

    def _findings(self) -> Iterator[str]:
        shown = self._numbered[:_MOST_FINDINGS]
        if not shown:
            return
        titles = ("#", "Finding", "Function", "Explains", "Cost")
        yield table(titles, (self._row(number, each) for number, each in shown))
        for number, finding in shown:
            yield self._details(number, finding)
        more = len(self._numbered) - len(shown)
        if more:
            yield f"{_ELLIPSIS} and {words.counted(more, 'more finding')}"

    def _row(self, number: int, finding: Finding) -> tuple[str, ...]:
        explains = words.recompile_names(finding, self._document) if finding.recompiles else ""
        if finding.graph_breaks:
            explains = "; ".join(filter(None, (explains, words.break_counts(finding))))
        cost = words.cost(finding, self._document)
        return (
            str(number),
            f"{prose(words.title(finding))}<br>{self._subject(finding)}".removesuffix("<br>"),
            code(str(finding.frame)),
            prose(explains),
            prose(", ".join(filter(None, (finding.severity.value, cost)))),
        )

    def _subject(self, finding: Finding) -> str:
        place = words.place(finding)
        values = words.values_seen(finding.values, _ARROW, _ELLIPSIS)
        return ": ".join(filter(None, (code(place) if place else "", prose(values))))

    def _details(self, number: int, finding: Finding) -> str:
        place = words.place(finding)
        about = f": {html_code(place)}" if place else ""
        lines = [f"**What happened:** {prose(finding.message)}"]
        weight = words.call_weight(finding, self._document)
        if weight:
            lines.append(f"**Calls:** {prose(weight)}")
        if finding.why:
            lines.append(f"**Why torch guarded:** {prose(finding.why)}")
        together = words.places_together(self._groups.folded.get(finding.id, []))
        if together:
            names = ", ".join(code(each) for each in together)
            lines.append(f"**Also changes:** {names} (inferred from the sizes of the same calls)")
        lines += self._locations(finding)
        lines += [f"**torch's hint:** {prose(hint)}" for hint in finding.hints]
        for each in finding.evidence[:_MOST_EVIDENCE]:
            where = words.file_and_line(each.position.file, each.position.line, self._base)
            lines.append(f"**Log:** {code(where)}: {code(each.text)}")
        summary = f"<summary>{number}. {_entities(_shown(words.title(finding)))}{about}</summary>"
        items = "\n".join(f"- {line}" for line in lines)
        return f"<details>{summary}\n\n{items}\n\n</details>"

    def _locations(self, finding: Finding) -> Iterator[str]:
        for location in filter(None, (finding.location, *finding.related)):
            frame = location.frame
            where = words.file_and_line(frame.file, frame.line, self._base)
            line = code_of(frame) if self._quote_source else None
            quoted = f": {code(line)}" if line else ""
            yield f"{code(where)}{quoted} ({location.role.value})"

    def _quiet(self) -> Iterator[str]:
        if not self._groups.quiet:
            return
        yield "**Once, or expected: nothing to do**"
        yield "\n".join(f"- {self._short(finding)}" for finding in self._groups.quiet)

    def _short(self, finding: Finding) -> str:
        facts = (
            finding.disposition.value,
            prose(finding.title),
            self._subject(finding),
            code(str(finding.frame)),
            words.recompile_names(finding, self._document) if finding.recompiles else "",
            words.cost(finding, self._document),
            words.call_weight(finding, self._document),
        )
        return " · ".join(filter(None, facts))

    def _functions(self) -> Iterator[str]:
        frames = words.cut_frames(self._document, _MOST_FUNCTIONS)
        if not frames or words.all_well(self._document):
            return
        titles = ("Function", "Recompiles", "Graphs", "Graph breaks", "Compile time")
        yield table(titles, (self._function(frame) for frame in frames))
        more = len(self._document.frames) - len(frames)
        if more:
            yield f"{_ELLIPSIS} and {words.counted(more, 'more function')}"

    def _function(self, frame: FrameSummary) -> tuple[str, ...]:
        graphs = words.number_text(frame.graphs_captured)
        return (
            code(str(frame.frame)),
            str(frame.recompiles),
            f"**{graphs}: runs eagerly**" if words.runs_eagerly(frame) else graphs,
            str(frame.graph_breaks),
            words.time_text(frame.compile_seconds),
        )

    def _unread(self) -> Iterator[str]:
        unread = self._document.unread
        if not unread.records:
            return
        yield f"**{words.unread_text(unread)}**"
        examples = unread.examples[:_MOST_EXAMPLES]
        yield "\n".join(
            f"- {code(words.file_and_line(each.position.file, each.position.line, self._base))}: "
            f"{prose(each.why)}: {code(each.text)}"
            for each in examples
        )
