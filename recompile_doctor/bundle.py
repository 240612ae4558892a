"""The bundle: the folder that a run leaves on disk, and where capture and events meet.

    .recompile-doctor/<name>/
        manifest.yaml   what ran, where, how long, how it ended (see ``Manifest``)
        trace/          TORCH_TRACE, one file a process
        logs/           TORCH_LOGS text, one file a process
        probe/          what the probe saw, one file a process
        overlay/        patched copies of the user's files, where the run tried a patch
        launch.sh       what started the program, where it ran on another machine
        launch/         the probe's copy for that machine
        cache/          inductor's and triton's caches of this run, removed when the program ends

The manifest is written when the run starts, marked as not complete, and again when it ends, so a
run that is killed together with the tool still leaves a bundle that can be read.
"""

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml

from recompile_doctor.errors import DoctorError
from recompile_doctor.version import VERSION

BUNDLE_VERSION = 1  # 1: first version
ROOT_NAME = ".recompile-doctor"
MANIFEST_NAME = "manifest.yaml"
LATEST = "latest"
NOT_ENDED = "the run has not ended, or its end could not be written down"

_LARGEST_MANIFEST = 1 << 20  # seconds to read; ours have a few thousand bytes
_LARGEST_FOR_PYTHON = 1 << 17
_DEEPEST_MANIFEST = 10
_LARGEST_POINTER = 1 << 12
_MOST_WORDS_BYTES = 1 << 18
_IMPLAUSIBLE_VERSION = 1_000_000
_LONGEST_SHOWN = 300
_LONGEST_NAME = 100  # file systems allow 255 bytes; a path through cache/ must fit too
_RESERVED = frozenset({LATEST, ".gitignore"})


# PyYAML lets through what its constructors raise: 2026-99-99 is a ValueError, `!!bool x` a
# KeyError, `!!int ""` an IndexError, `!!timestamp x` an AttributeError.
_RAISED_BY_YAML = (
    ValueError,
    LookupError,
    AttributeError,
    TypeError,
    ArithmeticError,
    RecursionError,
)

# Python refuses to print a number of some thousand digits.
_Number = Annotated[int, msgspec.Meta(ge=-(2**62), lt=2**62)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, lt=1e12)]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What ran, where, for how long and how it ended; the content of manifest.yaml.

    ``environment`` holds the variables that were added or changed for the child. ``exit_code`` is
    128 + the signal's number when the program was killed; it, ``signal`` and ``wall_seconds`` are
    None while it runs. ``command_cut`` tells that the end of a very long command was not kept.
    ``complete`` is False when the run was cut short, and then
    ``cut_short_reason`` says why. ``device_memory_peak`` has the most bytes that torch had
    allocated in one process, for each device; None where no process told.
    """

    command: tuple[str, ...]
    cwd: str
    environment: dict[str, str]
    started: str
    caches: Literal["cold", "as the user set them", "unknown"]
    logging: tuple[str, ...]
    bundle_version: _Number = BUNDLE_VERSION
    tool_version: str = VERSION
    torch_version: str | None = None
    python: str | None = None
    devices: tuple[str, ...] = ()
    wall_seconds: _Seconds | None = None
    exit_code: _Number | None = None
    signal: str | None = None
    prescription: str | None = None
    complete: bool = False
    cut_short_reason: str | None = NOT_ENDED
    command_cut: bool = False
    device_memory_peak: dict[str, _Number] | None = None


@dataclass(frozen=True, slots=True)
class Bundle:
    """One run on disk; ``path`` is absolute. The manifest is read once."""

    path: Path
    _known: list[Manifest] = field(default_factory=list, repr=False, compare=False)

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
        """Return the manifest: that on disk, or one that could not be written there."""
        if not self._known:
            self._known.append(_read_manifest(self.manifest_path))
        return self._known[0]

    def remember(self, manifest: Manifest) -> None:
        """Let ``manifest`` be this bundle's, whatever stands on disk."""
        self._known[:] = [manifest]

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

    @property
    def overlay_directory(self) -> Path:
        """Return the folder for patched copies of the user's files; most runs have none."""
        return self.path / "overlay"

    def trace_files(self) -> tuple[Path, ...]:
        """Return the TORCH_TRACE files, sorted by name."""
        return _files(self.trace_directory, "*.log")

    def log_files(self) -> tuple[Path, ...]:
        """Return the text logs, sorted by name."""
        return _files(self.log_directory, "*.log")

    def probe_files(self) -> tuple[Path, ...]:
        """Return what the probe saw of each process, sorted by name.

        ``<pid>.json`` alone: the parts of the probe have files of their own, ``<pid>.marks.json``.
        """
        found = _files(self.probe_directory, "*.json")
        return tuple(path for path in found if path.name.count(".") == 1)

    def marks_files(self) -> tuple[Path, ...]:
        """Return what became of a prescription's marks in each process, sorted by name."""
        return _files(self.probe_directory, "*.marks.json")

    def overlay_files(self) -> tuple[Path, ...]:
        """Return which patched files each process was served, sorted by name."""
        return _files(self.probe_directory, "*.overlay.json")

    def failure_files(self) -> tuple[Path, ...]:
        """Return the probe's notes on what it could not do, one file a process."""
        return _files(self.probe_directory, "*.failure.txt")

    def outputs_files(self) -> tuple[Path, ...]:
        """Return the fingerprints of outputs, one file a process, sorted by name."""
        return _files(self.probe_directory, "*.outputs.jsonl")

    def calls_files(self) -> tuple[Path, ...]:
        """Return the calls that the probe saw, one file a process, sorted by name."""
        return _files(self.probe_directory, "*.calls.json")


def current_folder() -> Path:
    """Return the folder that we were started in, also when it has been removed since.

    Then it serves for messages, and to look for files that are not there either.
    """
    try:
        return Path.cwd()
    except OSError:
        return Path("/", os.environ.get("PWD", ""))


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


def create_bundle(
    root: Path,
    name: str,
    *,
    exact: bool = False,
    on_problem: Callable[[str], None] | None = None,
) -> Bundle:
    """Make an empty bundle below ``root`` and let ``latest`` point to it.

    A name that is taken gets a number, unless it must be ``exact``: a name that the user chose
    is refused instead, because a later ``diff before after`` would read the older run. A
    ``latest`` that cannot be moved costs no run: ``on_problem`` is told.
    """
    check_name(name)
    try:
        root.mkdir(parents=True, exist_ok=True)
        _ignore_in_git(root)
        bundle = Bundle(_make_directory(root.absolute(), name, exact=exact))
    except OSError as error:
        raise _not_writable(root, error) from error
    try:
        for directory in (bundle.trace_directory, bundle.log_directory, bundle.probe_directory):
            directory.mkdir()
    except OSError as error:
        shutil.rmtree(bundle.path, ignore_errors=True)
        raise _not_writable(root, error) from error
    try:
        _point_latest(root, bundle.name)
    except OSError as error:
        if on_problem is not None:
            on_problem(f"{root / LATEST} does not name this run: {error.strerror or error}")
    return bundle


def open_bundle(path: Path) -> Bundle:
    """Return the bundle in the folder ``path``, after reading its manifest once."""
    bundle = Bundle(path.absolute())
    if not _is_file(bundle.manifest_path):
        raise DoctorError(
            f"{_short(path)} is not a bundle: it has no {MANIFEST_NAME}.",
            slug="not-a-bundle",
            hint=f"Give a folder below {ROOT_NAME}/, as `recompile-doctor run` makes it.",
        )
    bundle.remember(_read_manifest(bundle.manifest_path))
    return bundle


def is_bundle(path: Path) -> bool:
    """Return whether ``path`` is the folder of a bundle: its manifest names a bundle version."""
    try:
        return b"bundle_version:" in _read_start(path / MANIFEST_NAME, _LARGEST_MANIFEST)
    except OSError:
        return False


def is_latest(bundle: Bundle) -> bool:
    """Return whether ``bundle`` is the newest of the current folder."""
    try:
        return latest_bundle(bundle_root(current_folder())).path.resolve() == bundle.path.resolve()
    except (DoctorError, OSError):
        return False


def find_bundle(root: Path, text: str) -> Bundle:
    """Return the bundle that ``text`` names: ``latest``, a name below ``root``, or a path."""
    if text == LATEST:
        return latest_bundle(root)
    if _what_is_wrong(text) is None and _is_file(root / text / MANIFEST_NAME):
        return open_bundle(root / text)
    return open_bundle(Path(text))


def latest_bundle(root: Path) -> Bundle:
    """Return the newest bundle below ``root``."""
    pointer = root / LATEST
    try:
        if pointer.is_file():  # where symbolic links are impossible
            name = _read_start(pointer, _LARGEST_POINTER).decode("utf-8", "replace").strip()
            if _what_is_wrong(name) is None and (root / name).is_dir():
                return open_bundle(root / name)
        elif pointer.is_dir():
            return open_bundle(pointer.resolve())
    except OSError as error:
        raise _unreadable(pointer, error.strerror or str(error)) from error
    raise DoctorError(
        f"There is no run below {root} yet.",
        slug="no-bundle",
        hint="Start one with `recompile-doctor run train.py`, or name a log to read.",
    )


def write_manifest(bundle: Bundle, manifest: Manifest) -> None:
    """Write the manifest in one step: a reader sees the old one or the new one."""
    try:
        _replace(bundle.manifest_path, _manifest_text(manifest))
    except OSError as error:
        raise _not_writable(bundle.path, error) from error
    bundle.remember(manifest)


def overwrite_manifest(bundle: Bundle, manifest: Manifest) -> bool:
    """Write the manifest over the old one, in the room that it has; say whether that went well.

    For a disk that is full: the blocks of the old manifest are there already.
    """
    data = _manifest_text(manifest).encode()
    try:
        with bundle.manifest_path.open("r+b", buffering=0) as file:
            # Half a manifest would be worse than the old one.
            if len(data) > os.fstat(file.fileno()).st_blocks * 512 or file.write(data) < len(data):
                return False
            file.truncate()
    except (OSError, AttributeError):  # no st_blocks on Windows
        return False
    bundle.remember(manifest)
    return True


def remove_caches(bundle: Bundle) -> None:
    """Remove the compile caches of the run: they can be gigabytes, and no report reads them."""
    shutil.rmtree(bundle.cache_directory, ignore_errors=True)


def _files(directory: Path, pattern: str) -> tuple[Path, ...]:
    return tuple(sorted(path for path in directory.glob(pattern) if _is_file(path)))


def _is_file(path: Path) -> bool:
    """Return whether ``path`` is a regular file; a name that is too long or forbidden is none."""
    try:
        return path.is_file()
    except OSError:
        return False


def _read_start(path: Path, size: int) -> bytes:
    """Return the first bytes of a regular file; to open a pipe would wait for a writer."""
    if not path.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file")
    with path.open("rb") as file:
        return file.read(size)


def _what_is_wrong(name: str) -> str | None:
    if not name or name.strip() != name:
        return "is empty or has spaces at an end"
    if not name.isprintable():
        return "has characters that cannot be printed"
    if len(os.fsencode(name)) > _LONGEST_NAME:
        return f"is longer than {_LONGEST_NAME} bytes"
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


def _manifest_text(manifest: Manifest) -> str:
    """Return a manifest as YAML; of a command with a long list of files only the first are kept."""
    words: list[str] = []
    size = 0
    for word in manifest.command:
        size += len(word) + 1
        if size > _MOST_WORDS_BYTES:
            words.append(f"... and {len(manifest.command) - len(words)} more")
            manifest = replace(manifest, command_cut=True)
            break
        words.append(word)
    content = msgspec.to_builtins(replace(manifest, command=tuple(words)))
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True)


def _read_manifest(path: Path) -> Manifest:
    content = _read_yaml(path)
    version = content.get("bundle_version") if isinstance(content, dict) else None
    if isinstance(version, int) and BUNDLE_VERSION < version < _IMPLAUSIBLE_VERSION:
        raise DoctorError(
            f"{path.parent} was written by a newer recompile-doctor (bundle version {version}).",
            slug="bundle-too-new",
            hint=f"Upgrade recompile-doctor; this one reads versions up to {BUNDLE_VERSION}.",
        )
    try:
        return msgspec.convert(content, Manifest)
    except msgspec.ValidationError as error:
        raise _unreadable(path, str(error)) from error


def _read_yaml(path: Path) -> Any:
    try:
        data = _read_start(path, _LARGEST_MANIFEST + 1)
        if len(data) > _LARGEST_MANIFEST:
            raise _unreadable(path, "it is too large for a manifest")
        text = data.decode("utf-8")
        try:
            # The loader made of C is a hundred times as fast; not every PyYAML has it.
            return _load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except yaml.YAMLError:
            if len(data) > _LARGEST_FOR_PYTHON:
                raise
            # It refuses the escape of a lone surrogate: an argument that is not UTF-8.
            return _load(text, yaml.SafeLoader)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    except yaml.YAMLError as error:
        raise _unreadable(path, str(error).splitlines()[0]) from error
    except _RAISED_BY_YAML as error:
        raise _unreadable(path, "it is damaged") from error


def _load(text: str, loader: Any) -> Any:
    # An alias lets a few lines stand for billions, and C code that descends has no limit of depth.
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or depth > _DEEPEST_MANIFEST:
            raise yaml.YAMLError("it has an alias (*) or is nested too deeply")
    return yaml.load(text, Loader=loader)


def _unreadable(path: Path, reason: str) -> DoctorError:
    return DoctorError(
        f"{_short(path)} cannot be read: {reason}",
        slug="bundle-unreadable",
        hint="Its logs can still be read: give the trace/ or logs/ folder of the bundle instead.",
    )


def _not_writable(path: Path, error: OSError) -> DoctorError:
    return DoctorError(
        f"{path} cannot be written: {error.strerror or error}.",
        slug="bundle-not-writable",
        hint="Free some space, or start the run in a folder that you may write to.",
    )


def _short(path: Path) -> str:
    """Return a path for a message: its end, when it is thousands of characters long."""
    text = str(path)
    return text if len(text) <= _LONGEST_SHOWN else f"...{text[-_LONGEST_SHOWN:]}"
