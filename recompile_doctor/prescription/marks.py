"""What a prescription is made of: marks on dimensions, config flags, and advice."""

from dataclasses import dataclass
from enum import Enum

from recompile_doctor.events.vocabulary import MarkKind
from recompile_doctor.model.frame import FrameKey


@dataclass(frozen=True, slots=True)
class Mark:
    """How torch is to treat one dimension of a source, or a source that is an int.

    ``source`` is torch's full name (``L['x']``); ``dim`` is None for an int. A source that ends in
    ``[...]`` stands for every member of a container, also those to come. Marks with the same
    ``shape_group`` are promised to be equal in every call (``shape_id``). ``minimum`` and
    ``maximum`` are promised bounds, both inclusive; ``hint`` is a typical size for which torch
    may optimise. Groups, bounds and hints exist for unbacked marks only.
    ``frame`` is the code object that takes the source (a resume function by its own name); None
    is any. An environment variable has no frame: there the mark holds for all.
    """

    source: str
    dim: int | None
    kind: MarkKind
    shape_group: str | None = None
    minimum: int | None = None
    maximum: int | None = None
    hint: int | None = None
    frame: FrameKey | None = None


@dataclass(frozen=True, slots=True)
class Flag:
    """One torch config setting. ``name`` is its path: ``torch._dynamo.config.NAME``."""

    name: str
    value: bool | int | str


@dataclass(frozen=True, slots=True)
class Advice:
    """What no mark or flag can do: which code to change, and how.

    ``rule`` is the finding's rule, ``text`` says what to rewrite and why, ``example`` is code
    that runs, ``finding`` the id of the finding that it is for.
    """

    rule: str
    finding: str
    text: str
    example: str = ""


class Status(Enum):
    """Whether a rerun has shown that a prescription works."""

    UNVERIFIED = "unverified"
    VERIFIED = "verified"


@dataclass(frozen=True, slots=True)
class Prescription:
    """A set of changes that belong together.

    ``id`` names it within a run (``strongest``, ``dynamic-only``, ...). ``explains`` are the ids
    of the findings that it is for. ``estimated_recompiles_after`` comes from a replay of the
    sizes seen and is an estimate; None is unknown. ``risks`` says in words what can go wrong.
    """

    id: str
    title: str
    marks: tuple[Mark, ...] = ()
    flags: tuple[Flag, ...] = ()
    advice: tuple[Advice, ...] = ()
    explains: tuple[str, ...] = ()
    estimated_recompiles_after: int | None = None
    risks: tuple[str, ...] = ()
    status: Status = Status.UNVERIFIED
