"""The codemod: declare the sizes of a function's arguments where it is compiled.

Measured on 2.13.0 and 2.15.0: what is not declared is static, so a size that nobody declared
recompiles on every change (automatic dynamic is off for that function); a wrong number of
dimensions is an error; ``dynamic=`` beside it is an error; functions that go on after a graph
break are not covered, nor is ``self``; ints can be declared.
"""

import ast
import re
from dataclasses import dataclass, field

import libcst as cst

from recompile_doctor.events.vocabulary import MarkKind
from recompile_doctor.model.frame import resume_point
from recompile_doctor.model.source import Attribute, Item, Step, parse_source
from recompile_doctor.prescription.call_sites import FrameMarks, NotPatched
from recompile_doctor.prescription.codemods.imports import (
    NewImport,
    existing_name,
    import_edit,
    new_import,
    place_of_import,
)
from recompile_doctor.prescription.codemods.insert_marks import Plan, Request
from recompile_doctor.prescription.codemods.mark_call import literal
from recompile_doctor.prescription.codemods.module import FunctionNode, Module
from recompile_doctor.prescription.codemods.placement import NoPlace, Place, place_before
from recompile_doctor.prescription.codemods.text import Edit, indentation_at, newline_near
from recompile_doctor.prescription.codemods.values import Program
from recompile_doctor.prescription.codemods.wanted import (
    ParameterRoot,
    StarRoot,
    find_function,
    path_of,
)
from recompile_doctor.prescription.marks import Mark
from recompile_doctor.torch_compat import TorchFeatures

_PACKAGE = "torch.fx.experimental.dynamic_spec"
ALWAYS_LOST = (
    "sizes that are not declared become static: each change of one recompiles",
    "what runs after a graph break of the function is not covered by the declaration",
)


@dataclass(slots=True)
class _Node:
    """What is declared of one value: its dimensions, itself if an int, or its parts."""

    dims: dict[int, Mark] = field(default_factory=dict)
    rank: int = 0
    scalar: Mark | None = None
    parts: dict[Step, "_Node"] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _CompilePlace:
    """Where a function is compiled: a call that takes options, or a bare decorator."""

    module: Module
    expression: cst.BaseExpression
    decorator: bool


class DeclareShapes:
    """Plans the edits that declare sizes, all in one pass."""

    def __init__(self, program: Program, torch: TorchFeatures) -> None:
        self.program = program
        self.torch = torch
        self.plan = Plan()
        self._imports: dict[Module, set[NewImport]] = {}
        self._used: dict[Module, set[str]] = {}

    def run(self, requests: tuple[Request, ...]) -> Plan:
        """Return the edits, and what is declined, for all requests."""
        for request in requests:
            why = self._declare(request.marks)
            if why is not None:
                frame, marks = request.marks.frame, request.marks.marks
                self.plan.declined.append(NotPatched(why, frame.file, frame.line, marks))
        for module, imports in self._imports.items():
            edits = self.plan.edits[module]
            place = place_of_import(module, min(edit.start for edit in edits))
            assert place is not None  # _name has asked
            # First, for a statement that is edited just behind the imports.
            edits.insert(0, import_edit(module, place, imports))
        return self.plan

    def _declare(self, request: FrameMarks) -> str | None:
        """Plan the edits for one function, or return why there are none."""
        argument = self.torch.shapes_argument
        if argument is None:
            release = ".".join(map(str, self.torch.version))
            return f"torch.compile of torch {release} takes no declaration of shapes"
        if resume_point(request.frame.function or "") is not None:
            return "it goes on after a graph break, which a declaration does not cover"
        found = find_function(self.program, request.frame)
        if isinstance(found, str):
            return found
        tree = _tree(self.program, *found, request)
        if isinstance(tree, str):
            return tree
        places = _compile_places(self.program, *found)
        if isinstance(places, str):
            return places
        edits: list[tuple[Module, list[Edit]]] = []
        for place in places:
            made = self._edits_at(place, argument, tree)
            if isinstance(made, str):
                return made
            edits.append((place.module, made))
        for module, each in edits:
            if each:
                self.plan.edits.setdefault(module, []).extend(each)
        self.plan.marked |= dict.fromkeys(request.marks)
        self.plan.losses += ALWAYS_LOST
        return None

    def _edits_at(self, place: _CompilePlace, argument: str, tree: _Node) -> list[Edit] | str:
        module, expression = place.module, place.expression
        inline = _Writer({name: name for name in _CLASSES}, {})
        options = expression.args if isinstance(expression, cst.Call) else ()
        for each in options:
            if each.star:
                return "the options of torch.compile are unpacked from another place"
            name = None if each.keyword is None else each.keyword.value
            if name == "dynamic" and module.code(each.value) != "None":
                return "torch.compile is given dynamic=, which excludes a declaration of shapes"
            if name == argument:
                if _canonical(module, each.value) == _normal(inline.text(tree)):
                    return []
                return f"the program declares {argument} in its own way"
        before = self._place_of_variables(place)
        if isinstance(before, str):
            return before
        classes = self._class_names(module, expression, tree)
        if classes is None:
            return "there is no place for the import that it needs"
        variables = self._variables(module, tree)
        newline = newline_near(module.data, module.start(expression))
        writer = _Writer(classes, variables, newline + _indentation(module, expression))
        edits = [_option_edit(module, expression, f"{argument}={writer.text(tree)}")]
        lines = [f"{name} = {writer.shape_var(group)}" for group, name in variables.items()]
        if lines:
            indentation = indentation_at(module.data, before)
            text = "".join(f"{line}{newline}{indentation}" for line in lines)
            edits.insert(0, Edit(before, before, text))
        return edits

    def _place_of_variables(self, place: _CompilePlace) -> int | str:
        """Return where the variables of shape groups go: before the statement, outside classes."""
        module = place.module
        statement: cst.CSTNode | None = None
        if not place.decorator and isinstance(place.expression, cst.Call):
            found = place_before(module, place.expression)
            if isinstance(found, NoPlace):
                return f"no statement can go before the compilation: {found.why}"
            if isinstance(found, Place) and found.own_line:
                statement = found.statement
        for parent in module.iter_parents(place.expression):
            if isinstance(parent, cst.ClassDef):
                statement = parent
            elif isinstance(parent, cst.FunctionDef):
                if place.decorator and statement is None:
                    statement = parent
                else:
                    break
        if statement is None:
            return "no line of its own can go before the compilation"
        if isinstance(statement, cst.FunctionDef | cst.ClassDef) and statement.decorators:
            return module.start(statement.decorators[0])
        return module.start(statement)

    def _class_names(self, module: Module, site: cst.CSTNode, tree: _Node) -> dict[str, str] | None:
        names: dict[str, str] = {}
        for name in sorted(_classes_in(tree)):
            known = existing_name(module, site, _PACKAGE, name)
            if known is None:
                if place_of_import(module, module.start(site)) is None:
                    return None
                added = new_import(module, _PACKAGE, name)
                self._imports.setdefault(module, set()).add(added)
                known = added.alias
            names[name] = known
        return names

    def _variables(self, module: Module, tree: _Node) -> dict[tuple[Mark, ...], str]:
        used = self._used.setdefault(module, set(module.identifiers))
        names: dict[tuple[Mark, ...], str] = {}
        for marks in _groups(tree).values():
            if len(marks) < 2:
                continue
            stem = re.sub(r"\W", "_", marks[0].shape_group or "") or "shared"
            stem = f"size_{stem}" if stem[0].isdigit() else f"{stem}_size"
            name, number = stem, 1
            while name in used:
                number += 1
                name = f"{stem}_{number}"
            used.add(name)
            names[marks] = name
        return names


_CLASSES = ("ShapeVar", "IntVar", "TensorSpec", "DictSpec", "ObjectSpec", "SeqSpec")


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes a declaration; ``classes`` are the names of torch's classes in the file.

    ``newline`` goes between the lines of a long one, with the indentation of the first.
    """

    classes: dict[str, str]
    variables: dict[tuple[Mark, ...], str]
    newline: str = "\n"

    def text(self, tree: _Node) -> str:
        """Return the declaration of all arguments."""
        groups = _groups(tree)
        entries: list[str] = []
        stars: dict[int, str] = {}
        named: list[str] = []
        for step, node in tree.parts.items():
            value = self._node(node, groups)
            match step:
                case Attribute(name):
                    entries.append(f"{literal(name)}: {value}")
                case Item(int(index)):
                    stars[index] = value
                case Item(str(key)):
                    named.append(f"{literal(key)}: {value}")
                case _:
                    raise ValueError(f"{step} was to be declined")
        if stars:
            entries.append(f'"*args": {_list(stars, max(stars) + 1)}')
        if named:
            entries.append(f'"**kwargs": {{{", ".join(named)}}}')
        if len(entries) == 1:
            return f"{{{entries[0]}}}"
        lines = "".join(f"    {entry},{self.newline}" for entry in entries)
        return f"{{{self.newline}{lines}}}"

    def shape_var(self, marks: tuple[Mark, ...]) -> str:
        """Return the variable that stands for the size of one dimension or of a group."""
        lowest = [each.minimum for each in marks if each.minimum is not None]
        highest = [each.maximum for each in marks if each.maximum is not None]
        hints = [each.hint for each in marks if each.hint is not None]
        name = marks[0].shape_group
        options = [] if name is None else [literal(name)]
        options += [f"min={max(lowest)}"] if lowest else []
        options += [f"max={min(highest)}"] if highest else []
        options += [f"optimization_hint={hints[0]}"] if hints else []
        kind = "IntVar" if marks[0].dim is None else "ShapeVar"
        return f"{self.classes[kind]}({', '.join(options)})"

    def _node(self, node: _Node, groups: dict[object, tuple[Mark, ...]]) -> str:
        if node.scalar is not None:
            return self._size(groups[_group(node.scalar)])
        if node.dims:
            sizes = {dim: self._size(groups[_group(mark)]) for dim, mark in node.dims.items()}
            return f"{self.classes['TensorSpec']}({_list(sizes, node.rank)})"
        parts = {step: self._node(each, groups) for step, each in node.parts.items()}
        kind = _container(node)
        if kind == "SeqSpec":
            items = {step.key: text for step, text in parts.items() if isinstance(step, Item)}
            places = {key: text for key, text in items.items() if isinstance(key, int)}
            return f"{self.classes[kind]}({_list(places, max(places) + 1)})"
        names = ((s.name if isinstance(s, Attribute) else s.key, text) for s, text in parts.items())  # type: ignore[union-attr]
        entries = ", ".join(f"{literal(str(name))}: {text}" for name, text in names)
        return f"{self.classes[kind]}({{{entries}}})"

    def _size(self, marks: tuple[Mark, ...]) -> str:
        return self.variables.get(marks) or self.shape_var(marks)


def _list(items: dict[int, str], length: int) -> str:
    return f"[{', '.join(items.get(index, 'None') for index in range(length))}]"


def _group(mark: Mark) -> object:
    return (mark.source, mark.dim) if mark.shape_group is None else mark.shape_group


def _groups(tree: _Node) -> dict[object, tuple[Mark, ...]]:
    """Return the marks that share one size, by group; a mark without group is its own."""
    found: dict[object, tuple[Mark, ...]] = {}
    pending = [tree]
    while pending:
        node = pending.pop(0)
        for mark in (*node.dims.values(), *([node.scalar] if node.scalar else [])):
            found[_group(mark)] = (*found.get(_group(mark), ()), mark)
        pending += node.parts.values()
    return found


def _container(node: _Node) -> str:
    step = next(iter(node.parts))
    if isinstance(step, Attribute):
        return "ObjectSpec"
    return "SeqSpec" if isinstance(step, Item) and isinstance(step.key, int) else "DictSpec"


def _classes_in(tree: _Node) -> set[str]:
    found: set[str] = set()
    pending = list(tree.parts.values())
    while pending:
        node = pending.pop()
        pending += node.parts.values()
        if node.scalar is not None:
            found.add("IntVar")
        elif node.dims:
            found |= {"ShapeVar", "TensorSpec"}
        else:
            found.add(_container(node))
    return found


def _tree(program: Program, module: Module, node: FunctionNode, request: FrameMarks) -> _Node | str:
    """Return what is to be declared, or why one of the marks cannot be.

    All or nothing: a size left out of a declaration is static, which is worse than no mark.
    """
    ranks = dict(request.ranks)
    tree = _Node()
    for mark in request.marks:
        if mark.kind is not MarkKind.UNBACKED:
            return f"{mark.source} is to be {mark.kind.value}, and a declaration is always unbacked"
        located = path_of(program, module, node, parse_source(mark.source))
        if isinstance(located, str):
            return located
        root, steps = located
        match root:
            case ParameterRoot(name):
                path: tuple[Step, ...] = (Attribute(name), *steps)
            case StarRoot(key):
                path = (Item(key), *steps)
            case _:
                return f"{mark.source} is no argument, and only arguments can be declared"
        holder = tree
        for step in path:
            holder = holder.parts.setdefault(step, _Node())
        if mark.dim is None:
            holder.scalar = mark
        elif mark.source not in ranks:
            return f"the number of dimensions of {mark.source} is not known, or not always the same"
        else:
            holder.dims[mark.dim] = mark
            holder.rank = ranks[mark.source]
    return tree if _is_plain(tree) else "the marks name a value and its parts, or unlike parts"


def _is_plain(tree: _Node) -> bool:
    pending = list(tree.parts.values())
    while pending:
        node = pending.pop()
        pending += node.parts.values()
        uses = [bool(node.dims), node.scalar is not None, bool(node.parts)]
        kinds = {type(step.key) if isinstance(step, Item) else None for step in node.parts}
        if sum(uses) != 1 or len(kinds) > 1 or (node.dims and max(node.dims) >= node.rank):
            return False
    return True


def _compile_places(
    program: Program, module: Module, node: FunctionNode
) -> tuple[_CompilePlace, ...] | str:
    found: list[_CompilePlace] = []
    if isinstance(node, cst.FunctionDef):
        for each in node.decorators:
            if not program.is_compiler(module, each.decorator):
                continue
            options = each.decorator
            is_call = program.is_compile_call(module, options)
            if not is_call and isinstance(options, cst.Call):
                return "its decorator makes torch.compile in a way that takes no more options"
            if not is_call and not program.is_compile_name(module, options):
                return "the options of torch.compile stand in another place than the decorator"
            found.append(_CompilePlace(module, options, True))
    for other in program.modules:
        for call in other.iter_nodes(cst.Call):
            if program.compiles(other, call, node):
                found.append(_CompilePlace(other, call, False))
    return tuple(found) if found else "the files do not show where it is compiled"


def _indentation(module: Module, node: cst.CSTNode) -> str:
    line = indentation_at(module.data, module.start(node))
    return line[: len(line) - len(line.lstrip())]


def _option_edit(module: Module, expression: cst.BaseExpression, option: str) -> Edit:
    if not isinstance(expression, cst.Call):
        end = module.end(expression)
        return Edit(end, end, f"({option})")
    if expression.args:
        end = module.end(expression.args[-1].value)
        return Edit(end, end, f", {option}")
    end = module.end_inside(expression) - 1
    return Edit(end, end, option)


def _canonical(module: Module, expression: cst.BaseExpression) -> str:
    """Return a declaration of the file with its variables and the names of classes written out."""
    tree = ast.parse(module.code(expression).strip(), mode="eval")
    assigned = {
        target.target.value: module.code(node.value)
        for node in module.iter_nodes(cst.Assign)
        for target in node.targets
        if isinstance(target.target, cst.Name) and isinstance(node.value, cst.Call)
    }

    class Expand(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            if node.id in assigned:
                return ast.parse(assigned[node.id], mode="eval").body
            return node

    return ast.unparse(Expand().visit(tree))


def _normal(text: str) -> str:
    return ast.unparse(ast.parse(text, mode="eval"))
