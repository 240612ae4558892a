"""Run the user's program as if we were not there: its own streams, signals and exit status."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TypeAlias

from recompile_doctor.errors import DoctorError

OnProgress: TypeAlias = Callable[[int, int, float], None]
"""Called with the recompiles and compilations so far, and the seconds since the start."""

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
_FROM_KERNEL = 0x80  # SI_KERNEL, which Python has no name for


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the program ended. ``exit_code`` is 128 + the signal's number when it was killed."""

    exit_code: int
    signal: str | None
    wall_seconds: float
    interrupted: bool = False
    timed_out: bool = False

    @property
    def cut_short_reason(self) -> str | None:
        """Return why the run is not a whole one, or None when the program ended by itself."""
        if self.timed_out:
            return "the time limit was reached"
        if self.interrupted and self.exit_code != 0:
            return "interrupted with SIGINT"
        if self.signal is not None:
            return f"killed by {self.signal}"
        return None


def launch(
    command: Sequence[str],
    environment: Mapping[str, str],
    cwd: Path,
    on_progress: OnProgress | None = None,
    *,
    timeout: float | None = None,
) -> Outcome:
    """Run ``command`` to its end and say how it ended.

    The child stays in our process group, so that a Ctrl-C in the terminal reaches it directly: we
    only wait for it then, however often it is pressed. What a process sends to us, SIGINT too, is
    passed on. After ``timeout`` seconds the child gets SIGTERM, and SIGKILL if that does not help.
    """
    trace = environment.get("TORCH_DTRACE") or environment.get("TORCH_TRACE")
    progress = TraceProgress(cwd / trace) if trace and on_progress is not None else None
    with _Signals().installed() as signals:
        started = time.monotonic()
        child = _start(command, environment, cwd)
        signals.pass_on_to(child)
        timed_out = _wait(child, signals, progress, on_progress, started, timeout)
        seconds = time.monotonic() - started
    status = child.returncode
    return Outcome(
        exit_code=status if status >= 0 else 128 - status,
        signal=_signal_name(-status) if status < 0 else None,
        wall_seconds=round(seconds, 3),
        interrupted=signals.interrupted,
        timed_out=timed_out,
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
    command: Sequence[str], environment: Mapping[str, str], cwd: Path
) -> subprocess.Popen[bytes]:
    if not command or not command[0]:
        raise DoctorError(
            "There is no program to run.",
            slug="no-program",
            hint="Write e.g. `recompile-doctor run train.py` or `... run -- torchrun train.py`.",
        )
    try:
        # Descriptors that we were started with are the program's, e.g. those of <(command); ours
        # are closed in it, since Python marks all that it opens.
        return subprocess.Popen(list(command), env=dict(environment), cwd=cwd, close_fds=False)
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


def _wait(
    child: subprocess.Popen[bytes],
    signals: _Signals,
    progress: TraceProgress | None,
    on_progress: OnProgress | None,
    started: float,
    timeout: float | None,
) -> bool:
    """Wait for the child to end; return whether it was ended for want of time."""
    timed_out = False
    while child.poll() is None:
        signals.wait(_POLL_SECONDS)
        seconds = time.monotonic() - started
        if progress is not None and on_progress is not None:
            progress.update()
            on_progress(progress.recompiles, progress.compilations, seconds)
        if timeout is not None and seconds > timeout:
            if seconds > timeout + _KILL_AFTER_SECONDS:
                child.kill()
            elif not timed_out:
                timed_out = True
                child.terminate()
    return timed_out


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal between SIGRTMIN and SIGRTMAX
        return f"signal {number}"
