"""Writing a patch into the user's files, and taking it back: the only place that does either.

The backup is a folder of its own, made for one patch:

    manifest.json    which files, and the hashes of what they were and what they became
    originals/0      the bytes of the first file as it was, and so on
"""

import contextlib
import hashlib
import json
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recompile_doctor.errors import DoctorError
from recompile_doctor.prescription.patched import PatchedFile, PatchResult

BACKUP_VERSION = 1  # 1: first version
MANIFEST_NAME = "manifest.json"
_ORIGINALS = "originals"


@dataclass(frozen=True, slots=True)
class _Entry:
    """One file of a backup, with the hashes of its two contents."""

    path: Path
    before: str
    after: str
    original: Path


def write(patch: PatchResult, backup_dir: Path) -> tuple[Path, ...]:
    """Write the patched files, after a backup of all of them, and return their paths.

    Nothing is written when a file is not as it was when the patch was made, or when the backup
    folder holds an earlier patch. When a write fails, the files written before it are restored.
    """
    if not patch.files:
        return ()
    for file in patch.files:
        _check_unchanged(file)
    _make_backup(patch.files, backup_dir)
    done: list[PatchedFile] = []
    try:
        for file in patch.files:
            _replace(file.path, file.after)
            done.append(file)
    except OSError as error:
        hint = "No file was changed. Give yourself the right to write it, or free some space."
        try:
            for file in done:
                _replace(file.path, file.before)
            (backup_dir / MANIFEST_NAME).unlink(missing_ok=True)
        except OSError:
            hint = "Some files were changed and could not be put back: undo the patch."
        raise DoctorError(
            f"{patch.files[len(done)].path} cannot be written: {error.strerror or error}.",
            slug="patch-not-written",
            hint=hint,
        ) from error
    return tuple(file.path for file in patch.files)


def undo(backup_dir: Path) -> tuple[Path, ...]:
    """Restore the files as they were before the patch and return the paths of those restored.

    A file that is so already is left alone. Nothing is written when a file was edited since.
    """
    entries = _read_manifest(backup_dir)
    pending: list[tuple[_Entry, bytes]] = []
    for entry in entries:
        current = _hash(_read(entry.path))
        if current == entry.before:
            continue
        if current != entry.after:
            raise DoctorError(
                f"{entry.path} was edited after the patch, so it is not put back.",
                slug="patch-edited-since",
                hint=f"Take the lines out by hand; the file as it was is {entry.original}.",
            )
        original = _read(entry.original)
        if _hash(original) != entry.before:
            raise _damaged(backup_dir, f"{entry.original} is not what the manifest says")
        pending.append((entry, original))
    for entry, original in pending:
        try:
            _replace(entry.path, original)
        except OSError as error:
            raise DoctorError(
                f"{entry.path} cannot be written: {error.strerror or error}.",
                slug="patch-not-written",
                hint=f"Undo it again later; the file as it was is {entry.original}.",
            ) from error
    # The originals stay; without its manifest the folder takes a new patch.
    manifest = backup_dir / MANIFEST_NAME
    manifest.replace(manifest.with_name("undone.json"))
    return tuple(entry.path for entry, _ in pending)


def is_applied(backup_dir: Path) -> bool:
    """Return whether the folder holds the backup of a patch that was not undone."""
    return (backup_dir / MANIFEST_NAME).is_file()


def _check_unchanged(file: PatchedFile) -> None:
    if _read(file.path) != file.before:
        raise DoctorError(
            f"{file.path} has changed since the patch was made.",
            slug="patch-file-changed",
            hint="Make the patch again; no file was changed.",
        )


def _make_backup(files: tuple[PatchedFile, ...], backup_dir: Path) -> None:
    if is_applied(backup_dir):
        raise DoctorError(
            f"{backup_dir} holds the backup of a patch that was written before.",
            slug="patch-already-written",
            hint="Undo that one first: its backup would be lost.",
        )
    entries = [
        {
            "path": str(file.path.absolute()),
            "before": _hash(file.before),
            "after": _hash(file.after),
            "original": f"{_ORIGINALS}/{number}",
        }
        for number, file in enumerate(files)
    ]
    manifest = {"backup_version": BACKUP_VERSION, "files": entries}
    try:
        (backup_dir / _ORIGINALS).mkdir(parents=True, exist_ok=True)
        for number, file in enumerate(files):
            _replace(backup_dir / _ORIGINALS / str(number), file.before)
        # Last, so that a manifest always has its originals.
        _replace(backup_dir / MANIFEST_NAME, json.dumps(manifest, indent=2).encode())
    except OSError as error:
        raise DoctorError(
            f"The backup in {backup_dir} cannot be written: {error.strerror or error}.",
            slug="patch-no-backup",
            hint="No file was changed. Free some space, or choose another folder.",
        ) from error


def _read_manifest(backup_dir: Path) -> tuple[_Entry, ...]:
    path = backup_dir / MANIFEST_NAME
    if not path.is_file():
        raise DoctorError(
            f"{backup_dir} holds no patch to undo.",
            slug="patch-nothing-to-undo",
            hint="A patch that was undone cannot be undone again.",
        )
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        return tuple(
            _Entry(
                Path(each["path"]),
                str(each["before"]),
                str(each["after"]),
                backup_dir / _ORIGINALS / Path(each["original"]).name,
            )
            for each in content["files"]
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(backup_dir, f"{MANIFEST_NAME} cannot be read") from error


def _damaged(backup_dir: Path, why: str) -> DoctorError:
    return DoctorError(
        f"The backup in {backup_dir} is damaged: {why}.",
        slug="patch-backup-damaged",
        hint="No file was changed. Use your version control to take the patch back.",
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DoctorError(
            f"{path} cannot be read: {error.strerror or error}.",
            slug="patch-file-changed",
            hint="No file was changed.",
        ) from error


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _replace(path: Path, content: bytes) -> None:
    """Write a file in one step, with the mode and owner that it has; a link stays a link."""
    path = path.resolve()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:60]}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        _copy_rights(path, temporary)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _copy_rights(source: Path, target: Path) -> None:
    try:
        status = source.stat()
    except FileNotFoundError:
        return
    if hasattr(os, "chown"):
        # Only root may give a file away; for a file of one's own it is idle.
        with contextlib.suppress(PermissionError):
            os.chown(target, status.st_uid, status.st_gid)
    target.chmod(stat.S_IMODE(status.st_mode))
