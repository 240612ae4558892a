"""A tensor that is sometimes marked and sometimes not."""

from collections.abc import Iterable

from recompile_doctor.diagnosis.attribution import Cause, parse_size
from recompile_doctor.diagnosis.locate import call_location, definition
from recompile_doctor.diagnosis.rule import Claim, Examination, RecompileRule
from recompile_doctor.model.reason import GuardFailure, MarkingMismatch
from recompile_doctor.model.run import Compilation


class DimMarkingChange(RecompileRule):
    """A tensor came with other marks (dynamic, unbacked) than in an earlier call.

    ## What it finds

    A call whose tensor is marked (`mark_dynamic`, `mark_unbacked`, `mark_static`,
    ...) where the graph was made for one without this mark, or the other way
    round.

    ## Why it recompiles

    Marks are kept on the tensor and guarded: they say what the graph may take for
    granted. A new tensor has no marks, also one that is made from a marked
    tensor.

    ## Evidence

    ```
    _has_dynamo_dim_marking is present on runtime tensor but was absent at compile
        time
    ```

    Torch 2.13 and later do not name the tensor; it is found by the marks in the
    trace. Earlier releases name the tensor and the attribute that holds the
    marks.

    ## What to do

    Mark in every place that makes the tensor, or in one place that all calls go
    through, from the first call on:

    - Measured with the example: marking the dry run too gives 1 recompile -> 0
      (torch 2.8, 2.11, 2.13, 2.15).
    - Or drop the marks and use `TORCH_COMPILE_DYNAMIC_SOURCES="L['batch']:0"`,
      which holds for every call: 1 -> 0 (torch 2.13, 2.15). Dropping the marks
      alone leaves the one warm-up compile: 1 -> 1 (torch 2.13, 2.15).

    ## Example

    ```python
    dry_run = torch.full((8, 3), 1.0)
    torch._dynamo.mark_dynamic(dry_run, 0)  # the cure: as for all later batches
    step(dry_run)
    ```

    ## When it is wrong

    A mark that comes once later than it should costs one compile. If that is the
    whole finding, the place of the mark can be corrected without hurry.
    """

    id = "dim-marking-change"
    title = "the same tensor is sometimes marked and sometimes not"

    def claim(self, failure: GuardFailure, cause: Cause, examination: Examination) -> Claim | None:
        """Claim guards on the marks of a tensor."""
        if not isinstance(failure, MarkingMismatch):
            return None
        named = None if failure.source is None else str(failure.source)
        source, dim = _marked(named, cause)
        return Claim(
            source=source,
            dim=dim,
            message=f"{source or 'a tensor'} came with other marks than the graph was made for",
            why="the marks on a tensor are guarded: a graph made without the mark does not serve "
            "a marked tensor, nor the other way round",
            location=call_location(cause.recompile) or definition(cause.recompile.frame),
        )


def _marked(named: str | None, cause: Cause) -> tuple[str | None, int | None]:
    """Return the tensor and dimension whose mark differs between the entry and the new call.

    Since 2.13 torch does not name the tensor in the reason; the trace lists the marks of each
    input, and the text log says which source was marked.
    """
    new, old = cause.recompile, cause.chosen.entry
    marks = _marks(new)
    before = _marks(old) if old is not None else set()
    changed = sorted(marks ^ before)
    for source, dim in changed:
        if named in (None, source):
            return source, dim
    sources = {each.source for each in (*new.marks, *(old.marks if old else ()))}
    if named is None and len(sources) != 1:
        return None, None
    source = named or sources.pop()
    dims = _dims(new, source) ^ (_dims(old, source) if old is not None else set())
    return source, dims.pop() if len(dims) == 1 else None


def _marks(compilation: Compilation) -> set[tuple[str, int]]:
    return {(each.source, dim) for each in compilation.inputs for dim in each.dynamic_dims}


def _dims(compilation: Compilation, source: str) -> set[int]:
    symbols: Iterable[str] = (each.source for each in compilation.symbols)
    leaves = (parse_size(each) for each in symbols)
    return {leaf.dim for leaf in leaves if leaf is not None and str(leaf.source) == source}
