"""Says whether a body kept to its terms. Imported when there is something to look at."""

import sys
from dataclasses import dataclass
from datetime import date
from io import StringIO
from pathlib import Path

from rich.console import Console

from recompile_doctor.errors import DoctorError
from recompile_doctor.pytest_plugin.part import Part, examine_part
from recompile_doctor.pytest_plugin.recording import Span
from recompile_doctor.pytest_plugin.terms import Terms
from recompile_doctor.reports.document import Document
from recompile_doctor.reports.run_facts import facts_of
from recompile_doctor.reports.terminal import print_terminal
from recompile_doctor.reports.words import counted
from recompile_doctor.verification.budget import Budget, Counting, Limit, Metric
from recompile_doctor.verification.gate import check_run
from recompile_doctor.verification.violation import Kind

_WIDTH = 80


@dataclass(frozen=True, slots=True)
class Excess:
    """How a body broke its terms: what is wrong, in sentences, and the report of what happened."""

    sentences: tuple[str, ...]
    report: str = ""

    def __str__(self) -> str:
        text = "\n".join(f"recompile budget: {each}" for each in self.sentences)
        return f"{text}\n\n{self.report}" if self.report else text


def judge(span: Span, terms: Terms, trace: Path, *, why_silent: str, base: Path) -> Excess | None:
    """Return how the body broke its terms, or None when it kept to them.

    Paths below ``base`` are shown relative to it.
    """
    failure = _unheard(span, why_silent)
    if span.is_empty:
        sentences = (*failure, *_too_few_graphs(0, terms))
        return Excess(sentences) if sentences else None
    subject = str(trace.relative_to(base)) if trace.is_relative_to(base) else str(trace)
    try:
        part = examine_part(trace, span.first_line, subject)
    except DoctorError as error:
        return Excess((f"the trace of this test cannot be read: {error.message}",))
    sentences = (*failure, *_broken(part.document, terms))
    if not sentences:
        return None
    return Excess(sentences, _report(part, base))


def _unheard(span: Span, why_silent: str) -> tuple[str, ...]:
    """Return why the recording cannot be trusted, if it cannot."""
    if span.failure:
        return (f"not checked, since the trace could not be written: {span.failure}",)
    missing = span.counted - span.recorded
    if missing <= 0:
        return ()
    reason = f" ({why_silent})" if why_silent else ""
    return (
        f"not checked, since torch's trace was silenced{reason}: torch compiled "
        f"{counted(span.counted, 'time')} in here, {missing} of them unseen",
    )


def _broken(document: Document, terms: Terms) -> tuple[str, ...]:
    facts = facts_of(document)
    limits = tuple(
        Limit(metric, sys.maxsize if most is None else most)
        for metric, most in (
            (Metric.RECOMPILES, terms.recompiles),
            (Metric.GRAPH_BREAKS, terms.graph_breaks),
            (Metric.LIMIT_HITS, terms.recompile_limit_hits),
        )
    )
    result = check_run(facts, Budget(limits, count=Counting(terms.count)), today=date.today())
    # That nothing was compiled is for min_graphs to say.
    over = [each.message for each in result.violations if each.kind is not Kind.NOT_PLAUSIBLE]
    return (*over, *_too_few_graphs(facts.totals.graphs_captured, terms))


def _too_few_graphs(graphs: int | None, terms: Terms) -> tuple[str, ...]:
    if (graphs or 0) >= terms.min_graphs:
        return ()
    seen = "an unknown number of graphs" if graphs is None else counted(graphs, "graph")
    torch = "" if "torch" in sys.modules else ", torch was not even imported"
    return (f"{seen} compiled, at least {terms.min_graphs} wanted{torch}",)


def _report(part: Part, base: Path) -> str:
    text = StringIO()
    console = Console(file=text, width=_WIDTH, no_color=True, highlight=False)
    print_terminal(part.document, console, base=base)
    if part.strangers:
        text.write(
            f"\n{counted(part.strangers, 'recompile')} because of graphs that were compiled before "
            "this test;\nwith reset=True it begins with nothing compiled.\n"
        )
    return text.getvalue().rstrip()
