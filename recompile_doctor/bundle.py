"""The bundle: the folder that a run leaves on disk, and where capture and events meet.

    .recompile-doctor/<name>/
        manifest.yaml   what ran, where, how long, how it ended (see ``Manifest``)
        trace/          TORCH_TRACE, one file a process
        logs/           TORCH_LOGS text, one file a process
        probe/          what the probe saw, one file a process
        cache/          inductor's and triton's caches of this run, removed when the program ends

The manifest is written when the run starts, marked as not complete, and again when it ends, so a
run that is killed together with the tool still leaves a bundle that can be read.
"""

import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from recompile_doctor.errors import DoctorError
from recompile_doctor.version import VERSION

BUNDLE_VERSION = 1  # 1: first version
ROOT_NAME = ".recompile-doctor"
MANIFEST_NAME = "manifest.yaml"
LATEST = "latest"
NOT_ENDED = "the run has not ended, or the tool was killed before it did"

_MANIFEST_HEAD = 1 << 20
_LONGEST_NAME = 100  # file systems allow 255 bytes; a path through cache/ must fit too
_RESERVED = frozenset({LATEST, ".gitignore"})


@dataclass(frozen=True, slots=True)
class Manifest:
    """What ran, where, for how long and how it ended; the content of manifest.yaml.

    ``environment`` holds the variables that were added or changed for the child. ``exit_code`` is
    128 + the signal's number when the program was killed; it, ``signal`` and ``wall_seconds`` are
    None while it runs. ``complete`` is False when the run was cut short, and then
    ``cut_short_reason`` says why.
    """

    command: tuple[str, ...]
    cwd: str
    environment: dict[str, str]
    started: str
    caches: Literal["cold", "as the user set them"]
    logging: tuple[str, ...]
    bundle_version: int = BUNDLE_VERSION
    tool_version: str = VERSION
    torch_version: str | None = None
    python: str | None = None
    devices: tuple[str, ...] = ()
    wall_seconds: float | None = None
    exit_code: int | None = None
    signal: str | None = None
    prescription: str | None = None
    complete: bool = False
    cut_short_reason: str | None = NOT_ENDED


@dataclass(frozen=True, slots=True)
class Bundle:
    """One run on disk; ``path`` is absolute."""

    path: Path

    @property
    def name(self) -> str:
        """Return the name that the user knows the run by."""
        return self.path.name

    @property
    def manifest_path(self) -> Path:
        """Return where the manifest is, whether or not it is there yet."""
        return self.path / MANIFEST_NAME

    @property
    def manifest(self) -> Manifest:
        """Return the manifest as it is on disk now."""
        return _read_manifest(self.manifest_path)

    @property
    def trace_directory(self) -> Path:
        """Return the folder for TORCH_TRACE."""
        return self.path / "trace"

    @property
    def log_directory(self) -> Path:
        """Return the folder for the text logs."""
        return self.path / "logs"

    @property
    def probe_directory(self) -> Path:
        """Return the folder for the probe's files."""
        return self.path / "probe"

    @property
    def cache_directory(self) -> Path:
        """Return the folder for the compile caches of this run."""
        return self.path / "cache"

    def trace_files(self) -> tuple[Path, ...]:
        """Return the TORCH_TRACE files, sorted by name."""
        return _files(self.trace_directory, "*.log")

    def log_files(self) -> tuple[Path, ...]:
        """Return the text logs, sorted by name."""
        return _files(self.log_directory, "*.log")

    def probe_files(self) -> tuple[Path, ...]:
        """Return what the probe saw of each process, sorted by name."""
        marks = frozenset(self.marks_files())
        return tuple(path for path in _files(self.probe_directory, "*.json") if path not in marks)

    def marks_files(self) -> tuple[Path, ...]:
        """Return what became of a prescription's marks in each process, sorted by name."""
        return _files(self.probe_directory, "*.marks.json")


def bundle_root(cwd: Path) -> Path:
    """Return the folder that holds the bundles of the runs started in ``cwd``."""
    return cwd.absolute() / ROOT_NAME


def default_name(program: str, moment: datetime) -> str:
    """Return a safe name made of the program's stem and the local time, e.g. ``train-0712-093015``.

    The month comes first, so that the names of one program sort by time within a year.
    """
    stem = re.sub(r"[^\w.-]+", "-", Path(program).stem, flags=re.ASCII).strip("-.") or "run"
    return f"{stem[:60]}-{moment:%m%d-%H%M%S}"


def check_name(name: str) -> str:
    """Return ``name`` when it can name a bundle, and raise when it could leave the root or misread.

    Refused rather than made safe: a user who typed the name will type it again in ``diff``.
    """
    reason = _what_is_wrong(name)
    if reason is not None:
        raise DoctorError(
            f"The bundle name {name[:60]!r} {reason}.",
            slug="bad-bundle-name",
            hint="Use letters, digits, '.', '_' and '-', e.g. --name before-fix.",
        )
    return name


def create_bundle(root: Path, name: str, *, exact: bool = False) -> Bundle:
    """Make an empty bundle below ``root`` and let ``latest`` point to it.

    A name that is taken gets a number, unless it must be ``exact``: a name that the user chose
    is refused instead, because a later ``diff before after`` would read the older run.
    """
    check_name(name)
    try:
        root.mkdir(parents=True, exist_ok=True)
        _ignore_in_git(root)
        bundle = Bundle(_make_directory(root.absolute(), name, exact=exact))
        for directory in (bundle.trace_directory, bundle.log_directory, bundle.probe_directory):
            directory.mkdir()
        _point_latest(root, bundle.name)
    except OSError as error:
        raise _not_writable(root, error) from error
    return bundle


def open_bundle(path: Path) -> Bundle:
    """Return the bundle in the folder ``path``, after reading its manifest once."""
    bundle = Bundle(path.absolute())
    if not bundle.manifest_path.is_file():
        raise DoctorError(
            f"{path} is not a bundle: it has no {MANIFEST_NAME}.",
            slug="not-a-bundle",
            hint=f"Give a folder below {ROOT_NAME}/, as `recompile-doctor run` makes it.",
        )
    _read_manifest(bundle.manifest_path)
    return bundle


def is_bundle(path: Path) -> bool:
    """Return whether ``path`` is the folder of a bundle: its manifest names a bundle version."""
    try:
        with (path / MANIFEST_NAME).open("rb") as manifest:
            return b"bundle_version:" in manifest.read(_MANIFEST_HEAD)
    except OSError:
        return False


def is_latest(bundle: Bundle) -> bool:
    """Return whether ``bundle`` is the newest of the current folder."""
    try:
        return latest_bundle(bundle_root(Path.cwd())).path.resolve() == bundle.path.resolve()
    except (DoctorError, OSError):
        return False


def find_bundle(root: Path, text: str) -> Bundle:
    """Return the bundle that ``text`` names: ``latest``, a name below ``root``, or a path."""
    if text == LATEST:
        return latest_bundle(root)
    if _what_is_wrong(text) is None and (root / text / MANIFEST_NAME).is_file():
        return open_bundle(root / text)
    return open_bundle(Path(text))


def latest_bundle(root: Path) -> Bundle:
    """Return the newest bundle below ``root``."""
    pointer = root / LATEST
    if pointer.is_file():  # where symbolic links are impossible
        name = pointer.read_text(encoding="utf-8").strip()
        if _what_is_wrong(name) is None and (root / name).is_dir():
            return open_bundle(root / name)
    elif pointer.is_dir():
        return open_bundle(pointer.resolve())
    raise DoctorError(
        f"There is no run below {root} yet.",
        slug="no-bundle",
        hint="Start one with `recompile-doctor run train.py`, or name a log to read.",
    )


def write_manifest(bundle: Bundle, manifest: Manifest) -> None:
    """Write the manifest in one step: a reader sees the old one or the new one."""
    text = yaml.safe_dump(msgspec.to_builtins(manifest), sort_keys=False, allow_unicode=True)
    try:
        _replace(bundle.manifest_path, text)
    except OSError as error:
        raise _not_writable(bundle.path, error) from error


def remove_caches(bundle: Bundle) -> None:
    """Remove the compile caches of the run: they can be gigabytes, and no report reads them."""
    shutil.rmtree(bundle.cache_directory, ignore_errors=True)


def _files(directory: Path, pattern: str) -> tuple[Path, ...]:
    return tuple(sorted(path for path in directory.glob(pattern) if path.is_file()))


def _what_is_wrong(name: str) -> str | None:
    if not name or name.strip() != name:
        return "is empty or has spaces at an end"
    if len(os.fsencode(name)) > _LONGEST_NAME:
        return f"is longer than {_LONGEST_NAME} bytes"
    if not name.isprintable():
        return "has characters that cannot be printed"
    if any(character in name for character in '/\\:*?"<>|'):
        return "has a character that does not belong in a folder's name"
    if name[0] in ".-" or name[-1] == "." or name in _RESERVED:
        return "is reserved, or starts with '.' or '-', or ends with '.'"
    return None


def _make_directory(root: Path, name: str, *, exact: bool) -> Path:
    path = root / name
    number = 1
    while True:
        try:
            path.mkdir()
        except FileExistsError:
            if exact:
                raise DoctorError(
                    f"A run named {name!r} is there already.",
                    slug="bundle-exists",
                    hint=f"Choose another --name, or remove {path}.",
                ) from None
            number += 1
            path = root / f"{name}-{number}"
        else:
            return path


def _ignore_in_git(root: Path) -> None:
    ignore = root / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")


def _point_latest(root: Path, name: str) -> None:
    pointer = root / LATEST
    temporary = root / f".{LATEST}.{os.getpid()}"
    try:
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(name, target_is_directory=True)
        temporary.replace(pointer)
    except OSError:  # Windows without the right to make links, some network file systems
        temporary.unlink(missing_ok=True)
        _replace(pointer, name + "\n")


def _replace(path: Path, text: str) -> None:
    # Not NamedTemporaryFile(delete=False) alone: on a full disk it would leave the half behind.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _read_manifest(path: Path) -> Manifest:
    try:
        content: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise _unreadable(path, str(error).splitlines()[0] if str(error) else "damaged") from error
    version = content.get("bundle_version") if isinstance(content, dict) else None
    if isinstance(version, int) and version > BUNDLE_VERSION:
        raise DoctorError(
            f"{path.parent} was written by a newer recompile-doctor (bundle version {version}).",
            slug="bundle-too-new",
            hint=f"Upgrade recompile-doctor; this one reads versions up to {BUNDLE_VERSION}.",
        )
    try:
        return msgspec.convert(content, Manifest)
    except msgspec.ValidationError as error:
        raise _unreadable(path, str(error)) from error


def _unreadable(path: Path, reason: str) -> DoctorError:
    return DoctorError(
        f"{path} cannot be read: {reason}",
        slug="bundle-unreadable",
        hint="Its logs can still be read: give the trace/ or logs/ folder of the bundle instead.",
    )


def _not_writable(path: Path, error: OSError) -> DoctorError:
    return DoctorError(
        f"{path} cannot be written: {error.strerror or error}.",
        slug="bundle-not-writable",
        hint="Free some space, or start the run in a folder that you may write to.",
    )
