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
    """A dimension is sometimes 0 or 1 and sometimes another size."""

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
            location=location or size_location(source, dim, cause, examination.run),
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
