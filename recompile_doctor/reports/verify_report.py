"""What `verify` measured: for a terminal, as Markdown, as JSON (docs/verify.schema.json)."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from recompile_doctor.prescription.marks import Status
from recompile_doctor.prescription.observed import Place
from recompile_doctor.prescription.rendering import Rendering, render
from recompile_doctor.reports import verify_words, words
from recompile_doctor.reports.diff_report import run_json
from recompile_doctor.reports.json_report import valid_text
from recompile_doctor.reports.layout import Page, ends, joined, page_for, print_lines, wrapped
from recompile_doctor.reports.markdown import code, code_block, fitted, html_code, prose, table
from recompile_doctor.reports.prescription_forms import (
    call_lines,
    pasted,
    prescription_json,
    refused_json,
)
from recompile_doctor.verification.lessons import Lesson
from recompile_doctor.verification.pace import Pace
from recompile_doctor.verification.trial_run import Baseline, TrialRun, Verification
from recompile_doctor.verification.verdict import Verdict
from recompile_doctor.version import VERSION

# 1: the first.
FORMAT_VERSION = 1

_INDENT = 3
_DIGITS = 6
_STYLES = {
    Verdict.FIXED: "green",
    Verdict.IMPROVED: "green",
    Verdict.UNCHANGED: "bold",
    Verdict.WORSE: "red",
    Verdict.BROKE: "red",
    Verdict.UNKNOWN: "yellow",
}


# Terminal


def print_verification(
    verification: Verification,
    rendering: Rendering | None,
    console: Console,
    *,
    base: Path | None = None,
    sources: Iterable[str] = (),
) -> None:
    """Print what was measured to ``console``; a line to paste is never wrapped.

    ``rendering`` is the best prescription in all forms, None where there is none, and ``sources``
    are all names of inputs in the run. Paths under ``base`` are shown relative to it.
    """
    page = page_for(console, base, quote_source=True)
    print_lines(page, _lines(verification, rendering, page, tuple(sources)))


def _lines(
    verification: Verification, rendering: Rendering | None, page: Page, sources: tuple[str, ...]
) -> Iterator[Text]:
    style = "bold yellow" if verification.best is None else "bold green"
    yield from wrapped(page, page.safe(verify_words.headline(verification)), style, hanging=2)
    yield Text()
    yield from _table(verification, page)
    if rendering is not None:
        yield from _prescription(verification, rendering, page, sources)
    yield from _trials(verification, page)
    yield from _remaining(verification, page)
    if verification.notes:
        yield Text()
    for note in verification.notes:
        yield from wrapped(page, Text.assemble(("note: ", "bold"), page.safe(note)), hanging=2)
    yield from _origin(verification, page)


def _table(verification: Verification, page: Page) -> Iterator[Text]:
    lines = [("", "before", "after"), *verify_words.rows(verification)]
    if verification.best is None:
        lines = [(name, before, "") for name, before, _ in lines]
    widths = [max(cell_len(line[column]) for line in lines) for column in range(3)]
    for number, (name, *figures) in enumerate(lines):
        text = name.ljust(widths[0]) + "".join(
            f"   {figure:>{width}}" for figure, width in zip(figures, widths[1:], strict=True)
        )
        yield Text(text.rstrip(), "" if number else "bold")
    for each in verify_words.about_rows(verification):
        yield from wrapped(page, page.safe(each), "dim", hanging=2)


def _prescription(
    verification: Verification, rendering: Rendering, page: Page, sources: tuple[str, ...]
) -> Iterator[Text]:
    prescription = rendering.prescription
    yield Text()
    yield Text("What to change", "bold underline")
    title = Text.assemble((page.safe(prescription.id), "bold cyan"), ": ")
    title.append(page.safe(prescription.title))
    yield from wrapped(page, title, hanging=2)
    for risk in prescription.risks:
        text = Text.assemble(("risk: ", "yellow"), page.safe(risk))
        yield from wrapped(page, text, indent=_INDENT, hanging=2)
    for form in verify_words.forms(verification, rendering, sources):
        yield Text()
        yield from wrapped(page, form.title)
        if form.lost:
            lead = "no call reaches: " if form.calls else "not in the variables: "
            text = Text.assemble((lead, "yellow"), page.safe(form.lost))
            yield from wrapped(page, text, indent=_INDENT, hanging=2)
        if form.calls:
            yield from call_lines(page, rendering, _INDENT)
        else:
            yield from pasted(page, form.lines, _INDENT)


def _trials(verification: Verification, page: Page) -> Iterator[Text]:
    if not verification.trials:
        return
    yield Text()
    yield Text("What was tried", "bold underline")
    for trial in verification.trials:
        verdict = verify_words.verdict_words(trial, verification.best)
        name = page.name(trial.prescription.id, page.width - cell_len(verdict) - 8)
        left = Text.assemble((f"{trial.number:<{_INDENT}}", "cyan"), (name, "bold"), ": ")
        left.append(verdict, _STYLES[trial.verdict])
        yield from ends(page, left, Text(""), hanging=_INDENT)
        yield from joined(page, verify_words.trial_figures(trial), "", indent=_INDENT, hanging=2)
        for lead, text in verify_words.remarks(trial):
            line = Text.assemble((f"{lead}: ", "dim"), page.safe(text))
            yield from wrapped(page, line, indent=_INDENT, hanging=2)


def _remaining(verification: Verification, page: Page) -> Iterator[Text]:
    if not verification.remaining:
        return
    yield Text()
    yield Text("What remains", "bold underline")
    for each in verification.remaining:
        yield from wrapped(page, page.safe(verify_words.cause(each, verification)), "bold cyan")
        yield from wrapped(page, page.safe(each.why), indent=_INDENT)
        if each.sentence:
            text = Text.assemble(("torch: ", "dim"), page.safe(f'"{each.sentence}"'))
            yield from wrapped(page, text, indent=_INDENT, hanging=2)


def _origin(verification: Verification, page: Page) -> Iterator[Text]:
    version = page.safe(verify_words.torch_version(verification))
    parts = [f"measured on torch {version}"]
    if verification.trials:
        lead = "each trial is a bundle in "
        folder = str(verification.trials[0].bundle.parent)
        parts.append(lead + page.path(folder, None, page.width - len(lead)))
    yield Text()
    yield from joined(page, parts, "dim", hanging=2)


# Markdown


def verification_markdown(
    verification: Verification, rendering: Rendering | None, *, sources: Iterable[str] = ()
) -> str:
    """Return what was measured as GitHub's Markdown; the arguments are as for the terminal."""
    return fitted(_blocks(verification, rendering, tuple(sources)))


def _blocks(
    verification: Verification, rendering: Rendering | None, sources: tuple[str, ...]
) -> Iterator[str]:
    yield f"### {prose(verify_words.headline(verification))}"
    lines = [(name, *map(prose, figures)) for name, *figures in verify_words.rows(verification)]
    titles = ("", "before", "after")
    if verification.best is None:
        yield table(titles[:2], (line[:2] for line in lines))
    else:
        yield table(titles, lines)
    about = [f"- {prose(each)}" for each in verify_words.about_rows(verification)]
    about += [f"- note: {prose(each)}" for each in verification.notes]
    if about:
        yield "\n".join(about)
    if rendering is not None:
        yield from _prescription_blocks(verification, rendering, sources)
    if verification.remaining:
        yield "**What remains**"
        yield "\n".join(_remaining_items(verification))
    yield from _trial_blocks(verification)
    version = prose(verify_words.torch_version(verification))
    yield f"<sub>measured on torch {version}, from {html_code(verification.subject)}</sub>"


def _prescription_blocks(
    verification: Verification, rendering: Rendering, sources: tuple[str, ...]
) -> Iterator[str]:
    prescription = rendering.prescription
    yield f"**What to change**: {code(prescription.id)}, {prose(prescription.title)}"
    if prescription.risks:
        yield "\n".join(f"- risk: {prose(each)}" for each in prescription.risks)
    for form in verify_words.forms(verification, rendering, sources):
        yield form.title
        if form.lines:
            yield code_block(form.lines, form.language)
        if form.lost:
            lead = "No call reaches" if form.calls else "Not in the variables"
            yield f"{lead}: {prose(form.lost)}"


def _remaining_items(verification: Verification) -> Iterator[str]:
    for each in verification.remaining:
        said = f"; torch: {code(each.sentence)}" if each.sentence else ""
        yield f"- {prose(verify_words.cause(each, verification))}: {prose(each.why)}{said}"


def _trial_blocks(verification: Verification) -> Iterator[str]:
    trials = verification.trials
    if not trials:
        return
    items = []
    for trial in trials:
        verdict = verify_words.verdict_words(trial, verification.best)
        items.append(f"{trial.number}. {code(trial.prescription.id)}: **{verdict}**")
        items.append(f"   - {', '.join(map(prose, verify_words.trial_figures(trial)))}")
        items += [f"   - {lead}: {prose(text)}" for lead, text in verify_words.remarks(trial)]
    summary = f"<summary>What was tried: {words.counted(len(trials), 'trial')}</summary>"
    yield f"<details>{summary}\n\n" + "\n".join(items) + "\n\n</details>"


# JSON


def verification_json(
    verification: Verification, rendering: Rendering | None, *, sources: Iterable[str] = ()
) -> str:
    """Return what was measured as indented JSON; the arguments are as for the terminal."""
    best = verification.best
    known = tuple(sources)
    content = {
        "format_version": FORMAT_VERSION,
        "tool_version": VERSION,
        "subject": verification.subject,
        "command": list(verification.command),
        "target_torch": verify_words.torch_version(verification),
        "target_assumed": verification.baseline.facts.torch_version is None,
        "recompiles": verification.baseline.facts.totals.recompiles,
        "prescriptions": list(_verified_json(verification, rendering)),
        "refused": [
            refused_json(verify_words.shown_by(each, verification.baseline))
            for each in verification.trials
            if not each.is_proof
        ],
        "expected": [
            {"finding": each.id, "graphs": len({ref.key for ref in each.recompiles}) + 1}
            for each in verify_words.expected(verification)
        ],
        "baseline": _baseline_json(verification.baseline),
        "trials": [_trial_json(each, verification, known) for each in verification.trials],
        "best": None if best is None else best.prescription.id,
        "before": run_json(verification.baseline.facts),
        "after": None if best is None else run_json(best.facts),
        "remaining": [
            {
                "finding": each.finding_id,
                "title": each.title,
                "why": each.why,
                "sentence": each.sentence or None,
            }
            for each in verification.remaining
        ],
        "notes": list(verification.notes),
    }
    encoded = msgspec.json.encode(valid_text(content))
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def _verified_json(
    verification: Verification, rendering: Rendering | None
) -> Iterator[dict[str, Any]]:
    if rendering is None or verification.best is None:
        return
    prescription = replace(rendering.prescription, status=Status.VERIFIED)
    shown = verify_words.shown_by(verification.best, verification.baseline)
    yield prescription_json(replace(rendering, prescription=prescription), shown)


def _baseline_json(baseline: Baseline) -> dict[str, Any]:
    return {
        "runs": len(baseline.recompiles),
        "recompiles": list(baseline.recompiles),
        "varies": baseline.varies,
        "pace": _pace_json(baseline.noise),
        "seconds": _seconds_json(baseline.seconds),
        "bundles": [str(each) for each in baseline.bundles],
    }


def _trial_json(
    trial: TrialRun, verification: Verification, sources: tuple[str, ...]
) -> dict[str, Any]:
    counts = trial.facts.totals
    return {
        "number": trial.number,
        "id": trial.prescription.id,
        "prescription": _tried_json(trial, verification, sources),
        "reason": trial.reason,
        "verdict": trial.verdict.value,
        "reasons": list(trial.judgement.reasons),
        "reservations": list(trial.judgement.reservations),
        "recompiles": counts.recompiles,
        "graph_breaks": counts.graph_breaks,
        "graphs_captured": counts.graphs_captured,
        "recompile_limit_hits": counts.recompile_limit_hits,
        "compile_seconds": _seconds_json(counts.compile_seconds),
        "outputs": trial.outputs.sameness.value,
        "outputs_reason": trial.outputs.reason,
        "exit_code": trial.facts.exit_code,
        "seconds": _seconds_json(trial.seconds),
        "pace": _pace_json(trial.pace),
        "ending": _named(trial.ending.name),
        "reused": trial.reused,
        "bundle": str(trial.bundle),
        "lessons": [_lesson_json(each) for each in trial.lessons],
    }


def _tried_json(
    trial: TrialRun, verification: Verification, sources: tuple[str, ...]
) -> dict[str, Any]:
    status = Status.VERIFIED if trial.is_proof else Status.UNVERIFIED
    prescription = replace(trial.prescription, status=status)
    rendering = render(prescription, verify_words.features(verification), sources)
    return prescription_json(rendering, verify_words.shown_by(trial, verification.baseline))


def _pace_json(pace: Pace | None) -> dict[str, Any] | None:
    if pace is None:
        return None
    return {
        "before": _seconds_json(pace.before),
        "after": _seconds_json(pace.after),
        "ratio": round(pace.ratio, _DIGITS),
        "calls": pace.calls,
    }


def _lesson_json(lesson: Lesson) -> dict[str, Any]:
    line = lesson.line
    return {
        "kind": _named(lesson.kind.name),
        "places": [_place_json(each) for each in lesson.places],
        "expression": lesson.expression,
        "sentence": lesson.sentence,
        "file": None if line is None else line.file,
        "line": None if line is None else line.line,
    }


def _place_json(place: Place) -> dict[str, Any]:
    return {"source": place.source, "dim": None if place.is_int else place.dim}


def _seconds_json(seconds: float | None) -> float | None:
    """Return seconds to the microsecond; calls can be shorter than the rounding of other times."""
    return None if seconds is None else round(seconds, _DIGITS)


def _named(name: str) -> str:
    return name.lower().replace("_", "-")
