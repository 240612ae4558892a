"""Sizes 0 and 1, which torch compiles separately."""

from recompile_doctor.diagnosis.attribution import Cause
from recompile_doctor.diagnosis.locate import guard_location, size_location
from recompile_doctor.diagnosis.rule import Claim, Examination, RecompileRule
from recompile_doctor.diagnosis.sizes import SizeChange, SizeMeaning, size_change
from recompile_doctor.model.guard import ShapeGuardKind
from recompile_doctor.model.reason import GuardFailure, ShapeGuardFailure, SizeMismatch

_WHY = (
    "torch compiles a graph of its own for a size that is 0 or 1, because such a dimension "
    "broadcasts or is empty; a dynamic mark does not avoid that, only an unbacked one can"
)


class ZeroOneSpecialization(RecompileRule):
    """A dimension is sometimes 0 or 1 and sometimes another size.

    ## What it finds

    A dimension of a tensor, or a storage offset, that is 0 or 1 in some calls and
    larger in others, where that made torch compile again.

    ## Why it recompiles

    A size of 1 broadcasts and a size of 0 is empty, so torch compiles these two
    as constants. A dynamic dimension stands for 2 and more, and its graph is
    guarded by `2 <= size`. Marking it dynamic does not change that; only an
    unbacked dimension stands for every size.

    ## Evidence

    ```
    tensor 'x' size mismatch at index 0. expected 8, actual 1
    2 <= items.size()[0]  # centred = items - items.mean()  # program.py:11 in
        score (user code shown is first use of this value--the guard itself is not
        due user code but due to 0/1 specialization ...
    ```

    The first form comes as long as the dimension is a constant. Since 2.7 torch
    joins the bounds of a size into one guard (`2 <= size <= 64`) and leaves its
    note on 0 and 1 there when it is the upper bound that fails; here the sizes
    decide, not the note.

    ## What to do

    Mark the dimension unbacked, before each call:

    ```python
    torch._dynamo.decorators.mark_unbacked(items, 0)
    ```

    The same without touching the program, from torch 2.13 on:
    `TORCH_COMPILE_UNBACKED_SOURCES="L['items']:0"`. Torch 2.8 to 2.12 take no
    `:0`; there `"L['items']"` makes all dimensions of the tensor unbacked.

    - Measured with the example below: 3 recompiles -> 0 with either (torch 2.8,
      2.11, 2.13, 2.15). With `mark_dynamic` 3 -> 2 (torch 2.13, 2.15).
    - All dimensions that are tied to it must be marked too. With a second tensor
      of the same length added to the result, marking one of the two left 3
      recompiles, marking both left 0 (torch 2.13, 2.15).
    - Code that branches on the size, or broadcasts a 1 against something larger,
      does not survive the mark: the recompile becomes a graph break or an error.
      Compare a rerun before you keep it.

    ## Example

    ```python
    for count in (12, 20, 1, 31, 0, 1):
        items = torch.full((count, 5), 0.25)
        torch._dynamo.decorators.mark_unbacked(items, 0)  # the cure
        score(items, weights)
    ```

    ## When it is wrong

    A last batch of one item costs one more graph, once; if that is all, leave it.
    How fast the unbacked graph runs is not known before it is measured: it takes
    the general path everywhere, and torch has no size to tune for unless
    `hint_override` names one.
    """

    id = "zero-one-specialization"
    title = "a dimension is sometimes 0 or 1"

    def claim(self, failure: GuardFailure, cause: Cause, examination: Examination) -> Claim | None:
        """Claim size guards where the old or the new size is 0 or 1, also of storage offsets."""
        if isinstance(failure, ShapeGuardFailure) and failure.kind is ShapeGuardKind.STORAGE_OFFSET:
            return self._offset(failure, cause)
        if isinstance(failure, SizeMismatch) and failure.on_parameter:
            return None
        change = size_change(failure, cause, examination.run)
        if change is None or change.meaning is not SizeMeaning.ZERO_ONE:
            return None
        source, dim = str(change.size.source), change.size.dim
        location = guard_location(failure, cause) if change.observed else None
        return Claim(
            source=source,
            dim=dim,
            message=_message(source, dim, change),
            why=_WHY,
            values=change.values,
            location=location or size_location(source, dim, cause, examination.uses),
            observed=change.observed and change.certain,
        )

    def _offset(self, failure: ShapeGuardFailure, cause: Cause) -> Claim | None:
        if failure.source is None:
            return None
        return Claim(
            source=f"{failure.source}.storage_offset()",
            dim=None,
            message=f"the storage offset of {failure.source} was 0 or 1 where the graph was "
            "compiled for other offsets, or the other way round",
            why="torch specializes storage offsets of 0 and 1 like sizes; a view that begins "
            "elsewhere in its storage is then compiled again",
            location=guard_location(failure, cause),
        )


def _message(source: str, dim: int, change: SizeChange) -> str:
    what = f"dimension {dim} of {source}"
    if change.expected is not None and change.actual is not None:
        return f"{what} was {change.expected} when it was compiled and then {change.actual}"
    if change.actual is not None:
        return f"{what} was {change.actual}, and the graph is for 2 and more"
    return f"{what} was 0 or 1, and the graph is for 2 and more"
