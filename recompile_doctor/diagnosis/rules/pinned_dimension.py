"""A dynamic dimension was made constant by the program."""

from recompile_doctor.diagnosis.size_rule import SizeRule
from recompile_doctor.diagnosis.sizes import SizeChange, SizeMeaning


class PinnedDimension(SizeRule):
    """A dynamic dimension was made constant by the program."""

    id = "pinned-dimension"
    title = "a dimension that could vary was made a constant"
    meaning = SizeMeaning.PINNED
    why = (
        "the program used the size in a way that fits only one number (a broadcast with a "
        "constant shape, a comparison, a reshape), so torch replaced the symbol by that "
        "number"
    )

    def message(self, guard: str, change: SizeChange) -> str:
        """Return which guard failed, and for which size."""
        seen = "" if change.actual is None else f"; it was {change.actual}"
        what = (
            f"the graph fits only one size of dimension {change.size.dim} of {change.size.source}"
        )
        return f"{what} ({guard}){seen}"
