"""``probe/<pid>.outputs.jsonl``: what the compiled calls returned, and the parameters they left.

Only where RECOMPILE_DOCTOR_FINGERPRINTS is 1. Each line is one ``write``, so a process that is
killed loses none that it had written.
"""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from .arguments import Parameters
from .callables import Description, bound_module
from .fingerprint import Fingerprints
from .foreign import is_from_signal_handler
from .objects import attributes
from .own_file import OwnFile
from .reached import Reached, modules_below

MOST_CALLS = 20_000
_MOST_MODULES = 5_000  # with their submodules
_LARGE = 1 << 18  # elements
_MOST_LARGE = 1_000
_UNNAMED = Parameters((), "args", "kwargs")


class _Before(NamedTuple):
    """What is known of the time before a call: the state of the random generators among it.

    ``versions`` has the tensors that the call can change, by identity: torch counts the changes in
    place. ``owner`` is what the compiled method is bound to.
    """

    owner: Any
    versions: dict[int, int | None]
    random_state: Any


class _Large(NamedTuple):
    """The leaf of a large tensor in one version of it."""

    tensor: weakref.ref[Any]
    version: int
    leaf: dict[str, Any]


class Outputs:
    """The file of this process, and the modules whose parameters are still to be written."""

    def __init__(
        self, torch: Any, header: Callable[[], dict[str, Any]], note: Callable[[str], None]
    ) -> None:
        self._torch = torch
        self._header = header
        self._note = note
        self._prints = Fingerprints(torch)
        self._modules = _Modules(torch, self._write_parameters)
        self._large: dict[int, _Large] = {}
        self.reset()

    def reset(self) -> None:
        """Begin a file of its own, e.g. in a forked process."""
        self._lock = threading.RLock()  # of the same thread too: a module may die meanwhile
        self._file: OwnFile | None = None
        self._failed = False
        self._announced: set[int] = set()
        self._calls = 0
        self._skipped = 0

    def before_call(self, inner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what ``write_call`` has to know of the time before the call.

        That is what the call can change in place, and the state of the random generators. The
        modules that it can reach are observed from here on: bound, given, enclosed, or named
        globally.
        """
        module = bound_module(inner)
        self._modules.add(module)
        for value in (*args, *kwargs.values()):
            self._modules.add(value)
        target = inner.__dict__["_torchdynamo_orig_callable"]
        for value in _reached(target):
            self._modules.add(value)
        owner = module if module is not None else _owner(target)
        for each in (owner, *args, *kwargs.values()):
            for _, value in attributes(each) or ():  # a trainer has its model
                self._modules.add(value)
        with self._prints.quiet():
            reached = Reached(self._torch).iter_tensors(owner, args, kwargs, _UNNAMED)
            versions = {id(value): self._version(value) for _, value, _ in reached}
            return _Before(owner, versions, self._prints.random_state())

    def write_call(
        self,
        number: int,
        function: Description,
        place: dict[str, Any],
        result: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        before: Any,
    ) -> None:
        """Write one call: ``place`` is its index, thread and fate.

        ``before`` is from ``before_call``: a graph that draws random numbers may draw others than
        another graph does.
        """
        if self._failed:
            return
        if self._calls >= MOST_CALLS:
            self._skipped += 1
            return
        self._calls += 1
        with self._prints.quiet():
            now = self._prints.random_state()
            place["random"] = not self._prints.is_same_state(before.random_state, now)
            outputs: list[dict[str, Any]] = []
            whole = True
            if place["raised"] is None:
                outputs, whole = self._prints.leaves(result)
            reached = Reached(self._torch)
            arguments = list(self._arguments(reached, before, args, kwargs, function.parameters))
            if not (whole and reached.whole):
                place["cut"] = True
        with self._lock:
            if number not in self._announced:
                self._announced.add(number)
                self._write(
                    {
                        "function": number,
                        "name": function.function,
                        "file": function.file,
                        "line": function.line,
                    }
                )
            self._write({**place, "function": number, "outputs": outputs, "arguments": arguments})

    def finish(self, unwatched: int) -> None:
        """Write the parameters of the modules that live, and the last line.

        ``unwatched`` functions may have been called without a trace.
        """
        self._modules.finish()
        end = {"end": True, "calls": self._calls, "skipped": self._skipped}
        self._write({**end, "unwatched": unwatched} if unwatched else end)

    def _arguments(
        self,
        reached: Reached,
        before: _Before,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        names: Parameters,
    ) -> Iterator[dict[str, Any]]:
        for source, value, held in reached.iter_tensors(before.owner, args, kwargs, names):
            version = self._version(value)
            known = id(value) in before.versions and version == before.versions[id(value)]
            if held and known:
                leaf = self._unchanged(source, value, version)
                if "values" in leaf:
                    continue  # e.g. a sparse matrix, which the call found and left as it was
            else:
                leaf = self._prints.tensor(source, value)
            gradient = self._gradient(value)
            if gradient is not None:
                leaf["grad"] = self._prints.tensor(f"{source}.grad", gradient)
            if not known:
                leaf["changed"] = True
            yield leaf

    def _unchanged(self, source: str, value: Any, version: int | None) -> dict[str, Any]:
        """Return the leaf of a tensor that the call did not change; of a large one, the last.

        An object may hold all data of a training run, which would be read at each call.
        """
        if version is None or self._torch.Tensor.numel(value) < _LARGE:
            return self._prints.tensor(source, value)
        last = self._large.get(id(value))
        if last is None or last.tensor() is not value or last.version != version:
            last = _Large(weakref.ref(value), version, self._prints.tensor(source, value))
            if len(self._large) >= _MOST_LARGE:
                self._large.clear()
            self._large[id(value)] = last
        return {**last.leaf, "path": source}

    def _version(self, value: Any) -> int | None:
        """Return how often a tensor was changed in place, or None where torch does not count."""
        try:
            version = self._torch.Tensor._version.__get__(value)
        except Exception as error:  # an inference tensor, an odd subclass
            if is_from_signal_handler(error):
                raise
            return None
        return version if type(version) is int else None

    def _gradient(self, value: Any) -> Any:
        tensor = self._torch.Tensor
        # Of other tensors than leaves, to ask is a warning.
        if tensor.requires_grad.__get__(value) and tensor.is_leaf.__get__(value):
            return tensor.grad.__get__(value)
        return None

    def _write_parameters(self, entries: list[tuple[str, int, str, Any]]) -> None:
        """Write values and gradients; called when a module dies, so nothing may be raised."""
        set_eval_frame = self._torch._C._dynamo.eval_frame.set_eval_frame
        prior = set_eval_frame(None)
        try:
            with self._prints.quiet():
                lines = [
                    {
                        "module": module,
                        "number": number,
                        "name": name,
                        "value": self._prints.tensor("", value),
                        "grad": None if gradient is None else self._prints.tensor("", gradient),
                    }
                    for module, number, name, value in entries
                    for gradient in (self._gradient(value),)
                ]
            if lines:
                self._write({"parameters": lines})
        except Exception as error:  # no failure may reach the program
            if is_from_signal_handler(error):
                raise
            self._note("the parameters of a module could not be read")
        finally:
            if prior is not None:
                set_eval_frame(prior)

    def _write(self, content: dict[str, Any]) -> None:
        with self._lock:
            self._write_locked(content)

    def _write_locked(self, content: dict[str, Any]) -> None:
        if self._failed:
            return
        try:
            if self._file is None:
                folder = os.path.join(os.environ["RECOMPILE_DOCTOR_BUNDLE"], "probe")  # noqa: PTH118
                path = os.path.join(folder, f"{os.getpid()}.outputs.jsonl")  # noqa: PTH118
                self._file = OwnFile(path)
                self._put(self._file, {"format": 1, "pid": os.getpid(), **self._header()})
            self._put(self._file, content)
        except OSError as error:
            if is_from_signal_handler(error):
                raise
            self._failed = True
            self._note("the outputs could not be written")

    def _put(self, file: OwnFile, content: dict[str, Any]) -> None:
        text = json.dumps(content, separators=(",", ":"), allow_nan=False)
        file.write(text.encode("utf-8", "surrogatepass") + b"\n")


class _Modules:
    """Modules whose parameters are read when they die, or when the process ends.

    Of a module only the dictionary of its parameters is held, and only as long as the module
    lives: neither it nor its tensors live longer because of us.
    """

    def __init__(
        self, torch: Any, write: Callable[[list[tuple[str, int, str, Any]]], None]
    ) -> None:
        self._torch = torch
        self._write = write
        self._known: dict[int, Any] = {}  # id of a living module -> its finalizer
        self._roots = 0

    def add(self, module: Any) -> None:
        """Observe a module with all below it, once."""
        if not isinstance(module, self._torch.nn.Module) or id(module) in self._known:
            return
        original = module.__dict__.get("_modules", {}).get("_orig_mod")
        if original is not None and hasattr(type(module), "_opt_mod_attributes"):
            module = original  # torch's OptimizedModule
            if id(module) in self._known:
                return
        number = self._roots
        self._roots += 1
        root = type(module).__qualname__
        for prefix, each in modules_below("", module):
            if id(each) not in self._known and len(self._known) < _MOST_MODULES:
                self._observe(each, root, number, prefix)

    def _observe(self, module: Any, root: str, number: int, prefix: str) -> None:
        parameters = module.__dict__.get("_parameters")
        finalizer = weakref.finalize(
            module, self._gone, id(module), root, number, prefix, parameters
        )
        finalizer.atexit = False
        self._known[id(module)] = finalizer

    def _gone(self, identity: int, root: str, number: int, prefix: str, parameters: Any) -> None:
        self._known.pop(identity, None)
        # Copied: another thread may be at work on the dictionary.
        entries = [
            (root, number, f"{prefix}{name}", value)
            for name, value in list((parameters or {}).items())
            if value is not None
        ]
        if entries:
            self._write(entries)

    def finish(self) -> None:
        """Write what is left, in the order of observation."""
        for finalizer in list(self._known.values()):
            finalizer()


def _owner(target: Any) -> Any:
    """Return the object that a method is bound to, or that torch calls through a function."""
    wrapped = target
    if isinstance(target, FunctionType):
        wrapped = target.__dict__.get("__wrapped__")
    if isinstance(wrapped, MethodType):
        return wrapped.__self__
    return None if isinstance(wrapped, FunctionType) else wrapped


def _reached(target: Any) -> Iterator[Any]:
    """Yield what a function has in its cells, and what the global names in its code stand for."""
    function = target.__func__ if isinstance(target, MethodType) else target
    if not isinstance(function, FunctionType):
        return
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError as error:  # it is empty yet
            if is_from_signal_handler(error):
                raise
    for name in function.__code__.co_names:
        yield function.__globals__.get(name)
