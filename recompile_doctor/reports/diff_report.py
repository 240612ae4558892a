"""The report on what differs between two runs: terminal, JSON and markdown."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from recompile_doctor.diagnosis.finding import Finding
from recompile_doctor.reports import words
from recompile_doctor.reports.json_report import valid_text
from recompile_doctor.reports.layout import Page, joined, page_for, print_lines, wrapped
from recompile_doctor.reports.markdown import code, html_code, prose, table
from recompile_doctor.verification.diff import Change, Difference, FindingDiff, FrameDiff
from recompile_doctor.verification.facts import Counts, FrameFacts, RunFacts, limit_hits
from recompile_doctor.verification.verdict import Judgement, Verdict

# 1: the first.
FORMAT_VERSION = 1

_ARROW = "->"  # the first line is there to be found by grep, in each encoding
_MOST_FUNCTIONS = 20
_MOST_FINDINGS = 40
_DIGITS = 6
_VERDICT_STYLES = {
    Verdict.FIXED: "bold green",
    Verdict.IMPROVED: "bold green",
    Verdict.UNCHANGED: "bold",
    Verdict.WORSE: "bold red",
    Verdict.BROKE: "bold red",
    Verdict.UNKNOWN: "bold yellow",
}
_CHANGE_STYLES = {
    Change.FIXED: "green",
    Change.IMPROVED: "green",
    Change.UNCHANGED: "dim",
    Change.WORSE: "red",
    Change.NEW: "red",
    Change.GONE: "yellow",
}
_ORDER = (
    Change.WORSE,
    Change.NEW,
    Change.GONE,
    Change.FIXED,
    Change.IMPROVED,
    Change.UNCHANGED,
)


def headline(difference: Difference) -> str:
    """Return the one sentence that says what changed: recompiles and compile time, and what else.

    >>> headline(...)
    'recompiles 6 -> 0, compile time 97.0 s -> 23.0 s'
    """
    old, new = difference.before.totals, difference.after.totals
    parts = [
        f"recompiles {_change(old.recompiles, new.recompiles)}",
        f"compile time {_times(old.compile_seconds, new.compile_seconds)}",
    ]
    if difference.times_differ_because is not None:
        parts[1] += " (not comparable)"
    if old.graph_breaks or new.graph_breaks:
        parts.append(f"graph breaks {_change(old.graph_breaks, new.graph_breaks)}")
    if old.recompile_limit_hits or new.recompile_limit_hits:
        hits = _change(old.recompile_limit_hits, new.recompile_limit_hits)
        parts.append(f"recompile-limit hits {hits}")
    if new.runs_eagerly and not old.runs_eagerly:
        parts.append(f"graphs captured {_change(old.graphs_captured, new.graphs_captured)}")
    return ", ".join(parts)


def _change(old: int | None, new: int | None) -> str:
    texts = ["unknown" if each is None else str(each) for each in (old, new)]
    return f" {_ARROW} ".join(texts)


def _times(old: float | None, new: float | None) -> str:
    return f"{words.time_text(old)} {_ARROW} {words.time_text(new)}"


def _notes(difference: Difference) -> Iterator[str]:
    if difference.times_differ_because is not None:
        yield f"compile times do not compare: {difference.times_differ_because}"
    yield from difference.notes


def _ranked_frames(difference: Difference) -> list[FrameDiff]:
    changed = [each for each in difference.frames if each.change is not Change.UNCHANGED]
    return sorted(changed, key=lambda each: _ORDER.index(each.change))


def _ranked_findings(difference: Difference) -> list[FindingDiff]:
    changed = [each for each in difference.findings if each.change is not Change.UNCHANGED]
    return sorted(changed, key=lambda each: _ORDER.index(each.change))


def _cells(diff: FrameDiff) -> tuple[str, ...]:
    """Return recompiles, graphs, breaks and time of a function, before and after."""
    old = _figures(diff.before)
    new = _figures(diff.after)
    return tuple(
        first if first == second else f"{first} {_ARROW} {second}"
        for first, second in zip(old, new, strict=True)
    )


def _figures(facts: FrameFacts | None) -> tuple[str, str, str, str]:
    if facts is None:
        return ("-", "-", "-", "-")
    counts = facts.counts
    return (
        str(counts.recompiles),
        words.number_text(counts.graphs_captured),
        str(counts.graph_breaks),
        words.time_text(counts.compile_seconds),
    )


def _weight(diff: FindingDiff) -> str:
    """Return what a cause explains, before and after."""
    old, new = diff.before, diff.after
    parts = []
    for noun, first, second in (
        ("recompiles", len(old.recompiles) if old else 0, len(new.recompiles) if new else 0),
        ("graph breaks", old.graph_breaks if old else 0, new.graph_breaks if new else 0),
        ("limit hits", limit_hits(old) if old else 0, limit_hits(new) if new else 0),
    ):
        if first or second:
            parts.append(f"{noun} {first} {_ARROW} {second}")
    return ", ".join(parts)


def print_diff(
    difference: Difference, judgement: Judgement, console: Console, *, base: Path | None = None
) -> None:
    """Print the report to ``console``; paths under ``base`` are shown relative to it."""
    page = page_for(console, base, quote_source=False)
    print_lines(page, _report(difference, judgement, page))


def _report(difference: Difference, judgement: Judgement, page: Page) -> Iterator[Text]:
    yield from wrapped(page, headline(difference), "bold")
    verdict = judgement.verdict
    reasons = "; ".join(page.safe(each) for each in judgement.reasons)
    text = Text.assemble((verdict.value, _VERDICT_STYLES[verdict]), f": {reasons}")
    yield from wrapped(page, text, hanging=2)
    for each in judgement.reservations:
        yield from wrapped(page, f"although {page.safe(each)}", "yellow", indent=2, hanging=2)
    for note in _notes(difference):
        yield from wrapped(page, Text.assemble(("note: ", "bold"), page.safe(note)), hanging=2)
    yield from _functions(difference, page)
    yield from _findings(difference, page)
    yield from _origins(difference, page)


_TITLES = ("recompiles", "graphs", "breaks", "compile time")


def _functions(difference: Difference, page: Page) -> Iterator[Text]:
    frames = _ranked_frames(difference)
    if not difference.frames:
        return
    yield Text()
    yield Text("Functions", "bold underline")
    for diff in frames[:_MOST_FUNCTIONS]:
        yield from _function(diff, page)
    yield from _more(page, len(frames) - _MOST_FUNCTIONS, "more function", "")
    yield from _more(page, len(difference.frames) - len(frames), "function", " unchanged")


def _function(diff: FrameDiff, page: Page) -> Iterator[Text]:
    name = page.name(str(diff.frame), page.width - _WORD)
    word = Text(f"{diff.change.value:<{_WORD}}", _CHANGE_STYLES[diff.change])
    yield Text.assemble(word, (name, "bold"))
    facts = [f"{title} {cell}" for title, cell in zip(_TITLES, _cells(diff), strict=True)]
    yield from joined(page, facts, "", indent=_WORD, hanging=2)


_WORD = len("unchanged ")


def _findings(difference: Difference, page: Page) -> Iterator[Text]:
    findings = _ranked_findings(difference)
    if not difference.findings:
        return
    yield Text()
    yield Text("Causes", "bold underline")
    for diff in findings[:_MOST_FINDINGS]:
        yield from _finding(diff, page)
    yield from _more(page, len(findings) - _MOST_FINDINGS, "more cause", "")
    yield from _more(page, len(difference.findings) - len(findings), "cause", " unchanged")


def _finding(diff: FindingDiff, page: Page) -> Iterator[Text]:
    finding = diff.finding
    subject = page.safe(words.place(finding) or words.title(finding))
    word = Text(f"{diff.change.value:<{_WORD}}", _CHANGE_STYLES[diff.change])
    for number, line in enumerate(wrapped(page, subject, "bold cyan", indent=_WORD)):
        yield line if number else Text.assemble(word, line[_WORD:])
    facts = (
        page.safe(words.title(finding)) if words.place(finding) else "",
        page.name(str(finding.frame), page.width - _WORD),
        _weight(diff),
        "" if diff.after is None else _disposition(diff.after),
    )
    yield from joined(page, facts, "", indent=_WORD, hanging=2)


def _disposition(finding: Finding) -> str:
    value = finding.disposition.value
    return "" if value == "fixable" else value


def _more(page: Page, number: int, noun: str, end: str) -> Iterator[Text]:
    if number > 0:
        yield Text(f"{page.symbols.ellipsis} {words.counted(number, noun)}{end}", "dim")


def _origins(difference: Difference, page: Page) -> Iterator[Text]:
    yield Text()
    for name, facts in (("before", difference.before), ("after", difference.after)):
        parts = [f"{name}: {page.name(facts.subject, page.width - 10)}"]
        parts.append(f"torch {page.safe(facts.torch_version or 'version unknown')}")
        if facts.exit_code is not None:
            parts.append(f"exit code {facts.exit_code}")
        yield from joined(page, parts, "dim", hanging=2)


def diff_markdown(difference: Difference, judgement: Judgement) -> str:
    """Return the report in GitHub's Markdown."""
    return "\n\n".join(_blocks(difference, judgement)) + "\n"


def _blocks(difference: Difference, judgement: Judgement) -> Iterator[str]:
    yield f"### {prose(headline(difference))}"
    yield f"**{judgement.verdict.value}**: {'; '.join(prose(each) for each in judgement.reasons)}"
    remarks = [f"- although {prose(each)}" for each in judgement.reservations]
    remarks += [f"- note: {prose(each)}" for each in _notes(difference)]
    if remarks:
        yield "\n".join(remarks)
    frames = _ranked_frames(difference)
    if frames:
        rows = (
            (each.change.value, code(str(each.frame)), *_cells(each))
            for each in frames[:_MOST_FUNCTIONS]
        )
        titles = ("", "Function", "Recompiles", "Graphs", "Graph breaks", "Compile time")
        yield table(titles, rows)
    findings = _ranked_findings(difference)
    if findings:
        yield table(("", "Cause", "Where", "Explains"), map(_row, findings[:_MOST_FINDINGS]))
    same = (len(difference.frames) - len(frames), len(difference.findings) - len(findings))
    yield (
        f"<sub>{words.counted(same[0], 'function')} and {words.counted(same[1], 'cause')} "
        f"unchanged; before: {html_code(difference.before.subject)}, "
        f"after: {html_code(difference.after.subject)}</sub>"
    )


def _row(diff: FindingDiff) -> tuple[str, ...]:
    finding = diff.finding
    place = words.place(finding)
    cause = f"{prose(words.title(finding))}{'<br>' + code(place) if place else ''}"
    return (diff.change.value, cause, code(str(finding.frame)), prose(_weight(diff)))


def diff_json(difference: Difference, judgement: Judgement) -> str:
    """Return the report as indented JSON; unknown is null."""
    report = {
        "format_version": FORMAT_VERSION,
        "verdict": judgement.verdict.value,
        "reasons": list(judgement.reasons),
        "reservations": list(judgement.reservations),
        "times_comparable": difference.times_differ_because is None,
        "notes": list(_notes(difference)),
        "before": run_json(difference.before),
        "after": run_json(difference.after),
        "frames": [_frame(each) for each in difference.frames],
        "findings": [_finding_json(each) for each in difference.findings],
    }
    return msgspec.json.format(msgspec.json.encode(valid_text(report)), indent=2).decode() + "\n"


def run_json(facts: RunFacts) -> dict[str, Any]:
    """Return one run as JSON has it."""
    return {
        "subject": facts.subject,
        "source": facts.source,
        "torch_version": facts.torch_version,
        "ranks": facts.ranks,
        "caches": facts.caches,
        "exit_code": facts.exit_code,
        "doubts": [kind.value for kind, _ in facts.doubts],
        **counts_json(facts.totals),
    }


def counts_json(counts: Counts) -> dict[str, Any]:
    """Return counts under the names that the report of a run has for them."""
    seconds = counts.compile_seconds
    return {
        "compilations": counts.compilations,
        "recompiles": counts.recompiles,
        "graphs_captured": counts.graphs_captured,
        "graph_breaks": counts.graph_breaks,
        "recompile_limit_hits": counts.recompile_limit_hits,
        "compile_seconds": None if seconds is None else round(seconds, _DIGITS),
    }


def _frame(diff: FrameDiff) -> dict[str, Any]:
    return {
        "function": diff.frame.function,
        "file": diff.frame.file,
        "line": diff.frame.line,
        "change": diff.change.value,
        "before": None if diff.before is None else counts_json(diff.before.counts),
        "after": None if diff.after is None else counts_json(diff.after.counts),
    }


def _finding_json(diff: FindingDiff) -> dict[str, Any]:
    finding = diff.finding
    frame = finding.frame
    return {
        "id": finding.id,
        "rule": finding.rule,
        "title": finding.title,
        "frame": {"function": frame.function, "file": frame.file, "line": frame.line},
        "source": finding.source,
        "dim": finding.dim,
        "change": diff.change.value,
        "before": None if diff.before is None else _explained(diff.before),
        "after": None if diff.after is None else _explained(diff.after),
    }


def _explained(finding: Finding) -> dict[str, Any]:
    return {
        "disposition": finding.disposition.value,
        "recompiles": len(finding.recompiles),
        "graph_breaks": finding.graph_breaks,
        "recompile_limit_hits": limit_hits(finding),
        "seconds": None if finding.seconds is None else round(finding.seconds, _DIGITS),
    }
