"""Where a statement can go before a call, and what the statement there has evaluated by then."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import libcst as cst

from recompile_doctor.prescription.codemods.module import Module

_UNPACKS = "something is unpacked before it"
Statement: TypeAlias = cst.BaseSmallStatement | cst.BaseCompoundStatement


@dataclass(frozen=True, slots=True)
class Place:
    """A statement can go directly before ``statement``.

    ``own_line`` tells that nothing but white space stands before it on its line. ``earlier`` is
    what the statement evaluates before the arguments of the call, in order, ``callees`` among it
    what is called with the result. ``may_bind`` tells that a new name can be bound there.
    """

    statement: Statement
    own_line: bool
    earlier: tuple[cst.BaseExpression, ...]
    callees: tuple[cst.BaseExpression, ...]
    why_not_bind: str | None = None


@dataclass(frozen=True, slots=True)
class NoPlace:
    """Why no statement can go before a call."""

    why: str


@dataclass(frozen=True, slots=True)
class _Step:
    """What a node evaluates before the part of it that holds the call."""

    earlier: tuple[cst.BaseExpression, ...] = ()
    callees: tuple[cst.BaseExpression, ...] = ()
    why_not_bind: str | None = None


def place_before(module: Module, call: cst.Call) -> Place | NoPlace:
    """Return where a statement can go so that it runs just before ``call`` and as often."""
    earlier: list[cst.BaseExpression] = []
    callees: list[cst.BaseExpression] = [call.func]
    why_not_bind: str | None = None
    child: cst.CSTNode = call
    for parent in module.iter_parents(call):
        if isinstance(child, cst.BaseSmallStatement):
            return _before(module, child, earlier, callees, why_not_bind)
        step = _step(module, parent, child)
        if isinstance(step, NoPlace):
            return step
        earlier[:0] = step.earlier
        callees[:0] = step.callees
        why_not_bind = why_not_bind or step.why_not_bind
        if isinstance(parent, cst.BaseCompoundStatement):
            return _before(module, parent, earlier, callees, why_not_bind)
        child = parent
    return NoPlace("it is in no statement")


def _before(
    module: Module,
    statement: Statement,
    earlier: list[cst.BaseExpression],
    callees: list[cst.BaseExpression],
    why_not_bind: str | None,
) -> Place | NoPlace:
    begin = module.start(statement)
    line = max(module.data.rfind(b"\n", 0, begin), module.data.rfind(b"\r", 0, begin)) + 1
    own_line = not module.data[line:begin].strip()
    if not own_line and isinstance(statement, cst.BaseCompoundStatement):
        return NoPlace("its statement does not begin a line")
    for parent in module.iter_parents(statement):
        if isinstance(parent, cst.FunctionDef | cst.Lambda):
            break
        if isinstance(parent, cst.ClassDef):
            why_not_bind = "a new name would become an attribute of the class"
            break
    return Place(statement, own_line, tuple(earlier), tuple(callees), why_not_bind)


def _step(module: Module, parent: cst.CSTNode, child: cst.CSTNode) -> _Step | NoPlace:
    match parent:
        case cst.BaseSmallStatement():
            return _in_small_statement(parent, child)
        case cst.BaseCompoundStatement():
            return _in_header(module, parent, child)
        case cst.BaseExpression():
            return _in_expression(parent, child)
        case cst.CompFor():
            return _in_comprehension(module, parent, child)
        case cst.WithItem() | cst.Decorator() | cst.Param() | cst.Parameters() | cst.Annotation():
            return _in_clause(parent)
        case cst.DictElement(key=key, value=value) if value is child:
            return _Step((key,))
        case cst.Slice():
            parts = (parent.lower, parent.upper, parent.step)
            return _Step(tuple(part for part in parts[: parts.index(child)] if part))
        case cst.CompIf():
            return NoPlace("it is in the condition of a comprehension")
        case cst.FormattedStringExpression(expression=expression, equal=equal):
            shown = None if equal is None else "the f-string shows its text"
            return _Step(() if expression is child else (expression,), why_not_bind=shown)
        case _:
            return _Step()


def _in_small_statement(parent: cst.BaseSmallStatement, child: cst.CSTNode) -> _Step | NoPlace:
    match parent:
        case cst.Assign(value=value):
            if value is child:
                return _Step()
            return NoPlace("it is in the target of an assignment")
        case cst.AnnAssign(value=value):
            if value is child:
                return _Step()
            return NoPlace("it is in an annotation or the target of an assignment")
        case cst.AugAssign(target=target, value=value):
            if value is child:
                return _Step((target,))
            return NoPlace("it is in the target of an assignment")
        case cst.Assert(test=test):
            if test is child:
                return _Step(why_not_bind="python -O leaves the assertion out")
            return NoPlace("it is in the message of an assertion")
        case cst.Raise(exc=exc):
            if exc is child:
                return _Step()
            return NoPlace("it is in the cause of an exception")
        case cst.Expr() | cst.Return():
            return _Step()
        case _:
            return NoPlace("its kind of statement is not known")


def _in_header(
    module: Module, parent: cst.BaseCompoundStatement, child: cst.CSTNode
) -> _Step | NoPlace:
    match parent:
        case cst.If(test=test) if test is child:
            above = module.parent(parent)
            if isinstance(above, cst.If) and above.orelse is parent:
                return NoPlace("it is in the condition of an elif")
            return _Step()
        case cst.While():
            return NoPlace("it is in the condition of a while loop, which runs each time round")
        case cst.For(iter=iterated) if iterated is child:
            return _Step()
        case cst.With(items=items) if items and items[0] is child:
            return _Step()
        case cst.With():
            return NoPlace("it is in a with statement behind another context manager")
        case cst.Match(subject=subject) if subject is child:
            return _Step()
        case cst.FunctionDef():
            return NoPlace("it is in a decorator, a default or an annotation of a function")
        case cst.ClassDef():
            return NoPlace("it is in the first line of a class")
        case _:
            return NoPlace("it is in a part of a statement that does not always run")


def _in_clause(parent: cst.CSTNode) -> _Step | NoPlace:
    if isinstance(parent, cst.WithItem):
        return _Step()
    return NoPlace("it is in a decorator, a default or an annotation of a function")


def _in_comprehension(module: Module, parent: cst.CompFor, child: cst.CSTNode) -> _Step | NoPlace:
    holder = module.parent(parent)
    # The first iterable is evaluated once, outside of the comprehension.
    if parent.iter is child and not isinstance(holder, cst.CompFor):
        return _Step()
    if parent.inner_for_in is child:
        return NoPlace("it is in an inner loop of a comprehension")
    return NoPlace("it is in a comprehension")


def _in_expression(parent: cst.BaseExpression, child: cst.CSTNode) -> _Step | NoPlace:
    match parent:
        case cst.Lambda():
            return NoPlace("it is in a lambda")
        case cst.IfExp(test=test):
            if test is child:
                return _Step()
            return NoPlace("it is in a branch of a conditional expression")
        case cst.BooleanOperation(left=left):
            if left is child:
                return _Step()
            return NoPlace("it stands behind 'and' or 'or', which may leave it out")
        case cst.ListComp() | cst.SetComp() | cst.GeneratorExp() | cst.DictComp():
            if parent.for_in is child:
                return _Step()
            return NoPlace("it is in a comprehension")
        case cst.Comparison(left=left, comparisons=comparisons):
            if left is child:
                return _Step()
            if comparisons[0] is child:
                return _Step((left,))
            return NoPlace("it is in a chain of comparisons, which may leave it out")
        case cst.BinaryOperation(left=left):
            return _Step() if left is child else _Step((left,))
        case cst.Subscript(value=value, slice=elements):
            return _Step() if value is child else _Step((value, *_before_element(elements, child)))
        case cst.Call(func=func, args=args):
            if func is child:
                return _Step()
            before = args[: _index(args, child)]
            star = _UNPACKS if any(each.star for each in before) else None
            return _Step(tuple(each.value for each in before), (func,), star)
        case (
            cst.List(elements=elements) | cst.Tuple(elements=elements) | cst.Set(elements=elements)
        ):
            items = elements[: _index(elements, child)]
            star = _UNPACKS if any(isinstance(e, cst.StarredElement) for e in items) else None
            return _Step(tuple(each.value for each in items), why_not_bind=star)
        case cst.Dict(elements=entries):
            return _Step(_before_entry(entries, child))
        case cst.FormattedString(parts=parts):
            texts = parts[: _index(parts, child)]
            found = [p.expression for p in texts if isinstance(p, cst.FormattedStringExpression)]
            return _Step(tuple(found))
        case cst.ConcatenatedString(left=left):
            return _Step() if left is child else _Step((left,))
        case _:
            return _Step()


def _index(nodes: Sequence[cst.CSTNode], child: cst.CSTNode) -> int:
    return next(number for number, each in enumerate(nodes) if each is child)


def _before_element(
    elements: Sequence[cst.SubscriptElement], child: cst.CSTNode
) -> tuple[cst.BaseExpression, ...]:
    found: list[cst.BaseExpression] = []
    for element in elements[: _index(elements, child)]:
        part = element.slice
        if isinstance(part, cst.Index):
            found.append(part.value)
        elif isinstance(part, cst.Slice):
            found += [each for each in (part.lower, part.upper, part.step) if each is not None]
    return tuple(found)


def _before_entry(
    entries: Sequence[cst.BaseDictElement], child: cst.CSTNode
) -> tuple[cst.BaseExpression, ...]:
    found: list[cst.BaseExpression] = []
    for entry in entries[: _index(entries, child)]:
        found += [entry.key, entry.value] if isinstance(entry, cst.DictElement) else [entry.value]
    return tuple(found)
