"""An int argument, member or stack value changed."""

from recompile_doctor.diagnosis.value_rule import ValueRule, is_module_attribute
from recompile_doctor.model.reason import ValueMismatch


class IntValueChange(ValueRule):
    """An int argument, member or stack value changed."""

    id = "int-value-change"
    title = "an int that torch compiled as a constant changed"
    why = (
        "torch compiles an int as a constant first; an argument becomes a symbol after it "
        "changed once, an attribute does not"
    )

    def accepts(self, failure: ValueMismatch) -> bool:
        """Take the values of this kind."""
        return (
            isinstance(failure.expected, int)
            and not isinstance(failure.expected, bool)
            and not is_module_attribute(failure)
        )
