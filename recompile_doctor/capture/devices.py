"""The names of the machine's GPUs, asked without torch."""

import shutil
import subprocess


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
