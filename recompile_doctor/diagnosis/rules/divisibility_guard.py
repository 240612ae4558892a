"""A size had to be divisible by a number, and then was not."""

from recompile_doctor.diagnosis.size_rule import SizeRule
from recompile_doctor.diagnosis.sizes import SizeChange, SizeMeaning


class DivisibilityGuard(SizeRule):
    """A size had to be divisible by a number, and then was not."""

    id = "divisibility-guard"
    title = "a size must be divisible for the graph"
    meaning = SizeMeaning.DIVISIBLE
    why = (
        "the program splits, pads or reshapes by a number, and torch guards on the remainder "
        "that it saw"
    )

    def message(self, guard: str, change: SizeChange) -> str:
        """Return which guard failed, and for which size."""
        seen = "" if change.actual is None else f"; it was {change.actual}"
        what = (
            f"the graph fits only some remainders of dimension {change.size.dim} of "
            f"{change.size.source}"
        )
        return f"{what} ({guard}){seen}"
