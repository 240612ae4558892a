"""Doing something right after the program has imported a module."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .foreign import is_from_signal_handler

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def after_import(
    name: str, action: Callable[[Any], None], *, note: Callable[[str], None], what: str
) -> None:
    """Call ``action`` with the module ``name`` once it is imported, or now where it is already.

    ``what`` begins the notes.
    """
    if name in sys.modules:
        action(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Waiting(name, action, note, what))


class _Waiting:
    """Finder that finds nothing itself, but is told when the module has been imported."""

    def __init__(
        self, name: str, action: Callable[[Any], None], note: Callable[[str], None], what: str
    ) -> None:
        self._name = name
        self._action = action
        self._note = note
        self._what = what
        self._busy = False

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> Any:
        """Return the spec that the other finders have for the module, with the action added."""
        if name != self._name or self._busy:
            return None
        self._busy = True
        try:
            for finder in sys.meta_path:
                if finder is not self and hasattr(finder, "find_spec"):
                    spec = finder.find_spec(name, path, target)
                    if spec is not None:
                        self._add(spec)
                        return spec
        except Exception as error:  # it must be imported as if we were not there
            if is_from_signal_handler(error):
                raise
            self._note(f"{self._what} could not wait for {name}")
        finally:
            self._busy = False
        return None

    def _add(self, spec: ModuleSpec) -> None:
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            execute(module)
            try:
                self._action(module)
            except Exception as error:  # no failure may reach the program
                if is_from_signal_handler(error):
                    raise
                self._note(f"{self._what} could not start")

        loader.exec_module = exec_module
