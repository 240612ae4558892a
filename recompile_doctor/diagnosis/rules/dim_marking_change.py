"""A tensor that is sometimes marked and sometimes not."""

from collections.abc import Iterable

from recompile_doctor.diagnosis.attribution import Cause, parse_size
from recompile_doctor.diagnosis.locate import call_location, definition
from recompile_doctor.diagnosis.rule import Claim, Examination, RecompileRule
from recompile_doctor.model.reason import GuardFailure, MarkingMismatch
from recompile_doctor.model.run import Compilation


class DimMarkingChange(RecompileRule):
    """A tensor came with a dynamic or unbacked mark in some calls and without in others."""

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
            message=f"the marks of {source or 'a tensor'} differ between calls: {failure.detail}",
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
    sources = {each for each in sources if named in (None, each)}
    if len(sources) != 1:
        return named, None
    source = sources.pop()
    dims = _dims(new, source) ^ (_dims(old, source) if old is not None else set())
    return source, dims.pop() if len(dims) == 1 else None


def _marks(compilation: Compilation) -> set[tuple[str, int]]:
    return {(each.source, dim) for each in compilation.inputs for dim in each.dynamic_dims}


def _dims(compilation: Compilation, source: str) -> set[int]:
    symbols: Iterable[str] = (each.source for each in compilation.symbols)
    leaves = (parse_size(each) for each in symbols)
    return {leaf.dim for leaf in leaves if leaf is not None and str(leaf.source) == source}
