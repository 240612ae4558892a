"""``probe/<pid>.calls.json``: each function that torch.compile made, how it was called, how long.

All that torch.compile returns goes through ``_TorchDynamoContext.__call__``: what that makes is
wrapped once more (eval_frame_*.py), so that each call is seen. Whether torch compiled something
during a call is told by torch's own compilation callbacks, counted by thread. A function of which
something could not be observed goes on unobserved, with a note.

The file is written when the process ends, and now and then before, so that little is lost when it
is killed. With RECOMPILE_DOCTOR_FINGERPRINTS=1 the outputs are recorded too (outputs.py).
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import FunctionType
from typing import Any

from . import eval_frame_importlib_bootstrap as eval_frame
from .arguments import Keys
from .callables import Description, describe
from .ending import Ending
from .foreign import is_from_signal_handler
from .outputs import Outputs
from .snapshot import RANK_VARIABLES, is_compile_worker
from .timing import CudaClock, Times, device_memory_peak

FORMAT = 1
ROWS_LIMIT = 2000
_MOST_FUNCTIONS = 2000
_WRITE_EVERY = 5.0  # seconds
_WRITE_SHARE = 50  # and no more than this part of the time is spent on it
_LONGEST_ERROR = 200
_ARGS: Any = BaseException.__dict__["args"]  # past a property of the user's class


def start(module: Any, *, note: Callable[[str], None]) -> None:
    """Watch what torch's compiler makes from now on; ``module`` is torch._dynamo.eval_frame."""
    if not is_compile_worker():
        _Process(note).start(module)


class _Thread(threading.local):
    """What is known of one thread."""

    compiles = 0  # compilations that began in it
    compiling = 0  # compilations that are under way in it
    number: int | None = None  # by first appearance

    def __init__(self) -> None:
        self.indices: dict[int, int] = {}  # calls of each function


class _Process:
    """All that is watched in this process."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.note = note
        self.thread = _Thread()
        self.numbers = itertools.count()
        self.lock = threading.RLock()  # of the same thread too: a signal handler may call
        self.clock = CudaClock()
        self.watches: list[Watch] = []
        self.started = time.time()
        self.next_write = time.perf_counter() + _WRITE_EVERY
        self.outputs: Outputs | None = None
        self.forked = False
        self._rank: str | None = None  # kept: at the end the program may have left its group
        self._keys: Keys | None = None
        self._set_eval_frame: Any = None
        self._hidden = False
        self._unwatched = 0

    @property
    def unwatched(self) -> int:
        """Return how many functions there are whose calls were not all observed."""
        return self._unwatched + sum(not watch.on for watch in self.watches)

    def start(self, module: Any) -> None:
        """Put ourselves behind torch's ``_TorchDynamoContext.__call__``."""
        torch: Any = sys.modules["torch"]
        self._set_eval_frame = module.set_eval_frame
        for code in eval_frame.frames():
            module.skip_code(code)
        self._count_compilations()
        if os.environ.get("RECOMPILE_DOCTOR_FINGERPRINTS") == "1":
            self.outputs = Outputs(torch, self.header, self.note)
        Ending(self._end, self._after_fork, self.note)
        context = module._TorchDynamoContext
        context.__call__ = eval_frame.observing(context.__call__, self._wrap)

    def _count_compilations(self) -> None:
        # Replaced, since the callbacks themselves are called for one thread only when two compile.
        # A context manager leaves no frame on the stack while torch compiles.
        handler = import_module("torch._dynamo.callback").callback_handler
        install_callbacks = handler.install_callbacks
        thread = self.thread

        def counted(*args: Any, **kwargs: Any) -> _Compilation:
            return _Compilation(install_callbacks(*args, **kwargs), thread)

        handler.install_callbacks = counted

    def _hide(self) -> None:
        """Let torch take our wrapper for a part of itself where no attribute leads past it."""
        if not self._hidden:
            rules: Any = sys.modules["torch._dynamo.trace_rules"]
            rules.FORCE_SKIP_FILES.add(eval_frame.__file__.replace("\\", "/"))
            self._hidden = True

    def _wrap(self, context: Any, fn: Any, made: Any) -> Any:
        try:
            if (
                type(made) is FunctionType
                and made is not fn
                and "_torchdynamo_orig_callable" in made.__dict__
                and made.__code__ not in eval_frame.frames()
                and not getattr(context, "export", False)
            ):
                if len(self.watches) >= _MOST_FUNCTIONS:
                    self._unwatched += 1
                    return made
                self._hide()
                watch = Watch(self, len(self.watches), describe(made))
                wrapped = eval_frame.observed(made, watch, self._set_eval_frame)
                self.watches.append(watch)
                return wrapped
        except Exception as error:  # no failure may reach the program
            if is_from_signal_handler(error):
                raise
            self._unwatched += 1
            self.note("a compiled function could not be watched")
        return made

    @property
    def keys(self) -> Keys:
        """Return the maker of keys, made at the first call: now torch.nn may not be there yet."""
        if self._keys is None:
            self._keys = Keys(sys.modules["torch"])
        return self._keys

    def header(self) -> dict[str, Any]:
        """Return what both files say of the process."""
        rank = {name: os.environ[name] for name in RANK_VARIABLES if name in os.environ}
        if self._rank is None and "RANK" not in rank:
            self._rank = _rank_in_group()
        if self._rank is not None:
            rank.setdefault("RANK", self._rank)
        return {"rank": rank, "started": self.started}

    def write_now_and_then(self, now: float) -> None:
        """Write the file when it is time."""
        if now < self.next_write:
            return
        with self.lock:
            self.next_write = now + _WRITE_EVERY
            self.write(complete=False)
            spent = time.perf_counter() - now
            self.next_write = now + max(_WRITE_EVERY, spent * _WRITE_SHARE)

    def write(self, *, complete: bool) -> None:
        """Write the file in one step."""
        folder = os.path.join(os.environ["RECOMPILE_DOCTOR_BUNDLE"], "probe")  # noqa: PTH118
        path = os.path.join(folder, f"{os.getpid()}.calls.json")  # noqa: PTH118
        with self.lock:
            self.clock.resolve()
            content = {
                "format": FORMAT,
                "pid": os.getpid(),
                "complete": complete,
                **self.header(),
                "device_memory_peak": device_memory_peak(),
                "unwatched": self.unwatched,
                "functions": [watch.summary() for watch in self.watches if watch.calls],
            }
        text = json.dumps(content, allow_nan=False)
        temporary = f"{path}.tmp"
        with open(temporary, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text)
        os.replace(temporary, path)  # noqa: PTH105

    def _end(self) -> None:
        try:
            called = any(watch.calls for watch in self.watches)
            if self.forked and not called:
                return
            self.clock.finish()
            self.write(complete=True)
            if self.outputs is not None:
                self.outputs.finish(self.unwatched)
        except BaseException:  # noqa: BLE001 - also a Ctrl-C: the program has ended already
            self.note("the calls could not be written")

    def _after_fork(self) -> None:
        self.forked = True
        self._rank = None
        self.started = time.time()
        self.lock = threading.RLock()  # another thread may have held it
        self.clock = CudaClock()
        self.numbers = itertools.count()
        self.thread.number = None
        self.thread.indices = {}
        for watch in self.watches:
            watch.reset()
        if self.outputs is not None:
            self.outputs.reset()


def _rank_in_group() -> str | None:
    """Return the rank that the program itself gave to torch.distributed, without a variable."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return str(distributed.get_rank())


class _Compilation:
    """Torch's own context of a compilation, counted for the thread that it runs in."""

    def __init__(self, inner: Any, thread: _Thread) -> None:
        self._inner = inner
        self._thread = thread

    def __enter__(self) -> Any:
        entered = self._inner.__enter__()
        self._thread.compiles += 1
        self._thread.compiling += 1
        return entered

    def __exit__(self, *error: Any) -> Any:
        self._thread.compiling -= 1
        return self._inner.__exit__(*error)


class _Row:
    """The calls of a function whose arguments the table shows alike."""

    def __init__(self, arguments: list[dict[str, Any]], first_call: int) -> None:
        self.arguments = arguments
        self.first_call = first_call
        self.calls = 0
        self.compiled_calls = 0
        self.steady_seconds = 0.0
        devices = [each.get("device") for each in arguments]
        self.cuda = next((each for each in devices if each and each.startswith("cuda")), None)

    def summary(self) -> dict[str, Any]:
        """Return the row as it stands in the file."""
        return {
            "arguments": self.arguments,
            "calls": self.calls,
            "compiled_calls": self.compiled_calls,
            "first_call": self.first_call,
            "steady_seconds": self.steady_seconds,
        }


class _Call:
    """A call under way."""

    __slots__ = ("before", "compiles", "events", "index", "row", "started", "thread_index")

    def __init__(self, row: _Row | None, index: int, compiles: int) -> None:
        self.row = row
        self.index = index
        self.compiles = compiles
        self.events: Any = None
        self.thread_index = 0
        self.before: Any = None
        self.started = 0.0


class Watch:
    """What is known of one function that torch.compile made. ``on`` is False after a failure.

    It holds neither the function nor anything of its calls: both may hold tensors.
    """

    def __init__(self, process: _Process, number: int, description: Description) -> None:
        self.on = True
        self._process = process
        self._number = number
        self._description = description
        self._names = description.parameters
        self.reset()

    def reset(self) -> None:
        """Forget all calls."""
        self.calls = 0
        self._compiled_calls = 0
        self._raised_calls = 0
        self._steady_calls = 0
        self._first_seconds: float | None = None
        self._compiling_seconds = 0.0
        self._times = Times()
        self._on_cuda = False
        self._rows: dict[Any, _Row] = {}
        self._without_row = 0

    def before(self, inner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call | None:
        """Begin to observe a call; None where it is not to be observed."""
        process = self._process
        thread = process.thread
        call = None
        try:
            if thread.compiling:
                return None  # torch calls it with tensors that have no values
            key, row = self._find(args, kwargs)
            with process.lock:
                index = self.calls
                self.calls += 1
                if row is None:
                    row = self._new_row(key, args, kwargs, index)
                if row is not None:
                    row.calls += 1
                call = _Call(row, index, thread.compiles)
                if row is not None and row.cuda is not None:
                    call.events = process.clock.start(row.cuda)
            if process.outputs is not None:
                call.thread_index = thread.indices.get(self._number, 0)
                thread.indices[self._number] = call.thread_index + 1
                call.before = process.outputs.before_call(inner, args, kwargs)
            call.started = time.perf_counter()
        except Exception as error:  # no failure may reach the program
            if is_from_signal_handler(error):
                if call is not None:
                    self._raised_calls += 1  # it is counted, and will not be made
                raise
            self._fail()
            return None
        return call

    def returned(
        self, call: _Call, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        """Take a call into account that has returned."""
        now = time.perf_counter()
        try:
            compiled = self._account(call, now, raised=False)
            if self._process.outputs is not None:
                self._write(call, args, kwargs, compiled, result, None)
            if now > self._process.next_write:
                self._process.write_now_and_then(now)
        except Exception as error:  # no failure may reach the program
            if is_from_signal_handler(error):
                raise
            self._fail()

    def raised(
        self, call: _Call, args: tuple[Any, ...], kwargs: dict[str, Any], error: BaseException
    ) -> None:
        """Take a call into account that has raised."""
        now = time.perf_counter()
        try:
            compiled = self._account(call, now, raised=True)
            if self._process.outputs is not None:
                self._write(call, args, kwargs, compiled, None, error)
        except Exception as error:  # no failure may reach the program
            if is_from_signal_handler(error):
                raise
            self._fail()

    def _fail(self) -> None:
        self.on = False
        self._process.note(f"{self._description.qualname} could not be observed any more")

    def _find(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, _Row | None]:
        """Return the key of a call and its row, where there is one already."""
        try:
            key = self._process.keys.key(args, kwargs, self._names)
            return key, self._rows.get(key)
        except Exception as error:  # an odd argument costs the row, not the call
            if is_from_signal_handler(error):
                raise
            return None, None

    def _new_row(
        self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any], index: int
    ) -> _Row | None:
        if key is None or len(self._rows) >= ROWS_LIMIT:
            self._without_row += 1
            return None
        row = _Row(self._process.keys.describe(args, kwargs, self._names), index)
        self._rows[key] = row
        return row

    def _account(self, call: _Call, now: float, *, raised: bool) -> bool:
        process = self._process
        row = call.row
        seconds = now - call.started
        compiled = process.thread.compiles != call.compiles
        with process.lock:
            if call.index == 0:
                self._first_seconds = seconds
            if raised:
                self._raised_calls += 1
            if compiled:
                self._compiled_calls += 1
                self._compiling_seconds += seconds
                if row is not None:
                    row.compiled_calls += 1
            if row is not None and row.cuda is not None:
                self._stop_events(call, row, steady=not (compiled or raised))
            elif not (compiled or raised):
                self._steady(row, seconds)
            if not (compiled or raised):
                self._steady_calls += 1
        return compiled

    def _stop_events(self, call: _Call, row: _Row, *, steady: bool) -> None:
        clock = self._process.clock
        if call.events is None or row.cuda is None:
            return
        if not steady:
            clock.give_back(row.cuda, call.events)
            return
        self._on_cuda = True
        clock.stop(row.cuda, call.events, partial(self._steady, row))

    def _steady(self, row: _Row | None, seconds: float) -> None:
        self._times.add(seconds)
        if row is not None:
            row.steady_seconds += seconds

    def _write(
        self,
        call: _Call,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        compiled: bool,
        result: Any,
        error: BaseException | None,
    ) -> None:
        process = self._process
        thread = process.thread
        if thread.number is None:
            thread.number = next(process.numbers)
        place = {
            "call": call.thread_index,
            "thread": thread.number,
            "compiled": compiled,
            "raised": None if error is None else _in_words(error),
        }
        if process.outputs is not None:
            process.outputs.write_call(
                self._number, self._description, place, result, args, kwargs, call.before
            )

    def summary(self) -> dict[str, Any]:
        """Return what the file says of the function."""
        description = self._description
        return {
            "id": self._number,
            "function": description.function,
            "qualname": description.qualname,
            "file": description.file,
            "line": description.line,
            "parameters": list(self._names.names),
            "varargs": self._names.varargs,
            "varkw": self._names.varkw,
            "kind": description.kind,
            "calls": self.calls,
            "compiled_calls": self._compiled_calls,
            "raised_calls": self._raised_calls,
            "first_seconds": self._first_seconds,
            "compiling_seconds": self._compiling_seconds,
            "steady_calls": self._steady_calls,
            "steady_seconds": self._times.summary(),
            "clock": "cuda-events" if self._on_cuda else "wall",
            "rows": [row.summary() for row in self._rows.values()],
            "rows_limit": ROWS_LIMIT,
            "calls_without_row": self._without_row,
        }


def _in_words(error: BaseException) -> str:
    """Return class and text of an exception, without calling anything of the user's."""
    words = ", ".join(str(each) for each in _ARGS.__get__(error) if type(each) in (str, int))
    return f"{type(error).__name__}: {words}"[:_LONGEST_ERROR]
