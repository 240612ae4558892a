"""Telling an exception of the program's from a failure of ours.

Python runs a signal handler of the program wherever the main thread happens to be, so also in the
middle of our code. What the handler raises, e.g. a TimeoutError after an alarm, is meant for the
program, and it may end the program's work only if we let it pass.
"""

from __future__ import annotations

import sys
from functools import partial
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

# Past an override of the user's exception class.
_TRACEBACK: Any = BaseException.__dict__["__traceback__"]
_MOST_WRAPPERS = 20
_VARARGS = 0x04


def is_from_signal_handler(error: BaseException) -> bool:
    """Return whether an exception that was caught here came out of a handler of the program."""
    if "signal" not in sys.modules:
        return False
    handlers: set[CodeType] | None = None
    traceback = _TRACEBACK.__get__(error)
    interrupted: FrameType | None = None
    while traceback is not None:
        frame = traceback.tb_frame
        if interrupted is not None:  # the first frame is the one that caught it
            if handlers is None:
                handlers = _handlers()
            if frame.f_code in handlers or _was_given(frame, interrupted):
                return True
        interrupted = frame
        traceback = traceback.tb_next
    return False


def _handlers() -> set[CodeType]:
    signal: Any = sys.modules["signal"]  # not imported: the overlay starts with every Python
    codes = (_code(signal.getsignal(number)) for number in signal.valid_signals())
    return {code for code in codes if code is not None}


def _code(handler: Any) -> CodeType | None:
    """Return the code that a handler runs first, without calling anything of its class."""
    for _ in range(_MOST_WRAPPERS):
        kind = type(handler)
        if kind is FunctionType:
            code: CodeType = handler.__code__
            return code
        if kind is MethodType:
            handler = handler.__func__
        elif kind is partial:
            handler = handler.func
        else:
            handler = type.__getattribute__(kind, "__call__")
    return None


def _was_given(frame: FrameType, interrupted: FrameType) -> bool:
    """Return whether a frame was called as handlers are: with a number, and what it interrupts.

    For a handler that has put another one in its place before it raised.
    """
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & _VARARGS)
    variables = frame.f_locals
    given = [variables.get(name) for name in code.co_varnames[:count]]
    if code.co_flags & _VARARGS:
        last = given.pop()
        given += last if type(last) is tuple else ()
    return any(each is interrupted for each in given)
