"""An if, while or assert needs the value of a tensor."""

from recompile_doctor.diagnosis.break_rule import BreakRule
from recompile_doctor.diagnosis.breaks import BreakMeaning


class DataDependentBranch(BreakRule):
    """An if, while or assert needs the value of a tensor.

    ## What it finds

    A line at which the graph breaks because the program branches on a tensor.

    ## Why it recompiles

    Which way to go is known only after the tensor has been computed. Torch ends
    the graph at the branch, looks, and compiles each side that is taken as a
    function of its own.

    ## Evidence

    ```
    Graph break in user code at program.py:9
    Graph Break Reason: Data-dependent branching
    ```

    Torch 2.6 writes `Data-dependent jump`, also for a branch on a number that was
    taken out of a tensor.

    ## What to do

    Compute both and choose, or hand both ways to torch:

    - `torch.where(condition, one, other)`: 1 break and 3 graphs -> no break and 1
      graph (torch 2.8, 2.11, 2.13, 2.15).
    - `torch.cond(condition, one, other, inputs)`: the same (torch 2.8, 2.11,
      2.13, 2.15). Both ways must return tensors of the same form.
    - `capture_scalar_outputs` is of no use for a branch on a tensor: 1 -> 1
      (torch 2.13).

    ## Example

    ```python
    # before
    if total > 10.0:
        return x / total
    return x * 2.0

    # after
    return torch.where(total > 10.0, x / total, x * 2.0)
    ```

    ## When it is wrong

    `where` computes both sides: where one is expensive and rare, the break is the
    better choice.
    """

    id = "data-dependent-branch"
    title = "the program branches on the value of a tensor"
    meaning = BreakMeaning.BRANCH
    why = (
        "which way to go is only known when the tensor has been computed; torch traces one "
        "way only, so the graph ends here"
    )
