"""What a part of a trace says; what stands before it is context.

This joins the rooms as the pipeline does, for the plugin alone.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from recompile_doctor.diagnosis.diagnose import Diagnosis, diagnose
from recompile_doctor.events.stream import read_events
from recompile_doctor.events.vocabulary import Origin, StackFrame
from recompile_doctor.model.build import build_run
from recompile_doctor.model.run import Compilation, Run
from recompile_doctor.reports.compose import Context, compose
from recompile_doctor.reports.document import Document, SourceKind


@dataclass(frozen=True, slots=True)
class Part:
    """The report of a part of a trace.

    ``strangers`` are recompiles because of entries that were compiled before the trace began.
    """

    document: Document
    strangers: int


def examine_part(trace: Path, first_line: int, subject: str) -> Part:
    """Return what a trace says from a line on.

    Compilations before it explain recompiles after it: they made the cached entries, and their
    sizes are the ones that changed. They count for nothing.
    """
    run = build_run(read_events([trace]))
    diagnosis = diagnose(_with_context(run, first_line))
    own = tuple(each for each in run.compilations if _is_in(each.origin, first_line))
    examination = replace(diagnosis.examination, run=replace(diagnosis.run, compilations=own))
    document = compose(
        Diagnosis(examination, diagnosis.findings), Context(subject, SourceKind.TRACE)
    )
    strangers = [
        cause
        for cause in diagnosis.causes
        if cause.chosen.entry is None and cause.chosen.reported.entry is not None
    ]
    return Part(document, len(strangers))


def _is_in(origin: Origin, first_line: int) -> bool:
    return origin.position.line >= first_line


def _with_context(run: Run, first_line: int) -> Run:
    return replace(
        run,
        compilations=tuple(_compilations(run, first_line)),
        logging_seconds=None,  # torch adds it up by compile id, over all resets of the process
        limit_hits=tuple(each for each in run.limit_hits if _is_in(each[1].origin, first_line)),
        loose_errors=tuple(each for each in run.loose_errors if _is_in(each.origin, first_line)),
        cudagraphs=tuple(each for each in run.cudagraphs if _is_in(each.origin, first_line)),
    )


_RUNNER = re.compile(r"[/\\\\](?:_pytest|pluggy)[/\\\\]")


def _without_runner(callers: tuple[StackFrame, ...]) -> tuple[StackFrame, ...]:
    """Return the callers that pytest called; torch may leave out the test function itself."""
    runner = [number for number, each in enumerate(callers) if _RUNNER.search(each.file)]
    return callers[runner[-1] + 1 :] if runner else callers


def _compilations(run: Run, first_line: int) -> Iterator[Compilation]:
    for each in run.compilations:
        if _is_in(each.origin, first_line):
            yield replace(each, callers=_without_runner(each.callers))
        elif each.refused is None:
            # An entry of the cache and no more: nothing that it cost or broke.
            yield replace(
                each,
                failures=(),
                finished=None,
                graph_breaks=(),
                data_dependent=(),
                violations=(),
                errors=(),
            )
