"""The graph breaks for a reason that is not data."""

from recompile_doctor.diagnosis.break_rule import BreakRule
from recompile_doctor.diagnosis.breaks import BreakMeaning


class GraphBreak(BreakRule):
    """The graph breaks for a reason that is not data.

    ## What it finds

    A line that torch does not trace: a print, a call that is kept out of
    compilation, a C function, an unsupported construct. Torch's title of the
    break and its hints are shown.

    ## Why it recompiles

    A break does not recompile by itself. Torch compiles what stands before, runs
    the line eagerly, and compiles the rest as a new function. That has guards of
    its own (see resume-function-churn), and less is fused.

    ## Evidence

    ```
    Graph break in user code at program.py:14
    Graph Break Reason: ...
    Failed to trace builtin operator
      Explanation: Dynamo does not know how to trace builtin operator `print` with
        argument types ['str']
    ```

    A trace counts a break in each attempt to compile, a text log once in full and
    then as repeated: the number of places is the same in both, the number of
    times is not.

    ## What to do

    Move the line out of the compiled function, or write it in a way that torch
    traces:

    - Measured with the example (a print, and a helper under
      `torch.compiler.disable`): both taken away, 2 breaks and 4 graphs -> 0
      breaks and 2 graphs (torch 2.8, 2.11, 2.13, 2.15).
    - A print for debugging only: `if not torch.compiler.is_compiling():` in front
      of it. It then prints nothing in compiled calls: 2 -> 0 together with the
      helper (torch 2.13, 2.15).
    - `torch._dynamo.config.reorderable_logging_functions.add(print)` keeps the
      print and delays it to the end of the graph: 2 -> 1 (torch 2.13, 2.15).

    ## Example

    ```python
    def blend(x, y):
        mixed = 0.25 * x + 0.75 * y
        return mixed.exp()  # before: a print between the two
    ```

    ## When it is wrong

    `torch.compiler.disable` is often there for a reason. One break between two
    large parts costs little; a break in a loop or in a small function costs much.
    """

    id = "graph-break"
    title = "the graph breaks"
    meaning = BreakMeaning.OTHER
    why = (
        "torch does not trace this construct; it runs the code before it as one graph, the "
        "construct eagerly, and goes on in a resume function"
    )
