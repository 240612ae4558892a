"""A float argument or member changed."""

from recompile_doctor.diagnosis.attribution import Cause
from recompile_doctor.diagnosis.value_rule import NumberRule, is_float, is_module_attribute
from recompile_doctor.model.expression import FloatLiteral
from recompile_doctor.model.reason import ShapeGuardFailure, ValueMismatch
from recompile_doctor.model.source import Source


class FloatValueChange(NumberRule):
    """A float argument or member changed.

    ## What it finds

    A Python float that torch compiled as a constant and that then had another
    value.

    ## Why it recompiles

    A float is a constant of the first graph. After one change torch hands it in
    as a scalar where it can; with `torch._dynamo.config.specialize_float = True`
    it does not and each value is compiled.

    ## Evidence

    ```
    rate == 0.5           # return state * (1.0 - rate) + rate * state.mean()  #
        program.py:8 in decay
    ```

    ## What to do

    Pass a tensor of no dimensions in its place; it is an input like others:

    ```python
    state = decay(state, torch.tensor(rate))
    ```

    - Measured with the example: 1 recompile -> 0 (torch 2.8, 2.11, 2.13, 2.15).
    - No list of sources reaches a float:
      `TORCH_COMPILE_DYNAMIC_SOURCES="L['rate']"` leaves 1 (torch 2.13, 2.15).
    - With `specialize_float = True` the four values of the example cost 3
      recompiles (torch 2.13, 2.15).

    ## Example

    ```python
    for rate in (0.5, 0.25, 0.125, 0.0625):
        state = decay(state, torch.tensor(rate))  # before: decay(state, rate)
    ```

    ## When it is wrong

    A single recompile, after which the float is an input, needs no change. A
    tensor takes part in type promotion as tensors do: check the dtype of what is
    computed from it.
    """

    id = "float-value-change"
    title = "a float argument or member changed"
    why = (
        "torch compiles a float as a constant first; after one change it hands it in as an input, "
        "unless the program needs its value while tracing"
    )
    branch = "the program branches on the float, or needs its value; the graph holds one way"

    def accepts(self, failure: ValueMismatch) -> bool:
        """Take the values of this kind."""
        return isinstance(failure.expected, FloatLiteral) and not is_module_attribute(failure)

    def is_kind(self, source: Source, failure: ShapeGuardFailure, cause: Cause) -> bool:
        """Return whether the symbol stands for a float."""
        return is_float(source, failure, cause)
