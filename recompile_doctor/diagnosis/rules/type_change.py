"""A value had another type, or was None and then not."""

from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import TypeMismatch


class TypeChange(PlainRule[TypeMismatch]):
    """A value had another type, or was None and then not."""

    id = "type-change"
    title = "a value had another type"
    failure_type = TypeMismatch
    why = (
        "what the program does with a value depends on its type, so each type has a graph of "
        "its own"
    )

    def message(self, failure: TypeMismatch) -> str:
        """Return whose type changed."""
        return f"{failure.source} has another type than the graph was compiled for"
