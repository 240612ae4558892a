"""Arguments were the same tensor in one call and different ones in another."""

from recompile_doctor.diagnosis.finding import Disposition
from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import AliasingMismatch


class AliasingChange(PlainRule[AliasingMismatch]):
    """Arguments were the same tensor in one call and different ones in another.

    ## What it finds

    A call in which two inputs are one tensor (or no longer are) where the graph
    was made for the other.

    ## Why it recompiles

    A graph that writes to an input, or returns one, depends on which inputs are
    the same; torch takes a tensor that comes twice as one input.

    ## Evidence

    ```
    Duplicate tensors found: ["first", "second"]
    ```

    Torch gives the two names no order; the finding names the first of them.

    ## What to do

    Mostly nothing: it is counted apart as expected. If only the values matter and
    the call is rare, pass a copy:

    - Measured with the example: `distance(first, first.clone())`: 1 recompile ->
      0 (torch 2.8, 2.11, 2.13, 2.15). It costs a copy in each such call.

    ## Example

    ```python
    distance(first, second)
    distance(first, first.clone())  # before: distance(first, first)
    ```

    ## When it is wrong

    Self-attention and cross-attention through one function are two graphs, and
    should be. A copy of a large tensor in each call costs more than one compile.
    """

    id = "aliasing-change"
    title = "the same tensor stood for several arguments, or no longer did"
    failure_type = AliasingMismatch
    why = (
        "a graph that writes to one argument, or returns it, depends on which arguments are "
        "the same tensor"
    )
    standing = Disposition.EXPECTED

    def message(self, failure: AliasingMismatch) -> str:
        """Return which arguments are concerned."""
        names = ", ".join(str(each) for each in failure.sources)
        return f"whether {names} are the same tensor differs between calls"

    def place(self, failure: AliasingMismatch) -> tuple[str | None, int | None]:
        """Return the first of the sources; torch gives them no order, the message has all."""
        return (str(failure.sources[0]) if failure.sources else None), None
