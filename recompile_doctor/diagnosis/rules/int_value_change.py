"""An int argument, member or stack value changed."""

from recompile_doctor.diagnosis.attribution import Cause
from recompile_doctor.diagnosis.locate import guard_location
from recompile_doctor.diagnosis.rule import Claim, Examination
from recompile_doctor.diagnosis.value_rule import ValueRule, is_module_attribute
from recompile_doctor.model.expression import IntLiteral, expression_text
from recompile_doctor.model.reason import GuardFailure, ShapeGuardFailure, ValueMismatch
from recompile_doctor.model.source import Source


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
        return isinstance(failure.expected, IntLiteral) and not is_module_attribute(failure)

    def claim(self, failure: GuardFailure, cause: Cause, examination: Examination) -> Claim | None:
        """Claim constants, and guards on an int that is a symbol by now."""
        if not isinstance(failure, ShapeGuardFailure) or failure.sizes:
            return super().claim(failure, cause, examination)
        source = next((each for each in failure.variables if isinstance(each, Source)), None)
        if source is None:
            return None
        return Claim(
            source=str(source),
            dim=None,
            message=f"the graph needs `{expression_text(failure.expression)}`, and this call has "
            "another value",
            why="the program branches on the int, or loops over it; the graph holds one way",
            location=guard_location(failure, cause),
        )
