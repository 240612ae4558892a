"""Which expressions can be evaluated earlier, or twice, without a difference.

Reading a name, an attribute or an item is taken to have no side effect. A longer path can mean
something else after other code has run, a plain name of a function cannot.
"""

import libcst as cst

from recompile_doctor.prescription.codemods.module import Module

_LITERALS = (cst.SimpleString, cst.Integer, cst.Float, cst.Imaginary, cst.Ellipsis)
_CONSTANT_NAMES = frozenset({"None", "True", "False"})


def is_literal(expression: cst.BaseExpression) -> bool:
    """Return whether it is a constant, and so no tensor."""
    match expression:
        case cst.Name(value=name):
            return name in _CONSTANT_NAMES
        case cst.UnaryOperation(expression=inner):
            return isinstance(inner, cst.Integer | cst.Float | cst.Imaginary)
        case cst.ConcatenatedString(left=left, right=right):
            return is_literal(left) and is_literal(right)
        case _:
            return isinstance(expression, _LITERALS)


def is_path(expression: cst.BaseExpression) -> bool:
    """Return whether it is a name followed by attributes and by items with plain keys."""
    match expression:
        case cst.Name():
            return True
        case cst.Attribute(value=value):
            return is_path(value)
        case cst.Subscript(value=value, slice=[cst.SubscriptElement(slice=cst.Index(value=key))]):
            return is_path(value) and (is_literal(key) or isinstance(key, cst.Name))
        case _:
            return False


def is_dotted(expression: cst.BaseExpression) -> bool:
    """Return whether it is a name followed by attributes only."""
    match expression:
        case cst.Attribute(value=value):
            return is_dotted(value)
        case _:
            return isinstance(expression, cst.Name)


def is_calm(expression: cst.BaseExpression) -> bool:
    """Return whether evaluating it changes nothing."""
    return is_literal(expression) or is_path(expression)


def is_steady(module: Module, expression: cst.BaseExpression) -> bool:
    """Return whether it stays the same whatever other code runs before it."""
    if is_literal(expression):
        return True
    return isinstance(expression, cst.Name) and expression.value not in module.rebound_elsewhere
