"""What became of a prescription in a run: which marks and settings took effect, read back."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from recompile_doctor.bundle import Bundle


@dataclass(frozen=True, slots=True)
class AppliedMark:
    """One mark of a prescription file over all processes of a run.

    ``compiles`` counts how often torch was about to compile the mark's function, ``marked`` how
    often a tensor was marked then. ``dropped`` are options that this torch does not take,
    ``problems`` say why a tensor could not be marked.
    """

    source: str
    dim: int
    kind: str
    function: str | None = None
    compiles: int = 0
    marked: int = 0
    dropped: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Applied:
    """The marks in the order of the file, and for each setting what came of it (``set``)."""

    marks: tuple[AppliedMark, ...] = ()
    config: dict[str, str] = field(default_factory=dict)

    @property
    def without_effect(self) -> tuple[AppliedMark, ...]:
        """Return the marks that no tensor got in any process."""
        return tuple(each for each in self.marks if not each.marked)


def read_applied(bundle: Bundle) -> Applied:
    """Return what the processes of a run applied; nothing for a run without a prescription.

    A process that never imported torch's compiler has nothing to say. A file that cannot be read
    is left out.
    """
    total = Applied()
    for content in _readable(bundle):
        marks = content.marks
        if len(total.marks) == len(marks):
            marks = tuple(map(_sum, total.marks, marks))
        total = Applied(marks, {**total.config, **content.config})
    return total


def _readable(bundle: Bundle) -> Iterator[Applied]:
    for path in bundle.marks_files():
        content = _read(path)
        if content is not None:
            yield content


def _read(path: Path) -> Applied | None:
    try:
        content: Any = msgspec.json.decode(path.read_bytes())
        return msgspec.convert(content, Applied)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        return None


def _sum(one: AppliedMark, other: AppliedMark) -> AppliedMark:
    return replace(
        one,
        compiles=one.compiles + other.compiles,
        marked=one.marked + other.marked,
        dropped=tuple(dict.fromkeys((*one.dropped, *other.dropped))),
        problems=tuple(dict.fromkeys((*one.problems, *other.problems))),
    )
