"""A container had another length."""

from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import LengthMismatch


class ContainerLengthChange(PlainRule[LengthMismatch]):
    """A container had another length.

    ## What it finds

    A list, tuple, dict or other container argument with another number of
    elements.

    ## Why it recompiles

    Torch unrolls a container: each element is an input of its own, and loops over
    it are written out. The length is part of the graph, and no mark or list makes
    it dynamic.

    ## Evidence

    ```
    len(levels) == 2                  # total = levels[0]  # program.py:8 in merge
    ```

    Torch guards on the length before it looks at the elements, so this hides what
    else differs.

    ## What to do

    Pass one tensor in place of a list of equal tensors, and mark the dimension
    that varies now:

    - `torch.stack(levels)` and `mark_dynamic(levels, 0)`: 2 recompiles -> 0
      (torch 2.8, 2.11, 2.13, 2.15); without the mark 1 (torch 2.13, 2.15).
    - Where the elements have several sizes there is no such cure that we have
      measured.
    - `TORCH_COMPILE_DYNAMIC_SOURCES="L['levels']"` changes nothing: 2 -> 2 (torch
      2.13, 2.15).

    ## Example

    ```python
    levels = torch.stack(levels)  # before: the list itself
    torch._dynamo.mark_dynamic(levels, 0)
    merge(levels)  # merge: levels.mean(dim=0)
    ```

    ## When it is wrong

    A model whose number of levels is a setting has one graph for each setting in
    use. Where lengths are 2, 3 and 4 for ever, three graphs are what there will
    be.
    """

    id = "container-length-change"
    title = "a list, tuple or dict had another length"
    failure_type = LengthMismatch
    why = (
        "torch unrolls a container while tracing: its length is part of the graph, and no "
        "list or mark makes it dynamic"
    )

    def message(self, failure: LengthMismatch) -> str:
        """Return the length that the graph is for."""
        return f"the graph is for {failure.source} with the length {failure.expected}"

    def values(self, failure: LengthMismatch) -> tuple[str, ...]:
        """Return the length that the graph is for."""
        return (str(failure.expected),)
