"""Prescriptions for a terminal, as Markdown and as JSON; docs/suggest.schema.json describes it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from recompile_doctor.diagnosis.finding import Finding
from recompile_doctor.prescription.marks import Advice, Prescription
from recompile_doctor.prescription.rendering import Rendering, frame_words
from recompile_doctor.prescription.verified import Shown
from recompile_doctor.reports import words
from recompile_doctor.reports.document import CallWeight
from recompile_doctor.reports.json_report import valid_text
from recompile_doctor.reports.layout import Page, ends, page_for, print_lines, wrapped
from recompile_doctor.reports.markdown import code, code_block, prose
from recompile_doctor.reports.prescription_forms import (
    call_lines,
    calls_as_code,
    can_be_patched,
    in_code,
    pasted,
    prescription_json,
    refused_json,
    setting_lines,
    shell_lines,
    variables_beside_calls,
)
from recompile_doctor.torch_compat import TorchFeatures
from recompile_doctor.version import VERSION

# 1: the first.
FORMAT_VERSION = 1

_INDENT = 3
_MOST_EXPLAINED = 6


@dataclass(frozen=True, slots=True)
class SuggestDocument:
    """All that is suggested for one run.

    ``target_torch`` is the release that the forms are for; ``target_assumed`` tells that neither
    the log nor the user named it. ``recompiles`` are those that the log holds, ``sources`` all
    names of inputs in it. ``measured`` is what reruns have shown of the prescriptions, by id;
    ``refused`` are those that are left out because they measured no better, or broke the program;
    ``patches`` are the runs of their patches.
    ``weights`` are by the ids of findings.
    """

    subject: str
    target_torch: str
    target_assumed: bool
    features: TorchFeatures
    sources: tuple[str, ...]
    recompiles: int
    limit_hits: int
    renderings: tuple[Rendering, ...]
    findings: tuple[Finding, ...]
    expected: tuple[Finding, ...]
    measured: Mapping[str, Shown] = field(default_factory=dict)
    refused: tuple[Shown, ...] = ()
    patches: Mapping[str, Shown] = field(default_factory=dict)
    weights: Mapping[str, CallWeight] = field(default_factory=dict)

    @property
    def advice(self) -> tuple[Advice, ...]:
        """Return all advice, each once, in order."""
        found = [each for one in self.renderings for each in one.prescription.advice]
        return tuple(dict.fromkeys(found))

    @property
    def nothing_to_do(self) -> bool:
        """Return whether neither marks nor flags nor a rewrite are suggested."""
        return not self.renderings


def headline(document: SuggestDocument) -> str:
    """Return the one sentence that says what is suggested."""
    if document.nothing_to_do and not document.refused:
        if not document.recompiles:
            return "Nothing to do: nothing recompiled."
        return (
            "Nothing to do: "
            + words.counted(document.recompiles, "recompile")
            + ", each expected or a one-off."
        )
    count = sum(1 for each in document.renderings if _changes(each.prescription))
    recompiles = words.counted(document.recompiles, "recompile")
    if not count and document.refused:
        return f"{recompiles}; reruns refused what could be suggested without changing the program."
    if not count:
        return f"{recompiles}; no mark or flag helps: the program itself is to be changed."
    first = "the verified first" if document.measured else "the most plausible first"
    return f"{recompiles}; {words.counted(count, 'prescription')}, {first}."


def _changes(prescription: Prescription) -> bool:
    return bool(prescription.marks or prescription.flags)


def estimate(document: SuggestDocument, prescription: Prescription) -> str:
    """Return what is left as a rerun measured it, or what is expected, marked as an estimate."""
    shown = document.measured.get(prescription.id)
    if shown is not None:
        outputs = {"same": "outputs the same"}.get(shown.outputs, f"outputs {shown.outputs}")
        return f"recompiles {shown.before} -> {shown.after}, measured, verified, {outputs}"
    after = prescription.estimated_recompiles_after
    left = "?" if after is None else str(after)
    return f"recompiles {document.recompiles} -> {left}, estimated, {prescription.status.value}"


def pasted_lines(document: SuggestDocument, rendering: Rendering) -> list[str]:
    """Return the lines to paste: those of the marks that no call expresses, or of all.

    A prescription with groups or bounds is meant to be written as calls, so that only the rest
    of it is set as variables.
    """
    variables: Mapping[str, str] = rendering.environment.variables
    if in_code(rendering):
        variables = variables_beside_calls(rendering, document.features, document.sources)
    return shell_lines(variables)


def print_suggestions(
    document: SuggestDocument, console: Console, *, base: Path | None = None
) -> None:
    """Print the prescriptions to ``console``; a line to paste is never wrapped."""
    page = page_for(console, base, quote_source=True)
    print_lines(page, _lines(document, page))


def _lines(document: SuggestDocument, page: Page) -> Iterator[Text]:
    yield from wrapped(page, headline(document), "bold green" if document.nothing_to_do else "bold")
    if document.target_assumed:
        yield from wrapped(
            page,
            f"The log does not say which torch it comes from; written for {document.target_torch}. "
            "Give another with --target-torch.",
            "yellow",
        )
    number = 0
    risks: dict[str, int] = {}
    for rendering in document.renderings:
        if _changes(rendering.prescription):
            number += 1
            yield from _prescription(document, rendering, number, page)
            yield from _risks(rendering.prescription, number, risks, page)
    yield from _advice(document, page)
    yield from _refused(document, page)
    yield from _expected(document, page)
    yield from _next(document, page)


def _prescription(
    document: SuggestDocument, rendering: Rendering, number: int, page: Page
) -> Iterator[Text]:
    prescription = rendering.prescription
    yield Text()
    title = Text.assemble(
        (f"{number}. ", "cyan"), (f"{prescription.id}", "bold cyan"), (f": {prescription.title}")
    )
    yield from ends(page, title, Text(estimate(document, prescription), "dim"), hanging=_INDENT)
    yield from _explains(document, prescription, page)
    yield from pasted(page, pasted_lines(document, rendering), _INDENT)
    if in_code(rendering):
        yield from call_lines(page, rendering, _INDENT)
    elif rendering.environment_loses:
        loses = page.safe("; ".join(rendering.environment_loses))
        text = Text.assemble(("the variables do not say: ", "dim"), loses)
        yield from wrapped(page, text, indent=_INDENT, hanging=2)
    yield from pasted(page, setting_lines(rendering), _INDENT)


def _risks(
    prescription: Prescription, number: int, shown: dict[str, int], page: Page
) -> Iterator[Text]:
    """Yield each risk in full where it comes first, and a word about it later."""
    earlier = {shown[each] for each in prescription.risks if each in shown}
    if earlier:
        numbers = ", ".join(map(str, sorted(earlier)))
        yield Text.assemble(" " * _INDENT, ("risk: ", "yellow"), f"as for {numbers}")
    for risk in prescription.risks:
        if risk not in shown:
            shown[risk] = number
            text = Text.assemble(("risk: ", "yellow"), page.safe(risk))
            yield from wrapped(page, text, indent=_INDENT, hanging=2)


def _explains(document: SuggestDocument, prescription: Prescription, page: Page) -> Iterator[Text]:
    explained = [each for each in document.findings if each.id in prescription.explains]
    named: dict[str, str] = {}
    for each in explained:
        place = words.place(each) or each.title
        weight = document.weights.get(each.id)
        named[place] = words.weight_text(weight) if weight else named.get(place, "")
    shown = [
        page.safe(f"{place} ({weight})" if weight else place)
        for place, weight in list(named.items())[:_MOST_EXPLAINED]
    ]
    if len(named) > len(shown):
        shown.append(f"{len(named) - len(shown)} more")
    if shown:
        text = Text.assemble(("for: ", "dim"), ", ".join(shown))
        yield from wrapped(page, text, indent=_INDENT, hanging=2)


def _advice(document: SuggestDocument, page: Page) -> Iterator[Text]:
    if not document.advice:
        return
    yield Text()
    yield Text("To rewrite", "bold underline")
    for first, others in _by_kind(document):
        yield Text()
        yield from wrapped(page, Text.assemble((first.rule, "bold cyan")))
        yield from wrapped(page, page.safe(first.text), indent=_INDENT)
        if others:
            yield from wrapped(
                page, page.safe(f"The same for {', '.join(others)}."), indent=_INDENT
            )
        for line in first.example.rstrip("\n").split("\n") if first.example else ():
            yield Text(" " * (2 * _INDENT) + page.safe(line), "dim")


def _by_kind(document: SuggestDocument) -> list[tuple[Advice, list[str]]]:
    """Return the advice of each kind once, with the places of the findings that share it."""
    places = {each.id: words.place(each) for each in document.findings}
    groups: dict[tuple[str, str], list[Advice]] = {}
    for each in document.advice:
        groups.setdefault((each.rule, each.example), []).append(each)
    made = []
    for first, *others in groups.values():
        named = dict.fromkeys(places.get(each.finding, "") for each in others)
        made.append((first, [each for each in named if each]))
    return made


def _expected(document: SuggestDocument, page: Page) -> Iterator[Text]:
    if not document.expected:
        return
    yield Text()
    yield Text("Expected, nothing to change", "bold underline")
    for finding in document.expected:
        yield from wrapped(page, page.safe(expected_text(finding)), indent=_INDENT, hanging=2)


def expected_text(finding: Finding) -> str:
    """Return how many graphs a program with such variants has."""
    where = words.place(finding)
    subject = f"{finding.title} ({where})" if where else finding.title
    graphs = len({ref.key for ref in finding.recompiles}) + 1
    return f"expected: {graphs} graphs of {frame_words(finding.frame)}: {subject}"


def _refused(document: SuggestDocument, page: Page) -> Iterator[Text]:
    if not document.refused:
        return
    yield Text()
    yield Text("Left out, since a rerun spoke against it", "bold underline")
    for each in document.refused:
        text = page.safe(refused_text(each))
        yield from wrapped(page, text, indent=_INDENT, hanging=2)


def refused_text(shown: Shown) -> str:
    """Return why a prescription is not suggested any more."""
    why = f": {shown.why}" if shown.why else ""
    return f"{shown.prescription.id}: {shown.verdict}{why}"


def _next(document: SuggestDocument, page: Page) -> Iterator[Text]:
    chosen = next((each for each in document.renderings if _changes(each.prescription)), None)
    if chosen is None:
        return
    first = chosen.prescription
    patch = document.patches.get(first.id)
    yield Text()
    if patch is not None and not patch.proof:
        text = page.safe(
            f"Its patch was refused ({patch.verdict}: {patch.why}). As it was measured:"
        )
        yield from wrapped(page, text, "bold")
    elif document.measured and can_be_patched(chosen):
        yield Text("Write it into the program, or set it for one run:", "bold")
        yield Text(f"  recompile-doctor suggest --id {first.id} --format patch | git apply", "bold")
        if patch is None and not in_code(chosen):
            yield Text("(the variables were measured; `verify --patch` measures the patch)", "dim")
    elif document.measured:
        yield Text("Set it for one run:", "bold")
    else:
        yield Text("Nothing of this is verified. Let reruns find what works:", "bold")
        yield Text("  recompile-doctor verify", "bold")
        yield Text("Or try it yourself, without touching the program:", "bold")
    yield Text(
        f"  recompile-doctor suggest --id {first.id} --format yaml --output prescription.yaml",
        "bold",
    )
    yield Text("  recompile-doctor run --prescription prescription.yaml PROGRAM", "bold")


# Markdown


def suggestions_markdown(document: SuggestDocument) -> str:
    """Return the prescriptions as GitHub's Markdown."""
    return "\n\n".join(_blocks(document)) + "\n"


def _blocks(document: SuggestDocument) -> Iterator[str]:
    yield f"**{prose(headline(document))}**"
    if document.target_assumed:
        yield prose(f"The log does not name its torch; written for {document.target_torch}.")
    for rendering in document.renderings:
        if _changes(rendering.prescription):
            yield from _markdown_prescription(document, rendering)
    for first, others in _by_kind(document):
        same = f" The same for {', '.join(map(code, others))}." if others else ""
        yield f"**Rewrite** ({code(first.rule)}): {prose(first.text)}{same}"
        if first.example:
            yield code_block(first.example.rstrip("\n").split("\n"), "python")
    if document.refused:
        yield "\n".join(f"- left out, {prose(refused_text(each))}" for each in document.refused)
    if document.expected:
        yield "\n".join(f"- {prose(expected_text(each))}" for each in document.expected)


def _markdown_prescription(document: SuggestDocument, rendering: Rendering) -> Iterator[str]:
    prescription = rendering.prescription
    yield f"### {code(prescription.id)}: {prose(prescription.title)}"
    yield prose(estimate(document, prescription))
    lines = pasted_lines(document, rendering)
    if lines:
        yield code_block(lines, "sh")
    if rendering.calls and in_code(rendering):
        yield code_block(calls_as_code(rendering), "python")
    settings = setting_lines(rendering)
    if settings:
        yield code_block(settings, "python")
    notes = [f"- risk: {prose(each)}" for each in prescription.risks]
    if rendering.environment_loses and not in_code(rendering):
        lost = prose("; ".join(rendering.environment_loses))
        notes.insert(0, f"- the variables do not say: {lost}")
    if notes:
        yield "\n".join(notes)


# JSON


def suggestions_json(document: SuggestDocument) -> str:
    """Return the prescriptions as indented JSON."""
    content = {
        "format_version": FORMAT_VERSION,
        "tool_version": VERSION,
        "target_torch": document.target_torch,
        "target_assumed": document.target_assumed,
        "recompiles": document.recompiles,
        "prescriptions": [
            prescription_json(each, document.measured.get(each.prescription.id))
            for each in document.renderings
        ],
        "refused": [refused_json(each) for each in document.refused],
        "expected": [
            {"finding": each.id, "graphs": len({ref.key for ref in each.recompiles}) + 1}
            for each in document.expected
        ],
    }
    encoded = msgspec.json.encode(valid_text(content))
    return msgspec.json.format(encoded, indent=2).decode() + "\n"
