"""How far the numbers of two runs may lie apart and still be the same result.

Compiled code adds up in another order than eager code, and each graph in its own. So no bit is
compared; the question is what other rounding can explain.

An element of a result is usually a sum of many terms. Rounding errs by a share of the *terms*,
whatever is left of them: where they cancel, a small element carries the error of large ones.
torch's own `allclose`, which measures an error against the element alone, calls such an element
wrong. So the error of an element is measured against the largest of the element in one run, in the
other, and what is usual in its tensor:

    |a - b| <= atol + rtol * max(|a|, |b|, usual)

``usual`` is the root of the mean square, but not more than three times the lower quartile of the
magnitudes that were sampled. For numbers without outliers the two are about the same (for a normal
distribution 1.0 and 0.96 of its width). In logits that are masked with -1e9 the mean square alone
would let every other element be anything.

A float32 result that was computed under autocast shows nothing of that, and may be called different
for rounding alone.

What this cannot see is written beside each result: an error smaller than the tolerance, also where
every number of a tensor is smaller than ``atol``, and an error in a few elements of a large tensor
that is neither sampled, nor an extreme, nor large enough to show in a sum.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from recompile_doctor.capture.outputs import Leaf, Numbers, PlainLeaf, TensorLeaf

# A parameter has been through all the steps of a training run, each of which adds the rounding of
# a forward pass, a backward pass and an update; these add up like a random walk, in a hundred steps
# to about ten times as much.
ACCUMULATED = 10.0

# Sums over whole numbers are added up in float64 too, in an order that depends on the layout.
_ORDER_OF_SUMS = 1e-9


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Relative and absolute tolerance for a dtype; both are 0 for whole numbers."""

    rtol: float
    atol: float

    @property
    def is_exact(self) -> bool:
        """Return whether nothing may differ."""
        return not (self.rtol or self.atol)

    def times(self, factor: float) -> "Tolerance":
        """Return a tolerance that is wider by a factor."""
        return Tolerance(self.rtol * factor, self.atol * factor)

    def __str__(self) -> str:
        return "exact" if self.is_exact else f"rtol {self.rtol:g}, atol {self.atol:g}"


EXACT = Tolerance(0.0, 0.0)
_OF_PYTHON_FLOATS = Tolerance(1e-4, 1e-5)  # most come from a float32 tensor
_OF_DTYPES = (
    ("torch.float64", Tolerance(1e-7, 1e-9)),
    ("torch.complex128", Tolerance(1e-7, 1e-9)),
    ("torch.float32", Tolerance(1e-4, 1e-5)),
    ("torch.complex64", Tolerance(1e-4, 1e-5)),
    ("torch.float16", Tolerance(1e-2, 1e-3)),
    ("torch.complex32", Tolerance(1e-2, 1e-3)),
    ("torch.bfloat16", Tolerance(5e-2, 1e-2)),
    ("torch.float8", Tolerance(0.15, 0.1)),
    ("torch.int", EXACT),
    ("torch.uint", EXACT),
    ("torch.bool", EXACT),
)


def tolerance_for(dtype: str) -> Tolerance | None:
    """Return the tolerance for a dtype, or None for one that is not known."""
    return next((tolerance for name, tolerance in _OF_DTYPES if dtype.startswith(name)), None)


class Kind(Enum):
    """What a difference is about."""

    STRUCTURE = "structure"  # shape, dtype, device, NaN and inf, which values there are, raising
    VALUE = "value"
    UNREADABLE = "unreadable"  # nothing is known to differ, but the values are not known


@dataclass(frozen=True, slots=True)
class LeafDifference:
    """A difference between two values, as the end of a sentence that begins with their name.

    ``excess`` says by how many times the tolerance the numbers differ.
    """

    kind: Kind
    words: str
    excess: float = math.inf


@dataclass(frozen=True, slots=True)
class LeafComparison:
    """What is wrong with a pair of values, if anything, and how close the numbers are.

    ``share`` is the largest part of the tolerance that was used up, at most 1 without a difference.
    """

    difference: LeafDifference | None = None
    share: float = 0.0


def widest_tolerance(leaves: Iterable[Leaf]) -> Tolerance:
    """Return the tolerance of the least precise tensor among these values.

    A loss in float32 that a model in bfloat16 was evaluated for is no more precise than the model:
    eager and compiled code gave 1.0958 and 1.0959 for one.
    """
    known = [tolerance_for(leaf.dtype) for leaf in leaves if isinstance(leaf, TensorLeaf)]
    return max((each for each in known if each is not None), key=_rtol, default=EXACT)


def compare_leaves(
    before: Leaf, after: Leaf, *, factor: float = 1.0, least: Tolerance = EXACT
) -> LeafComparison:
    """Return how two values with the same place in a result differ; gradients are not looked at.

    ``factor`` widens the tolerances. ``least`` is the least tolerance of numbers that need not be
    exact.
    """
    if isinstance(before, PlainLeaf) or isinstance(after, PlainLeaf):
        return _compare_plain(before, after, max(_OF_PYTHON_FLOATS, least, key=_rtol).times(factor))
    structure = _structure(before, after)
    if structure is not None:
        return LeafComparison(LeafDifference(Kind.STRUCTURE, structure))
    tolerance = tolerance_for(before.dtype)
    if before.numbers is None or after.numbers is None or tolerance is None:
        why = before.why or after.why or f"nothing is known about {before.dtype}"
        return LeafComparison(LeafDifference(Kind.UNREADABLE, f"cannot be read: {why}"))
    if not tolerance.is_exact:
        tolerance = max(tolerance, least, key=_rtol)
    return _compare_numbers(before.numbers, after.numbers, tolerance.times(factor))


def _rtol(tolerance: Tolerance) -> float:
    return tolerance.rtol


def _compare_plain(before: Leaf, after: Leaf, tolerance: Tolerance) -> LeafComparison:
    old, new = _text(before), _text(after)
    if old == new and type(before) is type(after):
        return LeafComparison()
    words = f"is {new}, before {old}"
    first, second = _python_float(before), _python_float(after)
    if first is None or second is None:
        kind = Kind.VALUE if type(before) is type(after) else Kind.STRUCTURE
        return LeafComparison(LeafDifference(kind, words))
    error = _error(first, second, 0.0, tolerance)
    if error <= 1:
        return LeafComparison(share=error)
    return LeafComparison(LeafDifference(Kind.VALUE, words, error), error)


def _text(leaf: Leaf) -> str:
    return leaf.text if isinstance(leaf, PlainLeaf) else "a tensor"


def _python_float(leaf: Leaf) -> float | None:
    """Return the number that a ``repr`` stands for when it is a float's."""
    if not isinstance(leaf, PlainLeaf) or not (set(leaf.text) & set(".en")):
        return None
    try:
        return float(leaf.text)
    except ValueError:
        return None


def _structure(before: TensorLeaf, after: TensorLeaf) -> str | None:
    if before.sizes != after.sizes:
        return f"has shape {_shape(after)}, before {_shape(before)}"
    if before.dtype != after.dtype:
        return f"has dtype {_dtype(after)}, before {_dtype(before)}"
    old, new = (leaf.device.partition(":")[0] for leaf in (before, after))
    return None if old == new else f"is on {new}, before on {old}"


def _shape(leaf: TensorLeaf) -> str:
    return str(leaf.sizes)


def _dtype(leaf: TensorLeaf) -> str:
    return leaf.dtype.removeprefix("torch.")


def _compare_numbers(before: Numbers, after: Numbers, tolerance: Tolerance) -> LeafComparison:
    if before == after:  # as they mostly are: 20000 calls take 4 s of 11
        return LeafComparison()
    for name in ("count", "nan", "posinf", "neginf"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            noun = {"count": "elements", "posinf": "inf", "neginf": "-inf", "nan": "NaN"}[name]
            return LeafComparison(LeafDifference(Kind.STRUCTURE, f"has {new} {noun}, before {old}"))
    if before.exact is not None and after.exact is not None and before.exact != after.exact:
        text = f"has the sum {after.exact}, before {before.exact}"
        return LeafComparison(LeafDifference(Kind.VALUE, text), math.inf)
    worst = max(_errors(before, after, tolerance), key=lambda each: each.error)
    if worst.error <= 1:
        return LeafComparison(share=worst.error)
    difference = LeafDifference(Kind.VALUE, str(worst), worst.error)
    return LeafComparison(difference, worst.error)


class _Error(NamedTuple):
    """Two numbers, what they are (in words, with a place for a number), their distance."""

    words: str
    old: float
    new: float
    error: float  # in tolerances; never NaN

    def __str__(self) -> str:
        return f"{self.words.format(f'{self.new:.6g}')}, before {self.old:.6g}"


def _errors(before: Numbers, after: Numbers, tolerance: Tolerance) -> Iterator[_Error]:
    """Yield all that is compared.

    The bound of each sum is what the bounds of the elements add up to: weights are below 2, and an
    error e of an element x changes its square by 2xe + ee.
    """
    usual = min(_usual(before), _usual(after))
    size = len(before.sample)
    for position, (old, new) in enumerate(zip(before.sample, after.sample, strict=True)):
        place = f" at flat index {position * before.count // size}" if size > 1 else ""
        yield _Error("is {}" + place, old, new, _error(old, new, usual, tolerance))
    for name in ("minimum", "maximum"):
        old, new = getattr(before, name[:3]), getattr(after, name[:3])
        yield _Error(f"has the {name} {{}}", old, new, _error(old, new, usual, tolerance))
    count = before.count
    absolute = max(before.abs, after.abs)
    rtol, atol = tolerance.rtol, tolerance.atol
    if tolerance.is_exact:
        rtol = _ORDER_OF_SUMS
    linear = count * atol + rtol * absolute
    square = 5 * rtol * max(before.square, after.square) + 2 * atol * absolute
    for name, words, bound in (
        ("sum", "sum", linear),
        ("abs", "sum of magnitudes", linear),
        ("weighted", "weighted sum", 2 * linear),
        ("square", "sum of squares", square + 2 * count * atol * atol),
    ):
        old, new = getattr(before, name), getattr(after, name)
        error = _share(abs(new - old), bound, old, new)
        yield _Error(f"has the {words} {{}}", old, new, error)


def _error(old: float, new: float, usual: float, tolerance: Tolerance) -> float:
    scale = max(abs(old), abs(new), usual)
    return _share(abs(new - old), tolerance.atol + tolerance.rtol * scale, old, new)


def _share(distance: float, bound: float, old: float, new: float) -> float:
    """Return a distance in units of its bound; NaN and the infinities are equal or are not."""
    if old == new or (math.isnan(old) and math.isnan(new)):
        return 0.0
    if bound <= 0 or not math.isfinite(distance):
        return math.inf
    return distance / bound


def _usual(numbers: Numbers) -> float:
    """Return the magnitude that most elements have, as far as the sample tells."""
    finite = numbers.count - numbers.nan - numbers.posinf - numbers.neginf
    sizes = sorted(abs(each) for each in numbers.sample if math.isfinite(each) and each)
    if not finite or not sizes:
        return 0.0
    return min(math.sqrt(max(numbers.square, 0.0) / finite), 3 * sizes[len(sizes) // 4])
