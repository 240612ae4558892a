"""The tensors that a call can change in place: its arguments, and what lives on its objects.

An object is that which a method is bound to, or one among the arguments. Of a module its buffers
and the tensors among its attributes are read, with those of the modules below it; its parameters
are read elsewhere, in the end. Nothing here reads a value, so it may be asked before a call too.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator
from types import FunctionType, MethodType
from typing import Any

from .arguments import Parameters, is_any, leaves, members
from .objects import attributes, held_by, items_of

_DEPTH = 8
_MOST_ARGUMENTS = 1_000
_MOST_OF_OBJECTS = 200
_MOST_BUFFERS = 200
_MOST_MODULES = 5_000
_MOST_MEMBERS = 20_000  # that are looked at to find the tensors
_LAST = 50
_SIMPLE = (bool, int, float, str, type(None), FunctionType, MethodType)


class Reached:
    """The tensors that one call can reach, with their sources; each object is visited once.

    ``whole`` is False when there are more on its objects than were yielded. Buffers do not count
    for that: a large network has some hundred, whose values show in what it returns.
    """

    def __init__(self, torch: Any) -> None:
        self._tensor = torch.Tensor
        self._parameter = torch.nn.Parameter
        self._module = torch.nn.Module
        self._own = _own(torch)  # what every module has: dictionaries of hooks, mostly
        self.whole = True
        self._left = _MOST_OF_OBJECTS
        self._buffers = _MOST_BUFFERS
        self._looks = _MOST_MEMBERS
        self._seen: dict[int, Any] = {}

    def iter_tensors(
        self, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], names: Parameters
    ) -> Iterator[tuple[str, Any, bool]]:
        """Yield the tensors among the arguments, then those of the objects, and which they are."""
        objects = [("self", owner)]
        for source, value in leaves(args, kwargs, names, depth=_DEPTH, most=_MOST_ARGUMENTS):
            if isinstance(value, self._tensor):
                yield source, value, False
            else:
                objects.append(("self" if source == "L['self']" else source, value))
        for source, value in objects:
            for path, tensor in self._of_object(source, value, _DEPTH):
                yield path, tensor, True

    def _of_object(self, source: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
        kind = type(value)
        if value is None or not depth or id(value) in self._seen:
            return
        if issubclass(kind, self._module):
            for prefix, module in itertools.islice(modules_below("", value), _MOST_MODULES):
                yield from self._of_module(f"{source}.{prefix}"[:-1], module, depth - 1)
            return
        held = attributes(value)
        if held is not None:
            self._seen[id(value)] = value
            for suffix, member in held:
                yield from self._of_member(source + suffix, member, depth - 1)

    def _of_module(self, source: str, module: Any, depth: int) -> Iterator[tuple[str, Any]]:
        if id(module) in self._seen:
            return
        self._seen[id(module)] = module
        own = self._own
        for suffix, member in held_by(module):
            if suffix not in own:
                yield from self._of_member(source + suffix, member, depth)
        for name, buffer in list((module.__dict__.get("_buffers") or {}).items()):
            if isinstance(buffer, self._tensor):
                self._buffers -= 1
                if self._buffers >= 0:
                    yield f"{source}.{name}", buffer

    def _of_member(self, source: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
        if is_any(type(value), _SIMPLE):
            return
        self._looks -= 1
        if self._looks < 0:
            self.whole = False
            return
        if isinstance(value, self._tensor):
            if not isinstance(value, self._parameter):
                self._left -= 1
                self.whole = self.whole and self._left >= 0
                if self._left >= 0:
                    yield source, value
            return
        kind = type(value)
        if not issubclass(kind, (dict, list, tuple)):
            yield from self._of_object(source, value, depth)
        elif depth and id(value) not in self._seen and not _is_simple(value):
            if not issubclass(kind, tuple):
                self._seen[id(value)] = value
            for suffix, each in _last_members(value):
                yield from self._of_member(source + suffix, each, depth - 1)


def _last_members(value: Any) -> Iterable[tuple[str, Any]]:
    """Return the members of a container, of a long list the last: it is there that it grows."""
    if issubclass(type(value), dict):
        return items_of(value)
    length = (list if issubclass(type(value), list) else tuple).__len__(value)
    return itertools.islice(members(value) or (), max(0, length - _LAST), None)


def _is_simple(container: Any) -> bool:
    """Return whether there is nothing to find: a vocabulary has many entries, all of them plain."""
    values = dict.values(container) if issubclass(type(container), dict) else ()
    return len(values) > _LAST and all(is_any(type(each), _SIMPLE) for each in values)


@functools.cache
def _own(torch: Any) -> frozenset[str]:
    return frozenset(suffix for suffix, _ in held_by(torch.nn.Module()))


def modules_below(prefix: str, module: Any) -> Iterator[tuple[str, Any]]:
    """Yield a module and those below it, each once, with the path that its members begin with."""
    yield from _below(prefix, module, set())


def _below(prefix: str, module: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield them past what a subclass may have overridden."""
    if module is None or id(module) in seen:
        return
    seen.add(id(module))
    yield prefix, module
    for name, child in list(module.__dict__.get("_modules", {}).items()):
        yield from _below(f"{prefix}{name}.", child, seen)
