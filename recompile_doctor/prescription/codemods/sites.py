"""The calls of a compiled function in the user's files."""

from dataclasses import dataclass

import libcst as cst

from recompile_doctor.events.vocabulary import StackFrame
from recompile_doctor.prescription.call_sites import NotPatched, file_of, why_not_editable
from recompile_doctor.prescription.codemods.module import FunctionNode, Module
from recompile_doctor.prescription.codemods.signature import signature_of
from recompile_doctor.prescription.codemods.values import Compiled, Instance, Program, Value
from recompile_doctor.prescription.codemods.wanted import Target


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call that runs the compiled function.

    ``bound`` tells that ``self`` is not among the arguments; ``receiver`` is then the object
    whose method runs, where the call shows it.
    """

    module: Module
    call: cst.Call
    bound: bool
    receiver: cst.BaseExpression | None


def find_sites(
    program: Program, target: Target, lines: tuple[tuple[StackFrame, int], ...]
) -> tuple[tuple[CallSite, ...], tuple[NotPatched, ...]]:
    """Return the calls that can be followed to the function, and log lines that lead nowhere."""
    found: dict[cst.Call, CallSite] = {}
    for module in program.modules:
        for call in module.iter_nodes(cst.Call):
            for plain in program.compiled_calls(module, call):
                if plain.node is target.node:
                    receiver = _receiver(program, module, call, target) if plain.bound else None
                    found[call] = CallSite(module, call, plain.bound, receiver)
    declined: list[NotPatched] = []
    for frame, line in lines:
        seeded = _seed(program, target, frame, line, set(found))
        if isinstance(seeded, NotPatched):
            declined.append(seeded)
        else:
            found |= {site.call: site for site in seeded}
    order = {module: number for number, module in enumerate(program.modules)}
    sites = sorted(found.values(), key=lambda s: (order[s.module], s.module.end(s.call)))
    return tuple(sites), tuple(declined)


def _seed(
    program: Program, target: Target, frame: StackFrame, line: int, known: set[cst.Call]
) -> tuple[CallSite, ...] | NotPatched:
    """Return the calls of what is called at a line of the log, which names no callee itself."""
    marks = tuple(each.mark for each in target.wanted)
    why = why_not_editable(frame.file)
    if why is not None:
        return NotPatched(f"it is called where no patch can go: {why}", frame.file, line, marks)
    file = file_of(frame.file, [module.file for module in program.modules])
    module = next((each for each in program.modules if each.file == file), None)
    if module is None:
        return NotPatched("the file of a call is not among those to patch", frame.file, line, marks)
    at_line = [
        call
        for call in module.iter_nodes(cst.Call)
        if module.line(call) <= line <= module.last_line(call)
    ]
    if any(call in known for call in at_line):
        return ()
    sites = [
        site
        for call in at_line
        if (site := _possible_site(program, target, module, call)) is not None
    ]
    if len(sites) != 1:
        why = "no call" if not sites else "more than one call"
        name = _name(target.node)
        return NotPatched(f"{why} on this line can be the one of {name}", module.name, line, marks)
    return _alike(module, sites[0])


def _possible_site(
    program: Program, target: Target, module: Module, call: cst.Call
) -> CallSite | None:
    if program.is_known(module, call.func):
        return None
    if not isinstance(call.func, cst.Name | cst.Attribute):
        return None
    name = _name(target.node)
    is_method = target.module.class_of(target.node) is not None
    named = isinstance(call.func, cst.Attribute) and call.func.attr.value == name
    if is_method and not named and name != "forward":
        return None
    if not signature_of(target.node, bound=is_method).accepts(call):
        return None
    receiver: cst.BaseExpression | None = None
    if is_method:
        receiver = call.func.value if named and isinstance(call.func, cst.Attribute) else call.func
    return CallSite(module, call, is_method, receiver)


def _receiver(
    program: Program, module: Module, call: cst.Call, target: Target
) -> cst.BaseExpression | None:
    """Return the object of a method call: of ``model(x)`` model, of ``model.step(x)`` too."""
    values = program.evaluate(module, call.func)
    if any(_class_of(value) is not None for value in values):
        return call.func
    if not isinstance(call.func, cst.Attribute):
        return None
    owner = target.module.class_of(target.node)
    holders = (_class_of(value) for value in program.evaluate(module, call.func.value))
    if any(holder is not None and owner in program.lineage(holder) for holder in holders):
        return call.func.value
    return None


def _class_of(value: Value) -> cst.ClassDef | None:
    match value:
        case Instance(node) | Compiled(Instance(node)):
            return node
        case _:
            return None


def _alike(module: Module, site: CallSite) -> tuple[CallSite, ...]:
    """Return a site with the other calls of the same variable or the same attribute of ``self``."""
    text = module.code(site.call.func)
    inside = module.functions_around(site.call)[:1]
    owner = module.class_of(inside[0]) if inside else None
    found = [site]
    for call in module.iter_nodes(cst.Call):
        if call is site.call or module.code(call.func) != text:
            continue
        around = module.functions_around(call)[:1]
        same_class = owner is not None and around and module.class_of(around[0]) is owner
        if around == inside or (same_class and isinstance(site.call.func, cst.Attribute)):
            receiver = call.func
            if site.receiver is not site.call.func and isinstance(call.func, cst.Attribute):
                receiver = call.func.value
            found.append(CallSite(module, call, site.bound, receiver if site.bound else None))
    return tuple(found)


def _name(node: FunctionNode) -> str:
    return node.name.value if isinstance(node, cst.FunctionDef) else "<lambda>"


def is_traced(site: CallSite, traced: frozenset[FunctionNode]) -> bool:
    """Return whether torch traces the call itself: there, a mark is an error."""
    return any(function in traced for function in site.module.functions_around(site.call))
