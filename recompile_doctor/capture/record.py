"""One captured run: make the environment, launch the program, complete the bundle."""

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from recompile_doctor.bundle import (
    Bundle,
    Manifest,
    overwrite_manifest,
    remove_caches,
    write_manifest,
)
from recompile_doctor.capture.devices import device_memory_peak, nvidia_gpu_names
from recompile_doctor.capture.elsewhere import (
    end_elsewhere,
    launcher_environment,
    prepare_elsewhere,
    probe_site,
)
from recompile_doctor.capture.environment import (
    LOGGING,
    child_environment,
    environment_changes,
    user_trace_directory,
)
from recompile_doctor.capture.launch import OnProgress, Outcome, Stop, Streams, launch
from recompile_doctor.capture.snapshot import Snapshot, read_snapshots
from recompile_doctor.errors import DoctorError

# What the probe notes when it loses a line; it shares no code with us.
_LOST = ("a log line could not be written", "the trace could not be written")


@dataclass(frozen=True, slots=True)
class Recording:
    """A run that ended. ``problem`` is set when the bundle could not be completed.

    The bundle's manifest is then known all the same, as long as this process lives.
    """

    bundle: Bundle
    outcome: Outcome
    problem: DoctorError | None = None


def record(
    bundle: Bundle,
    command: Sequence[str],
    *,
    base: Mapping[str, str],
    cwd: Path,
    use_caches: bool = False,
    probe: bool = True,
    fingerprints: bool = False,
    overrides: Mapping[str, str] | None = None,
    prescription: str | None = None,
    on_progress: OnProgress | None = None,
    timeout: float | None = None,
    streams: Streams | None = None,
    stop: Stop | None = None,
    launcher: Sequence[str] = (),
) -> Recording:
    """Run ``command`` and return the bundle that it filled, with how the program ended.

    ``base`` is the environment that the user started us in, ``overrides`` the variables of a
    prescription under trial; ``streams`` and ``stop`` are as for ``launch``. ``fingerprints`` asks
    for those of what compiled functions return. ``launcher`` are the words before a command that
    run it elsewhere (see ``capture.elsewhere``); the exit code is then what the launcher makes of
    the program's. A command that cannot be started raises, and leaves no bundle.
    """
    # What is set on the other machine is known there only.
    known: Mapping[str, str] = {} if launcher else base
    child = child_environment(
        known, bundle, use_caches=use_caches, probe=probe, fingerprints=fingerprints
    )
    child.update(overrides or {})
    additions = environment_changes(known, child)
    if launcher and "PYTHONPATH" in additions:
        additions["PYTHONPATH"] = str(probe_site(bundle))
    manifest = Manifest(
        command=tuple(command),
        cwd=str(cwd),
        environment=additions,
        started=datetime.now().astimezone().isoformat(timespec="seconds"),
        caches="as the user set them" if use_caches else "cold",
        logging=LOGGING,
        prescription=prescription,
    )
    borrowed = _BorrowedLogs.look(known, cwd)
    try:
        if launcher:
            command = prepare_elsewhere(bundle, launcher, command, additions, cwd)
            child = launcher_environment(base, bundle)
        write_manifest(bundle, manifest)
        outcome = launch(
            command, child, cwd, on_progress, timeout=timeout, streams=streams, stop=stop
        )
    except DoctorError:
        shutil.rmtree(bundle.path, ignore_errors=True)
        raise
    finally:
        if launcher:
            end_elsewhere(bundle)
    if not use_caches:
        remove_caches(bundle)  # first: a disk that is full has room for the rest then
    problem = None
    try:
        borrowed.collect(bundle)
    except OSError as error:
        problem = _not_collected(error)
    completed = _completed(manifest, bundle, outcome, here=not launcher)
    return Recording(bundle, outcome, _complete(completed, bundle) or problem)


def _complete(completed: Manifest, bundle: Bundle) -> DoctorError | None:
    """Write down how the run ended; return the reason when that was not possible."""
    try:
        write_manifest(bundle, completed)
    except DoctorError as problem:
        if not overwrite_manifest(bundle, completed):
            bundle.remember(completed)
            return problem
    return None


def _completed(manifest: Manifest, bundle: Bundle, outcome: Outcome, *, here: bool) -> Manifest:
    snapshots = [each for each in read_snapshots(bundle) if isinstance(each, Snapshot)]
    seen = snapshots[0] if snapshots else None
    cut_short = outcome.cut_short_reason or _lost_log(bundle)
    devices = tuple(dict.fromkeys(name for each in snapshots for name in each.devices))
    if here and not devices:
        devices = nvidia_gpu_names()
    return replace(
        manifest,
        torch_version=seen.torch_version if seen else None,
        python=seen.python_version if seen else None,
        devices=devices,
        device_memory_peak=device_memory_peak(bundle),
        wall_seconds=outcome.wall_seconds,
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        complete=cut_short is None,
        cut_short_reason=cut_short,
    )


def _lost_log(bundle: Bundle) -> str | None:
    """Return that a process could not write its log, as its note says.

    Where the disk was full, there was no room for the note either, and it is empty.
    """
    for path in bundle.failure_files():
        with suppress(OSError):
            text = path.read_text(encoding="utf-8", errors="replace")
            if not text or any(what in text for what in _LOST):
                return "not all of torch's log could be written"
    return None


def _not_collected(error: OSError) -> DoctorError:
    return DoctorError(
        f"The logs of the run could not be copied into the bundle: {error.strerror or error}.",
        slug="logs-not-copied",
        hint="They are where TORCH_TRACE and TORCH_LOGS_OUT point to: read them from there.",
    )


@dataclass(frozen=True, slots=True)
class _BorrowedLogs:
    """The trace folder and text log that the user had set already, and their state before the run.

    They stay the user's: what the run adds to them is copied into the bundle afterwards.
    """

    trace_directory: Path | None
    traces_before: frozenset[str]
    text_log: Path | None
    text_before: int

    @classmethod
    def look(cls, base: Mapping[str, str], cwd: Path) -> "_BorrowedLogs":
        """Return what the user set, as it is now."""
        directory = user_trace_directory(base, cwd)
        names = frozenset(path.name for path in directory.glob("*.log")) if directory else None
        text = base.get("TORCH_LOGS_OUT")
        log = cwd / text if text else None
        size = log.stat().st_size if log is not None and log.is_file() else 0
        return cls(directory, names or frozenset(), log, size)

    def collect(self, bundle: Bundle) -> None:
        """Copy the trace files that are new, and what was appended to the text log.

        The text log is left alone when the probe wrote one of its own, which has more in it.
        """
        if self.trace_directory is not None:
            for path in sorted(self.trace_directory.glob("*.log")):
                if path.name not in self.traces_before:
                    shutil.copy2(path, bundle.trace_directory / path.name)
        if self.text_log is not None and self.text_log.is_file() and not bundle.log_files():
            with (
                self.text_log.open("rb") as source,
                (bundle.log_directory / "user.log").open("wb") as target,
            ):
                source.seek(self.text_before)
                shutil.copyfileobj(source, target)
