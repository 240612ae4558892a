"""The events that both readers yield: what torch reported, before anything is concluded from it.

Expressions, sources and recompile reasons stay in torch's own words here; ``model`` gives them
types. Sizes are in elements, strides in elements, times in seconds.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from recompile_doctor.ids import CompileId


class LogKind(Enum):
    """Which of torch's two logs a record stood in."""

    TRACE = "trace"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a log: the file's name as given, and its line, counted from 1."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an event comes from.

    ``process`` is the process id that torch wrote in front of the record ("?" when there is
    none). ``rank`` is None until torch.distributed is up in that process, and in programs that
    do not use it. ``compile_id`` is None for what happens outside a compilation.
    ``time`` is seconds since the start of the log's month-and-day epoch (torch writes no year):
    good for differences and order within one run, not for dates.
    """

    kind: LogKind
    position: Position
    process: str
    rank: int | None
    compile_id: CompileId | None
    time: float | None


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One line of a Python stack. ``code`` is the source line where torch gave it, else None."""

    file: str
    line: int
    function: str
    code: str | None = None


@dataclass(frozen=True, slots=True)
class CompileStarted:
    """Dynamo began an attempt to compile a frame.

    From a trace: ``function``, ``file`` and ``line`` (first line of the code object) of the
    frame, and the ``callers`` outermost first, without the frame itself (2.9 and later often
    give none). The text log names no frame here: all three are then None.
    """

    origin: Origin
    function: str | None
    file: str | None
    line: int | None
    callers: tuple[StackFrame, ...] = ()


@dataclass(frozen=True, slots=True)
class CompilePassed:
    """Guards of an attempt were produced (text log ``produce_guards``): tracing got to its end."""

    origin: Origin


@dataclass(frozen=True, slots=True)
class GraphCaptured:
    """Dynamo handed one graph to the backend.

    ``sizes`` gives, for each node name, the sizes in order: an int, or a symbol's expression.
    """

    origin: Origin
    sizes: tuple[tuple[str, tuple[int | str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class EntryFailure:
    """Why one cached entry did not serve a call.

    ``entry`` is the compile id of the entry (None where torch wrote none). ``text`` is torch's
    reason in full, without the id, without log prefixes and without ``- `` bullets; its lines
    are joined by a newline. ``stack`` is the "User stack trace:" part (torch 2.11 and later),
    which is not in ``text``.
    """

    entry: CompileId | None
    text: str
    stack: tuple[StackFrame, ...] = ()


@dataclass(frozen=True, slots=True)
class RecompileReported:
    """Torch said that it recompiles, and why each cached entry failed, in torch's order.

    ``function``, ``file``, ``line`` are given by the text log only. ``verbose`` tells that the
    record came from ``recompiles_verbose``. ``sources_stripped`` tells that torch wrote ``x``
    for ``L['x']`` (2.7 and later).
    """

    origin: Origin
    failures: tuple[EntryFailure, ...]
    function: str | None = None
    file: str | None = None
    line: int | None = None
    verbose: bool = False
    sources_stripped: bool | None = None


@dataclass(frozen=True, slots=True)
class SymbolCreated:
    """A backed symbol was made for a size, stride or int.

    ``source`` is torch's name of what it stands for, e.g. ``L['x'].size()[0]``. ``hint`` is the
    value at that time. ``value_range`` is as torch writes it, e.g. ``[2, int_oo]``.
    ``user_stack`` holds the frames of the traced program, outermost first (the text log has only
    the innermost): the last is where the value was first used, and not necessarily to blame.
    ``callers`` are the user's frames that called the compiled function (trace only).
    ``duck_sized`` tells that the symbol is not new but shared because the sizes were equal.
    """

    origin: Origin
    symbol: str
    source: str
    hint: str | None
    value_range: str | None
    user_stack: tuple[StackFrame, ...] = ()
    torch_frame: StackFrame | None = None
    duck_sized: bool = False
    callers: tuple[StackFrame, ...] = ()


@dataclass(frozen=True, slots=True)
class UnbackedSymbolCreated:
    """An unbacked symbol (u0) was made: for data, or for a dimension marked unbacked.

    ``source`` is given by the text log only, and only for marked dimensions.
    """

    origin: Origin
    symbol: str
    value_range: str | None
    source: str | None = None
    user_stack: tuple[StackFrame, ...] = ()
    torch_frame: StackFrame | None = None


class GuardRole(Enum):
    """What an evaluated expression became. The trace does not say which: UNKNOWN."""

    GUARD = "guard"
    SUPPRESSED = "suppressed"
    RUNTIME_ASSERT = "runtime assert"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class GuardAdded:
    """An expression on symbols was evaluated while tracing, e.g. ``Eq(s77, 6)``."""

    origin: Origin
    expression: str
    role: GuardRole
    user_stack: tuple[StackFrame, ...] = ()
    torch_frame: StackFrame | None = None


@dataclass(frozen=True, slots=True)
class SymbolSpecialized:
    """A symbol was replaced by ``value``: a constant, or another symbol's expression.

    ``reason`` is torch's word: range_refined_to_singleton, solve, find, trivial_lhs, ...
    ``sources`` is given by the trace only.
    """

    origin: Origin
    symbol: str
    value: str
    reason: str | None
    sources: tuple[str, ...] = ()
    user_stack: tuple[StackFrame, ...] = ()


@dataclass(frozen=True, slots=True)
class AssumptionMade:
    """Torch could not evaluate an expression on unbacked symbols and assumed a truth value."""

    origin: Origin
    expression: str
    assumed: str
    user_stack: tuple[StackFrame, ...] = ()


class MarkKind(Enum):
    """How a source was treated by something other than the sizes seen."""

    DYNAMIC = "dynamic"
    UNBACKED = "unbacked"
    STATIC = "static"


@dataclass(frozen=True, slots=True)
class SourceMarked:
    """Torch treats a source as dynamic, unbacked or static, and said who asked for it.

    ``cause`` is torch's word: ``automatic dynamic/PGO``, ``mark_dynamic``,
    ``assume_static_by_default = False``, or ``dynamic-sources entry: L['x']:0``.
    ``dim`` is None where torch does not name it.
    """

    origin: Origin
    source: str
    kind: MarkKind
    cause: str
    dim: int | None = None


@dataclass(frozen=True, slots=True)
class AutomaticDynamic:
    """Automatic dynamic found a change (trace event ``automatic_dynamic``).

    ``name`` is the source, ``what`` is what changed ("size", "stride", "rank", "scalar", or
    torch's own word), ``dim`` the index that changed, ``cached`` and ``new`` torch's texts of
    the two values.
    """

    origin: Origin
    name: str
    what: str
    dim: int | None
    cached: str
    new: str


@dataclass(frozen=True, slots=True)
class InputDescribed:
    """A tensor that a compile took in, with its concrete sizes (trace only).

    ``sizes`` and ``strides`` are per dimension (None where torch gave a symbol or nothing).
    ``dynamic_dims`` are the dims that the program marked dynamic.
    """

    origin: Origin
    source: str
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...] | None
    dtype: str | None
    device: str | None
    is_parameter: bool = False
    is_view: bool = False
    requires_grad: bool = False
    dynamic_dims: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SymbolTracked:
    """One size of an input as the text log's ``+dynamic`` tells it (``track_symint``).

    ``value`` is a number, or the symbol that stands for it.
    """

    origin: Origin
    source: str
    value: str


@dataclass(frozen=True, slots=True)
class GraphBroke:
    """The graph was broken at a user line.

    ``kind`` is torch's title of the break ("Data-dependent branching"), ``explanation`` and
    ``hints`` its advice, ``context`` the developer context, ``gb_id`` the number in torch's
    registry ("GB0124") where given. ``exception`` is the exception's text (trace, and only where
    torch wrote it); it can hold the data-dependent expression. ``repeated`` tells that torch
    shortened the message because it had shown this break before. ``skipped_frame`` tells that
    the whole frame is given up and runs eagerly. ``place`` is None where torch names no line.
    """

    origin: Origin
    place: StackFrame | None
    kind: str
    explanation: str = ""
    hints: tuple[str, ...] = ()
    context: str = ""
    gb_id: str | None = None
    user_stack: tuple[StackFrame, ...] = ()
    exception: str = ""
    repeated: bool = False
    skipped_frame: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class DataDependentError:
    """Torch could not guard on, or specialize, an expression of unbacked symbols.

    ``expression`` is torch's, e.g. ``u0 > 3``. ``user_stack`` ends at the line that asked.
    ``message`` is torch's text, shortened by no more than the C++ stack.
    """

    origin: Origin
    expression: str
    message: str
    user_stack: tuple[StackFrame, ...] = ()


@dataclass(frozen=True, slots=True)
class ConstraintViolated:
    """A dimension promised to be dynamic was specialized. One event for each source named.

    ``source`` is a size, e.g. ``L['x'].size()[0]``; ``value`` the constant it became, where
    torch says so; ``message`` torch's sentence.
    """

    origin: Origin
    source: str
    value: str | None
    message: str
    user_stack: tuple[StackFrame, ...] = ()


@dataclass(frozen=True, slots=True)
class CompileErrored:
    """A compile attempt ended with an exception (trace artifact ``dynamo_error``)."""

    origin: Origin
    exception_type: str | None
    message: str
    user_stack: tuple[StackFrame, ...] = ()


@dataclass(frozen=True, slots=True)
class CompileFinished:
    """``compilation_metrics``: a compile ended, well or not.

    Times are seconds: ``seconds`` is the entire frame compile time, None where torch gives none
    (backward compiles, refused compiles). ``fail_type`` is None when it ended well.
    ``restart_reasons`` say why attempts were abandoned. ``logging_seconds`` is torch's own
    ``structured_logging_overhead_s``. ``forward`` is False for a backward compile.
    """

    origin: Origin
    function: str | None
    file: str | None
    line: int | None
    seconds: float | None
    backend_seconds: float | None = None
    cache_size: int | None = None
    guard_count: int | None = None
    graph_op_count: int | None = None
    fail_type: str | None = None
    fail_reason: str | None = None
    fail_place: StackFrame | None = None
    restart_reasons: tuple[str, ...] = ()
    seconds_before_restart: float | None = None
    recompile_reason: str | None = None
    has_guarded_code: bool | None = None
    logging_seconds: float | None = None
    start_time: float | None = None
    user_stack: tuple[StackFrame, ...] = ()
    forward: bool = True
    config: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RecompileLimitHit:
    """Torch refused to compile a frame again; from here on it runs eagerly, unseen.

    ``limit`` names the setting (``recompile_limit``, ``cache_size_limit``,
    ``accumulated_recompile_limit``); ``limit_value`` its number.
    """

    origin: Origin
    limit: str | None
    limit_value: int | None
    function: str | None = None
    file: str | None = None
    line: int | None = None
    last_reason: str | None = None


@dataclass(frozen=True, slots=True)
class CudagraphNoted:
    """Torch warned about CUDA graphs: many distinct sizes recorded, or recording skipped.

    ``distinct_sizes`` is the number torch counted, None for a skip; ``message`` its sentence.
    """

    origin: Origin
    distinct_sizes: int | None
    message: str


@dataclass(frozen=True, slots=True)
class TorchVersion:
    """The version that the log states (2.12 and later, or in metrics since 2.10)."""

    origin: Origin
    version: str


Event: TypeAlias = (
    CompileStarted
    | CompilePassed
    | GraphCaptured
    | RecompileReported
    | SymbolCreated
    | UnbackedSymbolCreated
    | GuardAdded
    | SymbolSpecialized
    | AssumptionMade
    | SourceMarked
    | AutomaticDynamic
    | InputDescribed
    | SymbolTracked
    | GraphBroke
    | DataDependentError
    | ConstraintViolated
    | CompileErrored
    | CompileFinished
    | RecompileLimitHit
    | CudagraphNoted
    | TorchVersion
)


class IssueKind(Enum):
    """Why a record was not understood."""

    BAD_PREFIX = "no log prefix"
    BAD_JSON = "the record is not valid JSON"
    BAD_FIELD = "a field is missing or has an unexpected form"
    CUT_SHORT = "the record ends in the middle"
    UNKNOWN_FORM = "a line of a known kind has a form that is not known"
    NO_LOG = "the file is no log"
    BAD_ENCODING = "the bytes are not text"


@dataclass(frozen=True, slots=True)
class ParseIssue:
    """A record of a kind that the rules need and that could not be read.

    ``excerpt`` is at most 200 characters; ``size`` is the record's length in bytes.
    """

    position: Position
    kind: IssueKind
    excerpt: str
    size: int


@dataclass(frozen=True, slots=True)
class ForeignLines:
    """How much of a mixed log is not torch's: counted, never shown as not understood."""

    position: Position
    lines: int
    size: int


ReadItem: TypeAlias = Event | ParseIssue | ForeignLines
