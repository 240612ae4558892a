"""A parameter came with another shape."""

from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import SizeMismatch


class ParameterShapeChange(PlainRule[SizeMismatch]):
    """A parameter came with another shape.

    ## What it finds

    An `nn.Parameter` (of a module, or passed as an argument) with other sizes
    than the compiled ones.

    ## Why it recompiles

    Torch keeps the sizes of parameters constant, also after they have changed:
    most models never change them. So every new width is a new graph, and so is
    every module of another width that shares the code.

    ## Evidence

    ```
    tensor 'self._parameters['table']' size mismatch at index 1. expected 10,
        actual 15. Guard failed on a parameter, consider using
        torch._dynamo.config.force_parameter_static_shapes = False to allow
        dynamism on parameters.
    ```

    ## What to do

    - `TORCH_COMPILE_DYNAMIC_SOURCES="L['self']._parameters['table']:1"` (`:1`
      from 2.13 on; without it before): 2 recompiles -> 0 (torch 2.13, 2.15);
      without `:1` also 0 (torch 2.8, 2.11, 2.13, 2.15).
    - What torch proposes, `force_parameter_static_shapes = False`, set before the
      first call: 2 -> 1, as the first change still costs a compile. Together with
      `mark_dynamic(head.table, 1)`: 0 (torch 2.13, 2.15).
    - `mark_dynamic` alone changes nothing on a parameter: 2 -> 2 (torch 2.13,
      2.15). An unbacked mark on it is ignored in the same way.

    ## Example

    ```python
    torch._dynamo.config.force_parameter_static_shapes = False
    for words in (10, 15, 22):
        head.table = nn.Parameter(torch.full((4, words), 0.1))
        torch._dynamo.mark_dynamic(head.table, 1)
        compiled(hidden)
    ```

    ## When it is wrong

    Layers of three widths that share one `forward` need three graphs, and those
    are the fast ones. It is a fault where the number of widths has no bound. Once
    the parameter is dynamic the next guard may show: diagnose again.
    """

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
