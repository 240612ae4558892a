"""Runs the user's program again under a change, each time into a bundle of its own.

A trial that came to an end leaves a note of what it was in its bundle (``trial.json``), with a
key made of the command, the program's files, the settings of torch and the change. A verify that
is started again finds it there and does not repeat it.
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from recompile_doctor.bundle import Bundle, create_bundle, is_bundle, open_bundle
from recompile_doctor.capture.launch import Streams
from recompile_doctor.capture.overlay import prepare_overlay
from recompile_doctor.capture.record import Recording, record
from recompile_doctor.errors import DoctorError, ExitCode
from recompile_doctor.prescription.marks import Flag
from recompile_doctor.prescription.prescription_file import Trial, content_of, prepare
from recompile_doctor.verification.trial_run import Ending
from recompile_doctor.version import VERSION

STDOUT_NAME = "stdout.txt"
STDERR_NAME = "stderr.txt"
_NOTE_NAME = "trial.json"
_RUNNING_NAME = "running.json"
_NOTE_FORMAT = 1
_LARGEST_NOTE = 1 << 16
_KILL_AFTER_SECONDS = 10.0
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
_TAIL_BYTES = 1 << 16
# Variables that change what a run of torch does, whoever set them.
_TORCH_VARIABLES = ("TORCH", "PYTORCH", "CUDA", "TRITON", "OMP_", "MKL_", "PYTHONHASHSEED")


class InterruptedVerify(DoctorError):
    """The user ended verify; what the finished trials showed is kept."""

    def __init__(self) -> None:
        super().__init__(
            "verify was interrupted.",
            slug="verify-interrupted",
            hint="Start it again with the same options: it repeats no finished trial.",
            exit_code=ExitCode.INTERRUPTED,
        )


@dataclass(frozen=True, slots=True)
class Program:
    """What is run, where, and how. ``digest`` stands for the content of its files.

    ``timeout`` is in seconds. ``launcher`` are the words before the command that run it elsewhere.
    ``settings`` of torch are made in all runs, also where nothing else is changed.
    """

    command: tuple[str, ...]
    cwd: Path
    base: Mapping[str, str]
    digest: str
    timeout: float | None = None
    launcher: tuple[str, ...] = ()
    settings: tuple[Flag, ...] = ()


@dataclass(frozen=True, slots=True)
class Applying:
    """What a run is given that differs: a prescription, patched files, or nothing."""

    trial: Trial | None = None
    files: tuple[tuple[Path, bytes], ...] = ()

    @property
    def content(self) -> str:
        """Return what the change is, for a key; the same text for the same change."""
        prescription = "" if self.trial is None else content_of(self.trial)
        if not self.files:
            return prescription
        files = [[str(path), hashlib.sha256(data).hexdigest()] for path, data in self.files]
        return json.dumps([prescription, files])


@dataclass(frozen=True, slots=True)
class Order:
    """A run to make. ``name`` is that of its bundle.

    With ``most`` it is ended as soon as it has recompiled more often than that. ``repeat`` tells
    runs of one change apart, each of which is to be made.
    """

    name: str
    change: Applying = Applying()
    most: int | None = None
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that came to an end, now or in an earlier verify (``reused``).

    ``most`` and ``timeout`` are the limits that it was under.
    """

    bundle: Bundle
    ending: Ending
    stopped_because: str = ""
    reused: bool = False
    most: int | None = None
    timeout: float | None = None

    def answers(self, order: Order, timeout: float | None) -> bool:
        """Return whether it tells what a run under these limits would.

        One that was ended says nothing of what it would have done with more time, or against a
        best that is not as good.
        """
        match self.ending:
            case Ending.WHOLE:
                return True
            case Ending.TIMED_OUT:
                if timeout is None or self.timeout is None:
                    return False
                return timeout <= self.timeout
            case Ending.STOPPED_EARLY:
                return order.most is not None and self.most is not None and order.most <= self.most

    @property
    def stdout(self) -> Path:
        """Return the file with what the program wrote to standard output."""
        return self.bundle.path / STDOUT_NAME

    def errors(self) -> str:
        """Return the end of what the program wrote to standard error."""
        try:
            with (self.bundle.path / STDERR_NAME).open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - _TAIL_BYTES))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""


def digest_of(files: Sequence[Path]) -> str:
    """Return one hash of the content of files; one that cannot be read counts by its name."""
    total = hashlib.sha256()
    for path in files:
        total.update(str(path).encode("utf-8", "surrogateescape") + b"\0")
        with suppress(OSError):
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


@dataclass(slots=True)
class Rerunner:
    """Makes the runs of one verify. ``root`` is the folder of their bundles.

    ``on_start`` is told the name of a run that starts, and ``on_progress`` its recompiles,
    compilations and seconds.
    """

    program: Program
    root: Path
    jobs: int = 1
    fresh: bool = False
    on_start: Callable[[str], None] | None = None
    on_progress: Callable[[int, int, float], None] | None = None
    _finished: dict[str, Finished] = field(default_factory=dict)
    _children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _ended: bool = False

    def __post_init__(self) -> None:
        for path in sorted(self.root.glob("*")) if self.root.is_dir() else ():
            if path.is_symlink() or not path.is_dir():
                continue
            key, finished = _read_note(path)
            if finished is not None and not self.fresh:
                self._finished[key] = finished
            elif finished is None and not self.root.is_symlink() and _was_cut_off(path):
                shutil.rmtree(path, ignore_errors=True)

    def run(self, order: Order) -> Finished:
        """Run the program under a change, or return the run that was made of it before.

        Raises InterruptedVerify when the user ends it, and DoctorError when it cannot be started.
        """
        return self.run_all([order])[0]

    def run_all(self, orders: Sequence[Order]) -> list[Finished]:
        """Run several orders, as many at a time as there are jobs; results are in their order."""
        if self.jobs == 1 or len(orders) == 1:
            return [self._run(each) for each in orders]
        with self._ended_together(), ThreadPoolExecutor(self.jobs) as pool:
            waiting = [pool.submit(self._run, each) for each in orders]
            try:
                return [each.result() for each in waiting]
            except BaseException:
                for each in waiting:
                    each.cancel()
                self._end_children()
                raise

    def _run(self, order: Order) -> Finished:
        if self._ended:
            raise InterruptedVerify
        key = self._key(order)
        known = self._finished.get(key)
        if known is not None and known.answers(order, self.program.timeout):
            return known
        if self.on_start is not None:
            self.on_start(order.name)
        bundle = create_bundle(self.root, order.name)
        overrides = {}
        trial = order.change.trial or Trial("as it is")
        trial = replace(trial, config=(*self.program.settings, *trial.config))
        overrides.update(prepare(trial, bundle, self.program.base))
        if order.change.files:
            overrides.update(prepare_overlay(order.change.files, bundle))
        recording = self._record(order, bundle, overrides)
        outcome = recording.outcome
        if self._ended or outcome.asked_to_end is not None:
            raise InterruptedVerify
        if recording.problem is not None:
            raise recording.problem
        ending = Ending.WHOLE
        if outcome.timed_out:
            ending = Ending.TIMED_OUT
        elif outcome.stopped_because is not None:
            ending = Ending.STOPPED_EARLY
        reason = outcome.cut_short_reason or ""
        finished = Finished(bundle, ending, reason, most=order.most, timeout=self.program.timeout)
        failed = ending is not Ending.WHOLE or outcome.exit_code != 0
        if failed and order.change == Applying():
            return finished  # the program as it is: the next verify is to try it again
        _write_note(key, finished)
        self._finished[key] = finished
        return finished

    def _record(self, order: Order, bundle: Bundle, overrides: Mapping[str, str]) -> Recording:
        most = order.most

        def stop(recompiles: int, compilations: int, seconds: float) -> str | None:
            if most is None or recompiles <= most:
                return None
            times = f"{recompiles} recompile{'' if recompiles == 1 else 's'}"
            return f"ended early with {times}, where {most} is the best so far"

        with (
            (bundle.path / STDOUT_NAME).open("wb") as stdout,
            (bundle.path / STDERR_NAME).open("wb") as stderr,
        ):
            return record(
                bundle,
                self.program.command,
                base=self.program.base,
                cwd=self.program.cwd,
                overrides=overrides,
                prescription=None if order.change.trial is None else order.change.trial.id,
                on_progress=self.on_progress,
                timeout=self.program.timeout,
                streams=Streams(stdout, stderr, lambda child: self._started(child, bundle)),
                stop=stop,
                fingerprints=True,
                launcher=self.program.launcher,
            )

    def _started(self, child: subprocess.Popen[bytes], bundle: Bundle) -> None:
        self._children.append(child)
        with suppress(OSError):
            running = {"program": child.pid, "verify": os.getpid()}
            (bundle.path / _RUNNING_NAME).write_text(json.dumps(running))
        if self._ended:
            self._end_children()

    def _end_children(self) -> None:
        if not self._ended:
            # For a program that ignores SIGTERM: nobody else watches it in a thread.
            killer = threading.Timer(_KILL_AFTER_SECONDS, self._send_all, [_KILL])
            killer.daemon = True
            killer.start()
        self._ended = True
        self._send_all(signal.SIGTERM)

    def _send_all(self, number: int) -> None:
        for child in self._children:
            if child.poll() is None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.pid, number)

    @contextmanager
    def _ended_together(self) -> Iterator[None]:
        """End all runs when the user ends us: runs in threads get no signals of their own."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def end(number: int, frame: FrameType | None) -> None:
            self._end_children()

        numbers = [
            getattr(signal, name)
            for name in ("SIGINT", "SIGTERM", "SIGHUP")
            if hasattr(signal, name)
        ]
        before = {number: signal.signal(number, end) for number in numbers}
        try:
            yield
        finally:
            for number, theirs in before.items():
                signal.signal(number, theirs)

    def _key(self, order: Order) -> str:
        settings = {
            name: value
            for name, value in self.program.base.items()
            if name.startswith(_TORCH_VARIABLES)
        }
        content = json.dumps(
            [
                _NOTE_FORMAT,
                VERSION,
                self.program.command,
                str(self.program.cwd),
                self.program.digest,
                self.program.launcher,
                [(flag.name, flag.value) for flag in self.program.settings],
                sorted(settings.items()),
                _installed_torch(self.program.command),
                order.change.content,
                order.repeat,
                order.name if order.change == Applying() else "",  # a baseline is run several times
            ]
        )
        return hashlib.sha256(content.encode("utf-8", "surrogateescape")).hexdigest()


def _installed_torch(command: Sequence[str]) -> list[tuple[str, int]]:
    """Return torch's version file beside the interpreter of a command, and when it was written."""
    if not command:
        return []
    folder = Path(command[0]).parent.parent
    found = []
    for path in sorted(folder.glob("lib/python3*/site-packages/torch/version.py")):
        with suppress(OSError):
            found.append((str(path), path.stat().st_mtime_ns))
    return found


def _write_note(key: str, finished: Finished) -> None:
    content = {
        "format": _NOTE_FORMAT,
        "key": key,
        "ending": finished.ending.name,
        "stopped_because": finished.stopped_because,
        "most": finished.most,
        "timeout": finished.timeout,
    }
    path = finished.bundle.path / _NOTE_NAME
    temporary = path.with_suffix(".tmp")
    with suppress(OSError):  # without it the trial is run again, and nothing else is lost
        temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
        temporary.replace(path)
        (finished.bundle.path / _RUNNING_NAME).unlink(missing_ok=True)


def _read_note(path: Path) -> tuple[str, Finished | None]:
    """Return the key and the run in a folder, None where no run came to its end there."""
    try:
        content: Any = json.loads(_start_of(path / _NOTE_NAME))
        if content["format"] != _NOTE_FORMAT or not is_bundle(path):
            return "", None
        return str(content["key"]), Finished(
            open_bundle(path),
            Ending[content["ending"]],
            str(content["stopped_because"]),
            reused=True,
            most=_number(content["most"]),
            timeout=_number(content["timeout"]),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError, DoctorError):
        return "", None


def _number(value: Any) -> Any:
    if value is not None and not isinstance(value, int | float):
        raise TypeError(value)
    return value


def _start_of(path: Path) -> bytes:
    """Return the first bytes of a regular file; to open a pipe would wait for a writer."""
    if not path.is_file():
        raise OSError(f"{path} is not a regular file")
    with path.open("rb") as file:
        return file.read(_LARGEST_NOTE)


def _was_cut_off(path: Path) -> bool:
    """Return whether a folder is a run of ours that did not come to its end, and nobody's now.

    Anything else that lies there is the user's. A kill leaves the program behind; another verify
    may still be writing down how its run ended.
    """
    try:
        content: Any = json.loads(_start_of(path / _RUNNING_NAME))
        pids = (int(content["program"]), int(content["verify"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
    return not any(map(_is_alive, pids))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError, ValueError):
        return False
    except OSError:  # it is another user's by now
        return True
    return True
