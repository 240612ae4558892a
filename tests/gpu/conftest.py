"""These tests need a CUDA device; elsewhere they are collected and skipped."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def cuda() -> None:
    """Skip where there is no device that torch can use; asked once, and without torch in here."""
    if shutil.which("nvidia-smi") is None and not Path("/dev/nvidia0").exists():
        pytest.skip("there is no NVIDIA device")
    ask = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    if subprocess.run([sys.executable, "-c", ask], capture_output=True, check=False).returncode:
        pytest.skip("torch finds no CUDA device")
