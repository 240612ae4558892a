"""Rules about Python values that torch compiles as constants."""

from typing import ClassVar

from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.expression import expression_text
from recompile_doctor.model.reason import OtherConstant, ValueMismatch
from recompile_doctor.model.source import Attribute, Source


class ValueRule(PlainRule[ValueMismatch]):
    """A rule that claims the guards on values of one kind."""

    failure_type = ValueMismatch
    what: ClassVar[str]

    def message(self, failure: ValueMismatch) -> str:
        """Return the value that the graph is for."""
        return f"the graph is for {failure.source} = {_text(failure)}, this call has another"

    def values(self, failure: ValueMismatch) -> tuple[str, ...]:
        """Return the value that the graph is for."""
        return (_text(failure),)


def _text(failure: ValueMismatch) -> str:
    expected = failure.expected
    return expected.text if isinstance(expected, OtherConstant) else expression_text(expected)


def is_module_attribute(failure: ValueMismatch) -> bool:
    """Return whether a value is an attribute of an nn.Module.

    Torch says so since 2.8 (its hint on integer attributes of modules). Before, and for values
    that are not ints, the path must tell: an attribute directly on ``self`` or on a submodule.
    """
    if _stands_on_module(failure.source):
        return True
    return failure.module_int_hint and not _belongs_to_hook(failure.source)


def _belongs_to_hook(source: Source | None) -> bool:
    """Return whether a value belongs to a hook of a module, for which torch gives its hint too."""
    steps = () if source is None else source.steps
    return any(isinstance(each, Attribute) and each.name.endswith("_hooks") for each in steps)


def _stands_on_module(source: Source | None) -> bool:
    if source is None or not source.steps or not isinstance(source.steps[-1], Attribute):
        return False
    owner = source.parent()
    if owner is None:
        return False
    if str(owner) == "L['self']":
        return True
    grandparent = owner.parent()
    return grandparent is not None and str(grandparent).endswith("._modules")
