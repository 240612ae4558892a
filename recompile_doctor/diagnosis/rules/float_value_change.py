"""A float argument or member changed."""

from recompile_doctor.diagnosis.value_rule import ValueRule, is_module_attribute
from recompile_doctor.model.expression import FloatLiteral
from recompile_doctor.model.reason import ValueMismatch


class FloatValueChange(ValueRule):
    """A float argument or member changed."""

    id = "float-value-change"
    title = "a float that torch compiled as a constant changed"
    why = (
        "torch compiles a float as a constant, and no list of sources makes it dynamic; a "
        "tensor in its place is an input like others"
    )

    def accepts(self, failure: ValueMismatch) -> bool:
        """Take the values of this kind."""
        return isinstance(failure.expected, FloatLiteral) and not is_module_attribute(failure)
