"""A recompile whose reason no rule explains, shown in torch's words."""

from recompile_doctor.diagnosis.attribution import Cause
from recompile_doctor.diagnosis.locate import call_location, definition
from recompile_doctor.diagnosis.rule import Claim, Examination, RecompileRule
from recompile_doctor.model.reason import GuardFailure


class UnattributedRecompile(RecompileRule):
    """A recompile whose reason no other rule claims. It must stand last in the list of rules."""

    id = "unattributed-recompile"
    title = "a recompile that no rule explains"

    def claim(self, failure: GuardFailure, cause: Cause, examination: Examination) -> Claim | None:
        """Claim the first failed guard of a recompile that nothing else has claimed."""
        if failure in cause.joint or failure is not cause.chosen.failures[0]:
            return None
        if cause.recompile.key in examination.explained:
            return None
        return Claim(
            source=None if failure.source is None else str(failure.source),
            dim=None,
            message=f"torch says: {failure.text.strip()}",
            why="no rule knows this reason; it is shown in torch's words",
            location=call_location(cause.recompile) or definition(cause.recompile.frame),
        )
