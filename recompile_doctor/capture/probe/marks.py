"""A prescription's marks, set on the inputs of a function just before torch compiles it.

Torch looks at the marks of a tensor only while it compiles, and a graph made from marked tensors
takes unmarked ones later (guards.py: "plain tensor -> no recompile"). So it is enough to mark what
a frame holds whenever torch is about to compile that frame: the effect is that of ``mark_...``
calls before each call, however the program came to compile the function, and nothing runs in a
call that a cached graph serves. ``<pid>.marks.json`` says which marks took effect.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any

from .foreign import is_from_signal_handler
from .waiting import after_import

if TYPE_CHECKING:
    from types import CodeType

FORMAT = 1
_CONVERT_FRAME = "torch._dynamo.convert_frame"
_MOST_ERRORS = 5


def install(path: str, *, note: Callable[[str], None]) -> None:
    """Wait for torch's compiler, then set the config and the marks that the file asks for."""
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        wanted = json.load(file)
    after_import(_CONVERT_FRAME, _Marks(wanted, note).start, note=note, what="the prescription")


class _Marks:
    """The marks of a prescription, and what became of each in this process."""

    def __init__(self, wanted: dict[str, Any], note: Callable[[str], None]) -> None:
        self._note = note
        self._config: dict[str, Any] = wanted["config"]
        self._marks: list[dict[str, Any]] = wanted["marks"]
        self._pid = os.getpid()
        self._results: list[dict[str, Any]] = []
        self._settings: dict[str, str] = {}
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._results = [
            {
                "source": mark["source"],
                "dim": mark["dim"],
                "kind": mark["kind"],
                "function": mark["function"],
                "compiles": 0,
                "marked": 0,
                "dropped": [],
                "problems": [],
            }
            for mark in self._marks
        ]

    def start(self, convert_frame: Any) -> None:
        """Set the config, and look at each frame that torch is about to compile."""
        for name, value in self._config.items():
            self._settings[name] = _set(name, value)
        if self._marks:
            compile_frame = convert_frame._compile

            def _compile(code: Any, globals: Any, locals: Any, *args: Any, **kwargs: Any) -> Any:
                try:
                    self._apply(code, locals)
                except Exception as error:  # no failure may reach the program
                    if is_from_signal_handler(error):
                        raise
                    self._note("a mark could not be set")
                return compile_frame(code, globals, locals, *args, **kwargs)

            convert_frame._compile = _compile
        self._write()

    def _apply(self, code: CodeType, variables: dict[str, Any]) -> None:
        if self._pid != os.getpid():
            self._reset()
        found = False
        for number, mark in enumerate(self._marks):
            result = self._results[number]
            if _is_frame(mark, code):
                found = True
                result["compiles"] += 1
                try:
                    tensor = _follow(mark, variables)
                    _mark(tensor, mark, result)
                    result["marked"] += 1
                except Exception as error:  # e.g. the argument is None this time
                    if is_from_signal_handler(error):
                        raise
                    problem = f"{type(error).__name__}: {error}"
                    if problem not in result["problems"][:_MOST_ERRORS]:
                        result["problems"][_MOST_ERRORS:] = []
                        result["problems"].append(problem)
        if found:
            self._write()

    def _write(self) -> None:
        folder = os.path.join(os.environ["RECOMPILE_DOCTOR_BUNDLE"], "probe")  # noqa: PTH118
        path = os.path.join(folder, f"{os.getpid()}.marks.json")  # noqa: PTH118
        content = {
            "format": FORMAT,
            "pid": os.getpid(),
            "config": self._settings,
            "marks": self._results,
        }
        temporary = path + ".tmp"
        with open(temporary, "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump(content, file, indent=1)
        os.replace(temporary, path)  # noqa: PTH105


def _set(name: str, value: Any) -> str:
    """Set one config value; return what came of it."""
    module, _, attribute = name.rpartition(".")
    try:
        config = import_module(module)
        if not hasattr(config, attribute):
            return "this torch has no such setting"
        setattr(config, attribute, value)
    except Exception as error:  # no failure may reach the program
        if is_from_signal_handler(error):
            raise
        return f"{type(error).__name__}: {error}"
    return "set"


def _is_frame(mark: dict[str, Any], code: CodeType) -> bool:
    """Return whether a mark is for this code object.

    A file that is not there was named on another machine: then only its last part counts.
    """
    if mark["function"] not in (None, code.co_name):
        return False
    if mark["line"] not in (None, code.co_firstlineno):
        return False
    wanted: str | None = mark["file"]
    file = code.co_filename
    if wanted is None or wanted == file:
        return True
    if os.path.exists(wanted):  # noqa: PTH110
        return os.path.abspath(wanted) == os.path.abspath(file)  # noqa: PTH100
    return os.path.basename(wanted.replace("\\", "/")) == os.path.basename(file)  # noqa: PTH119


def _follow(mark: dict[str, Any], variables: dict[str, Any]) -> Any:
    """Return the tensor that a mark names, below one of the variables of a frame."""
    value = variables[mark["root"]]
    for kind, key in mark["path"]:
        value = getattr(value, key) if kind == "attribute" else value[key]
    return value


def _mark(tensor: Any, mark: dict[str, Any], result: dict[str, Any]) -> None:
    torch: Any = sys.modules["torch"]
    decorators: Any = sys.modules["torch._dynamo.decorators"]
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"it is a {type(tensor).__name__} and no tensor")
    dim = mark["dim"]
    if dim >= tensor.dim():
        raise IndexError(f"it has {tensor.dim()} dimensions")
    if mark["kind"] == "dynamic":
        # Not mark_dynamic, which raises an error where the program needs one size: like an entry
        # of the dynamic list, this one gives way.
        decorators.maybe_mark_dynamic(tensor, dim)
    elif mark["kind"] == "static":
        decorators.mark_static(tensor, dim)
    else:
        decorators.mark_unbacked(tensor, dim, **_options(decorators, mark, result))


def _options(decorators: Any, mark: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Return what this torch's mark_unbacked takes of the group, the bounds and the hint."""
    known = signature(decorators.mark_unbacked).parameters
    options = {
        "shape_id": mark["shape_group"],
        "min": mark["min"],
        "max": mark["max"],
        "hint_override": mark["hint"],
    }
    given = {name: value for name, value in options.items() if value is not None}
    dropped = [name for name in given if name not in known]
    result["dropped"] = dropped
    return {name: value for name, value in given.items() if name not in dropped}
