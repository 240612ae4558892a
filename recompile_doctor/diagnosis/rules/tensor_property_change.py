"""A tensor came with another dtype, device, requires_grad, layout, class or dispatch keys."""

from recompile_doctor.diagnosis.finding import Disposition
from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import TensorPropertyMismatch


class TensorPropertyChange(PlainRule[TensorPropertyMismatch]):
    """A tensor came with another dtype, device, requires_grad, layout, class or dispatch keys."""

    id = "tensor-property-change"
    title = "a property of a tensor changed (dtype, device, requires_grad, ...)"
    failure_type = TensorPropertyMismatch
    why = (
        "torch's kernels, and whether gradients are needed, depend on these properties, so "
        "each combination has a graph of its own"
    )
    standing = Disposition.EXPECTED

    def message(self, failure: TensorPropertyMismatch) -> str:
        """Return which property changed, and how."""
        change = "changed"
        if failure.expected is not None and failure.actual is not None:
            change = f"was {failure.expected} and then {failure.actual}"
        return f"the {failure.property.value} of {failure.source} {change}"

    def values(self, failure: TensorPropertyMismatch) -> tuple[str, ...]:
        """Return the old and the new property."""
        return tuple(each for each in (failure.expected, failure.actual) if each is not None)
