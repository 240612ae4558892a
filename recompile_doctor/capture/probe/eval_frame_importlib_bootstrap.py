"""The one frame of ours on the stack while a compiled function runs, and so while torch compiles.

The file's name is chosen. Torch leaves frames of files with ``eval_frame`` in their name out of the
stacks that it shows (``filter_stack`` in torch/_dynamo/exc.py), as those of its own wrapper are.
Python does not count frames of files with ``importlib`` and ``_bootstrap`` in their name when a
warning is to name its caller (``stacklevel``), so a warning still names the caller that it means.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .calls import Watch

SetEvalFrame = Callable[[Any], Any]

_TRACEBACK: Any = BaseException.__dict__["__traceback__"]


def observed(inner: FunctionType, watch: Watch, set_eval_frame: SetEvalFrame) -> FunctionType:
    """Return a function that stands in for torch's wrapper ``inner`` and tells ``watch`` of calls.

    A plain function, so that it binds to an instance as ``inner`` does. It has the attributes of
    ``inner``: by ``_torchdynamo_inline`` torch gets past both when it traces a caller.
    """

    def compile_wrapper(*args: Any, **kwargs: Any) -> Any:
        call = None
        if watch.on:
            # Nothing of ours may be compiled: between compiled frames a callback is set here.
            prior = set_eval_frame(None)
            try:
                call = watch.before(inner, args, kwargs)
            finally:
                if prior is not None:
                    set_eval_frame(prior)
        try:
            result = inner(*args, **kwargs)
        except BaseException as error:
            if call is not None:
                prior = set_eval_frame(None)
                try:
                    watch.raised(call, args, kwargs, error)
                finally:
                    if prior is not None:
                        set_eval_frame(prior)
            _leave_out(_CODE, error)
            raise
        if call is None:
            return result
        prior = set_eval_frame(None)
        try:
            watch.returned(call, args, kwargs, result)
        finally:
            if prior is not None:
                set_eval_frame(prior)
        return result

    _take_over(compile_wrapper, inner)
    return compile_wrapper  # type: ignore[return-value]


def observing(
    make: Callable[[Any, Any], Any], wrap: Callable[[Any, Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    """Return a function for ``_TorchDynamoContext.__call__`` that hands on what it made."""

    def __call__(self: Any, fn: Any) -> Any:
        try:
            made = make(self, fn)
        except BaseException as error:
            _leave_out(_DECORATING, error)
            raise
        return wrap(self, fn, made)

    return __call__


def frames() -> tuple[CodeType, ...]:
    """Return the code objects of ours that torch may meet."""
    return (_CODE, _DECORATING)


def _inner_code(function: Callable[..., Any]) -> CodeType:
    return next(each for each in function.__code__.co_consts if isinstance(each, CodeType))


_CODE = _inner_code(observed)
_DECORATING = _inner_code(observing)


def _take_over(ours: Any, inner: Any) -> None:
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(ours, name, getattr(inner, name))
    # Last, and not by functools.wraps: __wrapped__ stays what it would be without us.
    ours.__dict__.update(inner.__dict__)
    if "_torchdynamo_wrapper_id" in ours.__dict__:
        # With the id of another function torch would not see that this one is compiled already.
        ours._torchdynamo_wrapper_id = id(ours)


def _leave_out(code: CodeType, error: BaseException) -> None:
    """Take our frame out of a traceback that begins with it.

    A bare ``raise`` adds no new entry. Python before 3.11 keeps the traceback beside the exception
    while it is handled, so there our frame stays in sight. The class of the exception may have a
    ``__setattr__`` of its own, as that of a frozen dataclass, so its attributes are not touched.
    """
    traceback = _TRACEBACK.__get__(error)
    if traceback is not None and traceback.tb_frame.f_code is code:
        BaseException.with_traceback(error, traceback.tb_next)
