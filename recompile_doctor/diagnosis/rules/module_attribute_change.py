"""A Python attribute of an nn.Module changed between calls."""

from recompile_doctor.diagnosis.value_rule import ValueRule, is_module_attribute
from recompile_doctor.model.reason import ValueMismatch


class ModuleAttributeChange(ValueRule):
    """A Python attribute of an nn.Module changed between calls."""

    id = "module-attribute-change"
    title = "an attribute of a module changed"
    why = (
        "torch compiles numbers and flags on a module as constants, also those that change "
        "with each call, such as counters"
    )

    def accepts(self, failure: ValueMismatch) -> bool:
        """Take the values of this kind."""
        return is_module_attribute(failure)
