"""Builds a run from events: joins records of one compilation, from either log or from both.

Where a process has both logs, each fact is taken once: from the trace where the trace has it,
since its records are structured, and from the text where only the text tells (the source of an
unbacked symbol, what an expression became, assumptions, who marked a source).
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from recompile_doctor.events.vocabulary import (
    AssumptionMade,
    AutomaticDynamic,
    CompileErrored,
    CompileFinished,
    CompilePassed,
    CompileStarted,
    ConstraintViolated,
    CudagraphNoted,
    DataDependentError,
    Event,
    ForeignLines,
    GraphBroke,
    GraphCaptured,
    GuardAdded,
    GuardRole,
    InputDescribed,
    LogKind,
    Origin,
    ParseIssue,
    ReadItem,
    RecompileLimitHit,
    RecompileReported,
    SourceMarked,
    StackFrame,
    SymbolCreated,
    SymbolSpecialized,
    SymbolTracked,
    TorchVersion,
    UnbackedSymbolCreated,
)
from recompile_doctor.ids import CompileId
from recompile_doctor.model.frame import FrameKey, resume_point
from recompile_doctor.model.run import Compilation, CompileKey, LimitHit, Run, Unread

_EXAMPLES_KEPT = 5
# The clocks of both logs are one clock cut to a millisecond; a text record of a new epoch can
# carry the same millisecond as the trace record that opened it.
_SAME_MOMENT = 0.0015

_Fact = TypeVar("_Fact")


class _Facts:
    """What one log said about one compilation; facts of abandoned attempts are dropped."""

    def __init__(self) -> None:
        self.attempt = -1
        self.started: CompileStarted | None = None
        self.passed = False
        self.reported: RecompileReported | None = None
        self.finished: CompileFinished | None = None
        self.backward_seconds: float | None = None
        self.limit: RecompileLimitHit | None = None
        self.breaks: list[GraphBroke] = []
        self.data_dependent: list[DataDependentError] = []
        self.violations: list[ConstraintViolated] = []
        self.errors: list[CompileErrored] = []
        self.forget_attempt()

    def forget_attempt(self) -> None:
        self.graphs = 0
        self.inputs: list[InputDescribed] = []
        self.symbols: list[SymbolCreated] = []
        self.unbacked: list[UnbackedSymbolCreated] = []
        self.guards: list[GuardAdded] = []
        self.specializations: list[SymbolSpecialized] = []
        self.assumptions: list[AssumptionMade] = []
        self.marks: list[SourceMarked] = []
        self.automatic: list[AutomaticDynamic] = []

    def see_attempt(self, attempt: int) -> None:
        if attempt > self.attempt:
            if self.attempt >= 0:
                self.forget_attempt()
            self.attempt = attempt


class _Draft:
    """A compilation while it is being read."""

    def __init__(self, key: CompileKey, origin: Origin, order: int) -> None:
        self.key = key
        self.origin = origin
        self.order = order
        self.rank = origin.rank
        self.logs: dict[LogKind, _Facts] = {}

    def facts(self, kind: LogKind) -> _Facts:
        found = self.logs.get(kind)
        if found is None:
            found = self.logs[kind] = _Facts()
        return found

    def both(self) -> tuple[_Facts, ...]:
        """Return what the logs said, the trace first."""
        return tuple(self.logs[kind] for kind in LogKind if kind in self.logs)


class _Epochs:
    """Tells the resets of Dynamo in one process, after which compile ids start again.

    The trace decides where there is one, by the repetition of a ``dynamo_start``. A text log
    repeats ``create_env`` also for other reasons (a backend may make a shape environment of its
    own within a compile), so there an id must have come to an end before it starts again.
    """

    def __init__(self) -> None:
        self._trace_starts: list[float] = []
        self._current = {LogKind.TRACE: 0, LogKind.TEXT: 0}
        self._begun: dict[LogKind, set[CompileId]] = {LogKind.TRACE: set(), LogKind.TEXT: set()}
        self._ended: set[CompileId] = set()
        self._reported: set[CompileId] = set()

    def place(self, event: Event, compile_id: CompileId) -> int:
        """Return the epoch of ``event``."""
        origin = event.origin
        if origin.kind is LogKind.TEXT and self._trace_starts and origin.time is not None:
            after = bisect_right(self._trace_starts, origin.time + _SAME_MOMENT)
            return max(after - 1, 0)
        if self._opens(event, compile_id):
            self._begin_epoch(origin.kind)
        self._note(event, compile_id)
        epoch = self._current[origin.kind]
        if origin.kind is LogKind.TRACE and len(self._trace_starts) <= epoch:
            self._trace_starts.append(origin.time or 0.0)
        return epoch

    def _opens(self, event: Event, compile_id: CompileId) -> bool:
        kind = event.origin.kind
        if isinstance(event, CompileStarted):
            again = compile_id in self._begun[kind]
            return again and (kind is LogKind.TRACE or _plain(compile_id) in self._ended)
        if kind is LogKind.TEXT and isinstance(event, RecompileReported):
            return compile_id in self._reported
        return False

    def _begin_epoch(self, kind: LogKind) -> None:
        self._current[kind] += 1
        self._begun[kind].clear()
        if kind is LogKind.TEXT:
            self._ended.clear()
            self._reported.clear()

    def _note(self, event: Event, compile_id: CompileId) -> None:
        kind = event.origin.kind
        if isinstance(event, CompileStarted):
            self._begun[kind].add(compile_id)
        elif kind is LogKind.TEXT:
            if isinstance(event, CompilePassed | ConstraintViolated):
                self._ended.add(_plain(compile_id))
            elif isinstance(event, RecompileReported):
                self._reported.add(compile_id)


def _plain(compile_id: CompileId) -> CompileId:
    return CompileId(compile_id.frame_id, compile_id.frame_compile_id, 0, compile_id.autograd_id)


class RunBuilder:
    """Takes the items of a log one by one and gives the run at the end.

    Traces must be added before texts of the same processes (``read_events`` does so).
    """

    def __init__(self) -> None:
        self._epochs: dict[str, _Epochs] = {}
        self._drafts: dict[CompileKey, _Draft] = {}
        self._ranks: dict[str, int] = {}
        self._kinds: set[LogKind] = set()
        self._versions: list[str] = []
        self._loose: list[DataDependentError | ConstraintViolated] = []
        self._cudagraphs: list[CudagraphNoted] = []
        self._issues: list[ParseIssue] = []
        self._issue_count = 0
        self._issue_size = 0
        self._foreign_lines = 0
        self._logging_seconds: float | None = None

    def add(self, item: ReadItem) -> None:
        """Take one item of a log into the run."""
        match item:
            case ParseIssue():
                self._issue_count += 1
                self._issue_size += item.size
                if len(self._issues) < _EXAMPLES_KEPT:
                    self._issues.append(item)
            case ForeignLines():
                self._foreign_lines += item.lines
            case _:
                self._add_event(item)

    def _add_event(self, event: Event) -> None:
        origin = event.origin
        self._kinds.add(origin.kind)
        if origin.rank is not None:
            self._ranks.setdefault(origin.process, origin.rank)
        if isinstance(event, TorchVersion):
            if event.version not in self._versions:
                self._versions.append(event.version)
        elif isinstance(event, CudagraphNoted):
            self._cudagraphs.append(event)
        elif origin.compile_id is not None:
            self._add_fact(event, origin.compile_id)
        elif isinstance(event, DataDependentError | ConstraintViolated):
            self._loose.append(event)

    def _add_fact(self, event: Event, compile_id: CompileId) -> None:
        origin = event.origin
        epochs = self._epochs.get(origin.process)
        if epochs is None:
            epochs = self._epochs[origin.process] = _Epochs()
        key = CompileKey(origin.process, epochs.place(event, compile_id), _plain(compile_id))
        draft = self._drafts.get(key)
        if draft is None:
            draft = self._drafts[key] = _Draft(key, origin, len(self._drafts))
        if draft.rank is None:
            draft.rank = origin.rank
        facts = draft.facts(origin.kind)
        if not isinstance(event, CompileFinished | RecompileReported | RecompileLimitHit):
            facts.see_attempt(compile_id.attempt)
        self._store(event, facts)

    def _store(self, event: Event, facts: _Facts) -> None:
        match event:
            case CompileStarted():
                facts.started = event
            case CompilePassed():
                facts.passed = True
            case GraphCaptured():
                facts.graphs += 1
            case RecompileReported():
                if facts.reported is None or len(event.failures) > len(facts.reported.failures):
                    facts.reported = event
            case CompileFinished():
                self._store_finished(event, facts)
            case RecompileLimitHit():
                facts.limit = event
            case GraphBroke():
                facts.breaks.append(event)
            case DataDependentError():
                facts.data_dependent.append(event)
            case ConstraintViolated():
                facts.violations.append(event)
            case CompileErrored():
                facts.errors.append(event)
            case InputDescribed():
                facts.inputs.append(event)
            case SymbolCreated():
                facts.symbols.append(event)
            case UnbackedSymbolCreated():
                facts.unbacked.append(event)
            case GuardAdded():
                facts.guards.append(event)
            case SymbolSpecialized():
                facts.specializations.append(event)
            case AssumptionMade():
                facts.assumptions.append(event)
            case SourceMarked():
                facts.marks.append(event)
            case AutomaticDynamic():
                facts.automatic.append(event)
            case SymbolTracked() | CudagraphNoted() | TorchVersion():
                pass

    def _store_finished(self, event: CompileFinished, facts: _Facts) -> None:
        if event.logging_seconds is not None:
            self._logging_seconds = (self._logging_seconds or 0.0) + event.logging_seconds
        if event.forward:
            facts.finished = event
        elif event.seconds is not None:
            facts.backward_seconds = (facts.backward_seconds or 0.0) + event.seconds

    def finish(self) -> Run:
        """Return the run that the items amount to."""
        drafts = self._without_strays()
        names = _FrameNames(drafts)
        starts = any(facts.started for draft in drafts for facts in draft.both())
        compilations: list[Compilation] = []
        limits: list[tuple[CompileKey, LimitHit]] = []
        for draft in drafts:
            rank = self._ranks.get(draft.key.process, draft.rank)
            compilation = _freeze(draft, *names.of(draft), rank)
            if compilation.refused is not None:
                limits.append((compilation.key, compilation.refused))
            compilations.append(compilation)
        processes = tuple(dict.fromkeys(each.key.process for each in compilations))
        return Run(
            torch_version=self._versions[0] if self._versions else None,
            compilations=tuple(compilations),
            has_trace=LogKind.TRACE in self._kinds,
            has_text=LogKind.TEXT in self._kinds,
            has_times=any(each.seconds is not None for each in compilations),
            has_starts=starts,
            has_symbols=any(each.symbols for each in compilations),
            processes=processes,
            ranks=tuple(sorted(set(self._ranks.values()))),
            limit_hits=tuple(limits),
            loose_errors=tuple(self._loose),
            cudagraphs=tuple(self._cudagraphs),
            logging_seconds=self._logging_seconds,
            stray_reports=len(self._drafts) - len(drafts),
            unread=Unread(
                self._issue_count, self._issue_size, tuple(self._issues), self._foreign_lines
            ),
        )

    def _without_strays(self) -> list[_Draft]:
        """Return the compiles in order, without recompiles of processes that compile nothing.

        A program can print lines that look like torch's. Where starts are logged, a process
        that reports recompiles and never starts one is no process of torch's.
        """
        drafts = sorted(self._drafts.values(), key=lambda draft: draft.order)
        starting = {
            draft.key.process for draft in drafts for facts in draft.both() if facts.started
        }
        if not starting:
            return drafts
        return [draft for draft in drafts if draft.key.process in starting or _is_more(draft)]


def _is_more(draft: _Draft) -> bool:
    """Return whether more is known of a compile than that it was reported as a recompile."""
    return any(facts.finished or facts.limit or facts.attempt >= 0 for facts in draft.both())


def build_run(items: Iterable[ReadItem]) -> Run:
    """Return the run that the items of one or several logs amount to."""
    builder = RunBuilder()
    for item in items:
        builder.add(item)
    return builder.finish()


@dataclass(frozen=True, slots=True)
class _Code:
    """The name, file and first line of a code object, as far as a log tells them."""

    name: str
    file: str | None
    line: int | None


def _code(draft: _Draft) -> _Code | None:
    for facts in draft.both():
        for event in (facts.started, facts.finished, facts.reported, facts.limit):
            if event is not None and event.function is not None:
                return _Code(event.function, event.file, event.line)
    return None


_FrameId = tuple[str, int, int | None, int | None]


class _FrameNames:
    """Names the frame of each compilation, also where only another compile of it is named."""

    def __init__(self, drafts: Iterable[_Draft]) -> None:
        self._codes: dict[_FrameId, _Code] = {}
        self._first_lines: dict[tuple[str, str | None], set[int]] = {}
        for draft in drafts:
            code = _code(draft)
            if code is None:
                continue
            self._codes.setdefault(self._frame_id(draft), code)
            if code.line is not None and resume_point(code.name) is None:
                self._first_lines.setdefault((code.name, code.file), set()).add(code.line)

    @staticmethod
    def _frame_id(draft: _Draft) -> _FrameId:
        compile_id = draft.key.compile_id
        return (draft.key.process, draft.key.epoch, compile_id.autograd_id, compile_id.frame_id)

    def of(self, draft: _Draft) -> tuple[FrameKey, str | None]:
        """Return the user's frame of a compilation, and the name of its code object."""
        code = _code(draft) or self._codes.get(self._frame_id(draft))
        if code is None:
            return FrameKey(None, None, None), None
        point = resume_point(code.name)
        if point is None:
            return FrameKey(code.name, code.file, code.line), code.name
        lines = sorted(self._first_lines.get((point.function, code.file), ()))
        before = [line for line in lines if line <= point.line]
        first_line = before[-1] if before else next(iter(lines), None)
        return FrameKey(point.function, code.file, first_line), code.name


def _first(values: Iterable[_Fact | None]) -> _Fact | None:
    return next((value for value in values if value is not None), None)


def _prefer(lists: Iterable[list[_Fact]]) -> tuple[_Fact, ...]:
    """Return the first list that is not empty: the trace's, else the text's."""
    return tuple(next((each for each in lists if each), ()))


def _freeze(draft: _Draft, frame: FrameKey, code_name: str | None, rank: int | None) -> Compilation:
    both = draft.both()
    reported = _report(both)
    finished = _first(each.finished for each in both)
    limit = _first(each.limit for each in both)
    started = any(each.started is not None for each in both)
    with_trace = LogKind.TRACE in draft.logs
    refused = None
    if limit is not None:
        refused = LimitHit(limit.origin, limit.limit, limit.limit_value)
    elif reported is not None and with_trace and not started and finished is None:
        # 2.6 writes no metrics for a refused compile: a report without a start is all there is.
        refused = LimitHit(reported.origin, None, None)
    return Compilation(
        key=draft.key,
        rank=rank,
        frame=frame,
        origin=draft.origin,
        code_name=code_name,
        started=started,
        attempts=max(each.attempt for each in both) + 1,
        refused=refused,
        failures=reported.failures if reported is not None else (),
        failures_origin=reported.origin if reported is not None else None,
        sources_stripped=reported.sources_stripped if reported is not None else None,
        inputs=_prefer(each.inputs for each in both),
        symbols=_prefer(each.symbols for each in both),
        unbacked=_unbacked(both),
        guards=_guards(both),
        specializations=_prefer(each.specializations for each in both),
        assumptions=_prefer(each.assumptions for each in both),
        marks=_prefer(each.marks for each in both),
        automatic=_prefer(each.automatic for each in both),
        graph_breaks=_breaks(both),
        data_dependent=_prefer(each.data_dependent for each in both),
        violations=_prefer(each.violations for each in both),
        errors=_prefer(each.errors for each in both),
        graphs=_graphs(draft, finished) if with_trace else None,
        finished=finished,
        backward_seconds=_first(each.backward_seconds for each in both),
        callers=_callers(both),
    )


def _graphs(draft: _Draft, finished: CompileFinished | None) -> int | None:
    """Return the number of graphs; None where the log ends before a compile captured one."""
    facts = draft.logs[LogKind.TRACE]
    unfinished = facts.started is not None and finished is None and not facts.errors
    return None if unfinished and not facts.graphs else facts.graphs


def _callers(both: tuple[_Facts, ...]) -> tuple[StackFrame, ...]:
    """Return who called the compiled function: since 2.9 often told with a symbol only."""
    told = (
        *(facts.started.callers for facts in both if facts.started),
        *(symbol.callers for facts in both for symbol in facts.symbols),
    )
    return next((each for each in told if each), ())


def _report(both: tuple[_Facts, ...]) -> RecompileReported | None:
    """Return the fullest report of why cached entries failed.

    The trace and the text hold the same reasons; only the text names the function, and the
    caller takes that from elsewhere. A trace record wins where both are as full.
    """
    reports = [each.reported for each in both if each.reported is not None]
    return max(reports, key=lambda report: len(report.failures), default=None)


def _unbacked(both: tuple[_Facts, ...]) -> tuple[UnbackedSymbolCreated, ...]:
    """Return the unbacked symbols with their sources, which only the text log tells."""
    named = {each.symbol: each.source for facts in both for each in facts.unbacked if each.source}
    chosen: tuple[UnbackedSymbolCreated, ...] = _prefer(facts.unbacked for facts in both)
    return tuple(
        replace(each, source=named[each.symbol])
        if each.source is None and each.symbol in named
        else each
        for each in chosen
    )


def _guards(both: tuple[_Facts, ...]) -> tuple[GuardAdded, ...]:
    """Return the guards with what each became, which only the text log tells."""
    roles = {
        each.expression: each.role
        for facts in both
        for each in facts.guards
        if each.role is not GuardRole.UNKNOWN
    }
    chosen: tuple[GuardAdded, ...] = _prefer(facts.guards for facts in both)
    return tuple(replace(each, role=roles.get(each.expression, each.role)) for each in chosen)


def _breaks(both: tuple[_Facts, ...]) -> tuple[GraphBroke, ...]:
    """Return the graph breaks: the trace's, and those places that only the text names.

    Up to 2.9 the trace leaves out some breaks.
    """
    found: list[GraphBroke] = []
    for facts in both:
        places = {_place(each) for each in found}
        found.extend(each for each in facts.breaks if _place(each) not in places)
    return tuple(found)


def _place(event: GraphBroke) -> tuple[str, int] | None:
    return None if event.place is None else (event.place.file, event.place.line)
