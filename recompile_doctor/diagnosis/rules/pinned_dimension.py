"""A dynamic dimension was made constant by the program."""

from recompile_doctor.diagnosis.size_rule import SizeRule
from recompile_doctor.diagnosis.sizes import SizeChange, SizeMeaning


class PinnedDimension(SizeRule):
    """A dynamic dimension was made constant by the program.

    ## What it finds

    A dimension that torch could have kept dynamic (it made a symbol for it), but
    whose size the program used in a way that only one number fits.

    ## Why it recompiles

    While tracing, torch met something that needs the number itself: a Python loop
    over the size, a comparison with `==`, an operation with a tensor of fixed
    size, an index into a list. It put the number in the place of the symbol, so
    each other size needs a graph of its own, for ever.

    ## Evidence

    ```
    tensor 'rows' size mismatch at index 0. expected 4, actual 6
    ```

    The reason looks like that of a dimension that was never dynamic. The
    difference stands where the entry was compiled: a symbol was created for the
    size and then replaced by a number (in the text log `set_replacement s10 = 4
    (range_refined_to_singleton)`).

    ## What to do

    Take the number out of the program: let a tensor operation do what the loop
    does, and make constants from the size (`torch.ones(batch.shape[0], 3)`). No
    mark helps.

    - Measured with the example: 2 recompiles -> 0 (torch 2.8, 2.11, 2.13, 2.15),
      with the same results.
    - `TORCH_COMPILE_DYNAMIC_SOURCES` changes nothing: 2 -> 2 (torch 2.13, 2.15).
    - `TORCH_COMPILE_UNBACKED_SOURCES` gives 0 recompiles and is no cure: the loop
      then breaks the graph instead, and less of the function is compiled (3
      graphs and no break before, 1 graph and 1 break after) (torch 2.13, 2.15).

    ## Example

    ```python
    # before: unrolled, a graph for each number of rows
    best = rows[0]
    for index in range(1, rows.shape[0]):
        best = torch.maximum(best, rows[index])

    # after
    best = rows.amax(dim=0)
    ```

    ## When it is wrong

    If the size takes a few values only, a graph for each is a fair price, and the
    faster code. If the values have no bound, the recompile limit is reached
    sooner or later.
    """

    id = "pinned-dimension"
    title = "a dimension that could vary was made a constant"
    meaning = SizeMeaning.PINNED
    why = (
        "the program used the size in a way that fits only one number (a broadcast with a "
        "constant shape, a comparison, a reshape), so torch replaced the symbol by that "
        "number"
    )

    def message(self, guard: str, change: SizeChange) -> str:
        """Return which guard failed, and for which size."""
        seen = "" if change.actual is None else f"; it was {change.actual}"
        what = (
            f"the graph fits only one size of dimension {change.size.dim} of {change.size.source}"
        )
        return f"{what} ({guard}){seen}"
