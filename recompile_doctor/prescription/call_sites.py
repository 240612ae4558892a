"""Whose file a call stands in: what a patch may touch, and what it is asked for."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath

from recompile_doctor.events.user_code import is_standard_library_frame, is_torch_frame
from recompile_doctor.events.vocabulary import StackFrame
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.prescription.marks import Mark

ENVIRONMENT_ADVICE = "Use the environment variables instead: they reach it without an edit."


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the user's program as it was read; ``name`` is its path in the diff, with ``/``."""

    path: Path
    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class FrameMarks:
    """The marks that one compiled function is to get.

    ``calls`` are lines that called it, where the log tells some; a line serves when the callee
    cannot be found in the text alone. ``ranks`` tells how many dimensions a source has, where
    that is the same in all compiles; only the declarative form needs it.
    """

    frame: FrameKey
    marks: tuple[Mark, ...]
    calls: tuple[StackFrame, ...] = ()
    ranks: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class NotPatched:
    """What was left alone: a whole function, a call, or some marks of it, and why."""

    why: str
    file: str | None = None
    line: int | None = None
    marks: tuple[Mark, ...] = ()
    advice: str = ENVIRONMENT_ADVICE

    def __str__(self) -> str:
        place = "" if self.file is None else f"{self.file}:{self.line}: "
        return f"{place}{self.why}"


def why_not_editable(path: str) -> str | None:
    """Return why a file of this name is not the user's to edit, or None when it may be."""
    slashed = path.replace("\\", "/")
    if not slashed.endswith((".py", ".pyw")):
        if slashed.startswith("<"):
            return f"{slashed} is generated code and no file"
        return f"{slashed} is not a Python file"
    if slashed.startswith("<") or "ipykernel_" in slashed or "/ipython-input-" in slashed:
        return "it is a notebook cell, and a patch is made for files only"
    if is_torch_frame(slashed):
        return "it is torch's own code"
    if is_standard_library_frame(slashed):
        return "it is Python's own code"
    if any(part in {"site-packages", "dist-packages"} for part in PurePath(slashed).parts):
        return "it is an installed library, not your code"
    return None


def read_source_files(paths: Iterable[Path], root: Path) -> tuple[SourceFile, ...]:
    """Return the files that exist and may be edited, each once; names are relative to ``root``.

    A file outside ``root`` is left out: a patch for it could not be applied there.
    """
    root = _absolute(root)
    found: dict[Path, SourceFile] = {}
    for given in paths:
        path = _absolute(root / given)
        if path in found or why_not_editable(str(path)) is not None:
            continue
        if not path.is_relative_to(root) or not path.is_file():
            continue
        try:
            content = path.read_bytes()
        except OSError:
            continue
        found[path] = SourceFile(path, path.relative_to(root).as_posix(), content)
    return tuple(found.values())


def file_of(name: str, files: Iterable[SourceFile]) -> SourceFile | None:
    """Return the file that a log names: by its path, else by the longest unique end of it.

    A log can come from another machine, and some messages cut the beginning of a path.
    """
    files = tuple(files)
    for file in files:
        if str(file.path) == name or (Path(name).is_absolute() and _is_same(file.path, name)):
            return file
    parts = PurePath(name.replace("\\", "/")).parts
    shared = [(_shared_end(parts, PurePath(file.name).parts), file) for file in files]
    longest = max((length for length, _ in shared), default=0)
    best = [file for length, file in shared if length == longest]
    return best[0] if longest and len(best) == 1 else None


def _absolute(path: Path) -> Path:
    # Not resolve(): a file reached by a link inside the root keeps the name that the user knows.
    return Path(os.path.normpath(path.absolute()))


def _is_same(path: Path, name: str) -> bool:
    try:
        return path.samefile(name)
    except OSError:
        return False


def _shared_end(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    count = 0
    for left, right in zip(reversed(one), reversed(other), strict=False):
        if left != right:
            break
        count += 1
    return count
