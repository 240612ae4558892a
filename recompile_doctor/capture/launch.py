"""Run the user's program as if we were not there: its own streams, signals and exit status."""

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
_FORWARDED = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT")


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
        if self.interrupted:
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
    only wait for it then, however often it is pressed. Other signals sent to us are passed on.
    After ``timeout`` seconds the child gets SIGTERM, and SIGKILL if that does not help.
    """
    trace = environment.get("TORCH_DTRACE") or environment.get("TORCH_TRACE")
    progress = TraceProgress(cwd / trace) if trace and on_progress is not None else None
    with _Signals().installed() as signals:
        started = time.monotonic()
        child = _start(command, environment, cwd)
        signals.pass_on_to(child)
        timed_out = _wait(child, progress, on_progress, started, timeout)
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
    """Passes signals on to the child while it runs, and only remembers SIGINT."""

    def __init__(self) -> None:
        self.interrupted = False
        self._child: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []

    @contextmanager
    def installed(self) -> Iterator["_Signals"]:
        """Handle signals inside of the ``with`` block, where the main thread is the caller."""
        before = {}
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGINT", *_FORWARDED):
                number = getattr(signal, name, None)
                # A signal that is ignored (nohup) stays ignored, for the child too.
                if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                    ours = self._remember if name == "SIGINT" else self._pass_on
                    before[number] = signal.signal(number, ours)
        try:
            yield self
        finally:
            for number, theirs in before.items():
                signal.signal(number, theirs)

    def pass_on_to(self, child: subprocess.Popen[bytes]) -> None:
        """Send to ``child`` what came before it was there, and all that comes."""
        self._child = child
        for number in self._early:
            child.send_signal(number)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.interrupted = True

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        if self._child is None:
            self._early.append(number)
        else:
            self._child.send_signal(number)


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
        return subprocess.Popen(list(command), env=dict(environment), cwd=cwd)
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
    progress: TraceProgress | None,
    on_progress: OnProgress | None,
    started: float,
    timeout: float | None,
) -> bool:
    """Wait for the child to end; return whether it was ended for want of time."""
    ended = threading.Event()

    def wait_in_thread() -> None:
        child.wait()
        ended.set()

    # In a thread, since Popen.wait with a timeout polls, up to 20 times a second.
    threading.Thread(target=wait_in_thread, daemon=True).start()
    timed_out = False
    while not ended.wait(_POLL_SECONDS):
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
