"""What a guard on sizes asks for, and whether given sizes would fail it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from recompile_doctor.model.expression import (
    Binary,
    BinaryOperator,
    BoolLiteral,
    Call,
    Comparison,
    ComparisonOperator,
    Connective,
    Expression,
    FloatLiteral,
    IntLiteral,
    Joined,
    Symbol,
    Unary,
    UnaryOperator,
    Unparsed,
    iter_sources,
    iter_symbols,
)
from recompile_doctor.model.source import Leaf, SizeSource, Source, StorageOffset, StrideSource

# Larger results are given up: sizes have 64 bits, and a hostile log must not fill the memory.
MAX_BITS = 1024


class ShapeGuardKind(Enum):
    """What a guard on sizes does. A stride or an offset comes before all other kinds."""

    LOWER_BOUND = "keeps 0 or 1 out"
    RANGE = "bounds the value"
    PINNED = "allows one value"
    NOT_EQUAL = "excludes one value"
    EQUAL_SIZES = "ties two values together"
    DIVISIBLE = "asks for a remainder"
    DERIVED = "compares what is computed from one value"
    RELATION = "relates several values"
    STRIDE = "is about a stride"
    STORAGE_OFFSET = "is about a storage offset"
    OTHER = "is not understood"


Variable: TypeAlias = Leaf | Symbol


@dataclass(frozen=True, slots=True)
class ShapeGuard:
    """A guard on sizes, with the numbers that its kind has.

    ``variables`` are the sizes (or other sources, or symbols) in it, each once, in order.
    ``lower`` and ``upper`` are inclusive bounds of the single variable; ``value`` is the number
    that it must or must not be; ``modulus`` the divisor.
    """

    expression: Expression
    kind: ShapeGuardKind
    variables: tuple[Variable, ...] = ()
    lower: int | None = None
    upper: int | None = None
    value: int | None = None
    modulus: int | None = None

    @property
    def sizes(self) -> tuple[SizeSource, ...]:
        """Return the tensor sizes among the variables."""
        return tuple(each for each in self.variables if isinstance(each, SizeSource))


def classify(expression: Expression) -> ShapeGuard:
    """Return what a guard on sizes asks for.

    Symbols count as variables, so that ``Eq(s77, 6)`` of the symbols log is classified too.
    """
    found = dict.fromkeys((*iter_sources(expression), *iter_symbols(expression)))
    variables: tuple[Variable, ...] = tuple(found)
    guard = _classify_comparison(_as_comparison(expression), variables)
    kind = guard.kind
    if any(isinstance(each, StorageOffset) for each in variables):
        kind = ShapeGuardKind.STORAGE_OFFSET
    elif any(isinstance(each, StrideSource) for each in variables):
        kind = ShapeGuardKind.STRIDE
    return ShapeGuard(
        expression, kind, variables, guard.lower, guard.upper, guard.value, guard.modulus
    )


_FUNCTION_COMPARISONS = {
    "Eq": ComparisonOperator.EQUAL,
    "Ne": ComparisonOperator.NOT_EQUAL,
    "Lt": ComparisonOperator.LESS,
    "Le": ComparisonOperator.LESS_EQUAL,
    "Gt": ComparisonOperator.GREATER,
    "Ge": ComparisonOperator.GREATER_EQUAL,
}

_MIRRORED = {
    ComparisonOperator.LESS: ComparisonOperator.GREATER,
    ComparisonOperator.LESS_EQUAL: ComparisonOperator.GREATER_EQUAL,
    ComparisonOperator.GREATER: ComparisonOperator.LESS,
    ComparisonOperator.GREATER_EQUAL: ComparisonOperator.LESS_EQUAL,
}

_EQUALITIES = (ComparisonOperator.EQUAL, ComparisonOperator.NOT_EQUAL)


def _as_comparison(expression: Expression) -> Expression:
    """Return ``Eq(a, b)`` as ``a == b``; anything else as it is."""
    match expression:
        case Call("size_oblivious", (inner,)):  # torch up to 2.9
            return _as_comparison(inner)
        case Call(function, (left, right)) if function in _FUNCTION_COMPARISONS:
            return Comparison((left, right), (_FUNCTION_COMPARISONS[function],))
        case _:
            return expression


def _classify_comparison(expression: Expression, variables: tuple[Variable, ...]) -> ShapeGuard:
    match expression:
        case Comparison((left, right), (operator,)):
            if isinstance(left, IntLiteral):
                left, right = right, left
                operator = _MIRRORED.get(operator, operator)
            match left, right:
                case _ if operator in _EQUALITIES and (modulus := _modulus(left, right)):
                    return ShapeGuard(
                        expression, ShapeGuardKind.DIVISIBLE, modulus=modulus[0], value=modulus[1]
                    )
                case _, IntLiteral(number) if _is_variable(left):
                    return _against_number(expression, operator, number)
                case _ if (
                    operator is ComparisonOperator.EQUAL
                    and _is_variable(left)
                    and _is_variable(right)
                ):
                    return ShapeGuard(expression, ShapeGuardKind.EQUAL_SIZES)
        case Comparison((IntLiteral(first), middle, IntLiteral(last)), operators) if _is_variable(
            middle
        ):
            below = _against_number(expression, _MIRRORED.get(operators[0], operators[0]), first)
            above = _against_number(expression, operators[1], last)
            lower = below.lower if below.lower is not None else above.lower
            upper = above.upper if above.upper is not None else below.upper
            if lower is not None and upper is not None:
                return ShapeGuard(expression, ShapeGuardKind.RANGE, lower=lower, upper=upper)

    if isinstance(expression, Unparsed) or not variables:
        return ShapeGuard(expression, ShapeGuardKind.OTHER)
    single = len(variables) == 1
    return ShapeGuard(expression, ShapeGuardKind.DERIVED if single else ShapeGuardKind.RELATION)


def _against_number(
    expression: Expression, operator: ComparisonOperator, number: int
) -> ShapeGuard:
    """Return the guard ``variable operator number``."""
    match operator:
        case ComparisonOperator.EQUAL:
            return ShapeGuard(expression, ShapeGuardKind.PINNED, value=number)
        case ComparisonOperator.NOT_EQUAL:
            return ShapeGuard(expression, ShapeGuardKind.NOT_EQUAL, value=number)
        case ComparisonOperator.GREATER | ComparisonOperator.GREATER_EQUAL:
            lower = number + 1 if operator is ComparisonOperator.GREATER else number
            # A size is never negative: these keep out 0, or 0 and 1.
            zero_one = 1 <= lower <= 2
            kind = ShapeGuardKind.LOWER_BOUND if zero_one else ShapeGuardKind.RANGE
            return ShapeGuard(expression, kind, lower=lower)
        case ComparisonOperator.LESS | ComparisonOperator.LESS_EQUAL:
            upper = number - 1 if operator is ComparisonOperator.LESS else number
            return ShapeGuard(expression, ShapeGuardKind.RANGE, upper=upper)
        case (
            ComparisonOperator.IN
            | ComparisonOperator.NOT_IN
            | ComparisonOperator.IS
            | ComparisonOperator.IS_NOT
        ):
            return ShapeGuard(expression, ShapeGuardKind.OTHER)


def _is_variable(expression: Expression) -> bool:
    return isinstance(expression, SizeSource | StrideSource | StorageOffset | Source | Symbol)


def _modulus(left: Expression, right: Expression) -> tuple[int | None, int] | None:
    """Return the divisor (None: not a number) and the remainder of ``a % b == c``."""
    if not isinstance(right, IntLiteral):
        return None
    match left:
        case Binary(BinaryOperator.MODULO, _, divisor):
            pass
        case Call("Mod" | "PythonMod", (_, divisor)):
            pass
        case _:
            return None
    return divisor.value if isinstance(divisor, IntLiteral) else None, right.value


Number: TypeAlias = int | float


def fails_for(expression: Expression, sizes: Mapping[Variable, int]) -> bool | None:
    """Return whether the guard is false for these values; None where that cannot be told.

    Computed by our own arithmetic. Give sources as keys (``SizeSource`` and the like), and
    symbols where the expression has some.
    """
    try:
        result = _evaluate(expression, sizes)
    except (ZeroDivisionError, OverflowError, ValueError):
        return None
    return None if result is None else not result


def _evaluate(expression: Expression, sizes: Mapping[Variable, int]) -> Number | None:
    match expression:
        case IntLiteral(value) | FloatLiteral(value) | BoolLiteral(value):
            return value
        case SizeSource() | StrideSource() | StorageOffset() | Source() | Symbol():
            return sizes.get(expression)
        case Unary(operator, operand):
            number = _evaluate(operand, sizes)
            return None if number is None else _apply_unary(operator, number)
        case Binary(operator, left_side, right_side):
            left = _evaluate(left_side, sizes)
            right = _evaluate(right_side, sizes)
            if left is None or right is None:
                return _decided(operator, left, right)
            return _bounded(_apply_binary(operator, left, right))
        case Comparison(operands, operators):
            return _compare([_evaluate(each, sizes) for each in operands], operators)
        case Joined(connective, operands):
            return _join(connective, [_evaluate(each, sizes) for each in operands])
        case Call(function, arguments):
            values = [_evaluate(each, sizes) for each in arguments]
            known = [each for each in values if each is not None]
            return _call(function, known) if len(known) == len(values) else None
        case _:
            return None


def _apply_unary(operator: UnaryOperator, value: Number) -> Number | None:
    match operator:
        case UnaryOperator.NEGATIVE:
            return -value
        case UnaryOperator.NOT:
            return not value
        case UnaryOperator.INVERT:  # sympy's Not
            return not value if isinstance(value, bool) else None


def _apply_binary(operator: BinaryOperator, left: Number, right: Number) -> Number | None:
    match operator:
        case BinaryOperator.ADD:
            return left + right
        case BinaryOperator.SUBTRACT:
            return left - right
        case BinaryOperator.MULTIPLY:
            return left * right
        case BinaryOperator.DIVIDE:
            return left / right
        case BinaryOperator.FLOOR_DIVIDE:
            return left // right
        case BinaryOperator.MODULO:
            return left % right
        case BinaryOperator.POWER:
            return _power(left, right)
        case BinaryOperator.BIT_AND | BinaryOperator.BIT_OR | BinaryOperator.BIT_XOR:
            return _apply_bitwise(operator, left, right)


def _apply_bitwise(operator: BinaryOperator, left: Number, right: Number) -> Number | None:
    if isinstance(left, float) or isinstance(right, float):
        return None
    match operator:
        case BinaryOperator.BIT_AND:
            return left & right
        case BinaryOperator.BIT_OR:
            return left | right
        case _:
            return left ^ right


def _decided(operator: BinaryOperator, left: Number | None, right: Number | None) -> bool | None:
    """Return what one truth value alone decides: sympy writes ``&`` and ``|`` for and, or."""
    for value in (left, right):
        if operator is BinaryOperator.BIT_AND and value is False:
            return False
        if operator is BinaryOperator.BIT_OR and value is True:
            return True
    return None


def _power(base: Number, exponent: Number) -> Number | None:
    if isinstance(base, int) and isinstance(exponent, int):
        if exponent < 0 or base.bit_length() * exponent > MAX_BITS:
            return None
        return int(base**exponent)
    result = base**exponent
    return result if isinstance(result, float) else None


def _bounded(value: Number | None) -> Number | None:
    return None if isinstance(value, int) and value.bit_length() > MAX_BITS else value


def _compare(values: list[Number | None], operators: tuple[ComparisonOperator, ...]) -> bool | None:
    unknown = False
    for operator, left, right in zip(operators, values, values[1:], strict=False):
        holds = None if left is None or right is None else _holds(operator, left, right)
        if holds is False:
            return False
        unknown = unknown or holds is None
    return None if unknown else True


def _holds(operator: ComparisonOperator, left: Number, right: Number) -> bool | None:
    match operator:
        case ComparisonOperator.EQUAL:
            return left == right
        case ComparisonOperator.NOT_EQUAL:
            return left != right
        case ComparisonOperator.LESS:
            return left < right
        case ComparisonOperator.LESS_EQUAL:
            return left <= right
        case ComparisonOperator.GREATER:
            return left > right
        case ComparisonOperator.GREATER_EQUAL:
            return left >= right
        case (
            ComparisonOperator.IN
            | ComparisonOperator.NOT_IN
            | ComparisonOperator.IS
            | ComparisonOperator.IS_NOT
        ):
            return None


def _join(connective: Connective, values: list[Number | None]) -> bool | None:
    """Return the joined truth value; one operand can decide it although others are unknown."""
    decisive = connective is Connective.OR
    if any(value is not None and bool(value) is decisive for value in values):
        return decisive
    return None if None in values else not decisive


def _ceil_divide(left: Number, right: Number) -> Number:
    return -(-left // right)


def _modular_index(value: Number, divisor: Number, modulus: Number) -> Number:
    return value // divisor % modulus


_UNARY_FUNCTIONS: dict[str, Callable[[Number], Number]] = {
    "Abs": abs,
    "abs": abs,
    "CeilToInt": math.ceil,
    "FloorToInt": math.floor,
    "Identity": lambda value: value,
    "Not": lambda value: not value,
    "ToFloat": float,
    "TruncToFloat": lambda value: float(math.trunc(value)),
    "TruncToInt": math.trunc,
    "ceiling": math.ceil,
    "floor": math.floor,
    "math.ceil": math.ceil,
    "math.floor": math.floor,
    "math.isnan": math.isnan,
    "math.sqrt": math.sqrt,
    "math.trunc": math.trunc,
    "size_oblivious": lambda value: value,
    "torch._sym_sqrt": math.sqrt,
    "torch.sym_float": float,
}
_BINARY_FUNCTIONS: dict[str, Callable[[Number, Number], Number | None]] = {
    "CeilDiv": _ceil_divide,
    "CleanDiv": lambda left, right: left // right,
    "FloatPow": _power,
    "FloatTrueDiv": lambda left, right: left / right,
    "FloorDiv": lambda left, right: left // right,
    "IntTrueDiv": lambda left, right: left / right,
    "Mod": lambda left, right: left % right,
    "PowByNatural": _power,
    "PythonMod": lambda left, right: left % right,
}
_SEVERAL_FUNCTIONS: dict[str, Callable[[list[Number]], Number]] = {
    "And": all,
    "Max": max,
    "Min": min,
    "Or": any,
    "max": max,
    "min": min,
}


def _call(function: str, values: list[Number]) -> Number | None:
    match values:
        case [value] if function in _UNARY_FUNCTIONS:
            return _UNARY_FUNCTIONS[function](value)
        case [left, right] if function in _BINARY_FUNCTIONS:
            return _bounded(_BINARY_FUNCTIONS[function](left, right))
        case [left, right] if function in _FUNCTION_COMPARISONS:
            return _holds(_FUNCTION_COMPARISONS[function], left, right)
        case [value, divisor, modulus] if function == "ModularIndexing":
            return _modular_index(value, divisor, modulus)
        case [_, *_] if function in _SEVERAL_FUNCTIONS:
            return _SEVERAL_FUNCTIONS[function](values)
        case _:
            return None
