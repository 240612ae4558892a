"""A finding: one cause, with what it explains, what it cost, and the evidence for it."""

from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath

from recompile_doctor.events.vocabulary import Position, StackFrame
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.model.run import CompileKey

# Rules that look at recompiles from another side and explain none of them.
OVERVIEWS = frozenset({"resume-function-churn", "rank-divergence"})


class Severity(Enum):
    """How much a finding costs: measured where the log has times, else by the counts."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    INFO = "info"


class Confidence(Enum):
    """OBSERVED: torch named it. INFERRED: concluded from sizes or from what is missing."""

    OBSERVED = "observed"
    INFERRED = "inferred"


class Disposition(Enum):
    """Whether something is to be done.

    FIXABLE: it can come again. ONE_OFF: it happened once and will not grow. EXPECTED: the
    program really has such variants (train and eval, grad mode, dtype).
    """

    FIXABLE = "fixable"
    ONE_OFF = "one-off"
    EXPECTED = "expected"


class LocationRole(Enum):
    """What a user line has to do with the finding."""

    ASKED = "this line asked for the guard"
    FIRST_USE = "first use of the value; the line is not to blame"
    BREAK = "the graph breaks here"
    CALL = "the compiled function is called here"
    DEFINITION = "the compiled function"


@dataclass(frozen=True, slots=True)
class UserLocation:
    """A line of the user's program, and what it has to do with the finding."""

    frame: StackFrame
    role: LocationRole


@dataclass(frozen=True, slots=True)
class Evidence:
    """A place in a log, with torch's words there (without prefix, at most a few lines)."""

    position: Position
    text: str


@dataclass(frozen=True, slots=True)
class RecompileRef:
    """One recompile that a finding explains. ``seconds`` is None where unknown."""

    key: CompileKey
    rank: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause of recompiles or of graph breaks.

    ``source`` is in torch's full form (``L['x']``) or None; ``values`` are the values seen, in
    order, as text (``8``, ``16``, ``1``). ``recompiles`` are those it explains: for an INFERRED
    finding with ``together_with`` set they are explained together with that finding (its id),
    which also carries their cost, so that no second is counted twice; ``seconds`` is then None.
    ``leading`` are those of them whose first failed guard it is; only these count in ``seconds``.
    ``graph_breaks`` counts distinct places and ``break_times`` how often they were logged.
    ``why`` says why torch guarded, ``message`` what happened, both in plain words.
    """

    rule: str
    title: str
    frame: FrameKey
    source: str | None
    dim: int | None
    message: str
    why: str
    evidence: tuple[Evidence, ...]
    confidence: Confidence
    disposition: Disposition
    severity: Severity = Severity.LOW
    values: tuple[str, ...] = ()
    recompiles: tuple[RecompileRef, ...] = ()
    leading: tuple[CompileKey, ...] = ()
    graph_breaks: int = 0
    break_times: int = 0
    seconds: float | None = None
    location: UserLocation | None = None
    related: tuple[UserLocation, ...] = ()
    together_with: str | None = None
    hints: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.evidence:
            raise ValueError(f"a finding of {self.rule} without evidence")

    @property
    def id(self) -> str:
        """Return a name that is the same in every run: rule, place, source and dimension.

        A graph break has no source; the code of its line tells it from others.
        """
        file = "?" if self.frame.file is None else PurePath(self.frame.file).name
        parts = [self.rule, f"{file}:{self.frame.function or '?'}"]
        if self.source is not None:
            parts.append(self.source if self.dim is None else f"{self.source}:{self.dim}")
        elif self.location is not None and self.location.role is LocationRole.BREAK:
            parts.append(self.location.frame.code or f"line {self.location.frame.line}")
        return "/".join(parts)
