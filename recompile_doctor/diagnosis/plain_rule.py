"""Rules that claim one type of failed guard, which differ only in their words."""

from abc import abstractmethod
from typing import ClassVar, Generic, TypeVar, cast

from recompile_doctor.diagnosis.attribution import Cause
from recompile_doctor.diagnosis.finding import Disposition
from recompile_doctor.diagnosis.locate import call_location, definition, guard_location
from recompile_doctor.diagnosis.rule import Claim, Examination, RecompileRule
from recompile_doctor.model.reason import GuardFailure
from recompile_doctor.model.source import Source

Failure = TypeVar("Failure", bound=GuardFailure)


class PlainRule(RecompileRule, Generic[Failure]):
    """A rule that claims every failed guard of one type, or those that ``accepts`` takes."""

    failure_type: ClassVar[type]
    why: ClassVar[str]
    standing: ClassVar[Disposition] = Disposition.FIXABLE

    @abstractmethod
    def message(self, failure: Failure) -> str:
        """Return what happened, in one sentence without a full stop."""

    def accepts(self, failure: Failure) -> bool:
        """Return whether a failed guard of the type is this rule's."""
        return True

    def place(self, failure: Failure) -> tuple[str | None, int | None]:
        """Return the source and dimension that the finding names."""
        source: Source | None = getattr(failure, "source", None)
        return (None if source is None else str(source)), None

    def values(self, failure: Failure) -> tuple[str, ...]:
        """Return the values of this failure, old before new."""
        return ()

    def claim(self, failure: GuardFailure, cause: Cause, examination: Examination) -> Claim | None:
        """Claim failed guards of the rule's type."""
        if not isinstance(failure, self.failure_type):
            return None
        mine = cast(Failure, failure)
        if not self.accepts(mine):
            return None
        source, dim = self.place(mine)
        return Claim(
            source=source,
            dim=dim,
            message=self.message(mine),
            why=self.why,
            values=self.values(mine),
            disposition=self.standing,
            location=guard_location(failure, cause)
            or call_location(cause.recompile)
            or definition(cause.recompile.frame),
        )
