"""An operation's output shape depends on data (nonzero, masks, unique, repeat_interleave)."""

from recompile_doctor.diagnosis.break_rule import BreakRule
from recompile_doctor.diagnosis.breaks import BreakMeaning


class DataDependentShape(BreakRule):
    """The shape of a result depends on data (nonzero, masks, unique, ...).

    ## What it finds

    A line at which the graph breaks because the size of a result is not known
    before it is computed.

    ## Why it recompiles

    Torch ends the graph before such an operation, runs it, and goes on in a new
    function, which gets a tensor of a new size each time and recompiles as for
    any other input.

    ## Evidence

    ```
    Graph break in user code at program.py:9
    Graph Break Reason: ...
    Dynamic shape operator
      Explanation: Operator `aten.nonzero.default`'s output shape depends on input
        Tensor data.
    ```

    ## What to do

    - `TORCHDYNAMO_CAPTURE_DYNAMIC_OUTPUT_SHAPE_OPS=1`, or
      `torch._dynamo.config.capture_dynamic_output_shape_ops = True`: the result
      gets an unbacked size and stays in the graph: 1 break -> 0 (torch 2.8, 2.11,
      2.13, 2.15). What follows must not branch on that size.
    - Return the mask, and select outside the compiled function: 1 -> 0 (torch
      2.13, 2.15).

    ## Example

    ```python
    def peaks(signal):
        return signal - signal.mean() > 0.5  # before: torch.nonzero(...)


    positions = torch.nonzero(peaks(signal))  # after
    ```

    ## When it is wrong

    A selection at the very end of the compiled function costs little where it is.
    Measure the flag: a program that mixes selections with branches on their size
    can get more breaks from it, not fewer.
    """

    id = "data-dependent-shape"
    title = "an operation's output shape depends on data"
    meaning = BreakMeaning.SHAPE
    why = (
        "the number of elements is only known when the tensor has been computed, so torch "
        "ends the graph before the operation"
    )
