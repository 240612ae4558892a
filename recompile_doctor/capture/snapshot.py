"""What the probe left of each process, read back: torch's own counters, and silenced logging."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from recompile_doctor.bundle import Bundle


@dataclass(frozen=True, slots=True)
class CountedCompilation:
    """One entry of torch's own list of compilations, which logging cannot silence."""

    compile_id: str | None = None
    co_name: str | None = None
    co_filename: str | None = None
    co_firstlineno: int | None = None
    recompile_reason: str | None = None
    entire_frame_compile_time_s: float | None = None
    fail_type: str | None = None


@dataclass(frozen=True, slots=True)
class SilencedLogging:
    """What the program did to torch's logging, one short sentence each; empty when nothing.

    ``text`` hinders the text log, ``trace`` the TORCH_TRACE file.
    """

    text: tuple[str, ...] = ()
    trace: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One process that imported torch._dynamo, as the probe saw it.

    ``complete`` is False when the process did not come to its end (it was killed, or left through
    ``os._exit``): then counters and compilations are not known. torch keeps only the last
    ``compilations_limit`` compilations.
    """

    pid: int
    complete: bool
    torch_version: str
    python_version: str
    argv0: str = ""
    parent_pid: int | None = None
    forked_from: int | None = None
    rank: dict[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    compilations: tuple[CountedCompilation, ...] = ()
    compilations_limit: int | None = None
    logging: SilencedLogging = SilencedLogging()

    @property
    def recompiles(self) -> int:
        """Return how many of the kept compilations have a recompile reason."""
        return sum(1 for each in self.compilations if each.recompile_reason)


@dataclass(frozen=True, slots=True)
class UnreadSnapshot:
    """A file of the probe that could not be read, and why."""

    path: Path
    reason: str


def read_snapshots(bundle: Bundle) -> tuple[Snapshot | UnreadSnapshot, ...]:
    """Return what the probe left in ``bundle``, one value per process."""
    return tuple(_read(path) for path in bundle.probe_files())


def _read(path: Path) -> Snapshot | UnreadSnapshot:
    try:
        content: Any = msgspec.json.decode(path.read_bytes())
        return msgspec.convert(content, Snapshot)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        return UnreadSnapshot(path, str(error))
