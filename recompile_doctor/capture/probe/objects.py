"""What an object of an ordinary class holds, and values that a text says all of.

Only what can be read without running code of the user: the dictionary of the instance, its slots,
and the C code of built-in types. What may hold more than that (a type made in C, a generator, a
closure) is not described at all, so that nobody takes it for known.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterator
from hashlib import sha256
from itertools import count
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any

from .arguments import is_any, type_name
from .foreign import is_from_signal_handler

_HEAP_TYPE = 1 << 9  # made by a class statement, or by C code that asks for it
_WORD = object.__basicsize__ // 2
_LONGEST = 80
_MOST_OF_SET = 10_000
# Modules of Python and torch whose classes are bases of ordinary ones, or hold data and no more.
_OPEN = ("abc", "argparse", "collections", "_collections_abc", "types", "typing")
_OPEN_OF_TORCH = ("torch.distributions", "torch.nn.attention")
# Of these the text says all, and their instances keep caches that come and go.
_SAID_BY_TEXT = frozenset(
    (
        "datetime.date",
        "datetime.datetime",
        "datetime.time",
        "datetime.timedelta",
        "decimal.Decimal",
        "fractions.Fraction",
        "pathlib.PosixPath",
        "pathlib.PurePosixPath",
        "pathlib._local.PosixPath",
        "uuid.UUID",
        "torch.device",
        "torch.dtype",
        "torch.layout",
        "torch.memory_format",
    )
)


def attributes(value: Any) -> list[tuple[str, Any]] | None:
    """Return what an object of an ordinary class holds, by name; None for any other.

    Objects of Python's and torch's own classes are left alone: a logger or an optimizer leads to
    half of the program.
    """
    kind = type(value)
    if type_name(kind) == "types.SimpleNamespace":
        return _named(object.__getattribute__(value, "__dict__"))
    slots = _slots(kind)
    if slots is None:
        return None
    found = held_by(value)
    for name, slot in slots:
        try:
            found.append((f".{name}", slot.__get__(value, kind)))
        except AttributeError as error:  # nothing was put into it
            if is_from_signal_handler(error):
                raise
    if not found and not slots and _dictionary(value) is None:
        return None  # it has no place that we could look into
    return found


def held_by(value: Any) -> list[tuple[str, Any]]:
    """Return what stands in the dictionary of an instance, in the order in which it was put."""
    return _named(_dictionary(value) or {})


def _named(held: dict[Any, Any]) -> list[tuple[str, Any]]:
    # Copied: another thread may be at work on the dictionary.
    return [(f".{name}", each) for name, each in list(held.items()) if type(name) is str]


def _dictionary(value: Any) -> dict[Any, Any] | None:
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError as error:  # it has slots
        if is_from_signal_handler(error):
            raise
        return None
    return held if type(held) is dict else None


def _slots(kind: type) -> list[tuple[str, MemberDescriptorType]] | None:
    """Return the slots of an ordinary class with its bases; None where C code has a part in it."""
    found: list[tuple[str, MemberDescriptorType]] = []
    for each in type.__getattribute__(kind, "__mro__"):
        if each is object:
            continue
        if not type.__getattribute__(each, "__flags__") & _HEAP_TYPE or not _is_open(each):
            return None
        found += [
            (name, member)
            for name, member in type.__getattribute__(each, "__dict__").items()
            if type(member) is MemberDescriptorType
        ]
    # Two words are for the dictionary and the weak references. What is larger holds more than that.
    room = type.__getattribute__(kind, "__basicsize__") - object.__basicsize__
    return found if room <= (len(found) + 2) * _WORD else None


def _is_open(kind: type) -> bool:
    module = type.__getattribute__(kind, "__module__")
    if type(module) is not str:
        return False
    top = module.partition(".")[0]
    if top == "torch":
        return module.startswith(_OPEN_OF_TORCH)
    return top in _OPEN or top not in sys.stdlib_module_names


def text_of(value: Any) -> str | None:
    """Return a text that is another one for another value, or None where none says all of it."""
    kind = type(value)
    if is_any(kind, (bool, float, type(None), str, int, bytes, bytearray)):
        return _cut(repr(value))
    if value is Ellipsis or value is NotImplemented:
        return repr(value)
    if kind is object:
        return "object()"
    if is_any(kind, (range, slice)):
        parts = [text_of(each) for each in (value.start, value.stop, value.step)]
        return None if None in parts else f"{kind.__name__}({', '.join(map(str, parts))})"
    if is_any(kind, (set, frozenset)):
        return _text_of_set(value)
    mro = type.__getattribute__(kind, "__mro__")
    if is_any(enum.Enum, mro):
        held = _dictionary(value) or {}
        name = held.get("_name_")
        word = name if type(name) is str else text_of(held.get("_value_"))
        return None if word is None else _cut(f"{type_name(kind)}.{word}")
    if type_name(kind) in _SAID_BY_TEXT:
        return _cut(str(value))
    for base in (int, float, str):
        if is_any(base, mro):  # of a subclass the number or string, as the base reads it
            return _cut(base.__repr__(value))
    return _text_of_code(value)


def _text_of_code(value: Any) -> str | None:
    """Return the name of a class, module or function without closure: nothing is computed there."""
    if issubclass(type(value), type):
        return _cut(f"class {type_name(value)}")
    if type(value) is ModuleType:
        return _cut(f"module {(_dictionary(value) or {}).get('__name__')!r}")
    if type(value) is FunctionType and value.__closure__ is None:
        return _cut(f"function {value.__module__!r}.{value.__qualname__}")
    if type(value) is BuiltinFunctionType and is_any(
        type(value.__self__), (ModuleType, type(None))
    ):
        return _cut(f"function {value.__qualname__}")
    return None


def _text_of_set(value: Any) -> str | None:
    if len(value) > _MOST_OF_SET:
        return None
    texts = [text_of(each) for each in value]
    if None in texts:
        return None
    return _cut("{" + ", ".join(sorted(map(str, texts))) + "}")


def _cut(text: str) -> str:
    """Return a text of bounded length that still differs where the whole does."""
    if len(text) <= _LONGEST:
        return text
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{text[:32]}... ({len(text)} characters, {digest})"


def items_of(value: dict[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Yield all members of a dictionary; those whose key no text says all of are numbered."""
    numbers = count()
    for key, member in list(dict.items(value)):
        if is_any(type(key), (str, int)):
            yield f"[{key!r}]", member
            continue
        parts = [text_of(each) for each in (key if type(key) is tuple else (key,))]
        if None in parts:
            yield f"[<key {next(numbers)}>]", member
        else:
            words = ", ".join(map(str, parts))
            yield f"[({words})]" if type(key) is tuple else f"[{words}]", member
