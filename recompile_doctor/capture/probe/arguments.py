"""The arguments of a call: a key for the table of calls, and what the table says of each.

A key is made for each call, so it costs as little as can be: no tensor operation, no code of the
user (``__eq__``, ``__repr__``, properties of subclasses), and nothing that would keep a tensor
alive. What goes into the table is worked out once a key.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from weakref import ref

from .foreign import is_from_signal_handler

DEPTH = 4
LEAVES = 64
_KEY_PARTS = 3 * LEAVES
_LONGEST = 80
_MOST_NAMES = 10_000
_LARGEST = 1 << 63


class Parameters(NamedTuple):
    """How a function names its arguments, without the ``self`` of a bound method."""

    names: tuple[str, ...]
    varargs: str | None
    varkw: str | None
    keywords: tuple[str, ...] = ()  # those that can only be given by name


class NoKey(Exception):
    """There is something among the arguments that the quick key is not made for."""


class Keys:
    """Makes the keys of calls, for one torch."""

    def __init__(self, torch: Any) -> None:
        self._tensor: Any = torch.Tensor
        self._parameter: Any = torch.nn.Parameter
        self._has_mode: Any = torch._C._is_torch_function_mode_enabled
        self._disabled: Any = torch._C.DisableTorchFunction
        # By id: a metaclass of the user may have a __hash__. The reference tells whether it is
        # that class still.
        self._names: dict[int, tuple[ref[type], str]] = {}

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any], names: Parameters) -> Any:
        """Return a hashable that is equal for calls which the table shows alike."""
        if self._has_mode():
            # It would see our looks at the tensors (torch.set_default_device sets one too).
            with self._disabled():
                return self._key(args, kwargs, names)
        return self._key(args, kwargs, names)

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any], names: Parameters) -> Any:
        parts: list[Any] = []
        try:
            for value in args:
                self._add(value, parts, 0)
            for name, value in kwargs.items():
                parts.append(name)
                self._add(value, parts, 0)
        except (NoKey, RuntimeError) as error:  # RuntimeError: a sparse tensor has no strides
            if is_from_signal_handler(error):
                raise
            return json.dumps(self.describe(args, kwargs, names))
        return tuple(parts)

    def _add(self, value: Any, parts: list[Any], depth: int) -> None:
        kind = type(value)
        if kind is self._tensor or kind is self._parameter:
            parts.append((value.dtype, value.shape, value.stride(), value.device))
        elif kind is int:
            parts.append(value)
        elif kind is bool or value is None:
            parts.append((kind, value))
        elif kind is str:
            parts.append((kind, value[:_LONGEST]))
        elif kind is float:
            parts.append((kind, repr(value)))  # nan is not equal to itself
        elif kind is list or kind is tuple or kind is dict:
            parts.append((kind, len(value)))
            if depth < DEPTH:
                for member in value:
                    if kind is dict:
                        if type(member) is not str and type(member) is not int:
                            raise NoKey
                        parts.append(member)
                        self._add(value[member], parts, depth + 1)
                    else:
                        self._add(member, parts, depth + 1)
                    if len(parts) > _KEY_PARTS:
                        break
        else:
            parts.append(self._name(value, kind))

    def _name(self, value: Any, kind: type) -> str:
        known = self._names.get(id(kind))
        if known is not None and known[0]() is kind:
            return known[1]
        if isinstance(value, self._tensor) or _members(value) is not None:
            raise NoKey
        if len(self._names) >= _MOST_NAMES:
            self._names.clear()
        name = type_name(kind)
        self._names[id(kind)] = ref(kind), name
        return name

    def describe(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], names: Parameters
    ) -> list[dict[str, Any]]:
        """Return what the table says of each argument, member by member."""
        with self._disabled():
            return [
                self._leaf(source, value)
                for source, value in leaves(args, kwargs, names, depth=DEPTH, most=LEAVES)
            ]

    def _leaf(self, source: str, value: Any) -> dict[str, Any]:
        kind = type(value)
        if kind is int and -_LARGEST <= value < _LARGEST:
            return {"source": source, "int": value}
        if is_simple(kind):
            return {"source": source, "value": short(value)}
        if isinstance(value, self._tensor):
            known = self.tensor(value)
            if known is not None:
                return {"source": source, **known}
        return {"source": source, "type": type_name(kind)}

    def tensor(self, value: Any) -> dict[str, Any] | None:
        """Return type, sizes, strides and device, or None where torch does not tell.

        Asked of Tensor itself, since a subclass may have properties of its own.
        """
        tensor = self._tensor
        try:
            sizes = list(tensor.shape.__get__(value))
            strides = list(tensor.stride(value))
            if not all(type(size) is int for size in (*sizes, *strides)):
                return None  # a symbolic size: comparing or printing it would add a guard
            return {
                "dtype": str(tensor.dtype.__get__(value)),
                "sizes": sizes,
                "strides": strides,
                "device": str(tensor.device.__get__(value)),
            }
        except Exception as error:  # sparse and nested tensors, odd subclasses
            if is_from_signal_handler(error):
                raise
            return None


def leaves(
    args: tuple[Any, ...], kwargs: dict[str, Any], names: Parameters, *, depth: int, most: int
) -> Iterator[tuple[str, Any]]:
    """Yield each argument, member by member, with its source in torch's spelling."""
    budget = [most]
    for index, value in enumerate(args):
        if index < len(names.names):
            source = f"L[{names.names[index]!r}]"
        else:
            source = f"L[{names.varargs or 'args'!r}][{index - len(names.names)}]"
        yield from _below(source, value, depth, budget)
    for name, value in kwargs.items():
        if names.varkw is None or name in names.names or name in names.keywords:
            source = f"L[{name!r}]"
        else:
            source = f"L[{names.varkw!r}][{name!r}]"
        yield from _below(source, value, depth, budget)


def _below(source: str, value: Any, depth: int, budget: list[int]) -> Iterator[tuple[str, Any]]:
    members = _members(value) if depth else None
    if members is None:
        if budget[0] > 0:
            budget[0] -= 1
            yield source, value
        return
    for suffix, member in members:
        if budget[0] <= 0:
            return
        yield from _below(source + suffix, member, depth - 1, budget)


def _members(value: Any) -> Iterator[tuple[str, Any]] | None:
    """Return the members of a container in order, or None for anything else.

    They are read past what a subclass may have put in the way.
    """
    kind = type(value)
    if is_simple(kind) or kind is int:
        return None
    if isinstance(value, dict):
        return (
            (f"[{key!r}]", member)
            for key, member in dict.items(value)
            if type(key) is str or type(key) is int
        )
    if isinstance(value, tuple):
        names = kind.__dict__.get("_fields")
        if type(names) is tuple and len(names) == tuple.__len__(value):
            return ((f".{name}", tuple.__getitem__(value, i)) for i, name in enumerate(names))
        return ((f"[{index}]", member) for index, member in enumerate(tuple.__iter__(value)))
    if isinstance(value, list):
        return ((f"[{index}]", member) for index, member in enumerate(list.__iter__(value)))
    fields = kind.__dict__.get("__dataclass_fields__")
    if type(fields) is dict and dataclasses.is_dataclass(kind):
        held = _instance_dictionary(value)
        return ((f".{name}", held[name]) for name in fields if name in held)
    return None


def _instance_dictionary(value: Any) -> dict[str, Any]:
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError as error:  # it has slots
        if is_from_signal_handler(error):
            raise
        return {}
    return held if type(held) is dict else {}


def members(value: Any) -> Iterator[tuple[str, Any]] | None:
    """Return the members of a container with their place in it, or None for anything else."""
    return _members(value)


def is_simple(kind: type) -> bool:
    """Return whether values of a class are shown as text; ``in`` would ask its metaclass."""
    return kind is str or kind is bool or kind is float or kind is type(None)


def is_any(kind: type, kinds: tuple[type, ...]) -> bool:
    """Return whether a class is one of several, without asking its metaclass."""
    return any(kind is each for each in kinds)


def short(value: Any) -> str:
    """Return the ``repr`` of a bool, None, str or float, cut where it is long."""
    return repr(value[:_LONGEST] if type(value) is str else value)[:_LONGEST]


def type_name(kind: type) -> str:
    """Return ``module.Class``, without asking a metaclass."""
    module = type.__getattribute__(kind, "__module__")
    name = type.__getattribute__(kind, "__qualname__")
    return f"{module}.{name}" if type(module) is str else str(name)
