"""The machine's GPUs and what a run used of their memory, learned without torch."""

import shutil
import subprocess
from dataclasses import dataclass
from typing import Annotated

import msgspec

from recompile_doctor.bundle import Bundle


def nvidia_gpu_names() -> tuple[str, ...]:
    """Return what nvidia-smi lists, or nothing where it is missing, fails or hangs."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    try:
        listing = subprocess.run(
            [program, "--query-gpu=name", "--format=csv,noheader"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(line.strip() for line in listing.stdout.splitlines() if line.strip())


def device_memory_peak(bundle: Bundle) -> dict[str, int] | None:
    """Return the most bytes that one process of a run had allocated on each device.

    None where no process used a device, or none lived to tell.
    """
    peaks: dict[str, int] = {}
    for path in bundle.calls_files():
        try:
            told = msgspec.json.decode(path.read_bytes(), type=_Memory)
        except (OSError, msgspec.DecodeError, RecursionError):
            continue  # its reader says so: capture.calls
        for device, size in told.device_memory_peak.items():
            peaks[device] = max(size, peaks.get(device, 0))
    return dict(sorted(peaks.items())) or None


@dataclass(frozen=True, slots=True)
class _Memory:
    """The part of a process's calls file that is about memory."""

    device_memory_peak: dict[str, Annotated[int, msgspec.Meta(ge=0, lt=2**62)]]
