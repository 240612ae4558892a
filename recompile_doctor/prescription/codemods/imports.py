"""How a file can name one of torch's functions: by an import that is there, or by a new one."""

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import ImportAssignment, Scope

from recompile_doctor.prescription.codemods.module import Module
from recompile_doctor.prescription.codemods.text import Edit, end_of_line, newline_near

_SUBMODULES = ("torch._dynamo", "torch.fx.experimental.dynamic_spec")


@dataclass(frozen=True, slots=True)
class NewImport:
    """``from <module> import <name>`` at the top of the file, as ``alias`` if that differs."""

    module: str
    name: str
    alias: str

    def __str__(self) -> str:
        return self.name if self.alias == self.name else f"{self.name} as {self.alias}"


def existing_name(module: Module, site: cst.CSTNode, package: str, name: str) -> str | None:
    """Return how the file can already name ``package.name`` at ``site``, or None."""
    exports = [f"{package}.{name}"]
    if package == "torch._dynamo":
        exports.append(f"torch._dynamo.decorators.{name}")
    scope = module.scope(site)
    at_top = scope is not None and scope is module.scope(module.tree)
    for statement, alias, full_name in _iter_imports(module):
        if at_top and module.start(statement) > module.start(site):
            continue
        for export in exports:
            rest = _rest(export, full_name)
            if rest is not None and _is_import_everywhere(scope, alias):
                return alias + rest
    return None


def new_import(module: Module, package: str, name: str) -> NewImport:
    """Return an import under a name that the file does not use yet."""
    alias = name
    number = 1
    while alias in module.identifiers:
        alias = f"torch_{name}" if number == 1 else f"torch_{name}_{number}"
        number += 1
    return NewImport(package, name, alias)


def place_of_import(module: Module, before: int) -> int | None:
    """Return where new imports go so that they run before position ``before``, or None.

    Behind the imports that bring torch in, else behind the first imports of the file: a program
    may set up its environment before it imports torch, so nothing is imported earlier than that.
    """
    data = module.data
    best: int | None = None
    leading: int | None = None
    is_leading = True
    in_run = False
    for number, line in enumerate(module.tree.body):
        begin = module.start(line)
        if begin >= before:
            break
        small = line.body if isinstance(line, cst.SimpleStatementLine) else ()
        if small and all(isinstance(each, cst.Import | cst.ImportFrom) for each in small):
            end = end_of_line(data, module.end(line))
            in_run = in_run or any(_imports_torch(each) for each in small)
            if is_leading:
                leading = end
            if in_run:
                best = end
        elif number == 0 and _is_docstring(small):
            leading = end_of_line(data, module.end(line))
        elif best is not None:
            break
        else:
            is_leading = False
    place = leading if best is None else best
    if place is not None:
        return place if place <= before else None
    first = module.tree.body[0] if module.tree.body else None
    return None if first is None or module.start(first) > before else _line_start(module, first)


def import_edit(module: Module, place: int, imports: set[NewImport]) -> Edit:
    """Return the edit that adds the imports at ``place``."""
    newline = newline_near(module.data, max(place - 2, 0))  # of the line before
    names: dict[str, list[str]] = {}
    for each in sorted(imports, key=lambda each: (each.module, each.name)):
        names.setdefault(each.module, []).append(str(each))
    text = "".join(f"from {key} import {', '.join(names[key])}{newline}" for key in names)
    last = module.data[:place]
    if last and not last.endswith((b"\n", b"\r")):
        text = newline + text.removesuffix(newline)
    return Edit(place, place, text)


def _iter_imports(module: Module) -> Iterator[tuple[cst.BaseSmallStatement, str, str]]:
    """Yield each top-level import: the statement, the name it binds, and what that names."""
    for line in module.tree.body:
        for small in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            match small:
                case cst.Import(names=names):
                    for each in names:
                        full = get_full_name_for_node(each.name) or ""
                        alias = full if each.asname is None else module.code(each.asname.name)
                        yield small, alias, full
                case cst.ImportFrom(module=package, names=[*names], relative=()) if package:
                    prefix = get_full_name_for_node(package)
                    for each in names:
                        name = get_full_name_for_node(each.name) or ""
                        alias = name if each.asname is None else module.code(each.asname.name)
                        yield small, alias, f"{prefix}.{name}"
                case _:
                    pass


def _rest(wanted: str, imported: str) -> str | None:
    """Return what to write behind an imported name to reach ``wanted``.

    `import torch` alone is not enough: it need not import the submodule.
    """
    if wanted == imported:
        return ""
    if imported.startswith(
        ("torch._dynamo", "torch.fx.experimental.dynamic_spec")
    ) and wanted.startswith(f"{imported}."):
        return wanted.removeprefix(imported)
    return None


def _is_import_everywhere(scope: Scope | None, alias: str) -> bool:
    """Return whether a name at a place can only be what imports at the top of the file bind."""
    if scope is None:
        return False
    root = alias.partition(".")[0]
    found = scope[root]
    return bool(found) and all(
        isinstance(each, ImportAssignment) and each.scope is scope.globals for each in found
    )


def _imports_torch(statement: cst.CSTNode) -> bool:
    match statement:
        case cst.Import(names=names):
            found = [get_full_name_for_node(each.name) or "" for each in names]
        case cst.ImportFrom(module=package, relative=()) if package:
            found = [get_full_name_for_node(package) or ""]
        case _:
            return False
    return any(name.partition(".")[0] == "torch" for name in found)


def _is_docstring(small: object) -> bool:
    match small:
        case [cst.Expr(value=cst.SimpleString() | cst.ConcatenatedString()), *_]:
            return True
        case _:
            return False


def _line_start(module: Module, node: cst.CSTNode) -> int:
    begin = module.start(node)
    return max(module.data.rfind(b"\n", 0, begin), module.data.rfind(b"\r", 0, begin)) + 1
