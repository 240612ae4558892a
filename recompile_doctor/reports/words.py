"""Words and figures that the formats for people share: what is said, not how it is laid out."""

from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from recompile_doctor.diagnosis.finding import Disposition, Finding, RecompileRef
from recompile_doctor.reports.document import (
    CallWeight,
    Document,
    FrameSummary,
    Notice,
    NoticeKind,
    SourceKind,
    UnreadSummary,
)

_LONGEST_TITLE = 120
LIMIT_RULE = "recompile-limit-hit"
_DATA_RULES = "data-dependent-"
_PLAIN_RULES = ("zero-one-specialization", "unmarked-dynamic-dim")
_ALL_VALUES = 9
_FIRST_VALUES = 6
_LAST_VALUES = 2
_LONGEST_VALUE = 40
_MOST_RECOMPILES = 12


def visible(text: str, *, ascii_only: bool = False) -> str:
    r"""Return text from a log so that it shows as one line and does nothing else.

    Control characters, line ends, ANSI escapes, marks that turn the writing direction, and lone
    surrogates become ``\x1b``, ``\u202e`` and so on; a tab becomes a space. Each text that a log
    or a file name can influence goes through here.
    """
    text = text.replace("\t", " ")
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each if each.isprintable() and (each.isascii() or not ascii_only) else _escaped(each)
        for each in text
    )


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def shortened(text: str, longest: int, ellipsis: str = "…") -> str:
    """Return ``text`` cut at its end to ``longest`` characters."""
    return text if len(text) <= longest else text[: longest - len(ellipsis)].rstrip() + ellipsis


def counted(number: int, noun: str) -> str:
    """Return ``1 recompile`` or ``2 recompiles``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def seconds_text(seconds: float) -> str:
    """Return seconds with about two figures that count."""
    if seconds == 0:
        return "0 s"
    if seconds < 0.01:
        return "under 0.01 s"
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < 100:
        return f"{seconds:.1f} s"
    if seconds < 1000:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"


def cost(finding: Finding, document: Document) -> str:
    """Return what a finding cost, or that it is unknown; empty where time is not its measure."""
    if finding.seconds is None and finding.recompiles and not finding.leading:
        return "" if finding.together_with else "counted with the causes"
    if finding.seconds is None:
        return unknown_time(document) if finding.recompiles and not finding.together_with else ""
    total = document.summary.compile_seconds
    if not total:
        return seconds_text(finding.seconds)
    return f"{seconds_text(finding.seconds)}, {finding.seconds / total:.0%} of compiling"


def unknown_time(document: Document) -> str:
    """Return that a time is unknown, and why where the kind of log tells."""
    return "time unknown (text log)" if document.source is SourceKind.TEXT else "time unknown"


def number_text(number: int | None) -> str:
    """Return a count, or a question mark where it is unknown."""
    return "?" if number is None else str(number)


def time_text(seconds: float | None) -> str:
    """Return seconds, or that they are unknown."""
    return "unknown" if seconds is None else seconds_text(seconds)


def unread_text(unread: UnreadSummary) -> str:
    """Return how much of the log is left out of the report because it was not understood."""
    records = counted(unread.records, "record")
    return f"Not understood: {records} of the log ({unread.size:,} bytes), left out of this report"


def file_and_line(file: str, line: int | None, base: Path | None) -> str:
    """Return ``file:line``, relative to ``base`` where the file lies there."""
    path = file
    if base is not None and file.startswith(f"{base}/"):
        path = file[len(str(base)) + 1 :]
    return path if line is None else f"{path}:{line}"


def title(finding: Finding) -> str:
    """Return a finding's title, not longer than a line or two."""
    return shortened(finding.title, _LONGEST_TITLE)


def place(finding: Finding) -> str:
    """Return the source and dimension of a finding, e.g. ``L['x'] dim 0``."""
    if finding.source is None:
        return ""
    if finding.rule == "stride-change":
        return f"stride {finding.dim} of {finding.source}"
    return finding.source if finding.dim is None else f"{finding.source} dim {finding.dim}"


def values_seen(values: tuple[str, ...], arrow: str, ellipsis: str) -> str:
    """Return the values in order, with repeats counted; of many the first and the last."""
    runs = [(value, len(list(same))) for value, same in groupby(values)]
    texts = [
        shortened(value, _LONGEST_VALUE, ellipsis) + (f" x{times}" if times > 1 else "")
        for value, times in runs
    ]
    if len(texts) <= _ALL_VALUES:
        return f" {arrow} ".join(texts)
    kept = [*texts[:_FIRST_VALUES], ellipsis, *texts[-_LAST_VALUES:]]
    return f" {arrow} ".join(kept) + f" ({len(values)} values, {len(set(values))} distinct)"


def places_together(findings: list[Finding]) -> tuple[str, ...]:
    """Return the sources of findings, each once with its dimensions: ``L['mask'] dims 2, 3``."""
    dims: dict[str, list[int]] = {}
    for finding in findings:
        of_source = dims.setdefault(finding.source or finding.title, [])
        if finding.dim is not None and finding.dim not in of_source:
            of_source.append(finding.dim)
    return tuple(
        source + (f" dim{'s'[: len(each) - 1]} {', '.join(map(str, each))}" if each else "")
        for source, each in dims.items()
    )


def recompile_name(ref: RecompileRef, document: Document) -> str:
    """Return a recompile's name within the report, which ``explain`` takes.

    That is the compile id, after ``rank1:`` where there are several ranks, or else ``pid123:``
    where there are several processes, and after ``reset1:`` once Dynamo was reset.
    """
    parts = []
    if document.summary.ranks > 1 and ref.rank is not None:
        parts.append(f"rank{ref.rank}")
    elif document.summary.processes > 1:
        parts.append(f"pid{ref.key.process}")
    if ref.key.epoch > 0:
        parts.append(f"reset{ref.key.epoch}")
    return ":".join([*parts, str(ref.key)])


def recompile_names(finding: Finding, document: Document) -> str:
    """Return ``recompile 0/3`` or ``2 recompiles: 0/3, 0/6``; long lists are cut."""
    names = [recompile_name(ref, document) for ref in finding.recompiles]
    if len(names) == 1:
        return f"recompile {names[0]}"
    more = len(names) - _MOST_RECOMPILES
    tail = f" and {more} more" if more > 0 else ""
    return f"{counted(len(names), 'recompile')}: {', '.join(names[:_MOST_RECOMPILES])}{tail}"


def break_counts(finding: Finding) -> str:
    """Return at how many places the graph broke, and how often."""
    places = counted(finding.graph_breaks, "place")
    return f"{places}, {counted(finding.break_times, 'time')}" if finding.break_times else places


def call_weight(finding: Finding, document: Document) -> str:
    """Return ``1 of 412 observed calls has size 1``, or nothing where the calls are not known."""
    weight = document.weights.get(finding.id)
    return "" if weight is None else weight_text(weight)


def weight_text(weight: CallWeight) -> str:
    """Return how many of the calls that the probe saw had the special size."""
    verb = "has" if weight.calls_with_value == 1 else "have"
    calls = counted(weight.calls, "observed call")
    return f"{weight.calls_with_value} of {calls} {verb} size {weight.value}"


def runs_eagerly(frame: FrameSummary) -> bool:
    """Return whether a function is known to have no compiled graph at all."""
    return frame.graphs_captured == 0


def cut_frames(document: Document, most: int) -> list[FrameSummary]:
    """Return at most ``most`` functions, in order; those that run eagerly are not cut off."""
    frames = document.frames
    ranked = sorted(range(len(frames)), key=lambda index: not runs_eagerly(frames[index]))
    return [frames[index] for index in sorted(ranked[:most])]


def ranked_notices(document: Document) -> list[Notice]:
    """Return the notices, warnings first."""
    return sorted(document.notices, key=lambda each: each.kind is not NoticeKind.WARNING)


def nothing_compiled(document: Document) -> bool:
    """Return whether the logs tell of no compilation, nor of an attempt."""
    summary = document.summary
    return not (
        summary.compilations
        or summary.recompiles
        or summary.graph_breaks
        or summary.recompile_limit_hits
        or document.findings
    )


def says_it_all(finding: Finding) -> bool:
    """Return whether title and values say what the message says."""
    return bool(finding.values) and finding.rule in _PLAIN_RULES


def all_well(document: Document) -> bool:
    """Return whether something compiled and nothing at all is to be said about it."""
    summary = document.summary
    return not (
        nothing_compiled(document)
        or document.findings
        or summary.recompiles
        or summary.graph_breaks
        or summary.recompile_limit_hits
        or summary.retries
        or summary.graphs_captured == 0
        or any(runs_eagerly(frame) for frame in document.frames)
    )


def headline(document: Document) -> str:
    """Return the one sentence that says how the run went and what it cost."""
    if nothing_compiled(document):
        return "Nothing was compiled."
    if all_well(document):
        return _well(document)
    summary = document.summary
    parts = [_recompiles(document)]
    if summary.recompile_limit_hits:
        parts.append(counted(summary.recompile_limit_hits, "recompile-limit hit"))
    if summary.graph_breaks:
        parts.append(counted(summary.graph_breaks, "graph break"))
    if summary.graphs_captured == 0:
        parts.append("no graph was captured")
    return "; ".join(parts)


def _recompiles(document: Document) -> str:
    summary = document.summary
    if not summary.recompiles:
        return "No recompiles"
    functions = sum(1 for frame in document.frames if frame.recompiles)
    where = f" in {counted(functions, 'function')}" if functions else ""
    text = f"{counted(summary.recompiles, 'recompile')}{where}"
    if summary.recompile_seconds is None:
        return f"{text}, {unknown_time(document)}"
    text += f" cost {seconds_text(summary.recompile_seconds)}"
    if summary.compile_seconds is not None:
        text += f" of {seconds_text(summary.compile_seconds)} compiling"
    summed = f", summed over {summary.ranks} ranks" if summary.ranks > 1 else ""
    return f"{text} (measured{summed})"


def _well(document: Document) -> str:
    summary = document.summary
    functions = counted(summary.frames, "function")
    text = f"No recompiles, no graph breaks: {functions} compiled"
    if summary.graphs_captured is None:
        text += ", number of graphs unknown"
    else:
        text += f" into {counted(summary.graphs_captured, 'graph')}"
    if summary.compile_seconds is not None:
        text += f" in {seconds_text(summary.compile_seconds)}"
    return f"{text}."


def totals(document: Document) -> tuple[str, ...]:
    """Return the counts that stand under the headline."""
    summary = document.summary
    graphs = summary.graphs_captured
    breaks = counted(summary.graph_breaks, "graph break")
    if summary.graph_break_times > summary.graph_breaks:
        breaks += f" (logged {summary.graph_break_times} times)"
    parts = [
        counted(summary.compilations, "compilation"),
        "graphs captured: unknown" if graphs is None else f"{counted(graphs, 'graph')} captured",
        breaks,
    ]
    if summary.recompile_limit_hits:
        parts.append(counted(summary.recompile_limit_hits, "recompile-limit hit"))
    if summary.retries:
        parts.append(f"{summary.retries} tried again after an error")
    if summary.ranks > 1:
        parts.append(counted(summary.ranks, "rank"))
    if summary.run_seconds is not None:
        parts.append(f"the run took {seconds_text(summary.run_seconds)}")
    if summary.logging_seconds is not None:
        parts.append(f"torch's logging {seconds_text(summary.logging_seconds)}")
    return tuple(parts)


@dataclass(frozen=True, slots=True)
class Sections:
    """The findings in the groups in which they are read; those folded under others by their id."""

    limits: list[Finding] = field(default_factory=list)
    causes: list[Finding] = field(default_factory=list)
    quiet: list[Finding] = field(default_factory=list)
    data_breaks: list[Finding] = field(default_factory=list)
    other_breaks: list[Finding] = field(default_factory=list)
    folded: dict[str, list[Finding]] = field(default_factory=dict)

    @property
    def loud(self) -> list[Finding]:
        """Return the findings that ask for something, in the order in which they are numbered."""
        return [*self.limits, *self.causes, *self.data_breaks, *self.other_breaks]


def sections(document: Document) -> Sections:
    """Return the findings in groups, each in the document's order."""
    groups = Sections()
    own_place = {each.id for each in document.findings if each.together_with is None}
    for finding in document.findings:
        if finding.together_with in own_place:
            groups.folded.setdefault(str(finding.together_with), []).append(finding)
        else:
            _group(finding, groups).append(finding)
    return groups


def _group(finding: Finding, groups: Sections) -> list[Finding]:
    if finding.rule == LIMIT_RULE:
        return groups.limits
    if finding.disposition is not Disposition.FIXABLE:
        return groups.quiet
    if finding.recompiles or not finding.graph_breaks:
        return groups.causes
    return groups.data_breaks if finding.rule.startswith(_DATA_RULES) else groups.other_breaks
