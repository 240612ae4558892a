"""The grammar of guard expressions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recompile_doctor.model.expression import (
    Binary,
    BinaryOperator,
    BoolLiteral,
    Bracket,
    Call,
    Comparison,
    ComparisonOperator,
    Connective,
    Expression,
    FloatLiteral,
    Group,
    IntLiteral,
    Joined,
    NoneLiteral,
    StrLiteral,
    Symbol,
    Unary,
    UnaryOperator,
    Unparsed,
    expression_text,
    iter_sources,
    iter_symbols,
    parse_expression,
    parse_literal,
    substitute,
)
from recompile_doctor.model.source import (
    Local,
    SizeSource,
    Source,
    StorageOffset,
    StrideSource,
    parse_leaf,
    parse_source,
)

X = SizeSource(Source(Local("x")), 0)
Y = SizeSource(Source(Local("y")), 1)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2 <= x.size()[0] <= 10", "2 <= L['x'].size()[0] <= 10"),
        ("(x.size()[0] % 4) == 0", "(L['x'].size()[0] % 4) == 0"),
        ("(((-1)*x.size()[0]) % 8) == 0", "(((-1) * L['x'].size()[0]) % 8) == 0"),
        ("(1 + ((-1) + n) // 2) != 1", "(1 + (((-1) + L['n']) // 2)) != 1"),
        ("max(y.size()[0], x.size()[0]) < 50", "max(L['y'].size()[0], L['x'].size()[0]) < 50"),
        ("a.stride()[0] == a.size()[1]*2", "L['a'].stride()[0] == (L['a'].size()[1] * 2)"),
        ("2 <= t.storage_offset()", "2 <= L['t'].storage_offset()"),
        ("not math.isnan(x)", "not math.isnan(L['x'])"),
        (
            "torch.sym_float(x.size()[0])/2.0 >= 7.5",
            "(torch.sym_float(L['x'].size()[0]) / 2.0) >= 7.5",
        ),
        ("x is not None and len(l) == 2", "(L['x'] is not None) and (len(L['l']) == 2)"),
        ("k not in (1, 'a')", "L['k'] not in (1, 'a')"),
        ("___as_tensor(lr).item() < 3.0", "___as_tensor(L['lr']).item() < 3.0"),
        ("torch.size()[0] == 2", "L['torch'].size()[0] == 2"),
    ],
)
def test_guards_over_sources(text: str, written: str) -> None:
    """Guards in Python's spelling are read, with shortened sources."""
    expression = parse_expression(text, stripped=True)
    assert expression_text(expression) == written
    assert parse_expression(written) == expression


@pytest.mark.parametrize(
    "text",
    [
        "Eq(Mod(s77, 4), 0)",
        "Ne(PythonMod(-u0, 8), 0)",
        "Eq(s77, s3)",
        "s77 > 10",
        "2*s77 <= u0 + 3",
        "(Ne(s0, 1)) & (s1 < 2) | ~Eq(u0, 1)",
        "IntTrueDiv(s0, 2) <= int_oo",
        "FloorDiv(s0 - 1, 2) + 1 != CeilDiv(s1, 3)",
        "Max(1, Min(s0, s1)) == ToFloat(zf0)",
        "s0**2 < 2**-1",
        "Piecewise((s0, s0 > 1), (2, True)) == 3",
    ],
)
def test_guards_over_symbols(text: str) -> None:
    """Guards in sympy's spelling are read."""
    expression = parse_expression(text)
    assert not isinstance(expression, Unparsed)
    assert parse_expression(expression_text(expression)) == expression


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("1 - 2 - 3", "(1 - 2) - 3"),
        ("1 + 2 * 3", "1 + (2 * 3)"),
        ("-2 ** 2", "-(2 ** 2)"),
        ("2 ** 3 ** 2", "2 ** (3 ** 2)"),
        ("a or b and not c == d", "a or (b and (not (c == d)))"),
        ("1 < 2 == (3 < 4)", "1 < 2 == (3 < 4)"),
        ("1 | 2 & 3 ^ 4", "1 | ((2 & 3) ^ 4)"),
        ("- - 1", "-(-1)"),
        ("(1,)", "(1,)"),
        ("[1, (2, 3,), {4}]", "[1, (2, 3), {4}]"),
    ],
)
def test_precedence(text: str, expression: str) -> None:
    """Operators bind as in Python."""
    assert expression_text(parse_expression(text)) == expression


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 +",
        "(1",
        "1)",
        "a b",
        "1 if x else 2",
        "lambda: 1",
        "f(x for x in y)",
        "x = 1",
        "a[0]",
        "1 == ",
        "f(,)",
        "(,)",
        "'abc",
        "0x10",
        "1_000",
        "{}",
        "{1: 2}",
        "1j",
        "9" * 5_000,
    ],
)
def test_other_texts(text: str) -> None:
    """What the grammar does not cover is kept."""
    assert parse_expression(text) == Unparsed(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "[" * 3_000,
        "-" * 10_000 + "1",
        "not " * 4_000,
        "1+" * 9_000 + "1",
        "1**" * 6_000,
    ],
    ids=lambda text: text[:5],
)
def test_depth_is_limited(text: str) -> None:
    """Deep expressions are given up before Python's stack is."""
    assert parse_expression(text) == Unparsed(text)


def test_ordinary_depth() -> None:
    """The sizes behind many strided convolutions are still read."""
    text = "x.size()[0]"
    for _ in range(20):
        text = f"(1 + (((-1) + {text}) // 2))"
    assert list(iter_sources(parse_expression(f"{text} != 1", stripped=True))) == [X]


def test_leaves_in_order() -> None:
    """Sources and symbols are found from left to right, repeats included."""
    text = "L['y'].size()[1] + s0*L['x'].size()[0] > max(s1, s0, L['x'].size()[0])"
    expression = parse_expression(text)
    assert list(iter_sources(expression)) == [Y, X, X]
    assert [symbol.name for symbol in iter_symbols(expression)] == ["s0", "s1", "s0"]


def test_substitution() -> None:
    """Symbols are replaced by what they stand for."""
    expression = parse_expression("Eq(s0 % 4, 0) and not (s0 < -s1, [s9])")
    replaced = substitute(expression, {"s0": X, "s1": Y})
    assert expression_text(replaced) == (
        "Eq(L['x'].size()[0] % 4, 0) and (not (L['x'].size()[0] < (-L['y'].size()[1]), [s9]))"
    )
    assert substitute(expression, {}) == expression


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("3", IntLiteral(3)),
        ("-3", IntLiteral(-3)),
        ("3.0", FloatLiteral(3.0)),
        ("1e-05", FloatLiteral(1e-05)),
        ("-inf", FloatLiteral(float("-inf"))),
        ("True", BoolLiteral(True)),
        ("None", NoneLiteral()),
        (r"'a\n\'\x00\u00e9\U0001f600\\'", StrLiteral("a\n'\x00é😀\\")),
        ('"it\'s"', StrLiteral("it's")),
        ("x", None),
        ("b'a'", None),
        ("(1, 2)", None),
        ("<Color.RED: 1>", None),
        (r"'\U99999999'", None),
    ],
)
def test_literals(text: str, literal: Expression | None) -> None:
    """Constants keep their kind."""
    assert parse_literal(text) == literal
    assert type(parse_literal(text)) is type(literal)


@given(st.text())
def test_string_literals(value: str) -> None:
    """Python's spelling of any string is read as that string."""
    assert parse_literal(repr(value)) == StrLiteral(value)


_leaves: st.SearchStrategy[Expression] = st.one_of(
    st.builds(IntLiteral, st.integers()),
    st.builds(FloatLiteral, st.floats(allow_nan=False)),
    st.builds(BoolLiteral, st.booleans()),
    st.builds(StrLiteral, st.text()),
    st.just(NoneLiteral()),
    st.sampled_from(["s77", "u0", "zf0", "int_oo"]).map(Symbol),
    st.sampled_from(["L['x']", "G['T'].a['k, \"']", "___from_numpy(L['x'])"]).map(parse_source),
    st.sampled_from([X, Y, StrideSource(X.source, 1), StorageOffset(Y.source)]),
)


def _larger(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    pairs = st.tuples(inner, inner)
    several = st.lists(inner, min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Binary, st.sampled_from(BinaryOperator), inner, inner),
        # a sign in front of a number is part of the number
        st.builds(
            Unary,
            st.sampled_from(UnaryOperator),
            inner.filter(lambda each: not isinstance(each, IntLiteral | FloatLiteral)),
        ),
        st.builds(Joined, st.sampled_from(Connective), pairs),
        st.builds(Comparison, pairs, st.tuples(st.sampled_from(ComparisonOperator))),
        st.builds(
            Comparison,
            st.tuples(inner, inner, inner),
            st.tuples(st.sampled_from(ComparisonOperator), st.sampled_from(ComparisonOperator)),
        ),
        st.builds(Call, st.sampled_from(["Eq", "max", "math.floor", "len"]), several),
        st.builds(Group, st.sampled_from(Bracket), several),
    )


@given(st.recursive(_leaves, _larger, max_leaves=12))
def test_round_trip(expression: Expression) -> None:
    """What an expression is written as is read as that expression."""
    assert parse_expression(expression_text(expression)) == expression


@given(st.text(), st.booleans())
def test_any_text(text: str, stripped: bool) -> None:
    """Any text gives an expression, whose spelling is stable."""
    expression = parse_expression(text, stripped=stripped)
    written = expression_text(expression)
    if not isinstance(expression, Unparsed):
        assert parse_expression(written) == expression or "nan" in written


@given(st.text(alphabet="xs0'\"[]().,+-*/%<>=! not is in and or L\\", max_size=60), st.booleans())
def test_text_of_the_right_letters(text: str, stripped: bool) -> None:
    """A text of the grammar's own characters gives an expression, and no exception."""
    assert isinstance(expression_text(parse_expression(text, stripped=stripped)), str)
    assert isinstance(str(parse_leaf(text, stripped=stripped)), str)
