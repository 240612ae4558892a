"""A tensor had another number of dimensions."""

from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import RankMismatch


class RankChange(PlainRule[RankMismatch]):
    """A tensor had another number of dimensions."""

    id = "rank-change"
    title = "a tensor's number of dimensions changed"
    failure_type = RankMismatch
    why = "the number of dimensions is part of the graph: each one needs a graph of its own"

    def message(self, failure: RankMismatch) -> str:
        """Return the two numbers of dimensions."""
        return f"{failure.source} had {failure.expected} dimensions and then {failure.actual}"

    def values(self, failure: RankMismatch) -> tuple[str, ...]:
        """Return the two numbers of dimensions."""
        return (str(failure.expected), str(failure.actual))
