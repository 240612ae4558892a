"""A branch on a size, or a bound that torch derived, was decided differently."""

from recompile_doctor.diagnosis.size_rule import SizeRule
from recompile_doctor.diagnosis.sizes import SizeChange, SizeMeaning


class RangeGuard(SizeRule):
    """A branch on a size, or a bound that torch derived, was decided differently."""

    id = "range-guard"
    title = "a branch on a size was taken differently"
    meaning = SizeMeaning.RANGE
    why = (
        "the program, or an operation in it, branches on the size; the graph holds one "
        "branch, and the guard keeps it to the sizes that take that branch"
    )

    def message(self, guard: str, change: SizeChange) -> str:
        """Return which guard failed, and for which size."""
        seen = "" if change.actual is None else f"; it was {change.actual}"
        what = (
            f"dimension {change.size.dim} of {change.size.source} left the range that the graph "
            "was compiled for"
        )
        return f"{what} ({guard}){seen}"
