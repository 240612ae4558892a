"""Arguments were the same tensor in one call and different ones in another."""

from recompile_doctor.diagnosis.finding import Disposition
from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import AliasingMismatch


class AliasingChange(PlainRule[AliasingMismatch]):
    """Arguments were the same tensor in one call and different ones in another."""

    id = "aliasing-change"
    title = "the same tensor stood for several arguments, or no longer did"
    failure_type = AliasingMismatch
    why = (
        "a graph that writes to one argument, or returns it, depends on which arguments are "
        "the same tensor"
    )
    standing = Disposition.EXPECTED

    def message(self, failure: AliasingMismatch) -> str:
        """Return which arguments are concerned."""
        names = ", ".join(str(each) for each in failure.sources)
        return f"whether {names} are the same tensor differs between calls"

    def place(self, failure: AliasingMismatch) -> tuple[str | None, int | None]:
        """Return the first of the sources; torch gives them no order, the message has all."""
        return (str(failure.sources[0]) if failure.sources else None), None
