"""Files of ours whose descriptors the program closes or takes for files of its own."""

import os
import subprocess
import sys
from pathlib import Path

from recompile_doctor.capture.probe.own_file import OwnFile, identity


def descriptor_of(path: Path) -> int:
    """Return the descriptor under which this process has a file open."""
    status = path.stat()
    (found,) = (
        number for number in range(256) if identity(number) == (status.st_dev, status.st_ino)
    )
    return found


def test_a_descriptor_that_was_taken_is_left_alone(tmp_path: Path) -> None:
    """The program's file stays empty and open, and ours goes on where it was."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    file = OwnFile(str(ours))
    file.write(b"one\n")
    number = descriptor_of(ours)
    with theirs.open("w") as opened:
        os.dup2(opened.fileno(), number)
        file.write(b"two\n")
        assert os.fstat(number).st_ino == theirs.stat().st_ino
        os.close(number)
    os.close(descriptor_of(ours))
    file.write(b"three\n")
    os.close(descriptor_of(ours))
    assert ours.read_text() == "one\ntwo\nthree\n"
    assert theirs.read_text() == ""


def test_our_file_does_not_become_a_standard_stream(tmp_path: Path) -> None:
    """What the program prints after it has closed its output fails as ever."""
    code = f"""
import os
from recompile_doctor.capture.probe.own_file import OwnFile
os.close(0), os.close(1)
OwnFile({str(tmp_path / "ours")!r}).write(b"ours\\n")
print(os.open(os.devnull, os.O_RDWR), flush=True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Bad file descriptor" in done.stderr
    assert (tmp_path / "ours").read_text() == "ours\n"
