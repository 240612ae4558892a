"""Run the user's program as if we were not there: its own streams, signals and exit status."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import BinaryIO, TypeAlias

from recompile_doctor.errors import DoctorError

OnProgress: TypeAlias = Callable[[int, int, float], None]
"""Called with the recompiles and compilations so far, and the seconds since the start."""

Stop: TypeAlias = Callable[[int, int, float], str | None]
"""Asked with the same numbers: why the program is to be ended now, or None."""

_POLL_SECONDS = 0.5
_KILL_AFTER_SECONDS = 10.0
# All that would end us and leave the program alone, but for the signs of a fault of our own.
_FORWARDED = (
    "SIGINT",
    "SIGTERM",
    "SIGHUP",
    "SIGQUIT",
    "SIGUSR1",
    "SIGUSR2",
    "SIGCONT",
    "SIGALRM",
    "SIGVTALRM",
    "SIGPROF",
    "SIGIO",
    "SIGPWR",
    "SIGXCPU",
    "SIGSTKFLT",
    "SIGABRT",
)
_ASK_TO_END = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGABRT")
_FROM_KERNEL = 0x80  # SI_KERNEL, which Python has no name for


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the program ended. ``exit_code`` is 128 + the signal's number when it was killed.

    ``stopped_because`` is the reason for which ``launch`` was told to end it. ``asked_to_end`` is
    the signal that came to us and asks a process to end (SIGINT, SIGTERM, ...), whatever the
    program made of it.
    """

    exit_code: int
    signal: str | None
    wall_seconds: float
    interrupted: bool = False
    timed_out: bool = False
    stopped_because: str | None = None
    asked_to_end: str | None = None

    @property
    def cut_short_reason(self) -> str | None:
        """Return why the run is not a whole one, or None when the program ended by itself."""
        if self.timed_out:
            return "the time limit was reached"
        if self.stopped_because is not None:
            return self.stopped_because
        if self.interrupted and self.exit_code != 0:
            return "interrupted with SIGINT"
        if self.signal is not None:
            return f"killed by {self.signal}"
        return None


@dataclass(frozen=True, slots=True)
class Streams:
    """The standard streams of a program that nobody watches; its input is empty.

    ``started`` is told the process as soon as it is there.
    """

    stdout: BinaryIO
    stderr: BinaryIO
    started: Callable[[subprocess.Popen[bytes]], None] | None = None


def launch(
    command: Sequence[str],
    environment: Mapping[str, str],
    cwd: Path,
    on_progress: OnProgress | None = None,
    *,
    timeout: float | None = None,
    streams: Streams | None = None,
    stop: Stop | None = None,
) -> Outcome:
    """Run ``command`` to its end and say how it ended.

    The child stays in our process group, so that a Ctrl-C in the terminal reaches it directly: we
    only wait for it then, however often it is pressed. What a process sends to us, SIGINT too, is
    passed on. After ``timeout`` seconds the child gets SIGTERM, and SIGKILL if that does not help;
    the same when ``stop`` gives a reason. With ``streams`` the child has these for its own, and
    runs in a session of its own, so that it can be ended together with all that it started.
    """
    trace = environment.get("TORCH_DTRACE") or environment.get("TORCH_TRACE")
    watched = on_progress is not None or stop is not None
    progress = TraceProgress(cwd / trace) if trace and watched else None
    with _Signals().installed() as signals:
        started = time.monotonic()
        child = _start(command, environment, cwd, streams)
        if streams is not None and streams.started is not None:
            streams.started(child)
        signals.pass_on_to(child)
        watch = _Watch(progress, on_progress, stop, started, timeout, alone=streams is not None)
        watch.wait(child, signals)
        seconds = time.monotonic() - started
    status = child.returncode
    return Outcome(
        exit_code=status if status >= 0 else 128 - status,
        signal=_signal_name(-status) if status < 0 else None,
        wall_seconds=round(seconds, 3),
        interrupted=signals.interrupted,
        timed_out=watch.timed_out,
        stopped_because=watch.stopped_because,
        asked_to_end=signals.asked_to_end,
    )


def no_program() -> DoctorError:
    """Return the error for a command without a word in it."""
    return DoctorError(
        "There is no program to run.",
        slug="no-program",
        hint="Write e.g. `recompile-doctor run train.py` or `... run -- torchrun train.py`.",
    )


@dataclass(slots=True)
class TraceProgress:
    """Counts recompiles and compilations in the trace files that are new since it was made.

    Only bytes that were added since the last look are read, and they are searched, not parsed:
    the numbers are for a progress display.
    """

    directory: Path
    recompiles: int = 0
    compilations: int = 0
    _before: frozenset[str] = field(init=False)
    _offsets: dict[str, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._before = frozenset(path.name for path in self._files())

    def update(self) -> None:
        """Count what was written since the last call."""
        for path in self._files():
            if path.name not in self._before:
                self._read_on(path)

    def _files(self) -> list[Path]:
        try:
            return sorted(self.directory.glob("*.log"))
        except OSError:
            return []

    def _read_on(self, path: Path) -> None:
        offset = self._offsets.get(path.name, 0)
        try:
            with path.open("rb") as file:
                file.seek(offset)
                data = file.read()
        except OSError:
            return
        whole = data.rfind(b"\n") + 1  # a line that is still being written is read next time
        self.recompiles += data.count(b'"recompile_reasons"', 0, whole)
        self.compilations += data.count(b'{"dynamo_start"', 0, whole)
        self._offsets[path.name] = offset + whole


class _Signals:
    """Passes signals on to the child while it runs, unless it got them as well as we did."""

    def __init__(self) -> None:
        self.interrupted = False
        self.asked_to_end: str | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        self._numbers: set[int] = set()
        self._ended = threading.Event()

    @contextmanager
    def installed(self) -> Iterator["_Signals"]:
        """Handle signals inside of the ``with`` block, where the main thread is the caller."""
        before = {}
        if threading.current_thread() is threading.main_thread():
            for number in _forwarded():
                theirs = signal.getsignal(number)
                # A signal that is ignored (nohup) stays ignored, for the child too.
                if theirs in (signal.SIG_DFL, signal.default_int_handler):
                    before[number] = signal.signal(number, self._receive)
        self._numbers = set(before)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ()) if _CAN_ASK else set()
        try:
            yield self
        finally:
            if _CAN_ASK:  # what is still pending comes to our own handler
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            for number, theirs in before.items():
                signal.signal(number, theirs)

    def pass_on_to(self, child: subprocess.Popen[bytes]) -> None:
        """Send to ``child`` what came before it was there, and all that comes."""
        self._child = child
        for number in self._early:
            child.send_signal(number)
        if self._asks:
            # From here on not through handlers: those are not told who has sent a signal.
            signal.pthread_sigmask(signal.SIG_BLOCK, {*self._numbers, signal.SIGCHLD})
        else:
            threading.Thread(target=self._wait_for_child, daemon=True).start()

    def wait(self, seconds: float) -> None:
        """Pass on what comes, and return after a time, or when the child may have ended."""
        if not self._asks:
            self._ended.wait(seconds)
            return
        came = signal.sigtimedwait({*self._numbers, signal.SIGCHLD}, seconds)
        if came is not None and came.si_signo != signal.SIGCHLD:
            self._handle(came.si_signo, from_kernel=came.si_code == _FROM_KERNEL)

    @property
    def _asks(self) -> bool:
        return _CAN_ASK and bool(self._numbers)

    def _wait_for_child(self) -> None:
        # In a thread, since Popen.wait with a timeout polls, up to 20 times a second.
        if self._child is not None:
            self._child.wait()
        self._ended.set()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._handle(number, from_kernel=_is_in_foreground())

    def _handle(self, number: int, *, from_kernel: bool) -> None:
        if number == signal.SIGINT:
            self.interrupted = True
        if _signal_name(number) in _ASK_TO_END:
            self.asked_to_end = _signal_name(number)
        if self._child is None:
            self._early.append(number)
        elif not (from_kernel and _reaches_the_group(number)):
            self._child.send_signal(number)


_CAN_ASK = hasattr(signal, "sigtimedwait")


def _forwarded() -> Iterator[int]:
    for name in _FORWARDED:
        number = getattr(signal, name, None)
        if number is not None:
            yield number
    if hasattr(signal, "SIGRTMIN"):
        yield from range(signal.SIGRTMIN, signal.SIGRTMAX + 1)


def _reaches_the_group(number: int) -> bool:
    """Return whether the terminal sends a signal to all of our process group.

    The end of the terminal is told to the leader of the session alone, when we are that.
    """
    if number == getattr(signal, "SIGHUP", None):
        return os.getsid(0) != os.getpid()
    return number in (signal.SIGINT, getattr(signal, "SIGQUIT", None))


def _is_in_foreground() -> bool:
    """Return whether the keys of a terminal send signals to us: the best guess without its word."""
    try:
        with Path("/dev/tty").open("rb", buffering=0) as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except (OSError, AttributeError):
        return False


def _start(
    command: Sequence[str], environment: Mapping[str, str], cwd: Path, streams: Streams | None
) -> subprocess.Popen[bytes]:
    if not command or not command[0]:
        raise no_program()
    try:
        # Descriptors that we were started with are the program's, e.g. those of <(command); ours
        # are closed in it, since Python marks all that it opens.
        if streams is None:
            return subprocess.Popen(list(command), env=dict(environment), cwd=cwd, close_fds=False)
        return subprocess.Popen(
            list(command),
            env=dict(environment),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=streams.stdout,
            stderr=streams.stderr,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise DoctorError(
            f"The program {command[0]!r} was not found.",
            slug="program-not-found",
            hint="Check its spelling and PATH; a script needs `run script.py`, without `--`.",
        ) from error
    except PermissionError as error:
        what = "is a folder" if (cwd / command[0]).is_dir() else "may not be executed"
        raise DoctorError(
            f"The program {command[0]!r} {what}.",
            slug="program-not-executable",
            hint="A Python script needs no `--`: `recompile-doctor run script.py`.",
        ) from error
    except (OSError, ValueError) as error:
        raise DoctorError(
            f"The program {command[0]!r} could not be started: {error}.",
            slug="program-not-started",
            hint="Try the same command without recompile-doctor.",
        ) from error


@dataclass(slots=True)
class _Watch:
    """Waits for the child to end, and ends it for want of time or when it is told to.

    ``alone`` tells that the child leads a process group of its own, which ends with it.
    """

    progress: TraceProgress | None
    on_progress: OnProgress | None
    stop: Stop | None
    started: float
    timeout: float | None
    alone: bool
    timed_out: bool = False
    stopped_because: str | None = None
    _kill_at: float | None = None

    def wait(self, child: subprocess.Popen[bytes], signals: _Signals) -> None:
        """Return when the child has ended."""
        while child.poll() is None:
            signals.wait(_POLL_SECONDS)
            seconds = time.monotonic() - self.started
            self._look(seconds)
            if self._kill_at is not None:
                if seconds > self._kill_at:
                    self._send(child, _KILL)
            elif self.timeout is not None and seconds > self.timeout:
                self.timed_out = True
                self._end(child, seconds)
            elif self.stopped_because is not None or (self.alone and signals.asked_to_end):
                self._end(child, seconds)
        if self._kill_at is not None:
            self._send(child, _KILL)  # what it has left behind

    def _look(self, seconds: float) -> None:
        if self.progress is None:
            return
        self.progress.update()
        numbers = (self.progress.recompiles, self.progress.compilations, seconds)
        if self.on_progress is not None:
            self.on_progress(*numbers)
        if self.stop is not None and self.stopped_because is None:
            self.stopped_because = self.stop(*numbers)

    def _end(self, child: subprocess.Popen[bytes], seconds: float) -> None:
        self._kill_at = seconds + _KILL_AFTER_SECONDS
        self._send(child, signal.SIGTERM)

    def _send(self, child: subprocess.Popen[bytes], number: int) -> None:
        if not (self.alone and hasattr(os, "killpg")):
            child.send_signal(number)
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)


_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal between SIGRTMIN and SIGRTMAX
        return f"signal {number}"
