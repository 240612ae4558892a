"""Records what torch compiles in this process, in the form of TORCH_TRACE, without importing torch.

torch writes its structured trace to the logger ``torch.__trace`` as long as that has a handler;
level and propagation it sets itself, when it is imported. So a handler is all that is needed, and
it can be there before torch is.
"""

import hashlib
import json
import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

_TRACE_LOGGER = "torch.__trace"
# One for each compilation that ended, forward or backward; torch counts them itself too.
_METRICS = ("compilation_metrics", "bwd_compilation_metrics")


class Recording:
    """A trace of one test in ``path``, from here to ``stop``. ``is_kept``: the file then stays."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_kept = False
        self.has_open_body = False
        self.trace = _TraceFile(path)
        self._logger = logging.getLogger(_TRACE_LOGGER)
        # In front: torch's own handler takes itself out of the list when TORCH_TRACE is not set,
        # while the list is gone through, and the one behind it would miss a record. A new list,
        # since another thread may be going through the old one.
        self._logger.handlers = [self.trace, *self._logger.handlers]

    def restart(self) -> None:
        """Forget what was recorded so far."""
        self.trace.restart()

    def stop(self) -> None:
        """Record no more, leave the logger as it was, and remove the file unless it is kept."""
        self._logger.handlers = [each for each in self._logger.handlers if each is not self.trace]
        self.trace.end()
        if not self.is_kept:
            with suppress(OSError):
                self.path.unlink()

    def why_silent(self) -> str:
        """Return what keeps records from arriving now, or an empty text."""
        if self._logger.disabled:
            return f"the logger {_TRACE_LOGGER} is disabled"
        if self.trace not in self._logger.handlers:
            return f"the handlers of the logger {_TRACE_LOGGER} were removed"
        if not self._logger.isEnabledFor(logging.DEBUG):
            disabled = logging.root.manager.disable
            if disabled >= logging.DEBUG:
                return f"logging.disable({disabled}) was called"
            return f"the logger {_TRACE_LOGGER} was turned down"
        return ""


class Span:
    """The part of a recording from here on: its first line, and what torch counts meanwhile."""

    def __init__(self, recording: Recording) -> None:
        self._trace = recording.trace
        self.first_line = recording.trace.lines + 1
        self._ended = recording.trace.ended
        self._last = next(reversed(_torch_metrics()), None)

    @property
    def is_empty(self) -> bool:
        """Return whether torch wrote nothing."""
        return self._trace.lines < self.first_line

    @property
    def failure(self) -> str:
        """Return why a record could not be written, or an empty text."""
        return self._trace.failure

    @property
    def recorded(self) -> int:
        """Return how many compilations ended, by the recording."""
        return self._trace.ended - self._ended

    @property
    def counted(self) -> int:
        """Return how many compilations ended, by torch's own list; it keeps the last 64."""
        metrics = _torch_metrics()
        for number, each in enumerate(reversed(metrics)):
            if each is self._last:
                return number
        return len(metrics)  # the last one before is no longer listed: all came after it


def _torch_metrics() -> list[Any]:
    utils: Any = sys.modules.get("torch._dynamo.utils")
    # Not there yet while torch._dynamo is being imported by another thread.
    listed = getattr(utils, "get_compilation_metrics", None)
    return [] if listed is None else listed()


def reset_dynamo() -> None:
    """Drop all that torch has compiled in this process; without torch there is nothing to drop."""
    dynamo: Any = sys.modules.get("torch._dynamo")
    if dynamo is not None:
        dynamo.reset()


class _TraceFile(logging.Handler):
    """Writes torch's records to a file as torch does for TORCH_TRACE.

    ``lines`` were written, ``ended`` compilations among them. ``failure`` says why a record could
    not be written. A forked child writes nothing: its compiles are not the test's.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.lines = 0
        self.ended = 0
        self.failure = ""
        self._pid = os.getpid()
        self._file = path.open("wb", buffering=0)  # a buffer would be written by a fork as well
        self._formatter: logging.Formatter | None = None

    def restart(self) -> None:
        """Empty the file."""
        self.acquire()
        try:
            self._file.seek(0)
            self._file.truncate()
            self.lines = 0
        finally:
            self.release()

    def end(self) -> None:
        """Close the file; records that still come are dropped."""
        self.acquire()
        try:
            self._file.close()
        finally:
            self.release()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record; a failure is noted, since torch's compile must not fail of it."""
        if os.getpid() != self._pid or self._file.closed:
            return
        try:
            if not self.lines:
                for each in _said_before():
                    self._write(each)
            self._write(record)
        except Exception as error:  # noqa: BLE001 - see above
            self.failure = self.failure or f"{type(error).__name__}: {error}"
            return
        metadata = getattr(record, "metadata", {})
        self.ended += any(name in metadata for name in _METRICS)

    def _write(self, record: logging.LogRecord) -> None:
        data = (self._text(record) + "\n").encode("utf-8", "backslashreplace")
        written = 0
        while written < len(data):
            written += self._file.write(data[written:])
        self.lines += data.count(b"\n")

    def _text(self, record: logging.LogRecord) -> str:
        if self._formatter is None:
            # torch's own, so that the file has the form of the torch that runs here.
            internal: Any = sys.modules["torch._logging._internal"]
            self._formatter = internal.TorchLogsFormatter(trace=True)
        return self._formatter.format(record)


def _said_before() -> list[logging.LogRecord]:
    """Return the records that torch does not repeat: its version, and names of files by number."""
    version = {"pytorch_version": str(getattr(sys.modules["torch"], "__version__", ""))}
    payload = json.dumps(version, indent=0)
    artifact = {
        "artifact": {"name": "torch_version", "encoding": "json"},
        "has_payload": hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest(),
    }
    structured: Any = sys.modules.get("torch._logging.structured")
    names = dict(getattr(structured, "INTERN_TABLE", ()))
    return [
        _record(artifact, payload),
        *(_record({"str": [name, number]}, None) for name, number in names.items()),
    ]


def _record(metadata: dict[str, Any], payload: str | None) -> logging.LogRecord:
    return logging.makeLogRecord(
        {
            "name": _TRACE_LOGGER,
            "levelno": logging.DEBUG,
            "levelname": "DEBUG",
            "pathname": "torch/_logging/structured.py",
            "lineno": 1,
            "metadata": metadata,
            "payload": payload,
        }
    )
