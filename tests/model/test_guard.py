"""What guards on sizes ask for, and which sizes fail them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recompile_doctor.model.expression import Symbol, parse_expression
from recompile_doctor.model.guard import ShapeGuardKind, Variable, classify, fails_for
from recompile_doctor.model.source import parse_leaf

X = parse_leaf("L['x'].size()[0]")
Y = parse_leaf("L['y'].size()[0]")
N = parse_leaf("L['n']")
SIZES: dict[Variable, int] = {X: 12, Y: 3, N: -2}


@pytest.mark.parametrize(
    ("text", "kind", "numbers"),
    [
        ("2 <= x.size()[0]", ShapeGuardKind.LOWER_BOUND, {"lower": 2}),
        ("x.size()[0] >= 2", ShapeGuardKind.LOWER_BOUND, {"lower": 2}),
        ("x.size()[0] > 0", ShapeGuardKind.LOWER_BOUND, {"lower": 1}),
        ("4 <= x.size()[0]", ShapeGuardKind.RANGE, {"lower": 4}),
        ("x.size()[0] < 17", ShapeGuardKind.RANGE, {"upper": 16}),
        ("17 > x.size()[0]", ShapeGuardKind.RANGE, {"upper": 16}),
        ("2 <= x.size()[0] <= 10", ShapeGuardKind.RANGE, {"lower": 2, "upper": 10}),
        ("10 > x.size()[0] > 3", ShapeGuardKind.RANGE, {"lower": 4, "upper": 9}),
        ("n <= 4", ShapeGuardKind.RANGE, {"upper": 4}),
        ("x.size()[0] == 6", ShapeGuardKind.PINNED, {"value": 6}),
        ("6 == x.size()[0]", ShapeGuardKind.PINNED, {"value": 6}),
        ("x.size()[0] != 6", ShapeGuardKind.NOT_EQUAL, {"value": 6}),
        ("x.size()[0] == y.size()[0]", ShapeGuardKind.EQUAL_SIZES, {}),
        ("x._base.size()[0] == x.size()[0]", ShapeGuardKind.EQUAL_SIZES, {}),
        ("(x.size()[0] % 4) == 0", ShapeGuardKind.DIVISIBLE, {"modulus": 4, "value": 0}),
        ("(x.size()[0] % 4) != 1", ShapeGuardKind.DIVISIBLE, {"modulus": 4, "value": 1}),
        ("(((-1)*x.size()[0]) % 8) == 0", ShapeGuardKind.DIVISIBLE, {"modulus": 8, "value": 0}),
        ("(x.size()[0] % y.size()[0]) == 0", ShapeGuardKind.DIVISIBLE, {"value": 0}),
        ("(1 + ((-1) + x.size()[0]) // 2) != 1", ShapeGuardKind.DERIVED, {}),
        ("(x.size()[0] / 2) > 7.5", ShapeGuardKind.DERIVED, {}),
        ("x.size()[0]*y.size()[0] <= 100", ShapeGuardKind.RELATION, {}),
        ("x.size()[0] <= y.size()[0]", ShapeGuardKind.RELATION, {}),
        ("x.size()[0] != 8 or y.size()[0] != 8", ShapeGuardKind.RELATION, {}),
        ("2 <= x.stride()[0]", ShapeGuardKind.STRIDE, {"lower": 2}),
        ("x.stride()[0] == x.size()[1]", ShapeGuardKind.STRIDE, {}),
        ("2 <= x.storage_offset()", ShapeGuardKind.STORAGE_OFFSET, {"lower": 2}),
        ("1 == 1", ShapeGuardKind.OTHER, {}),
        ("x.size()[0] if", ShapeGuardKind.OTHER, {}),
    ],
)
def test_kinds(text: str, kind: ShapeGuardKind, numbers: dict[str, int]) -> None:
    """A guard is classified, with the numbers that it names."""
    guard = classify(parse_expression(text, stripped=True))
    assert guard.kind is kind
    found = {name: getattr(guard, name) for name in ("lower", "upper", "value", "modulus")}
    assert {name: number for name, number in found.items() if number is not None} == numbers


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Eq(s77, 6)", ShapeGuardKind.PINNED),
        ("Ne(s77, 6)", ShapeGuardKind.NOT_EQUAL),
        ("Eq(Mod(s77, 4), 0)", ShapeGuardKind.DIVISIBLE),
        ("Ne(PythonMod(-u0, 8), 0)", ShapeGuardKind.DIVISIBLE),
        ("Eq(s77, s3)", ShapeGuardKind.EQUAL_SIZES),
        ("size_oblivious(Eq(s77, 1))", ShapeGuardKind.PINNED),
        ("s77 >= 2", ShapeGuardKind.LOWER_BOUND),
        ("s77 <= 10", ShapeGuardKind.RANGE),
        ("2*s77 < u0", ShapeGuardKind.RELATION),
        ("Eq(2*s77, 8)", ShapeGuardKind.DERIVED),
    ],
)
def test_kinds_over_symbols(text: str, kind: ShapeGuardKind) -> None:
    """Guards of the symbols log are classified in the same way."""
    assert classify(parse_expression(text)).kind is kind


def test_variables_are_listed_once() -> None:
    """The variables of a guard stand in order, each once; sizes are those of tensors."""
    guard = classify(parse_expression("n + y.size()[0]*x.size()[0] > y.size()[0]", stripped=True))
    assert guard.variables == (N, Y, X)
    assert guard.sizes == (Y, X)


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ("2 <= x.size()[0] <= 10", True),
        ("2 <= x.size()[0] <= 12", False),
        ("13 <= x.size()[0] <= z", True),
        ("2 <= x.size()[0] <= z", None),
        ("(x.size()[0] % 4) == 0", False),
        ("(((-1)*x.size()[0]) % 8) == 0", True),
        ("(1 + ((-1) + x.size()[0]) // 2) != 6", True),
        ("n % 4 == 2", False),  # Python's sign, not C's
        ("x.size()[0] == y.size()[0]", True),
        ("x.size()[0]*y.size()[0] > 36", True),
        ("max(x.size()[0], y.size()[0]) < 50", False),
        ("(x.size()[0] / 8) > 1.4", False),
        ("math.floor(x.size()[0] / 8) == 1", False),
        ("x.size()[0] != 12 or y.size()[0] != 3", True),
        ("x.size()[0] != 12 or z == 3", None),
        ("x.size()[0] == 12 or z == 3", False),
        ("x.size()[0] == 1 and z == 3", True),
        ("not x.size()[0] == 12", True),
        ("x.size()[0] // 0 == 1", None),
        ("x.size()[0] ** 10 ** 10 > 1", None),
        ("2.0 ** 100000 > x.size()[0]", None),
        ("x.size()[0] in (1, 2)", None),
        ("f(x.size()[0]) == 2", None),
        ("x.size()[0] +", None),
    ],
)
def test_failing_sizes(text: str, fails: bool | None) -> None:
    """A guard is decided by its own arithmetic, or left open."""
    assert fails_for(parse_expression(text, stripped=True), SIZES) is fails


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ("Eq(Mod(s0, 4), 0)", True),
        ("Ne(s0, 6)", True),
        ("FloorDiv(s0, 4) + CeilDiv(s0, 4) + CleanDiv(s0, 3) >= 5", False),
        ("Max(s0, 7) == 7", False),
        ("Min(1, s0) == 1", False),
        ("Abs(-s0) == 6", False),
        ("And(Eq(s0, 6), Le(s0, 6), Ge(s0, 6), Lt(s0, 7), Gt(s0, 5))", False),
        ("Eq(s0, 6) & Eq(u0, 1)", None),
        ("Eq(s0, 5) & Eq(u0, 1)", True),
        ("Eq(s0, 6) | Eq(u0, 1)", False),
        ("~Eq(s0, 6)", True),
        ("Eq(ModularIndexing(s0, 2, 2), 1)", False),
        ("IntTrueDiv(s0, 4) == 1.5", False),
        ("PowByNatural(s0, 2) == 36", False),
        ("u0 == 1", None),
    ],
)
def test_failing_symbols(text: str, fails: bool | None) -> None:
    """Sympy's functions are known."""
    assert fails_for(parse_expression(text), {Symbol("s0"): 6}) is fails


@given(st.integers(), st.integers(), st.integers())
def test_merged_bounds(lower: int, size: int, upper: int) -> None:
    """A merged bound fails exactly for sizes outside of its numbers."""
    expression = parse_expression(f"{lower} <= x.size()[0] <= {upper}", stripped=True)
    guard = classify(expression)
    assert (guard.lower, guard.upper) == (lower, upper)
    assert fails_for(expression, {X: size}) is not (lower <= size <= upper)


@given(st.text(alphabet="xy0123456789+-*/%<>=() .[]size", max_size=40))
def test_any_expression(text: str) -> None:
    """Any text is classified and tried, without an exception."""
    guard = classify(parse_expression(text, stripped=True))
    assert fails_for(guard.expression, SIZES) in (True, False, None)
