"""Torch had to decide an expression of an unbacked symbol (u0), which has no value."""

from recompile_doctor.diagnosis.break_rule import BreakRule
from recompile_doctor.diagnosis.breaks import BreakMeaning


class DataDependentGuard(BreakRule):
    """Torch had to decide on an unbacked symbol (u0), whose value it does not have.

    ## What it finds

    A place where the program, or an operation, compares a size or number that
    comes from data, or from a dimension marked unbacked. Without `fullgraph` the
    graph breaks there; otherwise torch raises an error.

    ## Why it recompiles

    It does not: torch may not guard on such a value, and nothing in the program
    says which way to go.

    ## Evidence

    ```
    Could not guard on data-dependent expression u0 > 7 (unhinted: u0 > 7).
        (Size-like symbols: none)
    Caused by: if longest > 7:  # program.py:24 in pad_count_strict
    ```

    Since 2.8 the error is not in the text log; it is in the trace and in the
    traceback that the program prints. Torch 2.6 reports some of these places as
    branches on a tensor.

    ## What to do

    - Keep the value a tensor and choose with `torch.where`: the break and the
      error of the example are gone (1 break and 1 error -> 0 and 0) (torch 2.8,
      2.11, 2.13, 2.15).
    - Say what is known about it: `torch._check(longest <= 6)` before the branch.
      Torch then needs no decision: also 0 and 0 (torch 2.8, 2.11, 2.13, 2.15).
      The check raises an error where it does not hold.
    - If the symbol comes from an unbacked mark of your own, the mark may not fit
      this program: without it the dimension gets a graph of its own for 0 and 1,
      and no error.

    ## Example

    ```python
    longest = lengths.max()  # before: .item()
    return torch.where(longest > 6, lengths * 0, longest - lengths)
    ```

    ## When it is wrong

    A break here can be the honest answer: the program does depend on the data.
    `torch._check` is a promise; do not make it for values that you only hope for.
    """

    id = "data-dependent-guard"
    title = "torch cannot decide an expression that depends on data"
    meaning = BreakMeaning.GUARD
    why = (
        "the size or number comes from data or from an unbacked dimension; torch may not "
        "guard on it, and nothing in the program says which way it goes"
    )
