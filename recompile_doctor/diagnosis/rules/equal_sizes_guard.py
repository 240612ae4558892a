"""Two dimensions were tied together and then differed."""

from recompile_doctor.diagnosis.size_rule import SizeRule
from recompile_doctor.diagnosis.sizes import SizeChange, SizeMeaning


class EqualSizesGuard(SizeRule):
    """Two dimensions were tied together and then differed."""

    id = "equal-sizes-guard"
    title = "two dimensions must be equal for the graph"
    meaning = SizeMeaning.EQUAL
    why = (
        "the two sizes were equal when torch compiled (duck sizing gives equal sizes one "
        "symbol), or an operation needs them equal, so the graph is only for calls where they "
        "are"
    )

    def message(self, guard: str, change: SizeChange) -> str:
        """Return which guard failed, and for which size."""
        seen = "" if change.actual is None else f"; it was {change.actual}"
        what = f"the graph ties dimension {change.size.dim} of {change.size.source} to another size"
        return f"{what} ({guard}){seen}"
