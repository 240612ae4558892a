"""Rules about one meaning of a failed size guard, which differ only in their words."""

from abc import abstractmethod
from typing import ClassVar

from recompile_doctor.diagnosis.attribution import Cause
from recompile_doctor.diagnosis.locate import guard_location, size_location, upper_bound_location
from recompile_doctor.diagnosis.rule import Claim, Examination, RecompileRule
from recompile_doctor.diagnosis.sizes import SizeChange, SizeMeaning, size_change
from recompile_doctor.model.expression import expression_text
from recompile_doctor.model.reason import GuardFailure, ShapeGuardFailure


class SizeRule(RecompileRule):
    """A rule that claims the shape guards of one meaning."""

    meaning: ClassVar[SizeMeaning]
    why: ClassVar[str]

    @abstractmethod
    def message(self, guard: str, change: SizeChange) -> str:
        """Return what happened, in one sentence without a full stop; ``guard`` is quoted."""

    def claim(self, failure: GuardFailure, cause: Cause, examination: Examination) -> Claim | None:
        """Claim shape guards that failed for this meaning."""
        change = size_change(failure, cause, examination.run)
        if change is None or change.meaning is not self.meaning:
            return None
        source, dim = str(change.size.source), change.size.dim
        location = upper_bound_location(failure, cause) or guard_location(failure, cause)
        return Claim(
            source=source,
            dim=dim,
            message=self.message(_guard(failure), change),
            why=self.why,
            values=change.values,
            location=location or size_location(source, dim, cause, examination.uses),
            observed=change.observed and change.certain,
        )


def _guard(failure: GuardFailure) -> str:
    """Return torch's guard as a quotation."""
    if isinstance(failure, ShapeGuardFailure):
        return f"`{expression_text(failure.expression)}`"
    return f"`{failure.text.strip()}`" if failure.text.strip() else "a guard on it"
