"""Being called when this process ends, and in a process that is forked from it."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from typing import Any


class Ending:
    """Calls ``at_end`` when the process ends, ``after_fork`` in a forked one when it begins.

    ``at_end`` must raise nothing; what ``after_fork`` raises becomes a note.
    """

    def __init__(
        self,
        at_end: Callable[[], None],
        after_fork: Callable[[], None],
        note: Callable[[str], None],
    ) -> None:
        self._at_end = at_end
        self._after_fork = after_fork
        self._note = note
        atexit.register(at_end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        try:
            self._after_fork()
            if "multiprocessing.util" in sys.modules:
                # multiprocessing ends its children with os._exit, after its own finalizers, and
                # clears those that were there before the fork; so ask to be called after that.
                util: Any = sys.modules["multiprocessing.util"]
                util.register_after_fork(self, Ending._add_finalizer)
        except Exception:  # noqa: BLE001 - no failure may reach the program
            self._note("a forked process could not be followed")

    def _add_finalizer(self) -> None:
        util: Any = sys.modules["multiprocessing.util"]
        util.Finalize(None, self._at_end, exitpriority=-1000)
