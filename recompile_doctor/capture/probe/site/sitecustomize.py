"""Starts the probe in each Python of the user's program, then runs the next ``sitecustomize``.

A Python that never imports torch pays for two dictionary look-ups and one finder in
``sys.meta_path``: nothing is imported here that Python has not imported for itself.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # elsewhere type imports are imports; here they would cost each Python 5 ms
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_SITE = __file__.rpartition(os.sep)[0]  # as spelled in PYTHONPATH and so in sys.path
_TORCH_LOGGING = "torch._logging._internal"


def _note(what: str) -> None:
    """Leave a note about a failure in the bundle; the program itself must not notice."""
    try:
        import traceback

        folder = os.environ["RECOMPILE_DOCTOR_BUNDLE"]
        path = f"{folder}/probe/{os.getpid()}.failure.txt"
        with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs start-up
            file.write(f"{what}\n")
            file.flush()
            # This may fail: an exception of the user's, which ours came upon, may tell nothing.
            file.write(f"{traceback.format_exc()}\n")
    except Exception as error:  # nobody is left to tell
        if _is_from_program(error):
            raise


def _is_from_program(error: BaseException) -> bool:
    """Return whether an exception came out of a signal handler of the program."""
    if "signal" not in sys.modules:
        return False
    try:
        return bool(_load("foreign").is_from_signal_handler(error))
    except Exception:  # noqa: BLE001 - the probe cannot be loaded: that was the failure
        return False


def _take_back(name: str) -> None:
    """Give a variable the user's value again, unless somebody has set it since."""
    ours = os.environ.get("RECOMPILE_DOCTOR_SET_" + name)
    if ours is None or os.environ.get(name) != ours:
        return
    theirs = os.environ.get("RECOMPILE_DOCTOR_USER_" + name)
    if theirs is None:
        del os.environ[name]
    else:
        os.environ[name] = theirs


def _load(part: str) -> Any:
    """Return a module of the probe, which is loaded by path under a name that no program has."""
    from importlib import import_module
    from importlib.util import module_from_spec, spec_from_file_location

    folder = _SITE.rpartition(os.sep)[0]
    name = "recompile_doctor_probe"
    if name in sys.modules:
        return import_module(f"{name}.{part}")
    spec = spec_from_file_location(
        name, folder + os.sep + "__init__.py", submodule_search_locations=[folder]
    )
    if spec is None or spec.loader is None:
        raise ImportError(name)
    sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
    return import_module(f"{name}.{part}")


def _start_probe(torch_logging: ModuleType) -> None:
    """Let the probe take over torch's logging."""
    snapshot = _load("snapshot")
    torch_logs = _load("torch_logs")
    logs = torch_logs.install(torch_logging, note=_note, on_dynamo=snapshot.write_early)
    snapshot.install(logs, note=_note)

    def watch(eval_frame: ModuleType) -> None:
        _load("calls").start(eval_frame, note=_note)

    _load("waiting").after_import(
        "torch._dynamo.eval_frame", watch, note=_note, what="the watch over compiled functions"
    )
    prescription = os.environ.get("RECOMPILE_DOCTOR_PRESCRIPTION")
    if prescription:
        _load("marks").install(prescription, note=_note)


def _start_overlay() -> None:
    """Let patched text run in place of files of the user, where the run is to try a patch."""
    overlay = os.environ.get("RECOMPILE_DOCTOR_OVERLAY")
    if overlay:
        try:
            _load("overlay").install(overlay, note=_note)
        except Exception:  # noqa: BLE001 - the parent sees that nothing was served
            _note("the overlay could not be installed")


class _WaitForTorch:
    """Finder that finds nothing itself, but starts the probe when torch imports its logging.

    The place matters: after ``torch._logging._internal`` is there, and before ``torch._logging``
    takes names from it.
    """

    busy = False

    def find_spec(
        self, name: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec that the other finders have for torch's logging, with the probe added."""
        if name != _TORCH_LOGGING or self.busy:
            return None
        self.busy = True
        try:
            spec = self._ask_others(name, path, target)
            if spec is not None:
                self._add_probe(spec.loader)
        except Exception as error:  # torch must import as if we were not there
            if _is_from_program(error):
                raise
            _note("the probe could not wait for torch")
            return None
        else:
            return spec
        finally:
            self.busy = False

    def _ask_others(self, name: str, path: Any, target: ModuleType | None) -> ModuleSpec | None:
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None

    def _add_probe(self, loader: Any) -> None:
        # On the instance: the loader keeps its class, which inspect and linecache look at.
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            execute(module)
            try:
                _start_probe(module)
            except Exception as error:  # see the class
                if _is_from_program(error):
                    raise
                _note("the probe could not start")

        loader.exec_module = exec_module


def _run_next() -> None:
    """Import the ``sitecustomize`` that Python would have found without ours.

    What it raises is left to Python, which reports it as it would have done without us.
    """
    ours = sys.modules.pop("sitecustomize", None)
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        # Python's import system takes the module out of this table once more when we return.
        if ours is not None:
            sys.modules.setdefault("sitecustomize", ours)


try:
    sys.path[:] = [entry for entry in sys.path if entry != _SITE]
    _take_back("TORCH_LOGS")
    _take_back("TORCH_LOGS_OUT")
    if "RECOMPILE_DOCTOR_BUNDLE" in os.environ:
        sys.meta_path.insert(0, _WaitForTorch())
        _start_overlay()
except Exception:  # noqa: BLE001 - no failure may reach the program
    _note("the probe could not begin")
_run_next()
