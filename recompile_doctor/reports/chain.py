"""The whole chain behind one recompile: from the recompile back to the user's call."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from recompile_doctor.diagnosis.finding import Evidence
from recompile_doctor.events.vocabulary import StackFrame
from recompile_doctor.reports.layout import (
    Page,
    evidence_line,
    led,
    page_for,
    print_lines,
    quoted,
    wrapped,
)

_LONGEST_LABEL = 16


@dataclass(frozen=True, slots=True)
class ChainStep:
    """One step back: ``label`` names its kind ("guard", "symbol"), ``text`` says what was found.

    ``location`` is a line of the user's program and ``note`` says what it has to do with the
    step ("first use of the value"); without a location the note stands alone.
    """

    label: str
    text: str
    location: StackFrame | None = None
    evidence: Evidence | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class ListedEntry:
    """A cached entry that torch tried, and why it did not serve, in torch's words.

    ``decisive`` marks the entry that was closest to serving: its guards are the cause.
    """

    compile_id: str
    reason: str
    decisive: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """Why one recompile happened: each step is the reason for the step before it."""

    title: str
    steps: tuple[ChainStep, ...]
    entries: tuple[ListedEntry, ...] = ()


def print_chain(
    chain: Chain, console: Console, *, base: Path | None = None, quote_source: bool = True
) -> None:
    """Print the chain to ``console``; the options are those of ``print_terminal``."""
    page = page_for(console, base, quote_source)
    print_lines(page, _lines(chain, page))


def _lines(chain: Chain, page: Page) -> Iterator[Text]:
    yield from wrapped(page, page.safe(chain.title), "bold")
    yield Text()
    back = f"{page.symbols.back} "
    labels = [page.name(step.label, _LONGEST_LABEL) for step in chain.steps]
    longest = max(map(cell_len, labels), default=0)
    for number, (step, label) in enumerate(zip(chain.steps, labels, strict=True)):
        arrow = back if number else " " * len(back)
        lead = Text(arrow + label + " " * (longest - cell_len(label) + 1), "cyan")
        yield from _step(step, lead, page)
    yield from _entries(chain, page)


def _step(step: ChainStep, lead: Text, page: Page) -> Iterator[Text]:
    indent = lead.cell_len
    yield from led(page, lead, Text(page.safe(step.text), "bold"))
    note = page.safe(step.note)
    if step.location is not None:
        yield from quoted(page, step.location, note, indent=indent)
    elif note:
        yield from wrapped(page, note, indent=indent, hanging=2)
    if step.evidence is not None:
        yield evidence_line(page, (step.evidence,), indent=indent)


def _entries(chain: Chain, page: Page) -> Iterator[Text]:
    if not chain.entries:
        return
    yield Text()
    yield Text("All entries that torch tried, in its words", "bold underline")
    for entry in chain.entries:
        mark = ">" if entry.decisive else " "
        lead = Text(f"{mark} {page.name(entry.compile_id, _LONGEST_LABEL)}  ", "cyan")
        first, *rest = entry.reason.splitlines() or [""]
        yield from led(page, lead, Text(page.safe(first)))
        for more in rest:
            yield from wrapped(page, page.safe(more), indent=lead.cell_len, hanging=2)
    if any(entry.decisive for entry in chain.entries):
        text = "> is the entry that was closest to serving: its guards are the cause"
        yield from wrapped(page, text, "dim", hanging=2)
