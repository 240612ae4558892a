"""What a failed guard on a size means, decided by the values and not by torch's wording."""

from dataclasses import dataclass
from enum import Enum

from recompile_doctor.diagnosis.attribution import Cause, known_sizes, pinned_dims
from recompile_doctor.model.guard import ShapeGuardKind
from recompile_doctor.model.reason import GuardFailure, ShapeGuardFailure, SizeMismatch
from recompile_doctor.model.run import Compilation, Run
from recompile_doctor.model.source import SizeSource

_SPECIALIZED = (0, 1)
_SMALLEST_GENERAL_SIZE = 2


class SizeMeaning(Enum):
    """Why a guard on a size failed."""

    ZERO_ONE = "a size is or was 0 or 1"
    CHANGED = "a size that was compiled as a constant changed"
    PINNED = "a dimension that could vary was made constant"
    EQUAL = "two dimensions had to be equal"
    DIVISIBLE = "a size had to be divisible"
    RANGE = "a size left the range of a branch"


@dataclass(frozen=True, slots=True)
class SizeChange:
    """One dimension whose guard failed. Sizes are None where unknown.

    ``observed`` is False where torch did not name the dimension, ``certain`` where the meaning
    had to be concluded without the value.
    """

    meaning: SizeMeaning
    size: SizeSource
    expected: int | None
    actual: int | None
    observed: bool
    certain: bool = True

    @property
    def values(self) -> tuple[str, ...]:
        """Return the sizes that are known, the old one first."""
        return tuple(str(each) for each in (self.expected, self.actual) if each is not None)


def size_change(failure: GuardFailure, cause: Cause, run: Run) -> SizeChange | None:
    """Return what a failed guard says about a size, or None when it is not about one."""
    if isinstance(failure, SizeMismatch):
        size = SizeSource(failure.source, failure.dim)
        meaning = _static_meaning(failure, size, cause.chosen.entry)
        observed = failure not in cause.joint
        return SizeChange(meaning, size, failure.expected, failure.actual, observed)
    if isinstance(failure, ShapeGuardFailure) and failure.sizes:
        return _shape_guard(failure, cause, run)
    return None


def _static_meaning(
    failure: SizeMismatch, size: SizeSource, entry: Compilation | None
) -> SizeMeaning:
    """Return why a size was a constant in the entry.

    A dimension for which the entry made a symbol, and then replaced it by a number, could vary
    until the program pinned it.
    """
    if entry is not None and size in pinned_dims(entry):
        return SizeMeaning.PINNED
    special = failure.expected in _SPECIALIZED or failure.actual in _SPECIALIZED
    return SizeMeaning.ZERO_ONE if special else SizeMeaning.CHANGED


def _shape_guard(failure: ShapeGuardFailure, cause: Cause, run: Run) -> SizeChange | None:
    size = _broke_tie(failure, cause) or failure.sizes[0]
    actual = cause.sizes.get(size)

    def means(meaning: SizeMeaning, *, certain: bool = True) -> SizeChange:
        return SizeChange(meaning, size, None, actual, observed=True, certain=certain)

    match failure.kind:
        case ShapeGuardKind.LOWER_BOUND | ShapeGuardKind.RANGE | ShapeGuardKind.NOT_EQUAL:
            zero_one, certain = _is_zero_one(failure, actual, run)
            return means(SizeMeaning.ZERO_ONE if zero_one else SizeMeaning.RANGE, certain=certain)
        case ShapeGuardKind.PINNED:
            return means(SizeMeaning.PINNED)
        case ShapeGuardKind.EQUAL_SIZES:
            return means(SizeMeaning.EQUAL)
        case ShapeGuardKind.DIVISIBLE:
            return means(SizeMeaning.DIVISIBLE)
        case ShapeGuardKind.DERIVED | ShapeGuardKind.RELATION | ShapeGuardKind.OTHER:
            return means(SizeMeaning.RANGE)
        case ShapeGuardKind.STRIDE | ShapeGuardKind.STORAGE_OFFSET:
            return None


def _broke_tie(failure: ShapeGuardFailure, cause: Cause) -> SizeSource | None:
    """Return the one of two tied sizes that changed, where only one of them did."""
    entry = cause.chosen.entry
    if failure.kind is not ShapeGuardKind.EQUAL_SIZES or entry is None:
        return None
    before = known_sizes(entry)
    # They were equal, so one that is known gives the other; duck sizing logs only the first.
    tied = next((before[size] for size in failure.sizes if size in before), None)
    if tied is None:
        return None
    changed = [size for size in failure.sizes if cause.sizes.get(size, tied) != tied]
    return changed[0] if len(changed) == 1 else None


def _is_zero_one(failure: ShapeGuardFailure, actual: int | None, run: Run) -> tuple[bool, bool]:
    """Return whether 0 or 1 made a bound fail, and whether that is certain.

    Torch merges bounds (``2 <= size <= 10``) and keeps the 0/1 note although the upper one may
    have failed: the value decides. Where no value is known, the new compile made no symbol for
    this size, which it does for every size but 0 and 1 of a dimension that was dynamic before.
    """
    if actual is not None:
        return actual in _SPECIALIZED and failure.guard.lower in (
            None,
            _SMALLEST_GENERAL_SIZE,
        ), True
    if failure.guard.lower == _SMALLEST_GENERAL_SIZE and failure.guard.upper is None:
        return True, True
    return failure.zero_one_note and run.has_symbols, False
