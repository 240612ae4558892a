"""One observed run: its processes, compilations, and all that torch said about each."""

from dataclasses import dataclass, field

from recompile_doctor.events.vocabulary import (
    AssumptionMade,
    AutomaticDynamic,
    CompileErrored,
    CompileFinished,
    ConstraintViolated,
    CudagraphNoted,
    DataDependentError,
    EntryFailure,
    GraphBroke,
    GuardAdded,
    InputDescribed,
    Origin,
    ParseIssue,
    SourceMarked,
    StackFrame,
    SymbolCreated,
    SymbolSpecialized,
    UnbackedSymbolCreated,
)
from recompile_doctor.ids import CompileId
from recompile_doctor.model.frame import FrameKey


@dataclass(frozen=True, slots=True)
class CompileKey:
    """A compilation, unambiguous within a run.

    ``epoch`` counts the resets of Dynamo in that process, from 0: after each, ids restart.
    ``compile_id`` has no attempt.
    """

    process: str
    epoch: int
    compile_id: CompileId

    def __str__(self) -> str:
        return self.compile_id.without_attempt()


@dataclass(frozen=True, slots=True)
class LimitHit:
    """Torch refused to compile a frame again. ``limit`` is the setting's name, if told."""

    origin: Origin
    limit: str | None
    limit_value: int | None


@dataclass(frozen=True, slots=True)
class Compilation:
    """One compilation of one frame, all attempts of it.

    Symbols, guards, inputs and graphs are those of the last attempt; graph breaks and errors are
    those of all attempts. ``seconds`` is the entire frame compile time and ``backward_seconds``
    that of its backward graph; None is unknown (a text log, or the run ended before).
    ``failures`` is what torch reported about each cached entry, in torch's order; empty for a
    first compile, and for a retry after an error. ``refused`` tells that the recompile limit
    kept torch from compiling; nothing but ``failures`` is then known.
    ``started`` is False when only a recompile report was seen.
    """

    key: CompileKey
    rank: int | None
    frame: FrameKey
    origin: Origin
    code_name: str | None = None
    started: bool = True
    attempts: int = 1
    refused: LimitHit | None = None
    failures: tuple[EntryFailure, ...] = ()
    failures_origin: Origin | None = None
    sources_stripped: bool | None = None
    inputs: tuple[InputDescribed, ...] = ()
    symbols: tuple[SymbolCreated, ...] = ()
    unbacked: tuple[UnbackedSymbolCreated, ...] = ()
    guards: tuple[GuardAdded, ...] = ()
    specializations: tuple[SymbolSpecialized, ...] = ()
    assumptions: tuple[AssumptionMade, ...] = ()
    marks: tuple[SourceMarked, ...] = ()
    automatic: tuple[AutomaticDynamic, ...] = ()
    graph_breaks: tuple[GraphBroke, ...] = ()
    data_dependent: tuple[DataDependentError, ...] = ()
    violations: tuple[ConstraintViolated, ...] = ()
    errors: tuple[CompileErrored, ...] = ()
    graphs: int | None = None
    finished: CompileFinished | None = None
    backward_seconds: float | None = None
    callers: tuple[StackFrame, ...] = ()

    @property
    def seconds(self) -> float | None:
        """Return the entire frame compile time in seconds, or None when it is not known."""
        return None if self.finished is None else self.finished.seconds

    @property
    def is_recompile(self) -> bool:
        """Return whether torch compiled this frame again and said which guards failed."""
        return bool(self.failures) and self.refused is None


@dataclass(frozen=True, slots=True)
class Unread:
    """What was not understood: how many records and bytes, and a few of them."""

    records: int = 0
    size: int = 0
    examples: tuple[ParseIssue, ...] = ()
    foreign_lines: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """All that the logs of one run tell.

    ``compilations`` stand in the order in which they began. ``has_times``, ``has_starts``,
    ``has_symbols`` say whether these facts were in the logs at all: what is missing is unknown,
    not zero. ``stray_reports`` are recompiles reported for a process that starts no compile: most
    likely the program's own output. ``loose_errors`` were raised outside any compile id (tracebacks
    on stderr).
    """

    torch_version: str | None
    compilations: tuple[Compilation, ...]
    has_trace: bool
    has_text: bool
    has_times: bool
    has_starts: bool
    has_symbols: bool = True
    processes: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    limit_hits: tuple[tuple[CompileKey, LimitHit], ...] = ()
    loose_errors: tuple[DataDependentError | ConstraintViolated, ...] = ()
    cudagraphs: tuple[CudagraphNoted, ...] = ()
    logging_seconds: float | None = None
    stray_reports: int = 0
    unread: Unread = field(default_factory=Unread)

    @property
    def sources(self) -> frozenset[str]:
        """Return torch's names of all inputs, and of what has a symbol."""
        inputs = {each.source for one in self.compilations for each in one.inputs}
        return frozenset(
            inputs | {each.source for one in self.compilations for each in one.symbols}
        )

    @property
    def recompiles(self) -> tuple[Compilation, ...]:
        """Return the compilations that are recompiles, in order."""
        return tuple(each for each in self.compilations if each.is_recompile)
