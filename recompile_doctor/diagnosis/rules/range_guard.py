"""A branch on a size, or a bound that torch derived, was decided differently."""

from recompile_doctor.diagnosis.size_rule import SizeRule
from recompile_doctor.diagnosis.sizes import SizeChange, SizeMeaning


class RangeGuard(SizeRule):
    """A branch on a size, or a bound that torch derived, was decided differently.

    ## What it finds

    A guard that keeps a size within a range, and a call outside of it.

    ## Why it recompiles

    An `if` on a size is decided while tracing; the graph holds one branch, and
    the guard keeps it to the sizes that take this branch. Operations make such
    guards too (a slice that is cut at the end, a convolution that needs a least
    size).

    ## Evidence

    ```
    2 <= tokens.size()[0] <= 64  # if tokens.shape[0] > 64:  # program.py:11 in
        pool (user code shown is first use of this value--the guard itself is not
        due user code but due to 0/1 specialization in the framework; ...) and if
        tokens.shape[0] > 64:  # program.py:11 in pool
    ```

    Since 2.7 torch joins the lower bound (0 and 1 are always kept out) with the
    bound of the branch, and its note on 0 and 1 stays there. The size of the call
    tells which of the two failed. Torch 2.6 writes two guards.

    ## What to do

    - Take the branch outside the compiled function, and compile each side by
      itself: 1 recompile -> 0 (torch 2.13, 2.15). There are still two graphs;
      what is saved is the guard that fails.
    - An unbacked dimension is no cure. The same `if` then breaks the graph: 0
      recompiles, but 3 graphs and 1 break instead of 2 graphs; with
      `fullgraph=True` it is an error (torch 2.13).

    ## Example

    ```python
    # before: one compiled function with a branch on the length
    # after
    def pool(tokens):
        return pool_long(tokens) if tokens.shape[0] > 64 else pool_short(tokens)
    ```

    where `pool_long` and `pool_short` are the compiled functions.

    ## When it is wrong

    A branch that both sides of a program need costs one graph for each side,
    once; it is no fault. Look closer when the number of graphs grows with the
    number of sizes.
    """

    id = "range-guard"
    title = "a branch on a size was taken differently"
    meaning = SizeMeaning.RANGE
    why = (
        "the program, or an operation in it, branches on the size; the graph holds one "
        "branch, and the guard keeps it to the sizes that take that branch"
    )

    def message(self, guard: str, change: SizeChange) -> str:
        """Return which guard failed, and for which size."""
        seen = "" if change.actual is None else f"; it was {change.actual}"
        what = (
            f"dimension {change.size.dim} of {change.size.source} left the range that the graph "
            "was compiled for"
        )
        return f"{what} ({guard}){seen}"
