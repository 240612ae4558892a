"""A run as `diff` and the gate see it, from its document."""

import re
from collections.abc import Iterator

from recompile_doctor.bundle import Manifest
from recompile_doctor.diagnosis.finding import Finding
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.reports.document import Document, Notice, NoticeKind, SourceKind
from recompile_doctor.verification.facts import (
    Counts,
    Doubt,
    FrameFacts,
    RunFacts,
    complete_frames,
    limit_hits,
)

_DOUBTS = {each.value: each for each in Doubt}


def facts_of(document: Document, manifest: Manifest | None = None) -> RunFacts:
    """Return the facts of a document; ``manifest`` is that of its bundle."""
    summary = document.summary
    totals = Counts(
        compilations=summary.compilations,
        recompiles=summary.recompiles,
        graphs_captured=summary.graphs_captured,
        graph_breaks=summary.graph_breaks,
        recompile_limit_hits=summary.recompile_limit_hits,
        compile_seconds=summary.compile_seconds,
    )
    frames = (
        FrameFacts(
            each.frame,
            Counts(
                compilations=each.compilations,
                recompiles=each.recompiles,
                graphs_captured=each.graphs_captured,
                graph_breaks=each.graph_breaks,
                recompile_limit_hits=_hits_of(each.frame, document.findings),
                compile_seconds=each.compile_seconds,
            ),
        )
        for each in document.frames
    )
    return RunFacts(
        subject=document.subject,
        source=document.source.value,
        torch_version=document.torch_version,
        ranks=summary.ranks,
        totals=totals,
        frames=complete_frames(frames, document.findings),
        findings=document.findings,
        unread_records=document.unread.records,
        caches=None if manifest is None or manifest.caches == "unknown" else manifest.caches,
        exit_code=_exit_code(document) if manifest is None else manifest.exit_code,
        doubts=tuple(_doubts(document.notices, totals)),
    )


def _hits_of(frame: FrameKey, findings: tuple[Finding, ...]) -> int:
    name = (frame.function, frame.file)
    hits = [each for each in findings if (each.frame.function, each.frame.file) == name]
    return sum(limit_hits(each) for each in hits)


_EXIT_CODE = re.compile(r"exit code (\d+)")


def _exit_code(document: Document) -> int | None:
    """Return how a run ended by its report's notices: one that says nothing of it ended well."""
    for notice in document.notices:
        match = _EXIT_CODE.search(notice.text) if notice.slug == Doubt.FAILED.value else None
        if match:
            return int(match[1])
        if notice.slug in (Doubt.FAILED.value, Doubt.CUT_SHORT.value):
            return None
    return 0 if document.source is SourceKind.BUNDLE else None


def _doubts(notices: tuple[Notice, ...], totals: Counts) -> Iterator[tuple[Doubt, str]]:
    for notice in notices:
        doubt = _DOUBTS.get(notice.slug)
        # As a note it says that torch's own count misses no recompile.
        harmless = doubt is Doubt.SILENCED and notice.kind is not NoticeKind.WARNING
        if doubt is not None and not harmless:
            yield doubt, notice.text
    if totals.compilations and totals.graphs_captured == 0:
        yield Doubt.NO_GRAPH, "no graph was captured: everything ran eagerly"
