"""A patch as values: made by ``patch``, written by ``apply``, which needs no parser for it."""

from dataclasses import dataclass
from pathlib import Path

from recompile_doctor.prescription.call_sites import NotPatched
from recompile_doctor.prescription.marks import Mark


@dataclass(frozen=True, slots=True)
class PatchedFile:
    """One file that changes; ``name`` is its path in the diff."""

    path: Path
    name: str
    before: bytes
    after: bytes


@dataclass(frozen=True, slots=True)
class PatchResult:
    """An edit of the user's files, not yet made.

    ``marked`` are the marks that some call has afterwards, whether the patch writes them or they
    were there; ``declined`` says what is left alone and why, by the lines of the files as they
    are; ``losses`` says what the marks lose in this form. ``diff`` holds the bytes of files that
    are not UTF-8 as surrogates: write ``diff_bytes``.
    """

    diff: str
    files: tuple[PatchedFile, ...]
    declined: tuple[NotPatched, ...]
    losses: tuple[str, ...]
    marked: tuple[Mark, ...]

    @property
    def diff_bytes(self) -> bytes:
        """Return the diff as it is to be written to a file or a pipe."""
        return self.diff.encode("utf-8", "surrogateescape")
