"""Computes the figures of a report from a diagnosis; formats only lay them out."""

import shlex
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from recompile_doctor.capture.calls import CalledFunction
from recompile_doctor.diagnosis.diagnose import Diagnosis
from recompile_doctor.diagnosis.finding import Disposition
from recompile_doctor.events.vocabulary import ParseIssue
from recompile_doctor.model.run import Compilation, Run
from recompile_doctor.reports.call_weights import call_weights
from recompile_doctor.reports.document import (
    Document,
    Entry,
    FrameSummary,
    NextCommand,
    Notice,
    NoticeKind,
    SourceKind,
    Summary,
    UnreadExample,
    UnreadSummary,
)
from recompile_doctor.reports.words import recompile_name
from recompile_doctor.version import VERSION

STANDARD_INPUT = "standard input"
_LONGEST_EXAMPLE = 200
_FrameName = tuple[str | None, str | None, int | None]


@dataclass(frozen=True, slots=True)
class Context:
    """What a report knows beside the logs: the bundle's manifest, and what was noticed.

    ``is_latest``: a command without a path reads the same bundle. ``called`` are the calls that the
    probe saw. ``can_rerun``: the bundle is a run whose command is known.
    """

    subject: str
    source: SourceKind
    is_latest: bool = False
    torch_version: str | None = None
    run_seconds: float | None = None
    notices: tuple[Notice, ...] = ()
    pages: str | None = None
    called: tuple[CalledFunction, ...] = ()
    can_rerun: bool = False


def compose(diagnosis: Diagnosis, context: Context) -> Document:
    """Return the document of a diagnosis."""
    run = diagnosis.run
    frames = tuple(_frames(diagnosis))
    document = Document(
        tool_version=VERSION,
        torch_version=run.torch_version or context.torch_version,
        source=context.source,
        subject=context.subject,
        summary=_summary(diagnosis, frames, context),
        frames=frames,
        findings=diagnosis.findings,
        unread=_unread(run),
        notices=(*context.notices, *_notices(run)),
        pages=context.pages,
        weights=call_weights(diagnosis, context.called),
    )
    return replace(document, next_commands=tuple(_next_commands(document, context)))


def _summary(diagnosis: Diagnosis, frames: tuple[FrameSummary, ...], context: Context) -> Summary:
    run = diagnosis.run
    places = diagnosis.breaks.places()
    broken = [place for place in places if not place.fatal]
    return Summary(
        ranks=max(len(run.ranks), 1),
        frames=len(frames),
        compilations=sum(frame.compilations for frame in frames),
        recompiles=len(run.recompiles),
        graphs_captured=_total(frame.graphs_captured for frame in frames),
        graph_breaks=len(broken),
        graph_break_times=sum(place.times for place in broken),
        recompile_limit_hits=len(run.limit_hits),
        retries=sum(1 for each in run.compilations if _is_retry(each)),
        compile_seconds=_total_seconds(run.compilations) if run.has_times else None,
        recompile_seconds=_total_seconds(run.recompiles) if run.has_times else None,
        processes=len({each.key.process for each in run.recompiles}),
        run_seconds=context.run_seconds,
        logging_seconds=run.logging_seconds,
    )


def _is_retry(compilation: Compilation) -> bool:
    """Return whether a compile has an id above 0 although no cached entry failed."""
    number = compilation.key.compile_id.frame_compile_id
    return (
        number is not None
        and number > 0
        and not compilation.failures
        and compilation.started
        and compilation.refused is None
    )


def _total(values: Iterable[int | None]) -> int | None:
    """Return the sum, or None when one of the values is unknown."""
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _total_seconds(compilations: Iterable[Compilation]) -> float:
    return sum(each.seconds or 0.0 for each in compilations)


def _frames(diagnosis: Diagnosis) -> Iterable[FrameSummary]:
    """Yield the functions, those that cost most first; resume functions count to theirs."""
    groups: dict[_FrameName, list[Compilation]] = {}
    for each in diagnosis.run.compilations:
        if each.refused is None:
            key = (each.frame.function, each.frame.file, each.frame.line)
            groups.setdefault(key, []).append(each)
    breaks = Counter(
        (place.compilations[0].frame.function, place.compilations[0].frame.file)
        for place in diagnosis.breaks.places()
        if place.compilations and not place.fatal
    )
    summaries = [
        _frame_summary(group, breaks[(group[0].frame.function, group[0].frame.file)])
        for group in groups.values()
    ]
    return sorted(summaries, key=_frame_rank)


def _frame_rank(frame: FrameSummary) -> tuple[float, int, str]:
    return (-(frame.compile_seconds or 0.0), -frame.recompiles, str(frame.frame))


def _frame_summary(group: list[Compilation], breaks: int) -> FrameSummary:
    known = [each.seconds for each in group if each.seconds is not None]
    return FrameSummary(
        frame=group[0].frame,
        compilations=len(group),
        recompiles=sum(1 for each in group if each.is_recompile),
        graphs_captured=_total(each.graphs for each in group),
        graph_breaks=breaks,
        compile_seconds=sum(known) if known else None,
        entries=tuple(_entry(each) for each in group),
    )


def _entry(compilation: Compilation) -> Entry:
    inputs = tuple(
        (each.source, "x".join("?" if size is None else str(size) for size in each.sizes))
        for each in compilation.inputs
        if not each.is_parameter
    )
    return Entry(
        compile_id=str(compilation.key),
        rank=compilation.rank,
        seconds=compilation.seconds,
        inputs=inputs,
        recompile=compilation.is_recompile,
    )


def _unread(run: Run) -> UnreadSummary:
    return UnreadSummary(
        run.unread.records,
        run.unread.size,
        tuple(_unread_example(issue) for issue in run.unread.examples),
    )


def _unread_example(issue: ParseIssue) -> UnreadExample:
    return UnreadExample(issue.position, issue.kind.value, issue.excerpt[:_LONGEST_EXAMPLE])


def _notices(run: Run) -> Iterable[Notice]:
    """Yield what the logs alone make a reader beware of."""
    if not run.compilations:
        yield Notice(
            NoticeKind.WARNING,
            "nothing-compiled",
            "torch compiled nothing in this log: either nothing is wrapped in torch.compile, or "
            "the wrapped function was never called, or logging was silenced",
        )
        return
    cut = _unfinished(run)
    if cut is not None:
        yield Notice(
            NoticeKind.WARNING,
            "log-ends-early",
            f"the log ends within the compile {cut.key} of {cut.frame}: the program was killed "
            "there, or the log is cut; what came later is unknown",
        )
    if run.unread.records:
        yield Notice(
            NoticeKind.NOTE,
            "partly-unread",
            "a part of the log was not understood, so there may be more than this report says",
        )
    if run.stray_reports:
        yield Notice(
            NoticeKind.NOTE,
            "stray-reports",
            f"{run.stray_reports} lines look like recompiles of a process that compiles nothing; "
            "they are taken for the program's own output",
        )
    if not run.has_times:
        yield Notice(
            NoticeKind.NOTE,
            "times-unknown",
            "compile times are unknown: they are only in a TORCH_TRACE log",
        )
    if not run.has_starts:
        yield Notice(
            NoticeKind.NOTE,
            "starts-unknown",
            "only recompiles were logged; first compiles, graphs and most sizes are unknown "
            "(TORCH_LOGS=dynamic,recompiles_verbose,graph_breaks or TORCH_TRACE tell them)",
        )


def _unfinished(run: Run) -> Compilation | None:
    """Return a compile that started and did not end, as far as a trace tells."""
    if not run.has_trace:
        return None
    last = {each.key.process: each for each in run.compilations if each.started}
    return next(
        (
            each
            for each in last.values()
            if each.finished is None and not each.errors and each.refused is None
        ),
        None,
    )


def _next_commands(document: Document, context: Context) -> Iterable[NextCommand]:
    """Yield what to type next: the cure, its proof, the costliest recompile, and its rule."""
    readable = document.subject != STANDARD_INPUT
    if readable and document.has_something_to_fix:
        yield NextCommand(f"recompile-doctor suggest{_target(context)}", "what to change")
        if context.can_rerun:
            yield NextCommand(f"recompile-doctor verify{_target(context)}", "prove it by reruns")
    lead = next((each for each in document.findings if each.recompiles), None)
    if readable and lead is not None and lead.disposition is Disposition.FIXABLE:
        name = recompile_name(lead.recompiles[0], document)
        yield NextCommand(
            f"recompile-doctor explain {name}{_target(context)}",
            "the whole chain behind it",
        )
    first = next(iter(document.findings), None)
    if first is not None:
        yield NextCommand(f"recompile-doctor explain {first.rule}", "what the rule means")


def _target(context: Context) -> str:
    """Return what stands behind a command so that it reads the same log again."""
    return "" if context.is_latest else f" {shlex.quote(context.subject)}"
