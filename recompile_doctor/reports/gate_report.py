"""The gate's report: for a terminal, as JSON, and as a comment on a pull request."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from recompile_doctor.config import Place
from recompile_doctor.diagnosis.finding import Finding
from recompile_doctor.reports import words
from recompile_doctor.reports.diff_report import counts_json
from recompile_doctor.reports.json_report import valid_text
from recompile_doctor.reports.layout import Page, joined, page_for, print_lines, wrapped
from recompile_doctor.reports.markdown import code, html_code, prose, table
from recompile_doctor.verification.budget import Allowance
from recompile_doctor.verification.facts import recompile_name
from recompile_doctor.verification.gate import GateResult
from recompile_doctor.verification.violation import Check, Violation

# 1: the first.
FORMAT_VERSION = 1
# A bot finds its comment by this line, to change it instead of writing a second one.
MARKER = "<!-- recompile-doctor: check -->"

_MOST_FINDINGS = 10
_MOST_NAMES = 6
_STATE = len("failed ")


def headline(result: GateResult) -> str:
    """Return the one sentence that says whether the gate holds, and if not, why not."""
    violations = result.violations
    if violations:
        more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
        return f"The gate failed: {violations[0].message}{more}"
    counts = result.facts.totals
    recompiles = words.counted(counts.recompiles, "recompile")
    apart = f", {result.apart} of them set apart" if result.apart else ""
    breaks = words.counted(counts.graph_breaks, "graph break")
    return f"The gate holds: {recompiles}{apart}, {breaks}."


def location(finding: Finding) -> Place | None:
    """Return the line of the user's program to point at: the finding's own, or the function."""
    if finding.location is not None and not _is_made_up(finding.location.frame.file):
        return Place(Path(finding.location.frame.file), finding.location.frame.line)
    frame = finding.frame
    if frame.file is None or _is_made_up(frame.file):
        return None
    return Place(Path(frame.file), frame.line or 1)


def _is_made_up(file: str) -> bool:
    """Return whether a file is none on disk: ``<string>``, ``<eval_with_key>.1``."""
    return file.startswith("<")


def subject(finding: Finding) -> str:
    """Return what a finding is about: its source, or in words what is wrong."""
    place = words.place(finding)
    title = words.title(finding)
    return f"{place}: {title}" if place else title


def about(finding: Finding, result: GateResult) -> str:
    """Return what a finding explains, in a few words."""
    number = len(finding.recompiles)
    if number:
        names = [recompile_name(each, result.facts) for each in finding.recompiles[:_MOST_NAMES]]
        more = number - len(names)
        tail = f" and {more} more" if more else ""
        noun = "recompile" if number == 1 else f"{number} recompiles:"
        return f"{noun} {', '.join(names)}{tail}"
    return words.break_counts(finding) if finding.graph_breaks else ""


def print_gate(result: GateResult, console: Console, *, base: Path | None = None) -> None:
    """Print the report to ``console``; paths under ``base`` are shown relative to it."""
    page = page_for(console, base, quote_source=False)
    print_lines(page, _report(result, page))


def _report(result: GateResult, page: Page) -> Iterator[Text]:
    style = "bold green" if result.passed else "bold red"
    yield from wrapped(page, page.safe(headline(result)), style, hanging=2)
    for warning in result.warnings:
        text = Text.assemble(("warning: ", "bold yellow"), page.safe(warning))
        yield from wrapped(page, text, hanging=2)
    yield Text()
    for check in result.checks:
        yield from _check(check, result, page)
    yield from _allowed(result, page)
    if result.apart:
        recompiles = words.counted(result.apart, "recompile")
        verb = "does" if result.apart == 1 else "do"
        apart = f"{recompiles} {verb} not count: expected, one-off or allowed"
        yield from wrapped(page, apart, "dim")
    yield from joined(page, (f"read from {page.name(result.facts.subject, 60)}",), "dim")
    yield from _how_to_allow(result, page)


def _check(check: Check, result: GateResult, page: Page) -> Iterator[Text]:
    word, style = ("failed ", "bold red") if check.violations else ("ok     ", "green")
    text = Text.assemble((word, style), page.safe(check.name), f": {page.safe(check.detail)}")
    yield from wrapped(page, text, hanging=_STATE)
    for violation in check.violations:
        yield from wrapped(page, page.safe(violation.message), indent=_STATE, hanging=2)
        for finding in violation.findings[:_MOST_FINDINGS]:
            yield from _finding(finding, result, page)
        more = len(violation.findings) - _MOST_FINDINGS
        if more > 0:
            rest = words.counted(more, "more finding")
            yield Text(f"{' ' * _STATE}{page.symbols.ellipsis} and {rest}", "dim")


def _finding(finding: Finding, result: GateResult, page: Page) -> Iterator[Text]:
    indent = _STATE + 2
    yield from wrapped(page, page.safe(subject(finding)), "cyan", indent=indent, hanging=2)
    place = location(finding)
    facts = (
        page.name(str(finding.frame), page.width - indent - 2),
        page.safe(about(finding, result)),
        "" if place is None else page.path(str(place.file), place.line, page.width - indent - 2),
    )
    yield from joined(page, facts, "dim", indent=indent + 2, hanging=2)


def _allowed(result: GateResult, page: Page) -> Iterator[Text]:
    for finding, allowance in result.allowed:
        text = f"allowed: {page.safe(finding.id)}: {page.safe(allowance.reason)}{_until(allowance)}"
        yield from wrapped(page, text, "dim", hanging=2)


def _until(allowance: Allowance) -> str:
    return "" if allowance.until is None else f" (until {allowance.until})"


def _how_to_allow(result: GateResult, page: Page) -> Iterator[Text]:
    blamed = [each for violation in result.violations for each in violation.findings]
    if not blamed:
        return
    yield Text()
    yield from wrapped(page, "To accept a finding, allow it in the budget, with a reason:", "dim")
    # Not wrapped: it is there to be copied.
    quoted = page.safe(blamed[0].id).replace("'", "''")
    yield Text(f"  allow: [{{id: '{quoted}', reason: ...}}]", "dim")


def gate_markdown(result: GateResult, *, base: Path | None = None) -> str:
    """Return a short comment in GitHub's Markdown; its first line is always the same."""
    return "\n\n".join(_blocks(result, base)) + "\n"


def _blocks(result: GateResult, base: Path | None) -> Iterator[str]:
    yield MARKER
    yield f"### recompile-doctor: {prose(headline(result))}"
    rows = (_row(each) for each in result.checks)
    yield table(("", "Check", "Result"), rows)
    for violation in result.violations:
        yield _violation(violation, result, base)
    if result.warnings:
        yield "\n".join(f"- **Warning:** {prose(each)}" for each in result.warnings)
    if result.allowed:
        yield "\n".join(
            f"- allowed: {code(finding.id)}: {prose(allowance.reason)}{_until(allowance)}"
            for finding, allowance in result.allowed
        )
    apart = f"{words.counted(result.apart, 'recompile')} set apart; " if result.apart else ""
    yield f"<sub>{apart}read from {html_code(result.facts.subject)}</sub>"


def _row(check: Check) -> tuple[str, str, str]:
    return ("❌" if check.violations else "✅", prose(check.name), prose(check.detail))


def _violation(violation: Violation, result: GateResult, base: Path | None) -> str:
    lines = [f"**{prose(violation.message)}**"]
    findings = violation.findings[:_MOST_FINDINGS]
    if findings:
        lines.append("")
    for finding in findings:
        place = location(finding)
        where = "" if place is None else words.file_and_line(str(place.file), place.line, base)
        facts = (code(str(finding.frame)), about(finding, result), code(where) if where else "")
        lines.append(f"- {prose(subject(finding))} · {' · '.join(filter(None, facts))}")
    return "\n".join(lines)


def gate_json(result: GateResult) -> str:
    """Return the report as indented JSON; unknown is null."""
    report = {
        "format_version": FORMAT_VERSION,
        "passed": result.passed,
        "subject": result.facts.subject,
        "torch_version": result.facts.torch_version,
        "summary": {**counts_json(result.facts.totals), "recompiles_set_apart": result.apart},
        "checks": [
            {"name": each.name, "detail": each.detail, "passed": not each.violations}
            for each in result.checks
        ],
        "violations": [_violation_json(each) for each in result.violations],
        "warnings": list(result.warnings),
        "allowed": [
            {
                "finding": finding.id,
                "reason": allowance.reason,
                "until": None if allowance.until is None else allowance.until.isoformat(),
            }
            for finding, allowance in result.allowed
        ],
    }
    return msgspec.json.format(msgspec.json.encode(valid_text(report)), indent=2).decode() + "\n"


def _violation_json(violation: Violation) -> dict[str, Any]:
    place = violation.place
    return {
        "kind": violation.kind.value,
        "message": violation.message,
        "findings": [each.id for each in violation.findings],
        "budget": None if place is None else {"file": str(place.file), "line": place.line},
    }
