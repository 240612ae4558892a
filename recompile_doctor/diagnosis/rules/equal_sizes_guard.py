"""Two dimensions were tied together and then differed."""

from recompile_doctor.diagnosis.size_rule import SizeRule
from recompile_doctor.diagnosis.sizes import SizeChange, SizeMeaning


class EqualSizesGuard(SizeRule):
    """Two dimensions were tied together and then differed.

    ## What it finds

    A guard that two sizes are equal, and a call in which they are not.

    ## Why it recompiles

    Where two dynamic sizes are the same number in the call that is compiled,
    torch gives them one symbol ("duck sizing"): with `dynamic=True` two unrelated
    batches of 10 rows count as one size. The graph then holds only while they
    stay equal. An operation that needs equal sizes (an addition, a matrix
    product) makes the same guard, and there it is right.

    ## Evidence

    ```
    right.size()[0] == left.size()[0]  # duck sizing added this equality because
        these variables had the same size 10 (to avoid this specialization, set
        torch.fx.experimental._config.use_duck_shape = False)
    ```

    Without torch's note on duck sizing the guard comes from an operation of the
    program.

    ## What to do

    - Mark just the dimensions that vary instead of `dynamic=True`. Marked
      dimensions are not tied: `torch._dynamo.mark_dynamic(left, 0)` and the same
      for `right`: 1 recompile -> 0 (torch 2.8, 2.11, 2.13, 2.15). The variable
      `TORCH_COMPILE_DYNAMIC_SOURCES="L['left']:0,L['right']:0"` does the same: 0
      (torch 2.13, 2.15).
    - Or switch duck sizing off before anything is compiled: 1 -> 0 (torch 2.8,
      2.11, 2.13, 2.15).

    ```python
    import torch.fx.experimental._config

    torch.fx.experimental._config.use_duck_shape = False
    ```

    - Just dropping `dynamic=True` is worse here: 1 -> 2, since each of the two
      dimensions then costs its own warm-up compile (torch 2.13, 2.15).

    ## Example

    ```python
    @torch.compile  # before: @torch.compile(dynamic=True)
    def mean_gap(left, right):
        return left.mean(dim=0) - right.mean(dim=0)


    torch._dynamo.mark_dynamic(left, 0)
    torch._dynamo.mark_dynamic(right, 0)
    ```

    ## When it is wrong

    Sizes that are equal in all calls but one: one more graph, once. Sizes that
    the program needs equal cannot be untied; then the call with other sizes takes
    another way through the program.
    """

    id = "equal-sizes-guard"
    title = "two dimensions must be equal for the graph"
    meaning = SizeMeaning.EQUAL
    why = (
        "the two sizes were equal when torch compiled (duck sizing gives equal sizes one "
        "symbol), or an operation needs them equal, so the graph is only for calls where they "
        "are"
    )

    def message(self, guard: str, change: SizeChange) -> str:
        """Return which guard failed, and for which size."""
        seen = "" if change.actual is None else f"; it was {change.actual}"
        what = f"the graph ties dimension {change.size.dim} of {change.size.source} to another size"
        return f"{what} ({guard}){seen}"
