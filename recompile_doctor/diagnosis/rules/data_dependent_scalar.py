"""A Python number is taken out of a tensor (.item(), int(), float(), tolist())."""

from recompile_doctor.diagnosis.break_rule import BreakRule
from recompile_doctor.diagnosis.breaks import BreakMeaning


class DataDependentScalar(BreakRule):
    """A Python number is taken out of a tensor (.item(), int(), float(), tolist()).

    ## What it finds

    A line at which the graph breaks because the program asks for the value of a
    tensor.

    ## Why it recompiles

    The value is known only after the tensor has been computed. Torch ends the
    graph there, computes, and goes on in a new function with the number as an
    argument. On a GPU the line waits for the device as well. Where the number
    then varies, what follows recompiles (see resume-function-churn).

    ## Evidence

    ```
    Graph break in user code at program.py:9
    Graph Break Reason: ...
    Unsupported Tensor.item() call with capture_scalar_outputs=False
    ```

    ## What to do

    - Keep it a tensor in the compiled function, and take the number out behind
      it: 1 break -> 0 (torch 2.8, 2.11, 2.13, 2.15).
    - Or let torch trace the number: `TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS=1`, or
      `torch._dynamo.config.capture_scalar_outputs = True`: 1 -> 0 (torch 2.8,
      2.11, 2.13, 2.15). It serves where the number is returned or computed with;
      a branch on it breaks the graph all the same (see data-dependent-guard).

    ## Example

    ```python
    def gradient_norm(gradient):
        return gradient.square().sum().sqrt()  # before: .item() here


    norm = gradient_norm(gradient).item()  # after
    ```

    ## When it is wrong

    An `.item()` at the end of a function, for a log line, costs little: one
    graph, one break. Zero recompiles beside a break can also mean that hardly
    anything was compiled; look at the graphs.
    """

    id = "data-dependent-scalar"
    title = "a Python number is taken out of a tensor"
    meaning = BreakMeaning.SCALAR
    why = (
        "the number is only known when the tensor has been computed, so torch ends the graph, "
        "computes, and goes on in a resume function"
    )
