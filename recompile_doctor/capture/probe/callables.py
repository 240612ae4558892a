"""What a compiled callable is: its name, where it stands, what it calls its arguments."""

from __future__ import annotations

import sys
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

from .arguments import Parameters

_VARARGS = 0x04
_VARKEYWORDS = 0x08
_MOST_WRAPPERS = 20


class Description(NamedTuple):
    """A callable that was given to torch.compile, in words."""

    function: str
    qualname: str
    file: str
    line: int
    kind: str
    parameters: Parameters


def describe(inner: Any) -> Description:
    """Describe what torch's wrapper ``inner`` calls: for a module, its ``forward``.

    What torch cannot enter (a built-in function, a module of torch.nn, a partial, an object with
    ``__call__``) it calls through a function ``inner(*args, **kwargs)`` of its own, whose names
    for the arguments stand in torch's sources then.
    """
    target = inner.__dict__["_torchdynamo_orig_callable"]
    torch: Any = sys.modules["torch"]
    through = _is_from(target, "torch/_dynamo/external_utils.py")
    if through:
        target = getattr(target, "__wrapped__", target)
    kind = "function"
    owner: Any = None
    skipped = 0
    if isinstance(target, torch.nn.Module):
        owner = target
    elif isinstance(target, MethodType):
        kind = "method"
        owner = target.__self__
        skipped = 1
        if isinstance(owner, torch.nn.Module) and _is_from(target, "torch/nn/modules/module.py"):
            kind = "module"
        target = target.__func__
    if kind == "module" or (owner is not None and target is owner):
        kind = "module"
        target = _forward(owner)
        skipped = 1 if isinstance(target, MethodType) else 0
        target = getattr(target, "__func__", target)
    code = _code(target)
    if code is None:
        name = getattr(target, "__name__", None) or type(target).__name__
        return Description(str(name), str(name), "", 0, kind, Parameters((), "args", "kwargs"))
    qualname = str(getattr(target, "__qualname__", code.co_name))
    if kind == "module":
        qualname = f"{type(owner).__qualname__}.{code.co_name}"
    parameters = Parameters((), "args", "kwargs") if through else _parameters(code, skipped)
    return Description(
        code.co_name, qualname, code.co_filename, code.co_firstlineno, kind, parameters
    )


def bound_module(inner: Any) -> Any:
    """Return the module that torch's wrapper ``inner`` is bound to, or None."""
    target = inner.__dict__["_torchdynamo_orig_callable"]
    if _is_from(target, "torch/_dynamo/external_utils.py"):
        target = getattr(target, "__wrapped__", target)
    owner = target.__self__ if isinstance(target, MethodType) else target
    return owner if isinstance(owner, sys.modules["torch"].nn.Module) else None


def _forward(module: Any) -> Any:
    forward = module.forward
    for _ in range(_MOST_WRAPPERS):
        held = getattr(forward, "__dict__", {})
        if "_torchdynamo_orig_callable" not in held or isinstance(forward, MethodType):
            break
        forward = held["_torchdynamo_orig_callable"]
    return forward


def _code(target: Any) -> CodeType | None:
    for _ in range(_MOST_WRAPPERS):
        if isinstance(target, FunctionType):
            return target.__code__
        if isinstance(target, MethodType):
            target = target.__func__
        elif hasattr(target, "func"):  # a partial
            target = target.func
        else:
            target = vars(type(target)).get("__call__")
    return None


def _is_from(target: Any, file: str) -> bool:
    code = getattr(target, "__code__", None)
    return isinstance(code, CodeType) and code.co_filename.replace("\\", "/").endswith(file)


def _parameters(code: CodeType, skipped: int) -> Parameters:
    positional = code.co_argcount
    named = positional + code.co_kwonlyargcount
    names = code.co_varnames
    varargs = names[named] if code.co_flags & _VARARGS else None
    after = named + (varargs is not None)
    varkw = names[after] if code.co_flags & _VARKEYWORDS else None
    return Parameters(names[skipped:positional], varargs, varkw, names[positional:named])
