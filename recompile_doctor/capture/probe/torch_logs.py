"""Our log lines to a file of each process, and the program's own stderr as it would have been.

TORCH_LOGS would print our artifacts on the program's stderr too, add them to a TORCH_LOGS_OUT of
the user, and make torch ignore the program's own ``torch._logging.set_logs``. So the variable is
taken back (see site/sitecustomize.py) and the same loggers are turned on here, each time that
torch has set its logging up. What the user's settings alone would not have printed is written to
the bundle and goes no further, so that no other handler sees it: torch's own for stderr, one that
the program has added, or pytest's, which since 9.2 listens to every logger.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .foreign import is_from_signal_handler
from .own_file import OwnFile, abandon, stream_identity

_OURS_FOR_THEIRS = {"recompiles_verbose": "recompiles"}
_MARK = "recompile_doctor"  # among the enabled artifacts, where ours are


def install(
    internal: ModuleType, *, note: Callable[[str], None], on_dynamo: Callable[[], None]
) -> TorchLogs:
    """Take over the set-up of logging in ``torch._logging._internal`` and return the object."""
    logs = TorchLogs(internal, note, on_dynamo)
    logs.wrap()
    return logs


class TorchLogs:
    """What we added to torch's logging, beside what the user asked for."""

    def __init__(
        self, internal: ModuleType, note: Callable[[str], None], on_dynamo: Callable[[], None]
    ) -> None:
        self._internal: Any = internal
        self._note = note
        self._on_dynamo = on_dynamo
        self._init_logs: Callable[..., None] = internal._init_logs
        self._configure: Callable[[logging.Logger], None] = internal.configure_artifact_log
        folder = os.path.join(os.environ["RECOMPILE_DOCTOR_BUNDLE"], "logs")  # noqa: PTH118
        self.file = ProcessFile(folder, note)
        # Not torch's default formatter: a TORCH_LOGS_FORMAT of the user would make it unreadable.
        self.file.setFormatter(internal.TorchLogsFormatter())
        self.artifacts: set[str] = set()  # that we enabled and the user did not
        self.raised: dict[str, tuple[int, int]] = {}  # logger name -> (our level, the user's)
        # Artifacts of ours that torch prints in place of one of the user's.
        self._stand_ins: set[str] = set()

    def wrap(self) -> None:
        """Put our functions in the place of torch's."""
        self._internal._init_logs = self._init
        self._internal.configure_artifact_log = self._configure_artifact

    def _init(self, *args: Any, **kwargs: Any) -> None:
        try:
            self._withdraw()
        except Exception as error:  # no failure may reach the program
            if is_from_signal_handler(error):
                raise
            self._note("our log settings could not be withdrawn")
        self._init_logs(*args, **kwargs)  # a bad TORCH_LOGS raises here, as it would without us
        try:
            self._add()
            keep_trace(self._internal.trace_log, self._internal.LOG_TRACE_HANDLER)
            quiet_trace(self._internal.LOG_TRACE_HANDLER, self._note)
        except Exception as error:  # no failure may reach the program
            if is_from_signal_handler(error):
                raise
            self._note("our log settings could not be added")

    def _configure_artifact(self, log: logging.Logger) -> None:
        self._configure(log)
        try:
            self._divert_from(log)
            if log.name == "torch._dynamo.guards.__recompiles":
                self._on_dynamo()
        except Exception as error:  # no failure may reach the program
            if is_from_signal_handler(error):
                raise
            self._note("an artifact of torch could not be followed")

    def _withdraw(self) -> None:
        # torch._logging.set_logs has emptied the state before it gets here, and what is in it now
        # is the user's, also where it has the name of one of ours.
        enabled = self._internal.log_state.artifact_names
        if _MARK in enabled:
            enabled.difference_update(self.artifacts, {_MARK})
        self.artifacts = set()
        self.raised = {}
        for name in self._internal.log_registry.get_log_qnames():
            logging.getLogger(name).removeHandler(self.file)

    def _add(self) -> None:
        internal = self._internal
        registry = internal.log_registry
        state = internal.log_state
        ours = internal._parse_log_settings(os.environ["RECOMPILE_DOCTOR_LOGS"])
        for name, level in ours.get_log_level_pairs():
            logger = logging.getLogger(name)
            if logger.getEffectiveLevel() > level:
                self.raised[name] = (level, logger.level)
                logger.setLevel(level)
                logger.addFilter(self.divert)
        self.artifacts = set(ours.artifact_names) - set(state.artifact_names)
        self._stand_ins = {
            name for name in self.artifacts if _OURS_FOR_THEIRS.get(name) in state.artifact_names
        }
        for name in (*self.artifacts, _MARK):
            state.enable_artifact(name)
        for name in registry.get_artifact_log_qnames():
            self._configure(logging.getLogger(name))
            self._divert_from(logging.getLogger(name))
        for name in registry.get_log_qnames():
            logger = logging.getLogger(name)
            for handler in logger.handlers:
                # For the loggers below one that we turned up: they have no filter of their own.
                handler.addFilter(self.wanted_by_user)
            logger.addHandler(self.file)

    def _divert_from(self, log: logging.Logger) -> None:
        if getattr(log, "artifact_name", None) in self.artifacts:
            log.addFilter(self.divert)

    def divert(self, record: logging.LogRecord) -> bool:
        """Let ``record`` pass if the user wants it, and otherwise take it for the bundle only."""
        if self.wanted_by_user(record):
            return True
        self.file.handle(record)
        return False

    def wanted_by_user(self, record: logging.LogRecord) -> bool:
        """Say whether the user's settings alone would have printed ``record``."""
        try:
            return self._is_wanted(record)
        except Exception as error:  # rather a line too many than one lost
            if is_from_signal_handler(error):
                raise
            return True

    def _is_wanted(self, record: logging.LogRecord) -> bool:
        logger: logging.Logger | None = logging.getLogger(record.name)
        artifact = getattr(logger, "artifact_name", None)
        if logger is not None and artifact in self.artifacts:
            if artifact in self._stand_ins:
                return True
            if self._internal.log_registry.is_off_by_default(artifact):
                return False
            logger = logger.parent
        while logger is not None:
            ours, theirs = self.raised.get(logger.name, (None, 0))
            level = theirs if logger.level == ours else logger.level
            if level:
                return record.levelno >= level
            logger = logger.parent
        return True


class ProcessFile(logging.Handler):
    """Appends to ``<folder>/<pid>.log``; a forked child begins its own file.

    Each record is one ``write`` without a buffer, so nothing is lost when the process is killed.
    """

    def __init__(self, folder: str, note: Callable[[str], None]) -> None:
        super().__init__()
        self._folder = folder
        self._note = note
        self._pid = -1
        self._file: OwnFile | None = None
        self._failed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, and drop it where that is impossible: a full disk is our trouble."""
        try:
            data = (self.format(record) + "\n").encode("utf-8", "backslashreplace")
            self._own_file().write(data)
        except Exception as error:  # logging would print a traceback into the program
            if is_from_signal_handler(error):
                raise
            if not self._failed:
                self._failed = True
                self._note("a log line could not be written")

    def _own_file(self) -> OwnFile:
        if self._file is None or self._pid != os.getpid():
            self._pid = os.getpid()
            path = os.path.join(self._folder, f"{self._pid}.log")  # noqa: PTH118
            self._file = OwnFile(path)
        return self._file


def keep_trace(trace_log: logging.Logger, handler: logging.Handler) -> None:
    """Keep the trace going when the program disables logging; nobody sees it but us.

    ``logging.disable`` and a ``dictConfig`` with ``disable_existing_loggers`` (its default) would
    end the trace in the middle of the run, and the rest would look free of recompiles. torch
    itself guards the trace against the first since 2.13 or before.
    """
    kind = type(trace_log)
    if not issubclass(kind, _KeptLogger):
        trace_log.__class__ = type("KeptTraceLogger", (_KeptLogger, kind), {})
    # dictConfig closes each handler in this list; a closed trace goes on in a second file.
    private: Any = logging
    with private._lock:
        private._handlerList[:] = [ref for ref in private._handlerList if ref() is not handler]


def quiet_trace(handler: Any, note: Callable[[str], None]) -> None:
    """Drop what cannot be written to the trace, where the trace is ours and not the user's.

    logging would print a traceback for each record into the program, and where the file itself
    cannot be made torch would raise into it.
    """
    ours = os.path.join(os.environ["RECOMPILE_DOCTOR_BUNDLE"], "trace")  # noqa: PTH118
    if getattr(handler, "root_dir", None) == ours and not hasattr(handler, _MARK):
        setattr(handler, _MARK, _QuietTrace(handler, note))


class _QuietTrace:
    """Stands between a trace handler and what would tell the program of its failures.

    It also sees to it that the trace goes into the file that was opened for it and no other, see
    own_file.py.
    """

    def __init__(self, handler: Any, note: Callable[[str], None]) -> None:
        self._handler = handler
        self._note = note
        self._failed = False
        self._emit: Callable[[logging.LogRecord], None] = handler.emit
        self._stream: Any = None  # as of the last record, and its file then
        self._identity: tuple[int, int] | None = None
        self._path: str | None = None
        handler.emit = self.emit
        handler.handleError = self.handle_error
        # Python closes the stream at the end, with whatever its descriptor stands for by then.
        atexit.register(self._finish)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, or drop it."""
        try:
            self._leave_foreign_file()
            self._emit(record)
            stream = getattr(self._handler, "stream", None)
            if stream is not self._stream:
                self._stream = stream
                self._identity = stream_identity(stream)
                self._path = _path_of(self._handler)
        except Exception as error:  # no failure may reach the program
            if is_from_signal_handler(error):
                raise
            self.handle_error(record)

    def handle_error(self, record: logging.LogRecord) -> None:
        """Leave one note in the bundle, and see to it that Python does not complain at the end."""
        error = sys.exc_info()[1]
        if error is not None and is_from_signal_handler(error):
            raise error
        if not self._failed:
            self._failed = True
            self._note("the trace could not be written")

    def _finish(self) -> None:
        try:
            self._leave_foreign_file()
            if self._failed:
                # What is left in its buffer would be written, in vain and not silently.
                self._handler.stream.close()
        except Exception:  # noqa: BLE001 - it was noted already
            return

    def _leave_foreign_file(self) -> None:
        """Forget a stream whose descriptor the program has closed, or got for another file."""
        stream: Any = self._stream
        if stream is None or stream is not getattr(self._handler, "stream", None):
            return
        if self._identity is None or stream_identity(stream) == self._identity:
            return
        abandon(stream)
        self._stream = None
        self._handler.stream = None  # torch opens a new file
        if self._path is None or getattr(self._handler, "_pid", None) not in (None, os.getpid()):
            return  # the second: since 2.15 a forked process has a file of its own
        # Better the same file: strings that torch has numbered are spelled out there only.
        again: Any = open(self._path, "a", encoding="utf-8")  # noqa: SIM115, PTH123
        if stream_identity(again) == self._identity:
            self._stream = self._handler.stream = again
        else:
            again.close()


def _path_of(handler: Any) -> str | None:
    """Return the file of a trace handler of torch: since 2.15 the stream itself has no name."""
    path = getattr(handler, "_stream_path", None)
    if path is None:
        path = getattr(getattr(handler, "stream", None), "name", None)
    return path if type(path) is str else None


class _KeptLogger(logging.Logger):
    @property
    def disabled(self) -> bool:
        """Return False, whatever was set."""
        return False

    @disabled.setter
    def disabled(self, value: bool) -> None:
        """Ignore what was set."""

    def isEnabledFor(self, level: int) -> bool:
        """Say whether the logger's level lets ``level`` pass, without ``logging.disable``."""
        return level >= self.getEffectiveLevel()
