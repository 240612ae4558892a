"""A tensor came with other strides."""

from recompile_doctor.diagnosis.attribution import Cause
from recompile_doctor.diagnosis.locate import call_location, definition, guard_location
from recompile_doctor.diagnosis.rule import Claim, Examination, RecompileRule
from recompile_doctor.model.guard import ShapeGuardKind
from recompile_doctor.model.reason import GuardFailure, ShapeGuardFailure, StrideMismatch
from recompile_doctor.model.source import StrideSource

_WHY = (
    "strides decide the memory layout that kernels are written for; a transposed, sliced or "
    "differently padded tensor of the same sizes is compiled again"
)


class StrideChange(RecompileRule):
    """A tensor came with other strides."""

    id = "stride-change"
    title = "a tensor's memory layout (strides) changed"

    def claim(self, failure: GuardFailure, cause: Cause, examination: Examination) -> Claim | None:
        """Claim stride mismatches, and shape guards that speak of strides."""
        values: tuple[str, ...] = ()
        if isinstance(failure, StrideMismatch):
            source, dim = str(failure.source), failure.dim
            message = f"stride {dim} of {source} was {failure.expected} and then {failure.actual}"
            values = (str(failure.expected), str(failure.actual))
        elif isinstance(failure, ShapeGuardFailure) and failure.kind is ShapeGuardKind.STRIDE:
            stride = next(each for each in failure.variables if isinstance(each, StrideSource))
            source, dim = str(stride.source), stride.dim
            message = f"the graph needs `{failure.expression}`, and this call has other strides"
        else:
            return None
        return Claim(
            source=source,
            dim=dim,
            message=message,
            why=_WHY,
            values=values,
            location=guard_location(failure, cause)
            or call_location(cause.recompile)
            or definition(cause.recompile.frame),
        )
