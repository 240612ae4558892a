"""What a command is to read: a bundle, a log, or standard input."""

import sys
from pathlib import Path
from typing import BinaryIO

from recompile_doctor.bundle import bundle_root, find_bundle, is_bundle, latest_bundle
from recompile_doctor.errors import DoctorError

HELP = "a bundle's name or path, a TORCH_TRACE folder or file, a text log, or -"


def find_target(text: str | None) -> Path | BinaryIO:
    """Return what the user named: a path, a bundle of this folder, or ``-`` for standard input.

    None is the latest bundle. Raises DoctorError when there is nothing of that name.
    """
    root = bundle_root(Path.cwd())
    if text is None:
        return latest_bundle(root).path
    if text == "-":
        return sys.stdin.buffer
    path = Path(text)
    if path.exists():
        return path
    if is_bundle(root / text):
        return find_bundle(root, text).path
    raise DoctorError(
        f"There is no file, folder or bundle {text!r}.",
        slug="no-such-input",
        hint=f"Give {HELP}.",
    )
