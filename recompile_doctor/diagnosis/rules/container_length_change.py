"""A container had another length."""

from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import LengthMismatch


class ContainerLengthChange(PlainRule[LengthMismatch]):
    """A container had another length."""

    id = "container-length-change"
    title = "a list, tuple or dict had another length"
    failure_type = LengthMismatch
    why = (
        "torch unrolls a container while tracing: its length is part of the graph, and no "
        "list or mark makes it dynamic"
    )

    def message(self, failure: LengthMismatch) -> str:
        """Return the length that the graph is for."""
        return f"the graph is for {failure.source} with the length {failure.expected}"

    def values(self, failure: LengthMismatch) -> tuple[str, ...]:
        """Return the length that the graph is for."""
        return (str(failure.expected),)
