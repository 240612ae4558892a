"""Rules about graph breaks, which differ in what they are about and in their words."""

from collections.abc import Iterator
from typing import ClassVar

from recompile_doctor.diagnosis.breaks import BreakMeaning, BreakPlace
from recompile_doctor.diagnosis.finding import (
    Confidence,
    Disposition,
    Finding,
    LocationRole,
    Severity,
    UserLocation,
)
from recompile_doctor.diagnosis.rule import Examination, Rule, evidence_at


class BreakRule(Rule):
    """A rule that yields one finding for each place where graphs break for one reason."""

    meaning: ClassVar[BreakMeaning]
    why: ClassVar[str]

    def message(self, place: BreakPlace) -> str:
        """Return what happened, in one sentence without a full stop."""
        if place.fatal:
            return "torch.compile stops with an error here"
        if place.skipped_frame:
            return "the graph breaks here and torch gives the whole function up: it runs eagerly"
        return "the graph breaks here"

    def check(self, examination: Examination) -> Iterator[Finding]:
        """Yield one finding for each place of this rule's meaning."""
        for place in examination.breaks.places():
            if place.meaning is self.meaning:
                yield self._finding(place)

    def _finding(self, place: BreakPlace) -> Finding:
        broke = place.first
        words = _words(place)
        return Finding(
            rule=self.id,
            title=self.title,
            frame=place.frame,
            source=None,
            dim=None,
            message=f"{self.message(place)}{words}",
            why=self.why,
            evidence=(evidence_at(place.origin, _text(place)),),
            confidence=Confidence.OBSERVED,
            disposition=Disposition.FIXABLE,
            severity=Severity.HIGH if place.fatal else Severity.LOW,
            graph_breaks=0 if place.fatal else 1,
            break_times=place.times,
            location=UserLocation(place.place, LocationRole.BREAK),
            hints=broke.hints if broke is not None else (),
        )


def _words(place: BreakPlace) -> str:
    """Return torch's title of the break, and the expression that it could not decide."""
    parts = []
    if place.title:
        parts.append(place.title)
    if place.error is not None:
        parts.append(f"`{place.error.expression}` depends on data")
    return f" ({'; '.join(parts)})" if parts else ""


def _text(place: BreakPlace) -> str:
    if place.first is not None:
        return place.first.text or place.first.kind or "graph break"
    return place.error.message if place.error is not None else ""
