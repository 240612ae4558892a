"""Sizes that change, compiled as constants at first."""

from recompile_doctor.diagnosis.attribution import Cause, parse_size, symbolic_dims
from recompile_doctor.diagnosis.finding import Disposition
from recompile_doctor.diagnosis.locate import call_location, definition, size_location
from recompile_doctor.diagnosis.rule import Claim, Examination, RecompileRule
from recompile_doctor.diagnosis.sizes import SizeMeaning, size_change
from recompile_doctor.model.reason import AttributeMissing, GuardFailure, SizeMismatch
from recompile_doctor.model.source import SizeSource, parse_source

_WHY = (
    "torch compiles the first size as a constant; when another one comes it compiles once more "
    "and treats the dimension as dynamic from then on, unless that is switched off"
)


class UnmarkedDynamicDim(RecompileRule):
    """A dimension varies between sizes of 2 and more, and is not marked dynamic.

    ## What it finds

    A dimension that torch compiled for one size and that then had another one,
    both of 2 or more.

    ## Why it recompiles

    Torch compiles the sizes of the first call as constants. When one of them
    differs later, it compiles again and makes that dimension dynamic ("automatic
    dynamic"). The second graph then serves all sizes of 2 and more. Each
    dimension that starts to vary at another call costs one compile of its own;
    with `dynamic=False` every new size costs one.

    ## Evidence

    ```
    tensor 'signal' size mismatch at index 1. expected 14, actual 9
    ```

    Torch names the first dimension that differs and stops there. Where the log
    has the sizes of all inputs (a TORCH_TRACE log), others that changed in the
    same call are shown as inferred.

    ## What to do

    Say which dimension varies, before the first call:

    ```python
    torch._dynamo.mark_dynamic(signal, 1)
    ```

    or, without touching the program,
    `TORCH_COMPILE_DYNAMIC_SOURCES="L['signal']:1"` from torch 2.13 on and
    `"L['signal']"` before (2.7 and later).

    - Measured with the example: 1 recompile -> 0 with the mark (torch 2.8, 2.11,
      2.13, 2.15), with the variable for the whole tensor (torch 2.8, 2.11, 2.13,
      2.15), and with `:1` (torch 2.13, 2.15). On 2.8 and 2.11 the entry with `:1`
      does nothing: 1 -> 1.
    - `torch.compile(..., dynamic=True)` also gives 1 -> 0 (torch 2.13, 2.15), but
      makes every dimension of every input dynamic, and equal sizes get tied
      together (see equal-sizes-guard).

    ## Example

    ```python
    for length in (14, 9, 22, 5, 17):
        signal = torch.full((3, length), 0.5)
        torch._dynamo.mark_dynamic(signal, 1)  # the cure
        smooth(signal)
    ```

    ## When it is wrong

    It is a one-off in most programs, and shown as such: the second compile makes
    the dimension dynamic and no later size costs anything. Marking it saves that
    one compile and no more. If the program itself needs one size, `mark_dynamic`
    raises an error (see violated-dynamic-mark).
    """

    id = "unmarked-dynamic-dim"
    title = "a dimension varies and is not marked dynamic"

    def claim(self, failure: GuardFailure, cause: Cause, examination: Examination) -> Claim | None:
        """Claim size mismatches between sizes of 2 and more, and those of a view's base."""
        if isinstance(failure, AttributeMissing):
            return self._view_base(failure, cause)
        if isinstance(failure, SizeMismatch) and failure.on_parameter:
            return None
        change = size_change(failure, cause, examination.run)
        if change is None or change.meaning is not SizeMeaning.CHANGED:
            return None
        source, dim = str(change.size.source), change.size.dim
        return Claim(
            source=source,
            dim=dim,
            message=f"dimension {dim} of {source} was compiled as {change.expected} "
            f"and then was {change.actual}",
            why=_WHY,
            values=(str(change.expected), str(change.actual)),
            location=size_location(source, dim, cause, examination.uses),
            observed=change.observed,
        )

    def _view_base(self, failure: AttributeMissing, cause: Cause) -> Claim | None:
        """Claim the guard on the base of a view, which fails when a call passes no view."""
        if failure.attribute != "size" or cause.chosen.entry is None:
            return None
        leaves = (parse_size(each.source) for each in cause.chosen.entry.symbols)
        base = next((str(each.source) for each in leaves if each and _is_base(each)), None)
        if base is None:
            return None
        return Claim(
            source=base,
            dim=None,
            message=f"the graph was compiled for a view whose base is {base}; "
            "this call passed a tensor that is no view",
            why="a view's base has dimensions of its own that torch guards on when they vary",
            location=call_location(cause.recompile) or definition(cause.recompile.frame),
        )

    def disposition(self, claims: tuple[Claim, ...], causes: tuple[Cause, ...]) -> Disposition:
        """Call it a one-off when it happened once in each process and the dim is dynamic since."""
        processes = [cause.recompile.key.process for cause in causes]
        if len(processes) != len(set(processes)):
            return Disposition.FIXABLE
        lead = claims[0]
        if lead.source is None or lead.dim is None:
            return Disposition.FIXABLE
        size = SizeSource(parse_source(lead.source), lead.dim)
        settled = all(size in symbolic_dims(cause.recompile) for cause in causes)
        return Disposition.ONE_OFF if settled else Disposition.FIXABLE


def _is_base(size: SizeSource) -> bool:
    return str(size.source).endswith("._base")
