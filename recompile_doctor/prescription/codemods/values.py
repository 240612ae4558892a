"""What an expression of the user's program can be: a function, a class, a compiled one of these.

A small abstract evaluation over the given files. It follows names, imports between the files,
attributes that a class sets on itself, and calls of classes and of ``torch.compile``. What it does
not follow is in no result: a missing value means unknown, never "not compiled".
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypeAlias

import libcst as cst
from libcst.metadata import Assignment, ImportAssignment

from recompile_doctor.prescription.codemods.module import FunctionNode, Module

_COMPILE = frozenset({"torch.compile", "torch.compiler.compile"})
_OPTIMIZE = frozenset({"torch._dynamo.optimize"})  # takes the backend, returns a decorator
_DISABLE = frozenset({"torch.compiler.disable", "torch._dynamo.disable"})
# They hand on the arguments as they are.
_TRANSPARENT = frozenset(
    {
        "builtins.classmethod",
        "builtins.staticmethod",
        "torch.enable_grad",
        "torch.inference_mode",
        "torch.no_grad",
        "typing.final",
        "typing.override",
    }
)
# nn.Module methods that return the module itself.
_RETURNS_SELF = frozenset(
    {"apply", "bfloat16", "cpu", "cuda", "double", "eval", "float", "half"}
    | {"requires_grad_", "to", "train", "type", "xpu"}
)
_DEEPEST = 25


@dataclass(frozen=True, slots=True)
class Plain:
    """A function as it is called: ``bound`` tells that its first argument is filled already."""

    node: FunctionNode
    bound: bool = False


@dataclass(frozen=True, slots=True)
class Class:
    """A class of the program."""

    node: cst.ClassDef


@dataclass(frozen=True, slots=True)
class Instance:
    """An object of a class of the program."""

    node: cst.ClassDef


@dataclass(frozen=True, slots=True)
class Compiled:
    """What ``torch.compile`` makes of a value."""

    of: "Plain | Instance"


@dataclass(frozen=True, slots=True)
class Compiler:
    """What ``torch.compile`` returns when it is not given a function."""


Value: TypeAlias = Plain | Class | Instance | Compiled | Compiler
Values: TypeAlias = frozenset[Value]
_Key: TypeAlias = tuple[Module, cst.BaseExpression]
_NONE: Values = frozenset()


class Program:
    """The given files together, and what the expressions in them can be."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self.modules = tuple(modules)
        self._home = {
            node: module
            for module in self.modules
            for node in module.nodes
            if isinstance(node, cst.FunctionDef | cst.Lambda | cst.ClassDef)
        }
        self._known: dict[_Key, Values] = {}
        self._guesses: dict[_Key, Values] = {}
        self._round: dict[_Key, Values] | None = None
        self._changed = False
        self._attributes: dict[str, list[tuple[Module, cst.Attribute, cst.BaseExpression]]] = {}
        for module in self.modules:
            self._note_attributes(module)
        self._compiled_in_place = self._find_compiled_in_place()

    def module_of(self, node: FunctionNode | cst.ClassDef) -> Module:
        """Return the file that a function or class stands in."""
        return self._home[node]

    def compiled_calls(self, module: Module, call: cst.Call) -> tuple[Plain, ...]:
        """Return the compiled functions that a call can run, as it calls them."""
        found: list[Plain] = []
        for value in self.evaluate(module, call.func):
            match value:
                case Compiled(Plain() as plain):
                    found.append(plain)
                case Compiled(Instance(node)):
                    found += self._forwards(node)
                case Instance(node):
                    if node in self._compiled_in_place:
                        found += self._forwards(node)
                    found += self._own_forwards(node)
                case _:
                    pass
        return tuple(dict.fromkeys(found))

    def is_compile_call(self, module: Module, expression: cst.BaseExpression) -> bool:
        """Return whether it is a call of ``torch.compile`` itself."""
        return isinstance(expression, cst.Call) and bool(
            module.qualified_names(expression.func) & _COMPILE
        )

    def is_compile_name(self, module: Module, expression: cst.BaseExpression) -> bool:
        """Return whether it is the name of ``torch.compile``."""
        return bool(module.qualified_names(expression) & _COMPILE)

    def compiles(self, module: Module, call: cst.Call, node: FunctionNode) -> bool:
        """Return whether a call of ``torch.compile`` or ``Module.compile`` is for a function."""
        if self.is_compile_call(module, call):
            return any(node in self.runs(value) for value in self.evaluate(module, call))
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "compile":
            values = self.evaluate(module, call.func.value)
            return any(
                node in self.runs(Compiled(value))
                for value in values
                if isinstance(value, Instance)
            )
        return False

    def is_partial_somewhere(self, node: FunctionNode) -> bool:
        """Return whether a ``functools.partial`` of the function is made."""
        return any(
            value in (Plain(node, True), Plain(node, False))
            for module in self.modules
            for call in module.iter_nodes(cst.Call)
            if call.args and "functools.partial" in module.qualified_names(call.func)
            for value in self.evaluate(module, call.args[0].value)
        )

    def is_known(self, module: Module, expression: cst.BaseExpression) -> bool:
        """Return whether something is found out about the value."""
        return bool(self.evaluate(module, expression) or module.qualified_names(expression))

    def traced_functions(self) -> frozenset[FunctionNode]:
        """Return the functions that torch traces: those compiled, and those that they call."""
        pending: list[FunctionNode] = []
        for module in self.modules:
            for call in module.iter_nodes(cst.Call):
                pending += [
                    node for value in self.evaluate(module, call) for node in self.runs(value)
                ]
            for function in module.iter_nodes(cst.FunctionDef):
                if any(isinstance(value, Compiled) for value in self._decorated(module, function)):
                    pending.append(function)
        for owner in self._compiled_in_place:
            pending += [plain.node for plain in self._forwards(owner)]
        found: set[FunctionNode] = set()
        while pending:
            node = pending.pop()
            if node not in found:
                found.add(node)
                pending += self._called_by(node)
        return frozenset(found)

    def evaluate(self, module: Module, expression: cst.BaseExpression, depth: int = 0) -> Values:
        """Return what an expression can be, as far as it can be followed.

        Names can be made of themselves (``m = torch.compile(m)``), so the values are found in
        rounds: each takes from the one before what it is just about to find out, until nothing
        changes. Values are only ever added, which ends it.
        """
        key = (module, expression)
        if key in self._known:
            return self._known[key]
        if self._round is not None:
            return self._visit(key, depth, self._round)
        self._changed = True
        values: dict[_Key, Values] = {}
        while self._changed:
            self._changed = False
            self._round = values = {}
            found = self._visit(key, depth, values)
        self._known |= values
        self._round = None
        return found

    def _visit(self, key: _Key, depth: int, values: dict[_Key, Values]) -> Values:
        if key in values:
            return values[key]
        before = self._guesses.get(key, _NONE)
        if depth > _DEEPEST:
            return before
        values[key] = before
        found = before | self._evaluate(*key, depth + 1)
        values[key] = found
        if found != before:
            self._guesses[key] = found
            self._changed = True
        return found

    def _evaluate(self, module: Module, expression: cst.BaseExpression, depth: int) -> Values:
        match expression:
            case cst.Name():
                return self._name(module, expression, depth)
            case cst.Attribute():
                return self._attribute(module, expression, depth)
            case cst.Call():
                return self._call(module, expression, depth)
            case cst.Lambda():
                return frozenset({Plain(expression)})
            case cst.IfExp(body=body, orelse=orelse):
                return self.evaluate(module, body, depth) | self.evaluate(module, orelse, depth)
            case cst.NamedExpr(value=value):
                return self.evaluate(module, value, depth)
            case _:
                return _NONE

    def _name(self, module: Module, name: cst.Name, depth: int) -> Values:
        scope = module.scope(name)
        found: Values = _NONE
        for assignment in () if scope is None else scope[name.value]:
            if isinstance(assignment, ImportAssignment):
                for qualified in module.qualified_names(name):
                    found |= self._imported(module, assignment.node, qualified, depth)
            elif isinstance(assignment, Assignment):
                found |= self._assigned(module, assignment.node, depth)
        return found

    def _assigned(self, module: Module, node: cst.CSTNode, depth: int) -> Values:
        if isinstance(node, cst.FunctionDef):
            return self._decorated(module, node)
        if isinstance(node, cst.ClassDef):
            return frozenset({Class(node)})
        if isinstance(node, cst.Param):
            return self._parameter(module, node)
        value = _assigned_value(module, node)
        return _NONE if value is None else self.evaluate(module, value, depth)

    def _parameter(self, module: Module, node: cst.Param) -> Values:
        functions = module.functions_around(node)
        if not functions or not isinstance(functions[0], cst.FunctionDef):
            return _NONE
        function = functions[0]
        owner = module.class_of(function)
        first = (*function.params.posonly_params, *function.params.params)[:1]
        if owner is None or first != (node,):
            return _NONE
        names = self.decorator_names(module, function)
        if "builtins.staticmethod" in names:
            return _NONE
        return frozenset({Class(owner) if "builtins.classmethod" in names else Instance(owner)})

    def decorator_names(self, module: Module, function: cst.FunctionDef) -> frozenset[str]:
        """Return the qualified names of a function's decorators, called or not."""
        found: set[str] = set()
        for each in function.decorators:
            expression = each.decorator
            if isinstance(expression, cst.Call):
                expression = expression.func
            found |= module.qualified_names(expression)
        return frozenset(found)

    def odd_decorators(self, module: Module, function: FunctionNode) -> tuple[str, ...]:
        """Return the decorators above ``torch.compile`` that may change the arguments."""
        if not isinstance(function, cst.FunctionDef):
            return ()
        odd: list[str] = []
        for each in function.decorators:
            expression = each.decorator
            if self.is_compiler(module, expression):
                return tuple(odd)
            if isinstance(expression, cst.Call):
                expression = expression.func
            if not module.qualified_names(expression) & (_TRANSPARENT | _DISABLE):
                odd.append(module.code(each.decorator))
        return tuple(odd)

    def _decorated(self, module: Module, function: cst.FunctionDef) -> Values:
        plain = Plain(function)
        if any(self.is_compiler(module, each.decorator) for each in function.decorators):
            return frozenset({Compiled(plain)})
        return frozenset({plain})

    def is_compiler(self, module: Module, decorator: cst.BaseExpression) -> bool:
        """Return whether a decorator is ``torch.compile``, with options or without."""
        if module.qualified_names(decorator) & _COMPILE:
            return True
        if isinstance(decorator, cst.Call):
            if module.qualified_names(decorator.func) & (_COMPILE | _OPTIMIZE):
                return True
            if "functools.partial" in module.qualified_names(decorator.func):
                arguments = decorator.args[:1]
                return any(module.qualified_names(each.value) & _COMPILE for each in arguments)
        return Compiler() in self.evaluate(module, decorator)

    def _call(self, module: Module, call: cst.Call, depth: int) -> Values:
        names = module.qualified_names(call.func)
        if names & _OPTIMIZE:
            return frozenset({Compiler()})
        if names & _COMPILE:
            given = [a.value for a in call.args if a.keyword is None or a.keyword.value == "model"]
            if not given:
                return frozenset({Compiler()})
            return _compiled(self.evaluate(module, given[0], depth))
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _RETURNS_SELF:
            same = self.evaluate(module, call.func.value, depth)
            kept = {value for value in same if isinstance(value, Instance | Compiled)}
            if kept:
                return frozenset(kept)
        found: Values = _NONE
        for value in self.evaluate(module, call.func, depth):
            match value:
                case Class(node):
                    found |= {Instance(node)}
                case Compiler() if call.args:
                    found |= _compiled(self.evaluate(module, call.args[0].value, depth))
                case _:
                    pass
        return found

    def _attribute(self, module: Module, expression: cst.Attribute, depth: int) -> Values:
        name = expression.attr.value
        found: Values = _NONE
        for value in self.evaluate(module, expression.value, depth):
            match value:
                case Instance(node):
                    found |= self._member(node, name, depth)
                case Class(node):
                    found |= self._methods(node, name, bound=False)
                case Compiled(Instance(node)):
                    member = self._member(node, name, depth)
                    found |= _compiled(member) if name == "forward" else member
                case _:
                    pass
        if not found:
            for qualified in module.qualified_names(expression):
                found |= self._imported(module, None, qualified, depth)
        return found

    def _member(self, owner: cst.ClassDef, name: str, depth: int) -> Values:
        return self._methods(owner, name, bound=True) | self._set_on(owner, name, depth)

    def _set_on(self, owner: cst.ClassDef, name: str, depth: int) -> Values:
        """Return what the program assigns to an attribute of the objects of a class."""
        found: Values = _NONE
        for module, target, value in self._attributes.get(name, ()):
            holders = self.evaluate(module, target.value, depth)
            lineage = {holder.node for holder in holders if isinstance(holder, Instance)}
            if any(each in self.lineage(owner) for each in lineage):
                found |= self.evaluate(module, value, depth)
        return found

    def _methods(self, owner: cst.ClassDef, name: str, *, bound: bool) -> Values:
        for node in self.lineage(owner):
            module = self.module_of(node)
            for statement in node.body.body:
                if isinstance(statement, cst.FunctionDef) and statement.name.value == name:
                    return self._method(module, statement, bound=bound)
        return _NONE

    def _method(self, module: Module, function: cst.FunctionDef, *, bound: bool) -> Values:
        names = self.decorator_names(module, function)
        if "builtins.property" in names:
            return _NONE
        if "builtins.staticmethod" in names:
            bound = False
        elif "builtins.classmethod" in names:
            bound = True
        found: Values = _NONE
        for value in self._decorated(module, function):
            plain = Plain(function, bound)
            found |= {Compiled(plain) if isinstance(value, Compiled) else plain}
        return found

    def lineage(self, owner: cst.ClassDef) -> tuple[cst.ClassDef, ...]:
        """Return a class and its bases in the program, nearest first."""
        found: list[cst.ClassDef] = []
        pending = [owner]
        while pending:
            node = pending.pop(0)
            if node in found:
                continue
            found.append(node)
            module = self.module_of(node)
            for base in node.bases:
                values = self.evaluate(module, base.value)
                pending += [value.node for value in values if isinstance(value, Class)]
        return tuple(found)

    def _forwards(self, owner: cst.ClassDef) -> list[Plain]:
        values = self._methods(owner, "forward", bound=True)
        return [plain for value in values for plain in _plain(value)]

    def _own_forwards(self, owner: cst.ClassDef) -> list[Plain]:
        """Return the compiled functions that the program put in the place of ``forward``."""
        values = self._set_on(owner, "forward", 0) | self._methods(owner, "forward", bound=True)
        found = [value.of for value in values if isinstance(value, Compiled)]
        return [each for each in found if isinstance(each, Plain)]

    def _imported(
        self, module: Module, node: cst.CSTNode | None, qualified: str, depth: int
    ) -> Values:
        level = len(node.relative) if isinstance(node, cst.ImportFrom) else 0
        holder, _, name = qualified.lstrip(".").rpartition(".")
        other = self._module_named(module, holder, level)
        if other is None or not name:
            return _NONE
        found: Values = _NONE
        scope = other.scope(other.tree)
        for assignment in () if scope is None else scope[name]:
            if isinstance(assignment, Assignment):
                found |= self._assigned(other, assignment.node, depth)
            elif isinstance(assignment, ImportAssignment) and depth <= _DEEPEST:
                for again in assignment.get_qualified_names_for(name):
                    found |= self._imported(other, assignment.node, again.name, depth + 1)
        return found

    def _module_named(self, importer: Module, name: str, level: int) -> Module | None:
        """Return the file that an import means: the one nearest to the importing file."""
        wanted = tuple(part for part in name.split(".") if part)
        home = PurePosixPath(importer.name).parent
        if level:
            base = home
            for _ in range(level - 1):
                base = base.parent
            exact = (*base.parts, *wanted)
            found = [each for each in self.modules if _dotted(each) == exact]
            return found[0] if len(found) == 1 else None
        if not wanted:
            return None
        ends = [each for each in self.modules if _dotted(each)[-len(wanted) :] == wanted]
        near = [each for each in ends if _dotted(each) == (*home.parts, *wanted)]
        chosen = near or ends
        return chosen[0] if len(chosen) == 1 else None

    def _note_attributes(self, module: Module) -> None:
        for node in module.iter_nodes(cst.Attribute):
            value = _assigned_value(module, node)
            if value is not None:
                self._attributes.setdefault(node.attr.value, []).append((module, node, value))

    def _find_compiled_in_place(self) -> frozenset[cst.ClassDef]:
        """Return the classes of which an object is compiled by ``Module.compile()``."""
        found: set[cst.ClassDef] = set()
        for module in self.modules:
            for call in module.iter_nodes(cst.Call):
                if isinstance(call.func, cst.Attribute) and call.func.attr.value == "compile":
                    for value in self.evaluate(module, call.func.value):
                        if isinstance(value, Instance):
                            found.add(value.node)
        return frozenset(found)

    def runs(self, value: Value) -> list[FunctionNode]:
        """Return the functions that torch traces when a compiled value is called."""
        match value:
            case Compiled(Plain(node)):
                return [node]
            case Compiled(Instance(owner)):
                return [plain.node for plain in self._forwards(owner)]
            case _:
                return []

    def _called_by(self, node: FunctionNode) -> list[FunctionNode]:
        """Return the functions that the text of a traced function calls."""
        module = self.module_of(node)
        found: list[FunctionNode] = []
        for call in module.iter_nodes(cst.Call):
            if node not in module.functions_around(call):
                continue
            for value in self.evaluate(module, call.func):
                called = value.of if isinstance(value, Compiled) else value
                if isinstance(called, Plain):
                    found.append(called.node)
                elif isinstance(called, Instance):
                    found += [plain.node for plain in self._forwards(called.node)]
        return [each for each in found if not self._is_disabled(each)]

    def _is_disabled(self, node: FunctionNode) -> bool:
        if not isinstance(node, cst.FunctionDef):
            return False
        return bool(self.decorator_names(self.module_of(node), node) & _DISABLE)


def _compiled(values: Values) -> Values:
    found: set[Value] = set()
    for value in values:
        if isinstance(value, Plain | Instance):
            found.add(Compiled(value))
        elif isinstance(value, Compiled):
            found.add(value)
    return frozenset(found)


def _plain(value: Value) -> list[Plain]:
    inner = value.of if isinstance(value, Compiled) else value
    return [inner] if isinstance(inner, Plain) else []


def _assigned_value(module: Module, target: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the expression that is bound to a name or attribute as a whole."""
    holder = module.parent(target)
    match holder:
        case cst.AssignTarget():
            statement = module.parent(holder)
            return statement.value if isinstance(statement, cst.Assign) else None
        case cst.AnnAssign() | cst.NamedExpr() if holder.target is target:
            return holder.value
        case _:
            return None


def _dotted(module: Module) -> tuple[str, ...]:
    path = PurePosixPath(module.name)
    parts = path.parent.parts
    return parts if path.stem == "__init__" else (*parts, path.stem)
