"""One parsed file: where its nodes stand, what holds them, and what its names mean."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TypeAlias, TypeVar

import libcst as cst
from libcst.metadata import (
    ByteSpanPositionProvider,
    CodeSpan,
    MetadataWrapper,
    QualifiedNameSource,
    Scope,
    ScopeProvider,
)

from recompile_doctor.prescription.call_sites import SourceFile
from recompile_doctor.prescription.codemods.text import SourceText, Unreadable, line_starts

_LOCAL = QualifiedNameSource.LOCAL
_Node = TypeVar("_Node", bound=cst.CSTNode)
FunctionNode: TypeAlias = cst.FunctionDef | cst.Lambda


class Module:
    """A file of the user's program. ``file`` is as it was read, ``source`` as it is by now."""

    def __init__(self, file: SourceFile, source: SourceText, tree: cst.Module) -> None:
        self.file = file
        self.source = source
        self.data = source.text.encode("utf-8")
        # The parser makes each node once, so the copy that protects against shared nodes is idle.
        wrapper = MetadataWrapper(tree, unsafe_skip_copy=True)
        self.tree = wrapper.module
        self._spans: Mapping[cst.CSTNode, CodeSpan] = wrapper.resolve(ByteSpanPositionProvider)
        self._scopes: Mapping[cst.CSTNode, Scope | None] = wrapper.resolve(ScopeProvider)
        # One walk for both, and lines from positions: each provider of libcst walks on its own,
        # which takes a second for 2000 lines.
        self.nodes, self._parents = _walk(self.tree)
        self._line_starts = line_starts(self.data)

    @property
    def name(self) -> str:
        """Return the file's path as the diff shows it."""
        return self.file.name

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """Return every name that occurs in the file, in whatever role."""
        return frozenset(node.value for node in self.iter_nodes(cst.Name))

    @cached_property
    def rebound_elsewhere(self) -> frozenset[str]:
        """Return the names that some function binds for another: ``global``, ``nonlocal``."""
        return frozenset(node.name.value for node in self.iter_nodes(cst.NameItem))

    def iter_nodes(self, kind: type[_Node]) -> Iterator[_Node]:
        """Yield the nodes of one kind in the order of the text."""
        for node in self.nodes:
            if isinstance(node, kind):
                yield node

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """Return the node that holds ``node``; None for the module."""
        return self._parents.get(node)

    def iter_parents(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the nodes that hold ``node``, innermost first."""
        parent = self.parent(node)
        while parent is not None:
            yield parent
            parent = self.parent(parent)

    def scope(self, node: cst.CSTNode) -> Scope | None:
        """Return the scope in which ``node`` is evaluated."""
        for each in (node, *self.iter_parents(node)):
            scope = self._scopes.get(each)
            if scope is not None:
                return scope
        return None

    def functions_around(self, node: cst.CSTNode) -> tuple[FunctionNode, ...]:
        """Return the functions whose text holds ``node``, innermost first."""
        return tuple(
            each
            for each in self.iter_parents(node)
            if isinstance(each, cst.FunctionDef | cst.Lambda)
        )

    def class_of(self, node: cst.CSTNode) -> cst.ClassDef | None:
        """Return the class whose body holds ``node`` directly, as it does a method."""
        for parent in self.iter_parents(node):
            if isinstance(parent, cst.ClassDef):
                return parent
            if isinstance(parent, cst.FunctionDef | cst.Lambda):
                return None
        return None

    def line(self, node: cst.CSTNode) -> int:
        """Return the line on which ``node`` begins."""
        return bisect_right(self._line_starts, self._spans[node].start)

    def last_line(self, node: cst.CSTNode) -> int:
        """Return the line on which ``node`` ends."""
        return bisect_right(self._line_starts, self.end_inside(node))

    def first_line(self, function: FunctionNode) -> int:
        """Return the first line of its code object: that of its first decorator."""
        if isinstance(function, cst.FunctionDef) and function.decorators:
            return self.line(function.decorators[0])
        return self.line(function)

    def start(self, node: cst.CSTNode) -> int:
        """Return where ``node`` begins, with its parentheses, in bytes of UTF-8."""
        opening = node.lpar if isinstance(node, cst.BaseExpression) else ()
        return self._spans[opening[0] if opening else node].start

    def end(self, node: cst.CSTNode) -> int:
        """Return where ``node`` ends, with its parentheses, in bytes of UTF-8."""
        closing = node.rpar if isinstance(node, cst.BaseExpression) else ()
        span = self._spans[closing[-1] if closing else node]
        return span.start + span.length

    def end_inside(self, node: cst.CSTNode) -> int:
        """Return where ``node`` ends without the parentheses around it."""
        span = self._spans[node]
        return span.start + span.length

    def code(self, node: cst.CSTNode) -> str:
        """Return the text of ``node`` with its parentheses."""
        return self.data[self.start(node) : self.end(node)].decode("utf-8")

    def qualified_names(self, node: cst.CSTNode) -> frozenset[str]:
        """Return what an expression can name by way of imports and built-ins: ``torch.compile``."""
        scope = self.scope(node)
        if scope is None or not isinstance(node, cst.Name | cst.Attribute):
            return frozenset()
        found = scope.get_qualified_names_for(node)
        return frozenset(each.name for each in found if each.source is not _LOCAL)


def _walk(
    tree: cst.Module,
) -> tuple[tuple[cst.CSTNode, ...], dict[cst.CSTNode, cst.CSTNode]]:
    """Return all nodes, outer before inner and in the order of the text, and what holds each."""
    nodes: list[cst.CSTNode] = []
    parents: dict[cst.CSTNode, cst.CSTNode] = {}
    pending: list[cst.CSTNode] = [tree]
    while pending:
        node = pending.pop()
        nodes.append(node)
        children = node.children
        parents.update(dict.fromkeys(children, node))
        pending += reversed(children)
    return tuple(nodes), parents


def parse_module(file: SourceFile, source: SourceText) -> Module | Unreadable:
    """Return the parsed file, or why libcst cannot read it."""
    try:
        return Module(file, source, cst.parse_module(source.text))
    except cst.ParserSyntaxError as error:
        return Unreadable(f"it cannot be read as Python: {error.message}")
    except RecursionError:
        return Unreadable("its code is nested too deeply")
