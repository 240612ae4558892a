"""What `verify` has shown of prescriptions, kept in the bundle for `suggest` to say."""

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from recompile_doctor.bundle import Bundle
from recompile_doctor.errors import DoctorError
from recompile_doctor.prescription.marks import Prescription, Status

FILE_NAME = "verified.json"
_FORMAT = 1
_LARGEST = 1 << 24


@dataclass(frozen=True, slots=True)
class Shown:
    """What a rerun showed of one prescription.

    ``content`` is what the run had applied. ``verdict`` and ``outputs`` are the words of verify;
    ``before`` and ``after`` are recompiles. ``proof`` tells that it measured better; else ``why``
    says what speaks against it.
    """

    prescription: Prescription
    content: str
    proof: bool
    verdict: str
    outputs: str
    before: int
    after: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class ShownInBundle:
    """All that was shown for one bundle. ``best`` is the id of the best, None when none is.

    ``patches`` are runs of the patched program, under the ids of their prescriptions.
    """

    torch_version: str | None = None
    best: str | None = None
    shown: tuple[Shown, ...] = ()
    patches: tuple[Shown, ...] = ()
    format: int = _FORMAT

    @property
    def proof(self) -> Shown | None:
        """Return the prescription that verify kept."""
        return next((each for each in self.shown if each.prescription.id == self.best), None)

    def of(self, content: str) -> Shown | None:
        """Return what was shown of a run that had ``content`` applied."""
        return next((each for each in self.shown if each.content == content), None)

    def joined(self, earlier: "ShownInBundle") -> "ShownInBundle":
        """Return this with what an earlier verify of the same torch has shown of others."""
        if earlier.torch_version != self.torch_version:
            return self
        known = {each.content for each in self.shown}
        kept = tuple(each for each in earlier.shown if each.content not in known)
        best = self.best
        if best is None and any(each.prescription.id == earlier.best for each in kept):
            best = earlier.best
        patches = (*self.patches, *earlier.patches)
        return replace(self, shown=(*self.shown, *kept), best=best, patches=patches)

    def patch_of(self, prescription: Prescription) -> Shown | None:
        """Return what the latest run of a prescription's patch showed."""
        for each in self.patches:
            same = set(each.prescription.marks) == set(prescription.marks)
            if same and each.prescription.id == prescription.id:
                return each
        return None


def write_shown(bundle: Bundle, shown: ShownInBundle) -> None:
    """Keep in the bundle what verify has shown."""
    path = bundle.path / FILE_NAME
    kept = replace(
        shown,
        shown=tuple(
            replace(
                each,
                prescription=replace(each.prescription, advice=(), status=_status(each)),
            )
            for each in shown.shown
        ),
    )
    temporary = path.with_name(f".{FILE_NAME}.{os.getpid()}")
    try:
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1))
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise DoctorError(
            f"{path} cannot be written: {error.strerror or error}.",
            slug="bundle-not-writable",
            hint="The report is right; only `suggest` will not know of it.",
        ) from error


def _status(shown: Shown) -> Status:
    return Status.VERIFIED if shown.proof else Status.UNVERIFIED


def read_shown(path: Path) -> ShownInBundle:
    """Return what verify has shown for the bundle in a folder; nothing where it never ran.

    A file that cannot be read counts as none: `suggest` then says "unverified", which is true.
    """
    if not (path / FILE_NAME).is_file():  # to open a pipe would wait for a writer
        return ShownInBundle()
    try:
        with (path / FILE_NAME).open("rb") as file:
            found = msgspec.json.decode(file.read(_LARGEST), type=ShownInBundle)
    except (OSError, msgspec.DecodeError, RecursionError):
        return ShownInBundle()
    return found if found.format == _FORMAT else ShownInBundle()
