"""What a check of the gate yields: whether it holds, and if not, what is wrong."""

from dataclasses import dataclass
from enum import Enum

from recompile_doctor.config import Place
from recompile_doctor.diagnosis.finding import Finding
from recompile_doctor.model.frame import FrameKey


class Kind(Enum):
    """Why a check failed; docs/ci.md explains them."""

    NOT_PLAUSIBLE = "run-not-plausible"
    OVER_BUDGET = "budget-exceeded"
    LIMIT_HIT = "recompile-limit-hit"
    EXPIRED = "allowance-expired"
    WORSE = "worse-than-baseline"


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that fails the gate, the findings to blame, and where the budget says so."""

    kind: Kind
    message: str
    findings: tuple[Finding, ...] = ()
    frame: FrameKey | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked. It holds when there are no violations."""

    name: str
    detail: str
    violations: tuple[Violation, ...] = ()
