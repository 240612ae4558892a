"""The document that every format lays out: all figures are computed before, none in a format."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from recompile_doctor.diagnosis.finding import Disposition, Finding
from recompile_doctor.events.vocabulary import Position
from recompile_doctor.model.frame import FrameKey


class SourceKind(Enum):
    """What was read."""

    BUNDLE = "bundle"
    TRACE = "trace"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Summary:
    """Totals. None is unknown (not in the logs), never zero.

    ``processes`` are those that recompiled. Seconds are compile seconds that torch measured;
    ``recompile_seconds`` is their part for
    recompiles. ``retries`` are compile ids above 0 without a recompile reason: torch tried again
    after an error. ``run_seconds`` is the wall time of the program, known from a bundle only.
    ``logging_seconds`` is torch's own structured_logging_overhead_s.
    """

    ranks: int
    frames: int
    compilations: int
    recompiles: int
    graphs_captured: int | None
    graph_breaks: int
    graph_break_times: int
    recompile_limit_hits: int
    retries: int
    compile_seconds: float | None
    recompile_seconds: float | None
    processes: int = 1
    run_seconds: float | None = None
    logging_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One compilation of a frame. ``inputs`` are the sizes of its inputs by source."""

    compile_id: str
    rank: int | None
    seconds: float | None
    inputs: tuple[tuple[str, str], ...]
    recompile: bool


@dataclass(frozen=True, slots=True)
class FrameSummary:
    """What one user function cost: its own compilations and those of its resume functions."""

    frame: FrameKey
    compilations: int
    recompiles: int
    graphs_captured: int | None
    graph_breaks: int
    compile_seconds: float | None
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class UnreadExample:
    """One record that was not understood."""

    position: Position
    why: str
    text: str


@dataclass(frozen=True, slots=True)
class UnreadSummary:
    """How much was not understood, with a few examples. ``size`` is in bytes."""

    records: int
    size: int
    examples: tuple[UnreadExample, ...]


class NoticeKind(Enum):
    """How a notice is to be shown."""

    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the reader must know to judge the figures.

    For example: the run was cut short, nothing was compiled, the program silenced torch's
    logging, times are unknown. ``slug`` is an anchor of docs/messages.md.
    """

    kind: NoticeKind
    slug: str
    text: str


@dataclass(frozen=True, slots=True)
class NextCommand:
    """A command to type next, and what for."""

    command: str
    purpose: str


@dataclass(frozen=True, slots=True)
class CallWeight:
    """How many of the calls that the probe saw had the special value that a finding is about.

    ``value`` names it in words: ``1``, or ``0 or 1``.
    """

    calls_with_value: int
    calls: int
    value: str


@dataclass(frozen=True, slots=True)
class Document:
    """All that a report says. Findings are ranked: what costs most stands first.

    ``weights`` are by the ids of findings; only those have one whose calls the probe saw.
    """

    tool_version: str
    torch_version: str | None
    source: SourceKind
    subject: str
    summary: Summary
    frames: tuple[FrameSummary, ...]
    findings: tuple[Finding, ...]
    unread: UnreadSummary
    notices: tuple[Notice, ...] = ()
    next_commands: tuple[NextCommand, ...] = ()
    pages: str | None = None
    weights: Mapping[str, CallWeight] = field(default_factory=dict)

    @property
    def has_something_to_fix(self) -> bool:
        """Return whether a finding is neither expected nor a one-off."""
        return any(each.disposition is Disposition.FIXABLE for each in self.findings)
