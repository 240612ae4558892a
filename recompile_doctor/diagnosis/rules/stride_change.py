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
    """A tensor came with other strides.

    ## What it finds

    A tensor of the right sizes, but with another memory layout than the one that
    was compiled.

    ## Why it recompiles

    Kernels are written for a layout, so strides are guarded. A transposed,
    expanded or sliced tensor and one in another memory format have the same sizes
    and other strides.

    ## Evidence

    ```
    tensor 'matrix' stride mismatch at index 0. expected 4, actual 1
    ```

    Torch checks sizes first: a call in which both differ is reported as a change
    of size.

    ## What to do

    Bring the tensor into one layout before the call: `matrix.contiguous()`. It
    copies where the layout differs.

    - Measured with the example: 1 recompile -> 0 (torch 2.8, 2.11, 2.13, 2.15).
    - `dynamic=True` does not help: 1 -> 1 (torch 2.13, 2.15).

    ## Example

    ```python
    for matrix in (row_major, column_major, row_major, column_major):
        normalise(matrix.contiguous())  # the cure
    ```

    ## When it is wrong

    Two layouts that come again and again have two graphs, each the faster for its
    layout. A copy in every call can cost more than one compile: measure the call,
    not the compile.
    """

    id = "stride-change"
    title = "a tensor's memory layout (strides) changed"
    by_value = False

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
