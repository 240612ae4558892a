"""The codemod: mark the arguments of a compiled function before each of its calls."""

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeAlias

import libcst as cst
from libcst.metadata import GlobalScope

from recompile_doctor.events.vocabulary import StackFrame
from recompile_doctor.prescription.call_sites import FrameMarks, NotPatched
from recompile_doctor.prescription.codemods.imports import (
    NewImport,
    existing_name,
    import_edit,
    new_import,
    place_of_import,
)
from recompile_doctor.prescription.codemods.mark_call import PLACES, WrittenCall, literal, read_call
from recompile_doctor.prescription.codemods.module import Module
from recompile_doctor.prescription.codemods.placement import NoPlace, Place, place_before
from recompile_doctor.prescription.codemods.purity import (
    is_calm,
    is_dotted,
    is_literal,
    is_path,
    is_steady,
)
from recompile_doctor.prescription.codemods.signature import (
    Binding,
    Defaulted,
    Given,
    Signature,
    Unclear,
    Unpacked,
    bind,
    bind_double_star,
    bind_star,
    signature_of,
)
from recompile_doctor.prescription.codemods.sites import CallSite, find_sites, is_traced
from recompile_doctor.prescription.codemods.text import Edit, indentation_at, newline_near
from recompile_doctor.prescription.codemods.values import Program
from recompile_doctor.prescription.codemods.wanted import (
    GlobalRoot,
    ParameterRoot,
    ReceiverRoot,
    StarRoot,
    Target,
    Wanted,
    target_of,
)
from recompile_doctor.prescription.marks import Mark
from recompile_doctor.torch_compat import TorchFeatures

_Decline: TypeAlias = Callable[[str, tuple[Mark, ...]], None]


@dataclass(frozen=True, slots=True)
class Request:
    """Marks for a function, with the lines of its calls as the text stands by now."""

    marks: FrameMarks
    lines: tuple[tuple[StackFrame, int], ...]


@dataclass(slots=True)
class Plan:
    """The edits of one pass over the files.

    A statement is edited once a pass: where a second call waits for its turn, ``waiting`` is
    true and another pass is needed. ``marked`` are the marks that some call has by now.
    """

    edits: dict[Module, list[Edit]] = field(default_factory=dict)
    declined: list[NotPatched] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    marked: dict[Mark, None] = field(default_factory=dict)
    waiting: bool = False


@dataclass(frozen=True, slots=True)
class _Operand:
    """What is marked at a call.

    ``root`` is the text that the marked expression begins with, ``given`` the argument that it is
    or is in. ``argument`` is that argument too when it must get a name first; the root is then
    that name and ``element``. ``guarded`` asks for None.
    """

    wanted: Wanted
    root: str
    given: cst.Arg | None = None
    argument: cst.Arg | None = None
    element: str = ""
    guarded: bool = False

    @property
    def expression(self) -> str:
        return self.wanted.expression(self.root)


@dataclass(frozen=True, slots=True)
class _Skip:
    """Nothing is to be marked at this call: it gives no tensor there."""


class InsertMarks:
    """Plans the edits of one pass for some compiled functions."""

    def __init__(self, program: Program, torch: TorchFeatures) -> None:
        self.program = program
        self.torch = torch
        self.plan = Plan()
        self._touched: set[cst.CSTNode] = set()
        self._fresh: dict[Module, set[str]] = {}
        self._stems: dict[cst.Arg, str] = {}
        self._imports: dict[Module, set[NewImport]] = {}
        self._traced = program.traced_functions()

    def run(self, requests: tuple[Request, ...]) -> Plan:
        """Return the edits, and what is declined, for all requests."""
        for request in requests:
            target, declined, losses = target_of(self.program, request.marks, self.torch)
            self.plan.declined += declined
            self.plan.losses += losses
            if target is not None and target.wanted:
                self._mark_function(target, request.lines)
        for module, imports in self._imports.items():
            edits = self.plan.edits[module]
            place = place_of_import(module, min(edit.start for edit in edits))
            assert place is not None  # _function_name has asked
            # First, for a statement that is edited just behind the imports.
            edits.insert(0, import_edit(module, place, imports))
        return self.plan

    def _mark_function(self, target: Target, lines: tuple[tuple[StackFrame, int], ...]) -> None:
        sites, declined = find_sites(self.program, target, lines)
        self.plan.declined += declined
        marks = tuple(each.mark for each in target.wanted)
        before = len(self.plan.declined)
        outside = [site for site in sites if not is_traced(site, self._traced)]
        found: dict[Mark, None] = {}
        for site in outside:
            found |= self._mark_site(site, target)
        self.plan.marked |= found
        if not outside:
            name = str(target.request.frame)
            why = f"no call of {name} is found in the files"
            if self.program.is_partial_somewhere(target.node):
                why += "; a functools.partial of it is, whose calls do not show all arguments"
            if sites:
                why = f"{name} is called only from code that torch traces, where a mark is an error"
            line = target.module.line(target.node)
            self.plan.declined.append(NotPatched(why, target.module.name, line, marks))
            return
        refused = {mark for each in self.plan.declined[before:] for mark in each.marks}
        left = tuple(mark for mark in marks if mark not in found and mark not in refused)
        if left:
            why = "no call gives it a tensor"
            line = target.module.line(target.node)
            self.plan.declined.append(NotPatched(why, target.module.name, line, left))

    def _mark_site(self, site: CallSite, target: Target) -> dict[Mark, None]:
        """Plan the edit of one call and return the marks that it has or gets."""
        module, call = site.module, site.call
        signature = signature_of(target.node, bound=site.bound)
        operands: list[_Operand] = []

        def decline(why: str, marks: tuple[Mark, ...]) -> None:
            self.plan.declined.append(NotPatched(why, module.name, module.line(call), marks))

        self._stems |= _parameter_names(signature, call)
        for wanted in target.wanted:
            match _operand(site, target, signature, wanted):
                case str(why):
                    decline(why, (wanted.mark,))
                case _Operand() as operand:
                    operands.append(operand)
                case _Skip():
                    pass
        if not operands:
            return {}
        place = place_before(module, call)
        if isinstance(place, NoPlace):
            decline(f"no statement can go before the call: {place.why}", _marks(operands))
            return {}
        usable: list[_Operand] = []
        for operand in operands:
            settled = _settle(self.program, site, place, operand)
            if isinstance(settled, str):
                decline(settled, (operand.wanted.mark,))
            else:
                usable.append(settled)
        return self._write(site, place, usable, decline)

    def _write(
        self, site: CallSite, place: Place, operands: list[_Operand], decline: _Decline
    ) -> dict[Mark, None]:
        module = site.module
        written = tuple(_marks_before(module, place.statement))
        found: dict[Mark, None] = {}
        missing: list[_Operand] = []
        for operand in operands:
            match _state(operand, written):
                case _State.MADE:
                    found[operand.wanted.mark] = None
                case _State.OTHERWISE:
                    dim = operand.wanted.call.dim
                    why = (
                        f"the program marks dimension {dim} of {operand.expression} in its own way"
                    )
                    decline(why, (operand.wanted.mark,))
                case _State.MISSING:
                    missing.append(operand)
        if not missing:
            return found
        if place.statement in self._touched:
            self.plan.waiting = True
            return found
        functions = self._function_names(site, place, missing)
        if functions is None:
            decline("there is no place for the import that it needs", _marks(missing))
            return found
        self._touched.add(place.statement)
        names = self._bind(site, [each.argument for each in missing if each.argument is not None])
        lines = [f"{name} = {_as_value(module, each)}" for each, name in names.items()]
        lines += _calls(module, missing, names, functions)
        edits = self.plan.edits.setdefault(module, [])
        edits.append(_insertion(module, place, lines))
        for argument, name in names.items():
            edits.append(Edit(module.start(argument.value), module.end(argument.value), name))
        return found | {each.wanted.mark: None for each in missing}

    def _bind(self, site: CallSite, needed: list[cst.Arg]) -> dict[cst.Arg, str]:
        """Return the arguments that get a name, in order: also those evaluated before them."""
        arguments = list(site.call.args)
        last = max((arguments.index(each) for each in needed), default=-1)
        bound = [
            each
            for each in arguments[: last + 1]
            if each in needed or each.star or not is_steady(site.module, each.value)
        ]
        used = self._fresh.setdefault(site.module, set(site.module.identifiers))
        names: dict[cst.Arg, str] = {}
        for number, argument in enumerate(bound):
            keyword = argument.keyword.value if argument.keyword is not None else None
            default = "unpacked" if argument.star else f"argument_{number}"
            stem = self._stems.get(argument) or keyword or default
            name, count = f"{stem}_arg", 1
            while name in used:
                count += 1
                name = f"{stem}_arg_{count}"
            used.add(name)
            names[argument] = name
        return names

    def _function_names(
        self, site: CallSite, place: Place, operands: list[_Operand]
    ) -> dict[str, str] | None:
        """Return what the file calls each function of torch that is needed, by its own name."""
        names: dict[str, str] = {}
        for call in {
            operand.wanted.call.kind: operand.wanted.call for operand in operands
        }.values():
            package, name = PLACES[call.kind]
            known = existing_name(site.module, site.call, package, name)
            if known is None:
                if place_of_import(site.module, site.module.start(place.statement)) is None:
                    return None
                added = new_import(site.module, package, name)
                self._imports.setdefault(site.module, set()).add(added)
                known = added.alias
            names[call.function] = known
        return names


class _State(Enum):
    """Whether a mark stands before the call already."""

    MADE = "made"
    OTHERWISE = "otherwise"
    MISSING = "missing"


def _state(operand: _Operand, written: tuple[tuple[str, WrittenCall], ...]) -> _State:
    if operand.argument is not None:
        return _State.MISSING
    wanted = operand.wanted.call
    text = _normal(operand.expression)
    same = [each for target, each in written if _normal(target) == text]
    if any(each.says(wanted) for each in same):
        return _State.MADE
    if any(each.call is None or wanted.dim in each.dims for each in same):
        return _State.OTHERWISE
    return _State.MISSING


def _parameter_names(signature: Signature, call: cst.Call) -> dict[cst.Arg, str]:
    """Return the name of the parameter that each argument is, where the text tells."""
    found: dict[cst.Arg, str] = {}
    for parameter in (*signature.positional, *signature.keyword_only):
        binding = bind(signature, call, parameter.name.value)
        if isinstance(binding, Given):
            found[binding.argument] = parameter.name.value
    return found


def _operand(
    site: CallSite, target: Target, signature: Signature, wanted: Wanted
) -> "_Operand | _Skip | str":
    module = site.module
    match wanted.root:
        case GlobalRoot(name):
            scope = module.scope(site.call)
            found = () if scope is None else scope[name]
            if module is not target.module:
                return f"{wanted.mark.source} is a global of another file"
            if not found or not all(isinstance(each.scope, GlobalScope) for each in found):
                return f"{name} is not the global of that name at the call"
            return _Operand(wanted, name)
        case ReceiverRoot():
            if site.receiver is None or not is_path(site.receiver):
                return "the call does not show the object whose method it runs"
            return _Operand(wanted, module.code(site.receiver))
        case ParameterRoot(name, optional):
            return _bound_operand(module, wanted, bind(signature, site.call, name), optional)
        case StarRoot(int(index)):
            return _bound_operand(module, wanted, bind_star(signature, site.call, index), False)
        case StarRoot(key):
            return _bound_operand(module, wanted, bind_double_star(site.call, str(key)), False)


def _bound_operand(
    module: Module, wanted: Wanted, binding: Binding, optional: bool
) -> "_Operand | _Skip | str":
    match binding:
        case Defaulted():
            return _Skip()
        case Unclear(why):
            return why
        case Unpacked(argument, key):
            element = f"[{literal(key)}]"
            if isinstance(argument.value, cst.Name):
                root = argument.value.value + element
                return _Operand(wanted, root, argument, None, element, guarded=optional)
            return _Operand(wanted, "", argument, argument, element, guarded=optional)
        case Given(argument):
            if is_literal(argument.value):
                return _Skip()
            if is_path(argument.value):
                text = module.code(argument.value)
                return _Operand(wanted, text, given=argument, guarded=optional)
            return _Operand(wanted, "", given=argument, argument=argument, guarded=optional)


def _settle(program: Program, site: CallSite, place: Place, operand: _Operand) -> _Operand | str:
    """Return the operand as it can be marked at the place, or why it cannot."""
    module, call = site.module, site.call
    if operand.guarded and not place.own_line:
        return "it may be None, and there is no line of its own to ask for that"
    if operand.argument is None:
        inside = [*place.earlier, *place.callees, *(each.value for each in call.args)]
        if any(_names_in(operand.root) & _assigned_inside(module, each) for each in inside):
            return f"{operand.root} is assigned in the same statement"
        if operand.root.isidentifier():
            return operand
        before = list(place.earlier)
        if operand.given is not None:
            before += [each.value for each in call.args[: call.args.index(operand.given)]]
        if all(is_calm(each) for each in before):
            return operand
        if operand.given is None:
            return f"the statement runs other code before it reads {operand.root}"
        operand = replace(operand, argument=operand.given)
    return operand if (why := _why_not_bind(program, site, place, operand)) is None else why


def _why_not_bind(program: Program, site: CallSite, place: Place, operand: _Operand) -> str | None:
    """Return why the argument cannot be evaluated before the statement, or None."""
    module, arguments = site.module, list(site.call.args)
    assert operand.argument is not None
    if place.why_not_bind is not None:
        return f"the argument must get a name before the call: {place.why_not_bind}"
    if not all(_is_quiet_callee(program, module, each) for each in place.callees):
        return "the argument must get a name before the call, but what is called is computed"
    if not all(is_steady(module, each) for each in place.earlier):
        return "the argument must get a name, but the statement runs other code before it"
    until = arguments[: arguments.index(operand.argument)]
    # f(k=a(), *b()) evaluates b() first
    if any(each.keyword is not None for each in until) and any(e.star == "*" for e in arguments):
        return "the argument must get a name, but named arguments stand before unpacked ones"
    return None


def _is_quiet_callee(program: Program, module: Module, callee: cst.BaseExpression) -> bool:
    """Return whether what is called can be found out later than its arguments."""
    if isinstance(callee, cst.Call) and program.is_compile_call(module, callee):
        return all(is_calm(each.value) for each in callee.args)
    return is_dotted(callee)


def _calls(
    module: Module,
    operands: list[_Operand],
    names: dict[cst.Arg, str],
    functions: dict[str, str],
) -> list[str]:
    """Return the statements that mark, those of one optional argument under one condition."""
    plain: list[str] = []
    guarded: dict[str, list[str]] = {}
    for operand in operands:
        root = operand.root
        if operand.given is not None:
            root = names[operand.given] + operand.element if operand.given in names else root
        call = operand.wanted.call
        text = call.render(functions[call.function], operand.wanted.expression(root))
        if operand.guarded:
            guarded.setdefault(root, []).append(text)
        else:
            plain.append(text)
    for root, texts in guarded.items():
        plain.append(f"if {root} is not None:")
        plain += [module.tree.default_indent + text for text in texts]
    return plain


def _insertion(module: Module, place: Place, lines: list[str]) -> Edit:
    begin = module.start(place.statement)
    if not place.own_line:
        return Edit(begin, begin, "".join(f"{line}; " for line in lines))
    newline = newline_near(module.data, begin)
    indentation = indentation_at(module.data, begin)
    return Edit(begin, begin, "".join(f"{line}{newline}{indentation}" for line in lines))


def _as_value(module: Module, argument: cst.Arg) -> str:
    """Return the text of an argument as the right side of an assignment."""
    text = module.code(argument.value)
    # What is unpacked may be an iterator, so its elements are taken now and kept.
    if argument.star == "*":
        return f"(*{text},)"
    if argument.star == "**":
        return f"{{**{text}}}"
    try:
        parsed = ast.parse(f"name = {text}").body
    except SyntaxError:
        return f"({text})"
    return text if len(parsed) == 1 else f"({text})"


def _marks_before(module: Module, statement: cst.CSTNode) -> Iterator[tuple[str, WrittenCall]]:
    """Yield the marks that stand before a statement and still hold there.

    Backwards through its block, up to the first statement that gives the marked name a new value;
    a mark on a longer path holds only when nothing but marks stands between.
    """
    only_marks = True
    rebound: set[str] = set()
    for each in _statements_before(module, statement):
        found = list(_marks_of(module, each))
        if not found:
            only_marks = False
            rebound |= _assigned_inside(module, each)
            continue
        for target, call in found:
            if _names_in(target) & rebound or not (only_marks or target.isidentifier()):
                continue
            yield target, call


def _marks_of(module: Module, statement: cst.CSTNode) -> Iterator[tuple[str, WrittenCall]]:
    match statement:
        case cst.If(orelse=None, body=cst.BaseSuite() as suite) if module.code(
            statement.test
        ).endswith("is not None"):
            inner = [small for line in suite.body for small in getattr(line, "body", (line,))]
            found = [read_call(module, each) for each in inner]
            if all(each is not None for each in found):
                yield from (each for each in found if each is not None)
        case _:
            call = read_call(module, statement)
            if call is not None:
                yield call


def _statements_before(module: Module, statement: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the statements before one in its block, nearest first."""
    holder = module.parent(statement)
    if isinstance(holder, cst.SimpleStatementLine | cst.SimpleStatementSuite):
        yield from _until(holder.body, statement)
        if isinstance(holder, cst.SimpleStatementSuite):
            return
        statement, holder = holder, module.parent(holder)
    if isinstance(holder, cst.IndentedBlock | cst.Module):
        for each in _until(holder.body, statement):
            if isinstance(each, cst.SimpleStatementLine):
                yield from reversed(each.body)
            else:
                yield each


def _until(nodes: Sequence[cst.CSTNode], end: cst.CSTNode) -> Iterator[cst.CSTNode]:
    index = next(number for number, each in enumerate(nodes) if each is end)
    return reversed(nodes[:index])


def _assigned_inside(module: Module, statement: cst.CSTNode) -> set[str]:
    """Return the names that may get a value in the text of a statement (a name in a tuple too)."""
    found: set[str] = set()
    pending = [statement]
    while pending:
        node = pending.pop()
        pending += node.children
        match node:
            case cst.FunctionDef(name=name) | cst.ClassDef(name=name):
                found.add(name.value)
            case cst.Name(value=value):
                holder = module.parent(node)
                match holder:
                    case cst.AssignTarget() | cst.Element() | cst.StarredElement() | cst.AsName():
                        found.add(value)
                    case cst.Del() | cst.ImportAlias() | cst.NameItem():
                        found.add(value)
                    case (
                        cst.AugAssign(target=target)
                        | cst.AnnAssign(target=target)
                        | cst.NamedExpr(target=target)
                        | cst.For(target=target)
                        | cst.CompFor(target=target)
                    ) if target is node:
                        found.add(value)
                    case _:
                        pass
            case _:
                pass
    return found


def _names_in(expression: str) -> set[str]:
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except SyntaxError:
        return set()
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _normal(expression: str) -> str:
    try:
        return ast.unparse(ast.parse(expression.strip(), mode="eval"))
    except SyntaxError:
        return expression.strip()


def _marks(operands: list[_Operand]) -> tuple[Mark, ...]:
    return tuple(each.wanted.mark for each in operands)
