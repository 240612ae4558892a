"""Files of ours that stay open in the user's process, where descriptors may change hands.

A program that becomes a daemon closes every descriptor it can count to, ours too, and the next
files that it opens get the same numbers. So before each use a descriptor is compared with the file
that it was opened for. One that stands for another file now is the program's: it is left alone.
"""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Any

_LOWEST = 3


def identity(descriptor: int) -> tuple[int, int] | None:
    """Return which file a descriptor stands for, or None where it is closed."""
    try:
        known = os.fstat(descriptor)
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        return None
    return known.st_dev, known.st_ino


class OwnFile:
    """Appends to one file, each time with one ``write`` and no buffer."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1
        self._identity: tuple[int, int] | None = None

    def write(self, data: bytes) -> None:
        """Append ``data``; an OSError says that it could not be written."""
        if self._descriptor < 0 or identity(self._descriptor) != self._identity:
            self._open()
        while data:
            data = data[os.write(self._descriptor, data) :]

    def _open(self) -> None:
        # The old number, if any, is not closed: it is another's or nobody's.
        self._descriptor = -1
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        descriptor = _above_standard(os.open(self._path, flags, 0o666))
        self._identity = identity(descriptor)
        self._descriptor = descriptor


def _above_standard(descriptor: int) -> int:
    """Return a descriptor of the same file that no program takes for its standard streams."""
    if descriptor >= _LOWEST:
        return descriptor
    try:
        return _above_standard(os.dup(descriptor))
    finally:
        os.close(descriptor)


def stream_identity(stream: Any) -> tuple[int, int] | None:
    """Return which file the descriptor of a stream stands for, or None where it has none."""
    try:
        descriptor = stream.fileno()
    except (AttributeError, ValueError):  # it is None, or closed
        return None
    return identity(descriptor)


def abandon(stream: Any) -> None:
    """Never let a stream be closed, nor what is in its buffer be written, not at the end either."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(stream))
