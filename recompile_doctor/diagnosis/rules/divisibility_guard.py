"""A size had to be divisible by a number, and then was not."""

from recompile_doctor.diagnosis.size_rule import SizeRule
from recompile_doctor.diagnosis.sizes import SizeChange, SizeMeaning


class DivisibilityGuard(SizeRule):
    """A size had to be divisible by a number, and then was not.

    ## What it finds

    A guard on the remainder of a size, and a call with another remainder.

    ## Why it recompiles

    The program, or an operation in it, asks whether a size divides evenly: a
    reshape into blocks, a pooling, a vectorised path, an `if n % 8 == 0`. Torch
    compiles the answer that it saw.

    ## Evidence

    ```
    (frame.size()[0] % 8) == 0  # if frame.shape[0] % 8 == 0:  # program.py:11 in
        block_energy
    ```

    The line behind the guard is the one that asked.

    ## What to do

    Pad, or sort into buckets, before the call, so that the compiled function sees
    multiples only:

    ```python
    frame = torch.nn.functional.pad(frame, (0, -frame.shape[0] % 8))
    ```

    - Measured with the example: 1 recompile -> 0 (torch 2.8, 2.11, 2.13, 2.15).
      Padding inside the compiled function, in place of the branch, gives 0 as
      well (torch 2.13, 2.15).
    - The result is another one where the padding counts: here the sums over
      blocks, not over frames. That is the program's decision, and no tool can
      take it.

    ## Example

    ```python
    for length in (16, 40, 21, 24, 35):
        frame = torch.full((length,), 3.0)
        frame = torch.nn.functional.pad(frame, (0, -length % 8))  # the cure
        block_energy(frame)
    ```

    ## When it is wrong

    A branch on divisibility has two outcomes, so it costs one graph more and then
    is done, as in the example. It is worth a change where each remainder gets its
    own guard or the compile is long.
    """

    id = "divisibility-guard"
    title = "a size must be divisible for the graph"
    meaning = SizeMeaning.DIVISIBLE
    why = (
        "the program splits, pads or reshapes by a number, and torch guards on the remainder "
        "that it saw"
    )

    def message(self, guard: str, change: SizeChange) -> str:
        """Return which guard failed, and for which size."""
        seen = "" if change.actual is None else f"; it was {change.actual}"
        what = (
            f"the graph fits only some remainders of dimension {change.size.dim} of "
            f"{change.size.source}"
        )
        return f"{what} ({guard}){seen}"
