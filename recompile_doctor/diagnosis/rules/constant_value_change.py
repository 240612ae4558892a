"""A string, bool, None or enum changed."""

from recompile_doctor.diagnosis.value_rule import ValueRule, is_module_attribute
from recompile_doctor.model.expression import FloatLiteral, IntLiteral
from recompile_doctor.model.reason import ValueMismatch


class ConstantValueChange(ValueRule):
    """A string, bool, None or enum changed."""

    id = "constant-value-change"
    title = "a constant (str, bool, None, enum) changed"
    why = "such a value decides what the program does, so each one has a graph of its own"

    def accepts(self, failure: ValueMismatch) -> bool:
        """Take the values of this kind."""
        is_number = isinstance(failure.expected, IntLiteral | FloatLiteral)
        return not is_number and not is_module_attribute(failure)
