"""Marks of one compiled function, as paths from its parameters."""

import re
from dataclasses import dataclass
from typing import TypeAlias

import libcst as cst

from recompile_doctor.model.frame import FrameKey, resume_point, user_function
from recompile_doctor.model.source import (
    Attribute,
    Global,
    Item,
    Local,
    Source,
    Step,
    parse_source,
)
from recompile_doctor.prescription.call_sites import FrameMarks, NotPatched, file_of
from recompile_doctor.prescription.codemods.mark_call import MarkCall, literal, render_marks
from recompile_doctor.prescription.codemods.module import FunctionNode, Module
from recompile_doctor.prescription.codemods.signature import Signature, signature_of
from recompile_doctor.prescription.codemods.values import Program
from recompile_doctor.prescription.marks import Mark
from recompile_doctor.torch_compat import TorchFeatures


@dataclass(frozen=True, slots=True)
class ParameterRoot:
    """The path begins at a parameter; ``optional`` tells that None is a value that it can have."""

    name: str
    optional: bool


@dataclass(frozen=True, slots=True)
class StarRoot:
    """The path begins at an element of ``*args`` (an int) or ``**kwargs`` (a string)."""

    key: int | str


@dataclass(frozen=True, slots=True)
class ReceiverRoot:
    """The path begins at the object whose method is called."""


@dataclass(frozen=True, slots=True)
class GlobalRoot:
    """The path begins at a global of the function's file."""

    name: str


Root: TypeAlias = ParameterRoot | StarRoot | ReceiverRoot | GlobalRoot


@dataclass(frozen=True, slots=True)
class Wanted:
    """One mark to make: on what, counted from where, and the call that makes it.

    ``steps`` lead from the root to the tensor, and all of them can be written as text.
    """

    mark: Mark
    call: MarkCall
    root: Root
    steps: tuple[Step, ...]

    def expression(self, root: str) -> str:
        """Return the marked expression, ``root`` being the text of its root."""
        text = root
        for step in self.steps:
            match step:
                case Attribute(name) if name.isidentifier():
                    text = f"{text}.{name}"
                case Attribute(name):
                    text = f"getattr({text}, {literal(name)})"
                case Item(int() | str() as key):
                    text = f"{text}[{literal(key)}]"
                case _:
                    raise ValueError(f"{step} was to be declined")
        return text


@dataclass(frozen=True, slots=True)
class Target:
    """A function of the user's files, and the marks that can be written for it."""

    request: FrameMarks
    module: Module
    node: FunctionNode
    wanted: tuple[Wanted, ...]


def find_function(program: Program, frame: FrameKey) -> tuple[Module, FunctionNode] | str:
    """Return the function that a frame runs, or why it is not found."""
    if frame.file is None or frame.function is None:
        return "the log does not name the compiled function"
    name = user_function(frame.function)
    file = file_of(frame.file, [module.file for module in program.modules])
    module = next((each for each in program.modules if each.file == file), None)
    if module is None:
        return f"{frame.file} is not among the files to patch"
    found: list[FunctionNode] = []
    if name == "<lambda>":
        found += module.iter_nodes(cst.Lambda)
    found += [each for each in module.iter_nodes(cst.FunctionDef) if each.name.value == name]
    if len(found) != 1 or (name == "<lambda>" and frame.line is not None):
        line = frame.line or 0
        exact = [each for each in found if module.first_line(each) == line]
        around = [e for e in found if module.first_line(e) <= line <= module.last_line(e)]
        found = exact or around
    if len(found) != 1:
        reason = "is not" if not found else "is more than once"
        place = module.name if frame.line is None else f"{module.name} near line {frame.line}"
        return f"{name} {reason} in {place}"
    return module, found[0]


def target_of(
    program: Program, request: FrameMarks, torch: TorchFeatures
) -> tuple[Target | None, tuple[NotPatched, ...], tuple[str, ...]]:
    """Return the function with its marks, the marks that cannot be written, and the losses."""
    found = find_function(program, request.frame)
    if isinstance(found, str):
        place = request.frame
        return None, (NotPatched(found, place.file, place.line, request.marks),), ()
    module, node = found
    rendering = render_marks(request.marks, torch)
    declined: list[NotPatched] = []
    wanted: list[Wanted] = []

    def decline(mark: Mark, why: str) -> None:
        declined.append(NotPatched(why, module.name, module.line(node), (mark,)))

    odd = program.odd_decorators(module, node)
    if odd:
        why = f"its decorator {odd[0]} may change the arguments, so a call does not show them"
        return None, (NotPatched(why, module.name, module.line(node), request.marks),), ()
    for mark in request.marks:
        if mark.dim is None:
            decline(mark, f"{mark.source} is an int, and no call marks an int")
    for mark, call in rendering.calls:
        made = _wanted(program, module, node, request.frame, mark, call)
        if isinstance(made, str):
            decline(mark, made)
        else:
            wanted.append(made)
    return Target(request, module, node, tuple(wanted)), tuple(declined), rendering.losses


def _wanted(
    program: Program,
    module: Module,
    node: FunctionNode,
    frame: FrameKey,
    mark: Mark,
    call: MarkCall,
) -> Wanted | str:
    source = parse_source(mark.source)
    located = path_of(program, module, node, source)
    if isinstance(located, str):
        return located
    root, steps = located
    if resume_point(frame.function or "") is not None:
        name = source.root_name
        if isinstance(root, GlobalRoot) or name is None or _is_rebound(module, node, name):
            return f"{mark.source} is made inside of the function, so no caller can mark it"
    return Wanted(mark, call, root, steps)


def path_of(
    program: Program, module: Module, node: FunctionNode, source: Source
) -> tuple[Root, tuple[Step, ...]] | str:
    """Return the root of a source and the way from there as a caller can write it, or why not."""
    if source.is_parameter or source.is_buffer:
        return f"{source} is a parameter or buffer of a module, on which torch ignores marks"
    if source.is_view_base:
        return f"{source} is the tensor that an argument is a view of: mark the view instead"
    located = _root(program, module, node, source)
    if isinstance(located, str):
        return located
    root, steps = located
    plain = _as_attributes(steps)
    if isinstance(plain, str):
        return f"{source} {plain}"
    key = plain[0].key if plain and isinstance(plain[0], Item) else None
    if isinstance(key, str) and _may_lack(module, node, key):
        return f"the function itself allows that the key {key!r} of {source} is missing"
    return root, plain


def _root(
    program: Program, module: Module, node: FunctionNode, source: Source
) -> tuple[Root, tuple[Step, ...]] | str:
    steps = source.steps
    match source.root:
        case Global(name):
            return GlobalRoot(name), steps
        case Local(name):
            signature = signature_of(node, bound=_is_method(program, module, node))
            return _local_root(module, signature, source, name)
        case _:
            return f"{source} is not the argument itself but made of it"


def _local_root(
    module: Module, signature: Signature, source: Source, name: str
) -> tuple[Root, tuple[Step, ...]] | str:
    if name == signature.receiver:
        if not source.steps:
            return f"{source} is the object itself"
        return ReceiverRoot(), source.steps
    parameter = signature.parameter(name)
    if parameter is not None:
        return ParameterRoot(name, _is_optional(module, parameter)), source.steps
    match source.steps:
        case (Item(int(key)), *rest) if name == signature.star:
            return StarRoot(key), tuple(rest)
        case (Item(str(key)), *rest) if name == signature.double_star:
            return StarRoot(key), tuple(rest)
        case _:
            return f"{source} is no argument of the function but made inside or around it"


def _is_method(program: Program, module: Module, node: FunctionNode) -> bool:
    """Return whether calls leave out the first parameter."""
    if not isinstance(node, cst.FunctionDef) or module.class_of(node) is None:
        return False
    return "builtins.staticmethod" not in program.decorator_names(module, node)


def _as_attributes(steps: tuple[Step, ...]) -> tuple[Step, ...] | str:
    """Return the steps as a caller can write them, or why it cannot.

    ``_modules['x']`` becomes ``.x``: what torch.compile returns for a module hands on attributes,
    but its own ``_modules`` holds only the original module.
    """
    found: list[Step] = []
    rest = list(steps)
    while rest:
        match rest:
            case [Attribute("_modules"), Item(str(name)), *after]:
                found.append(Attribute(name))
                rest = after
            case [Attribute() as step, *after]:
                found.append(step)
                rest = after
            case [Item(int() | str()) as step, *after]:
                found.append(step)
                rest = after
            case _:
                return "goes through a key or a call that has no plain text"
    return tuple(found)


def _is_optional(module: Module, parameter: cst.Param) -> bool:
    if isinstance(parameter.default, cst.Name) and parameter.default.value == "None":
        return True
    if parameter.annotation is None:
        return False
    return (
        re.search(r"\b(None|Optional)\b", module.code(parameter.annotation.annotation)) is not None
    )


def _is_rebound(module: Module, node: FunctionNode, name: str) -> bool:
    scope = module.scope(node.body)
    found = () if scope is None else scope[name]
    return any(not isinstance(getattr(each, "node", None), cst.Param) for each in found)


def _may_lack(module: Module, node: FunctionNode, key: str) -> bool:
    """Return whether the function asks if a key is there: ``key in d``, ``d.get(key)``."""
    for each in module.nodes:
        if node not in module.functions_around(each):
            continue
        match each:
            case cst.Comparison(
                left=cst.SimpleString() as left,
                comparisons=[cst.ComparisonTarget(operator=cst.In() | cst.NotIn()), *_],
            ):
                if left.evaluated_value == key:
                    return True
            case cst.Call(
                func=cst.Attribute(attr=cst.Name(value="get" | "pop" | "setdefault")),
                args=[cst.Arg(value=cst.SimpleString() as first), *_],
            ):
                if first.evaluated_value == key:
                    return True
            case _:
                pass
    return False
