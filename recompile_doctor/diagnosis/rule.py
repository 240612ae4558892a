"""What a rule is: one kind of cause, found in a run, with the page that explains it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from inspect import cleandoc
from typing import ClassVar

from recompile_doctor.diagnosis.attribution import Cause
from recompile_doctor.diagnosis.breaks import BreakTable
from recompile_doctor.diagnosis.finding import (
    Confidence,
    Disposition,
    Evidence,
    Finding,
    RecompileRef,
    UserLocation,
)
from recompile_doctor.diagnosis.history import History
from recompile_doctor.diagnosis.locate import FirstUses
from recompile_doctor.events.vocabulary import Origin
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.model.reason import GuardFailure
from recompile_doctor.model.run import Compilation, CompileKey, Run

_LONGEST_EVIDENCE = 400
# Up to 2.9 torch writes an empty reason when all guards pass by the time it looks for one.
NO_REASON = "(torch gives no reason)"


@dataclass(frozen=True, slots=True)
class Examination:
    """A run with what has been concluded of it so far: all that a rule may look at.

    ``explained`` are the recompiles that the rules before have claimed.
    """

    run: Run
    causes: tuple[Cause, ...]
    history: History
    breaks: BreakTable
    uses: FirstUses
    explained: frozenset[CompileKey] = frozenset()


class Rule(ABC):
    """One kind of cause. The docstring of a rule is its page in docs/rules and its ``explain``."""

    id: ClassVar[str]
    title: ClassVar[str]

    @abstractmethod
    def check(self, examination: Examination) -> Iterator[Finding]:
        """Yield one finding for each cause of this kind."""

    @classmethod
    def page(cls) -> str:
        """Return the text that explains the rule, as markdown."""
        return cleandoc(cls.__doc__ or "")


@dataclass(frozen=True, slots=True)
class Claim:
    """A rule's word that it explains one failed guard of one recompile.

    ``source`` is torch's full name, ``values`` what was seen at this recompile, old before new.
    ``observed`` is False where torch did not name it.
    """

    source: str | None
    dim: int | None
    message: str
    why: str
    values: tuple[str, ...] = ()
    disposition: Disposition = Disposition.FIXABLE
    location: UserLocation | None = None
    observed: bool = True
    hints: tuple[str, ...] = ()


@dataclass(slots=True)
class _Group:
    """The claims that make one finding, while they are gathered."""

    frame: FrameKey
    first: Claim
    claims: list[Claim] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    primary: list[Cause] = field(default_factory=list)


class RecompileRule(Rule):
    """A rule that explains recompiles by their failed guards, one finding per frame and source.

    ``by_value`` tells that a finding's values are those of its source over the run; a rule about
    something else (strides) shows what its guards named.
    """

    by_value: ClassVar[bool] = True

    @abstractmethod
    def claim(self, failure: GuardFailure, cause: Cause, examination: Examination) -> Claim | None:
        """Return what this rule makes of a failed guard, or None when it is not its kind."""

    def check(self, examination: Examination) -> Iterator[Finding]:
        """Yield one finding for each frame, source and dimension that this rule explains."""
        groups: dict[tuple[FrameKey, str | None, int | None], _Group] = {}
        for cause in examination.causes:
            for position, failure in enumerate((*cause.chosen.failures, *cause.joint)):
                claim = self.claim(failure, cause, examination)
                if claim is None:
                    continue
                frame = cause.recompile.frame
                key = (frame, claim.source, claim.dim)
                group = groups.setdefault(key, _Group(frame, claim))
                group.claims.append(claim)
                if not group.causes or group.causes[-1] is not cause:
                    group.causes.append(cause)
                if position == 0:
                    group.primary.append(cause)
        for group in groups.values():
            yield self._finding(group, examination)

    def _finding(self, group: _Group, examination: Examination) -> Finding:
        observed = [claim for claim in group.claims if claim.observed]
        lead = (observed or group.claims)[0]
        last = (observed or group.claims)[-1]
        values: tuple[str, ...] = ()
        if self.by_value:
            values = examination.history.values(group.causes[0], lead.source, lead.dim)
        return Finding(
            rule=self.id,
            title=self.title,
            frame=group.frame,
            source=lead.source,
            dim=lead.dim,
            message=lead.message,
            why=lead.why,
            evidence=tuple(recompile_evidence(cause) for cause in group.causes),
            confidence=Confidence.OBSERVED if observed else Confidence.INFERRED,
            disposition=self.disposition(tuple(group.claims), tuple(group.causes)),
            values=values or _joined(claim.values for claim in group.claims),
            recompiles=tuple(ref_of(cause.recompile) for cause in group.causes),
            leading=tuple(cause.recompile.key for cause in group.primary),
            seconds=_sum(cause.recompile.seconds for cause in group.primary),
            location=next((claim.location for claim in group.claims if claim.location), None),
            hints=last.hints,
        )

    def disposition(self, claims: tuple[Claim, ...], causes: tuple[Cause, ...]) -> Disposition:
        """Return whether something is to be done about the claims of one finding."""
        return claims[0].disposition


def ref_of(compilation: Compilation) -> RecompileRef:
    """Return the reference that a finding holds of a recompile."""
    return RecompileRef(compilation.key, compilation.rank, compilation.seconds)


def recompile_evidence(cause: Cause) -> Evidence:
    """Return where the log reports a recompile, with torch's words about the chosen entry."""
    origin = cause.recompile.failures_origin or cause.recompile.origin
    return evidence_at(origin, cause.chosen.reported.text.strip() or NO_REASON)


def evidence_at(origin: Origin, text: str) -> Evidence:
    """Return a piece of evidence with at most a few lines of torch's words."""
    shown = text.strip()
    if len(shown) > _LONGEST_EVIDENCE:
        shown = shown[:_LONGEST_EVIDENCE] + " …"
    return Evidence(origin.position, shown)


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _joined(series: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return all values in order, without repeating the one that stands before."""
    joined: list[str] = []
    for values in series:
        for value in values:
            if not joined or joined[-1] != value:
                joined.append(value)
    return tuple(joined)
