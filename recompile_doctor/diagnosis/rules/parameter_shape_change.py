"""A parameter came with another shape."""

from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import SizeMismatch


class ParameterShapeChange(PlainRule[SizeMismatch]):
    """A parameter came with another shape."""

    id = "parameter-shape-change"
    title = "a parameter has another shape"
    failure_type = SizeMismatch
    why = (
        "torch compiles the sizes of parameters as constants and does not make them dynamic, "
        "so one function used with modules of several widths is compiled for each"
    )

    def accepts(self, failure: SizeMismatch) -> bool:
        """Take the sizes of parameters only."""
        return failure.on_parameter

    def message(self, failure: SizeMismatch) -> str:
        """Return the two sizes."""
        change = f"was {failure.expected} and then {failure.actual}"
        return f"dimension {failure.dim} of the parameter {failure.source} {change}"

    def place(self, failure: SizeMismatch) -> tuple[str | None, int | None]:
        """Return the parameter and its dimension."""
        return str(failure.source), failure.dim

    def values(self, failure: SizeMismatch) -> tuple[str, ...]:
        """Return the two sizes."""
        return (str(failure.expected), str(failure.actual))
