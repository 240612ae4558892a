"""What a command is to read: a bundle, a log, or standard input."""

import sys
from pathlib import Path
from typing import BinaryIO

from recompile_doctor.bundle import (
    bundle_root,
    current_folder,
    find_bundle,
    is_bundle,
    latest_bundle,
)
from recompile_doctor.errors import DoctorError

LONGEST_SHOWN = 300
HELP = "a bundle's name or path, a TORCH_TRACE folder or file, a text log, or -"


def find_target(text: str | None) -> Path | BinaryIO:
    """Return what the user named: a path, a bundle of this folder, or ``-`` for standard input.

    None is the latest bundle. Raises DoctorError when there is nothing of that name.
    """
    root = bundle_root(current_folder())
    if text is None:
        return latest_bundle(root).path
    if text == "-":
        return _standard_input()
    if text and exists(Path(text)):
        return Path(text)
    if text and is_bundle(root / text):
        return find_bundle(root, text).path
    raise DoctorError(
        f"There is no file, folder or bundle {text[:LONGEST_SHOWN]!r}.",
        slug="no-such-input",
        hint=f"Give {HELP}.",
    )


def exists(path: Path) -> bool:
    """Return whether ``path`` is there; no name that is too long is.

    Raises DoctorError where it is forbidden to look.
    """
    try:
        path.stat()
    except PermissionError as error:
        raise DoctorError(
            f"{path} cannot be read: {error.strerror}.",
            slug="unreadable-input",
            hint="Check the permissions of the folders above it.",
        ) from error
    except (OSError, ValueError):
        return False
    return True


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise DoctorError(
            "Standard input is closed.",
            slug="unreadable-input",
            hint="Name a file instead of -, or pipe a log into this command.",
        )
    return sys.stdin.buffer
