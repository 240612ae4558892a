"""Patched copies of the user's files for a run to use, and which of them took effect."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from recompile_doctor.bundle import Bundle
from recompile_doctor.errors import DoctorError

VARIABLE = "RECOMPILE_DOCTOR_OVERLAY"
_LIST = "files.json"


@dataclass(frozen=True, slots=True)
class OverlayApplied:
    """Which patched files a run used.

    ``served`` took effect in some process, and in each that needed them; ``missing`` are the
    others, in the order of the patch: no process ran them, or one ran the user's own.
    ``problems`` says of the latter why, one sentence each.
    """

    served: frozenset[Path] = frozenset()
    missing: tuple[Path, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _List:
    """The user's files, and the copy that stands in for each."""

    files: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Failure:
    file: str
    why: str


@dataclass(frozen=True, slots=True)
class _Served:
    """What the probe left of one process."""

    served: tuple[str, ...]
    failed: tuple[_Failure, ...] = ()


_Content = TypeVar("_Content", _List, _Served)


def prepare_overlay(files: Sequence[tuple[Path, bytes]], bundle: Bundle) -> dict[str, str]:
    """Write the patched text of each file into ``bundle``; return the variables that serve it.

    The files must be there under their paths: what no file stands for cannot be imported.
    """
    folder = bundle.overlay_directory
    copies = {}
    try:
        folder.mkdir(exist_ok=True)
        for number, (path, text) in enumerate(files):
            copy = folder / f"{number}.py"
            copy.write_bytes(text)
            copies[str(path.absolute())] = str(copy)
        # json and not msgspec: a path that is not UTF-8 has lone surrogates.
        (folder / _LIST).write_text(json.dumps({"files": copies}, indent=1), encoding="ascii")
    except OSError as error:
        raise DoctorError(
            f"{folder} cannot be written: {error.strerror or error}.",
            slug="bundle-not-writable",
            hint="Free some space, or start the run in a folder that you may write to.",
        ) from error
    return {VARIABLE: str(folder / _LIST)}


def read_overlay(bundle: Bundle) -> OverlayApplied:
    """Return which files of an overlay the processes of a run used; nothing without an overlay.

    What a process left and cannot be read counts as not served: a patch that was not seen to take
    effect was not tried.
    """
    path = bundle.overlay_directory / _LIST
    wanted = _read(path, _List) if path.is_file() else _List({})
    if wanted is None:
        return OverlayApplied(problems=(f"{path} cannot be read",))
    processes = [each for path in bundle.overlay_files() if (each := _read(path, _Served))]
    failures = dict.fromkeys(failure for each in processes for failure in each.failed)
    failed = {failure.file for failure in failures}
    served = {file for each in processes for file in each.served} - failed
    return OverlayApplied(
        frozenset(Path(file) for file in wanted.files if file in served),
        tuple(Path(file) for file in wanted.files if file not in served),
        tuple(f"{failure.file}: {failure.why}" for failure in failures),
    )


def _read(path: Path, kind: type[_Content]) -> _Content | None:
    try:
        return msgspec.convert(json.loads(path.read_bytes()), kind)
    except (OSError, ValueError, msgspec.ValidationError, RecursionError):
        return None
