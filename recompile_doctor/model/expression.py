"""Guard expressions as typed nodes, read by a grammar of our own that evaluates nothing.

Two spellings come together here: Python's, in which torch writes guards over sources
(``(L['x'].size()[0] % 4) == 0``), and sympy's, in which it writes them over symbols
(``Eq(Mod(s77, 4), 0)``). Both keep their form; ``guard`` knows what they mean.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from recompile_doctor.model.literal import end_of_string, integer_value, string_value
from recompile_doctor.model.source import (
    Leaf,
    SizeSource,
    Source,
    StorageOffset,
    StrideSource,
    leaf_of,
    read_source,
)

MAX_LENGTH = 20_000
# Of brackets in the text, and of the tree: functions over nodes recurse.
MAX_DEPTH = 110


@dataclass(frozen=True, slots=True)
class IntLiteral:
    """An int, of any length."""

    value: int


@dataclass(frozen=True, slots=True)
class FloatLiteral:
    """A float; also ``math.inf`` and ``math.nan``."""

    value: float


@dataclass(frozen=True, slots=True)
class BoolLiteral:
    """``True`` or ``False``."""

    value: bool


@dataclass(frozen=True, slots=True)
class StrLiteral:
    """A quoted string."""

    value: str


@dataclass(frozen=True, slots=True)
class NoneLiteral:
    """``None``."""


Literal: TypeAlias = IntLiteral | FloatLiteral | BoolLiteral | StrLiteral | NoneLiteral


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol of torch's (``s77``, ``u0``, ``zf0``), or any other bare name."""

    name: str


class UnaryOperator(Enum):
    """An operator with one operand."""

    NEGATIVE = "-"
    INVERT = "~"
    NOT = "not "


@dataclass(frozen=True, slots=True)
class Unary:
    """An operator and its operand."""

    operator: UnaryOperator
    operand: "Expression"


class BinaryOperator(Enum):
    """An arithmetic or bitwise operator; on truth values sympy writes ``&`` for and."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    FLOOR_DIVIDE = "//"
    MODULO = "%"
    POWER = "**"
    BIT_AND = "&"
    BIT_OR = "|"
    BIT_XOR = "^"


@dataclass(frozen=True, slots=True)
class Binary:
    """Two operands and the operator between them."""

    operator: BinaryOperator
    left: "Expression"
    right: "Expression"


class ComparisonOperator(Enum):
    """An operator whose result is a truth value."""

    EQUAL = "=="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="
    IN = "in"
    NOT_IN = "not in"
    IS = "is"
    IS_NOT = "is not"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A chain of comparisons: ``2 <= x <= 10`` has three operands and two operators."""

    operands: tuple["Expression", ...]
    operators: tuple[ComparisonOperator, ...]


class Connective(Enum):
    """What joins truth values."""

    AND = "and"
    OR = "or"


@dataclass(frozen=True, slots=True)
class Joined:
    """Truth values joined by ``and`` or ``or``."""

    connective: Connective
    operands: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function and its arguments: ``max(a, b)``, ``Eq(s77, 6)``, ``math.floor(a)``."""

    function: str
    arguments: tuple["Expression", ...]


class Bracket(Enum):
    """How a group of values is written."""

    TUPLE = "()"
    LIST = "[]"
    SET = "{}"


@dataclass(frozen=True, slots=True)
class Group:
    """A tuple, list or set."""

    bracket: Bracket
    items: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Unparsed:
    """A text that this grammar does not cover."""

    text: str


Expression: TypeAlias = (
    Literal | Symbol | Leaf | Unary | Binary | Comparison | Joined | Call | Group | Unparsed
)


def parse_expression(text: str, *, stripped: bool = False) -> Expression:
    """Return ``text`` as nodes, or ``Unparsed``.

    ``stripped`` tells that a bare name is a source that torch shortened (recompile reasons since
    2.7); otherwise a bare name is a symbol.
    """
    if len(text) > MAX_LENGTH:
        return Unparsed(text)
    try:
        return _Parser(text, stripped).parse()
    except (_NotInGrammar, RecursionError):  # the caller may be deep already
        return Unparsed(text)


def expression_text(expression: Expression) -> str:
    """Return the expression in Python's spelling, with full names and safe brackets."""
    match expression:
        case IntLiteral(value) | BoolLiteral(value):
            return str(value)
        case FloatLiteral(value):
            return _float_text(value)
        case StrLiteral(value):
            return repr(value)
        case NoneLiteral():
            return "None"
        case Symbol(name):
            return name
        case SizeSource() | StrideSource() | StorageOffset() | Source():
            return str(expression)
        case Unary(operator, operand):
            return f"{operator.value}{_operand_text(operand)}"
        case Binary(operator, left, right):
            return f"{_operand_text(left)} {operator.value} {_operand_text(right)}"
        case Comparison(operands, operators):
            rest = zip(operators, operands[1:], strict=True)
            return _operand_text(operands[0]) + "".join(
                f" {operator.value} {_operand_text(operand)}" for operator, operand in rest
            )
        case Joined(connective, operands):
            return f" {connective.value} ".join(_operand_text(each) for each in operands)
        case Call(function, arguments):
            return f"{function}({', '.join(expression_text(each) for each in arguments)})"
        case Group(bracket, items):
            inner = ", ".join(expression_text(each) for each in items)
            if bracket is Bracket.TUPLE and len(items) == 1:
                inner += ","
            return f"{bracket.value[0]}{inner}{bracket.value[1]}"
        case Unparsed(text):
            return text


def children(expression: Expression) -> tuple[Expression, ...]:
    """Return the nodes right below, from left to right."""
    match expression:
        case Unary(operand=operand):
            return (operand,)
        case Binary(left=left, right=right):
            return (left, right)
        case Comparison(operands=operands) | Joined(operands=operands):
            return operands
        case Call(arguments=arguments):
            return arguments
        case Group(items=items):
            return items
        case _:
            return ()


def iter_sources(expression: Expression) -> Iterator[Leaf]:
    """Yield the sizes, strides, offsets and other sources from left to right, repeats included."""
    if isinstance(expression, SizeSource | StrideSource | StorageOffset | Source):
        yield expression
    for child in children(expression):
        yield from iter_sources(child)


def iter_symbols(expression: Expression) -> Iterator[Symbol]:
    """Yield the symbols from left to right, repeats included."""
    if isinstance(expression, Symbol):
        yield expression
    for child in children(expression):
        yield from iter_symbols(child)


def substitute(expression: Expression, values: Mapping[str, Expression]) -> Expression:
    """Return the expression with each symbol that ``values`` names replaced."""
    match expression:
        case Symbol(name):
            return values.get(name, expression)
        case Unary(operator, operand):
            return Unary(operator, substitute(operand, values))
        case Binary(operator, left, right):
            return Binary(operator, substitute(left, values), substitute(right, values))
        case Comparison(operands, operators):
            return Comparison(tuple(substitute(each, values) for each in operands), operators)
        case Joined(connective, operands):
            return Joined(connective, tuple(substitute(each, values) for each in operands))
        case Call(function, arguments):
            return Call(function, tuple(substitute(each, values) for each in arguments))
        case Group(bracket, items):
            return Group(bracket, tuple(substitute(each, values) for each in items))
        case _:
            return expression


def parse_literal(text: str) -> Literal | None:
    """Return the int, float, bool, string or None that ``text`` spells, or None for others."""
    expression = parse_expression(text)
    match expression:
        case IntLiteral() | FloatLiteral() | BoolLiteral() | StrLiteral() | NoneLiteral():
            return expression
        case Symbol("inf" | "nan"):  # repr() of a float
            return FloatLiteral(float(text))
        case Unary(UnaryOperator.NEGATIVE, Symbol("inf")):
            return FloatLiteral(-float("inf"))
        case _:
            return None


def _operand_text(expression: Expression) -> str:
    text = expression_text(expression)
    match expression:
        case Unary() | Binary() | Comparison() | Joined():
            return f"({text})"
        case IntLiteral() | FloatLiteral():
            return f"({text})" if text.startswith("-") else text
        case _:
            return text


def _float_text(value: float) -> str:
    text = repr(value)
    return f"-math.{text[1:]}" if text == "-inf" else f"math.{text}" if text in _FLOATS else text


class _NotInGrammar(Exception):
    """The text does not follow the grammar, or goes too deep."""


# A node, and how many nodes deep it is.
_Node: TypeAlias = tuple[Expression, int]

_SPACE = re.compile(r"\s*")
_NUMBER = re.compile(r"(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?(?!\w)")
_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_OPERATOR = re.compile(
    r"==|!=|<=|>=|<|>|\*\*|//|[-+*/%&|^]|(?:not\s+in|is\s+not|in|is|and|or)(?!\w)"
)
_FLOATS = {"inf": float("inf"), "nan": float("nan")}
_WORDS: dict[str, Literal] = {
    "True": BoolLiteral(True),
    "False": BoolLiteral(False),
    "None": NoneLiteral(),
    "math.inf": FloatLiteral(_FLOATS["inf"]),
    "math.nan": FloatLiteral(_FLOATS["nan"]),
}

# Python's precedences; comparison is not associative but chained.
_OR, _AND, _NOT, _COMPARISON = 1, 2, 3, 4
_BINARY_PRECEDENCE = {
    BinaryOperator.BIT_OR: 5,
    BinaryOperator.BIT_XOR: 6,
    BinaryOperator.BIT_AND: 7,
    BinaryOperator.ADD: 8,
    BinaryOperator.SUBTRACT: 8,
    BinaryOperator.MULTIPLY: 9,
    BinaryOperator.DIVIDE: 9,
    BinaryOperator.FLOOR_DIVIDE: 9,
    BinaryOperator.MODULO: 9,
    BinaryOperator.POWER: 11,
}
_UNARY = 10
_BINARY = {operator.value: operator for operator in BinaryOperator}
_COMPARISONS = {operator.value: operator for operator in ComparisonOperator}
_CONNECTIVES = {"and": (Connective.AND, _AND), "or": (Connective.OR, _OR)}
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_BRACKETS = {bracket.value[0]: bracket for bracket in Bracket}


class _Parser:
    """Reads one expression by precedence climbing."""

    def __init__(self, text: str, stripped: bool) -> None:
        self._text = text
        self._stripped = stripped
        self._position = 0
        self._depth = 0

    def parse(self) -> Expression:
        expression, _ = self._expression(_OR)
        self._skip_space()
        if self._position != len(self._text):
            raise _NotInGrammar
        return expression

    def _expression(self, lowest: int) -> _Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _NotInGrammar
        node = self._prefixed()
        while (joined := self._infix(node, lowest)) is not None:
            node = joined
            if node[1] > MAX_DEPTH:
                raise _NotInGrammar
        self._depth -= 1
        return node

    def _infix(self, left: _Node, lowest: int) -> _Node | None:
        """Read one operator that binds at least as much as ``lowest``, and its right side."""
        self._skip_space()
        match = _OPERATOR.match(self._text, self._position)
        if match is None:
            return None
        spelling = " ".join(match[0].split())
        if spelling in _CONNECTIVES:
            connective, precedence = _CONNECTIVES[spelling]
            return self._joined(left, connective, precedence) if precedence >= lowest else None
        if spelling in _COMPARISONS:
            return self._comparison(left) if lowest <= _COMPARISON else None

        operator = _BINARY[spelling]
        precedence = _BINARY_PRECEDENCE[operator]
        if precedence < lowest:
            return None
        self._position = match.end()
        # ** takes what is to its right first, and a sign there: 2 ** -1
        right = self._expression(_UNARY if operator is BinaryOperator.POWER else precedence + 1)
        return Binary(operator, left[0], right[0]), 1 + max(left[1], right[1])

    def _comparison(self, first: _Node) -> _Node:
        nodes = [first]
        operators: list[ComparisonOperator] = []
        while (match := _OPERATOR.match(self._text, self._position)) is not None:
            operator = _COMPARISONS.get(" ".join(match[0].split()))
            if operator is None:
                break
            self._position = match.end()
            operators.append(operator)
            nodes.append(self._expression(_COMPARISON + 1))
            self._skip_space()
        return Comparison(tuple(each for each, _ in nodes), tuple(operators)), _depth(nodes)

    def _joined(self, first: _Node, connective: Connective, precedence: int) -> _Node:
        nodes = [first]
        while (match := _OPERATOR.match(self._text, self._position)) is not None:
            if match[0] != connective.value:
                break
            self._position = match.end()
            nodes.append(self._expression(precedence + 1))
            self._skip_space()
        return Joined(connective, tuple(each for each, _ in nodes)), _depth(nodes)

    def _prefixed(self) -> _Node:
        self._skip_space()
        match self._peek():
            case "-":
                self._position += 1
                operand, depth = self._expression(_UNARY)
                match operand:
                    case IntLiteral(value) if value >= 0:
                        return IntLiteral(-value), 1
                    case FloatLiteral(value) if value >= 0:
                        return FloatLiteral(-value), 1
                    case _:
                        return Unary(UnaryOperator.NEGATIVE, operand), depth + 1
            case "+":
                self._position += 1
                return self._expression(_UNARY)
            case "~":
                self._position += 1
                operand, depth = self._expression(_UNARY)
                return Unary(UnaryOperator.INVERT, operand), depth + 1
            case _:
                return self._atom()

    def _atom(self) -> _Node:
        character = self._peek()
        if character in _CLOSING:
            return self._bracketed()
        if character in ("'", '"'):
            return self._string(), 1
        number = _NUMBER.match(self._text, self._position)
        if number is not None:
            self._position = number.end()
            return _number(number[0]), 1
        return self._named()

    def _bracketed(self) -> _Node:
        opening = self._peek()
        items, closed_by_comma = self._items(_CLOSING[opening])
        if opening == "(" and len(items) == 1 and not closed_by_comma:
            return items[0]
        if opening == "{" and not items:  # an empty dict
            raise _NotInGrammar
        return Group(_BRACKETS[opening], tuple(each for each, _ in items)), _depth(items)

    def _items(self, closing: str) -> tuple[list[_Node], bool]:
        """Read what stands in brackets; the flag tells whether it ends with a comma."""
        self._position += 1
        nodes: list[_Node] = []
        comma = True
        while True:
            self._skip_space()
            if self._peek() == closing:
                self._position += 1
                return nodes, bool(nodes) and comma
            if not comma:
                raise _NotInGrammar
            nodes.append(self._expression(_OR))
            self._skip_space()
            comma = self._peek() == ","
            self._position += comma

    def _string(self) -> Expression:
        end = end_of_string(self._text, self._position)
        value = None if end is None else string_value(self._text[self._position : end])
        if end is None or value is None:
            raise _NotInGrammar
        self._position = end
        return StrLiteral(value)

    def _named(self) -> _Node:
        name = _NAME.match(self._text, self._position)
        if name is not None and name[0] in _WORDS:
            self._position = name.end()
            return _WORDS[name[0]], 1
        if name is not None and name[0] == "not":
            self._position = name.end()
            operand, depth = self._expression(_NOT)
            return Unary(UnaryOperator.NOT, operand), depth + 1
        if name is None or not self._is_function(name):
            found = read_source(self._text, self._position, stripped=self._stripped)
            if found is not None:
                self._position = found[1]
                return leaf_of(found[0]), 1
        if name is None or name[0] in _RESERVED:
            raise _NotInGrammar
        self._position = name.end()
        if self._peek() != "(":
            return Symbol(name[0]), 1
        arguments, _ = self._items(")")
        return Call(name[0], tuple(each for each, _ in arguments)), _depth(arguments)

    def _is_function(self, name: re.Match[str]) -> bool:
        """Return whether a name is one of the functions that torch's printers write."""
        return (
            name[0].startswith(("math.", "torch."))
            and self._text.startswith("(", name.end())
            and not name[0].endswith((".size", ".stride", ".storage_offset"))
        )

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]

    def _skip_space(self) -> None:
        match = _SPACE.match(self._text, self._position)
        if match is not None:
            self._position = match.end()


_RESERVED = frozenset({"and", "or", "not", "in", "is", "if", "else", "lambda", "for"})


def _depth(nodes: list[_Node]) -> int:
    return 1 + max((depth for _, depth in nodes), default=0)


def _number(text: str) -> Expression:
    if text.isdecimal():
        value = integer_value(text)
        if value is None:
            raise _NotInGrammar
        return IntLiteral(value)
    return FloatLiteral(float(text))
