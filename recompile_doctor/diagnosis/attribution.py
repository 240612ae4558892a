"""The cause of each recompile: which cached entry was closest to serving the call, and why not.

Torch lists, for each cached entry that it tried, the guards that failed (only the first that
failed, for some kinds). A recompile would have been avoided if *one* entry had passed, so the
cause is what kept the entry that was closest to passing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from recompile_doctor.events.vocabulary import EntryFailure, InputDescribed
from recompile_doctor.ids import CompileId
from recompile_doctor.model.reason import (
    AttributeMissing,
    GuardFailure,
    LengthMismatch,
    ShapeGuardFailure,
    SizeMismatch,
    StrideMismatch,
    ValueMismatch,
    parse_reason,
)
from recompile_doctor.model.run import Compilation, CompileKey, Run
from recompile_doctor.model.source import SizeSource, Source, parse_leaf, parse_source


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cached entry that was tried for a call, and the guards of it that failed.

    ``entry`` is None where the log does not hold the entry's own compile.
    """

    reported: EntryFailure
    entry: Compilation | None
    failures: tuple[GuardFailure, ...]


@dataclass(frozen=True, slots=True)
class Cause:
    """Why one recompile happened.

    ``chosen`` is the entry closest to passing, ``others`` the rest in torch's order. ``joint``
    are sizes that also differ from the chosen entry's in the same call although torch did not
    name them: it stops at the first. They are known only where the log has the sizes of inputs.
    ``sizes`` are the sizes of the new call, as far as known.
    """

    recompile: Compilation
    chosen: Candidate
    others: tuple[Candidate, ...]
    joint: tuple[SizeMismatch, ...]
    sizes: Mapping[SizeSource, int]


class EntryIndex:
    """What is known of cached entries: which compile made each, and the constants it has.

    Torch names a constant of an entry (``n == 2``) only when it fails; what one recompile tells
    of an entry helps to judge the others.
    """

    def __init__(self, run: Run) -> None:
        self._by_key = {each.key: each for each in run.compilations}
        self._constants: dict[tuple[CompileKey, str], str] = {}
        for recompile in run.recompiles:
            for candidate in self.candidates(recompile):
                if candidate.entry is not None:
                    for source, value in _constants(candidate.failures):
                        self._constants[(candidate.entry.key, source)] = value

    def entry_of(self, recompile: Compilation, entry: CompileId | None) -> Compilation | None:
        """Return the compile that made ``entry``, which ``recompile`` reports as failed."""
        if entry is None:
            return None
        plain = CompileId(entry.frame_id, entry.frame_compile_id, 0, entry.autograd_id)
        key = CompileKey(recompile.key.process, recompile.key.epoch, plain)
        return self._by_key.get(key)

    def candidates(self, recompile: Compilation) -> tuple[Candidate, ...]:
        """Return the entries that torch tried for ``recompile``, in its order."""
        return tuple(
            Candidate(
                failure,
                self.entry_of(recompile, failure.entry),
                _parsed(failure.text, recompile.sources_stripped),
            )
            for failure in recompile.failures
        )

    def is_novel(
        self, source: str, recompile: Compilation, candidates: Iterable[Candidate]
    ) -> bool:
        """Return whether no entry is known to have the value that ``source`` has in this call.

        The value of the call is known when the entry that it made failed on it later.
        """
        value = self._constants.get((recompile.key, source))
        if value is None:
            return False
        entries = (each.entry for each in candidates if each.entry is not None)
        return all(self._constants.get((entry.key, source)) != value for entry in entries)


@lru_cache(maxsize=8192)
def _parsed(text: str, stripped: bool | None) -> tuple[GuardFailure, ...]:
    """Return a reason's checks; one entry fails in many recompiles with the same words."""
    return parse_reason(text, stripped=stripped)


def _constants(failures: Iterable[GuardFailure]) -> Iterator[tuple[str, str]]:
    for failure in failures:
        if isinstance(failure, ValueMismatch | LengthMismatch) and failure.source is not None:
            yield str(failure.source), repr(failure.expected)


def find_causes(run: Run) -> tuple[Cause, ...]:
    """Return the cause of each recompile of ``run``, in order."""
    index = EntryIndex(run)
    return tuple(find_cause(each, index) for each in run.recompiles)


def find_cause(recompile: Compilation, index: EntryIndex) -> Cause:
    """Return why ``recompile``, which has failures, could not use a cached entry."""
    candidates = index.candidates(recompile)

    def distance(candidate: Candidate) -> _Distance:
        return _distance(candidate, recompile, candidates, index)

    chosen = min(candidates, key=distance)
    return Cause(
        recompile=recompile,
        chosen=chosen,
        others=tuple(each for each in candidates if each is not chosen),
        joint=tuple(_joint_changes(recompile, chosen)),
        sizes=known_sizes(recompile, candidates),
    )


_Distance = tuple[int, bool, bool, bool, int, int, int]


def _distance(
    candidate: Candidate,
    recompile: Compilation,
    candidates: tuple[Candidate, ...],
    index: EntryIndex,
) -> _Distance:
    """Return how far an entry is from passing; the smallest is the cause.

    An entry for another variant of the program (grad mode, dtype, a flag that other entries have
    right) is further away than any other: such guards stand before those on sizes and hide them.
    Among the others an entry whose sizes all fit is closest. Then come those that failed a guard
    on a symbol: what was compiled as a constant was never meant to be another. Of these the one
    with fewest failures counts, of constant ones the most general, and the newest on a tie; a
    graph for exactly 0 or 1 was never to become general, so it stands behind other constants.
    """
    values = [
        each for each in candidate.failures if _is_new_value(each, recompile, candidates, index)
    ]
    geometry = [each for each in candidate.failures if _is_geometry(each)]
    constant = bool(values) or any(isinstance(each, SizeMismatch) for each in geometry)
    return (
        len(candidate.failures) - len(geometry) - len(values),
        any(_is_size(each) for each in geometry)
        or (bool(values) and not _fits(recompile, candidate)),
        constant,
        any(isinstance(each, SizeMismatch) and each.expected in _SPECIALIZED for each in geometry),
        -symbolic_sizes(candidate.entry) if constant else 0,
        len(candidate.failures),
        -_age_rank(candidate),
    )


def _is_new_value(
    failure: GuardFailure,
    recompile: Compilation,
    candidates: tuple[Candidate, ...],
    index: EntryIndex,
) -> bool:
    if not isinstance(failure, ValueMismatch | LengthMismatch) or failure.source is None:
        return False
    return index.is_novel(str(failure.source), recompile, candidates)


def _fits(recompile: Compilation, candidate: Candidate) -> bool:
    """Return whether all sizes of a call are known to be ones that an entry takes."""
    if candidate.entry is None or not recompile.inputs or not candidate.entry.inputs:
        return False
    return not any(_all_changes(recompile, candidate.entry))


# What torch asks of the base of a view; None is the base of a tensor that is no view.
_ASKED_OF_BASE = ("size", "stride", "storage_offset")


def _is_geometry(failure: GuardFailure) -> bool:
    if isinstance(failure, AttributeMissing):
        return failure.attribute in _ASKED_OF_BASE and failure.type_name == "NoneType"
    return isinstance(failure, SizeMismatch | StrideMismatch | ShapeGuardFailure)


def _is_size(failure: GuardFailure) -> bool:
    if isinstance(failure, ShapeGuardFailure):
        return bool(failure.sizes)
    return isinstance(failure, SizeMismatch)


def _age_rank(candidate: Candidate) -> int:
    entry = candidate.reported.entry
    return -1 if entry is None or entry.frame_compile_id is None else entry.frame_compile_id


def symbolic_sizes(entry: Compilation | None) -> int:
    """Return how many sizes and ints an entry treats as symbols, i.e. how general it is."""
    if entry is None:
        return 0
    constants = _constant_symbols(entry)
    backed = {each.source for each in entry.symbols if each.symbol not in constants}
    marked = {each.source for each in entry.unbacked if each.source is not None}
    return len(backed | marked)


def _is_number(text: str) -> bool:
    return text.strip().lstrip("-").isdigit()


def known_sizes(
    recompile: Compilation, candidates: Iterable[Candidate] = ()
) -> dict[SizeSource, int]:
    """Return the sizes of the call that made torch recompile, as far as the log tells them.

    They stand in the described inputs (trace), as hints of symbols, and as "actual" values in
    the reasons of static entries.
    """
    sizes: dict[SizeSource, int] = {}
    for candidate in candidates:
        for failure in candidate.failures:
            if isinstance(failure, SizeMismatch):
                sizes[SizeSource(failure.source, failure.dim)] = failure.actual
    for symbol in recompile.symbols:
        leaf = parse_size(symbol.source)
        if leaf is not None and symbol.hint is not None and _is_number(symbol.hint):
            sizes[leaf] = int(symbol.hint)
    for each in recompile.inputs:
        source = parse_source(each.source)
        for dim, size in enumerate(each.sizes):
            if size is not None:
                sizes[SizeSource(source, dim)] = size
    return sizes


def parse_size(text: str) -> SizeSource | None:
    """Return the dimension that a symbol's source names, or None when it is no size."""
    leaf = parse_leaf(text)
    return leaf if isinstance(leaf, SizeSource) else None


def _joint_changes(recompile: Compilation, chosen: Candidate) -> Iterator[SizeMismatch]:
    """Yield the sizes that the chosen entry could not have taken either, beside the named ones."""
    if chosen.entry is None:
        return
    named = {(each.source, each.dim) for each in chosen.failures if isinstance(each, SizeMismatch)}
    for failure in chosen.failures:
        if isinstance(failure, ShapeGuardFailure):
            named.update((each.source, each.dim) for each in failure.sizes)
    for change in _all_changes(recompile, chosen.entry):
        if (change.source, change.dim) not in named:
            yield change


def _all_changes(recompile: Compilation, entry: Compilation) -> Iterator[SizeMismatch]:
    """Yield every size of a call that an entry cannot take, as far as inputs are described."""
    general = symbolic_dims(entry)
    before = {each.source: each for each in entry.inputs}
    for new in recompile.inputs:
        old = before.get(new.source)
        if old is not None and len(old.sizes) == len(new.sizes):
            yield from _changed_sizes(parse_source(new.source), old, new, general)


def _changed_sizes(
    source: Source, old: InputDescribed, new: InputDescribed, general: set[SizeSource]
) -> Iterator[SizeMismatch]:
    for dim, (expected, actual) in enumerate(zip(old.sizes, new.sizes, strict=True)):
        if expected is None or actual is None or expected == actual:
            continue
        if SizeSource(source, dim) in general and actual >= _SMALLEST_GENERAL_SIZE:
            continue
        yield SizeMismatch(
            text="",
            source=source,
            dim=dim,
            expected=expected,
            actual=actual,
            on_parameter=new.is_parameter,
        )


# Torch specializes 0 and 1: a backed symbol stands for 2 and more.
_SPECIALIZED = (0, 1)
_SMALLEST_GENERAL_SIZE = 2


def symbolic_dims(entry: Compilation) -> set[SizeSource]:
    """Return the dimensions that an entry treats as symbols, and did not make constant."""
    constants = _constant_symbols(entry)
    return _dims_of(each.source for each in entry.symbols if each.symbol not in constants)


def pinned_dims(entry: Compilation) -> set[SizeSource]:
    """Return the dimensions for which an entry made a symbol that the program made constant."""
    constants = _constant_symbols(entry)
    return _dims_of(each.source for each in entry.symbols if each.symbol in constants)


def _constant_symbols(entry: Compilation) -> set[str]:
    return {each.symbol for each in entry.specializations if _is_number(each.value)}


def _dims_of(sources: Iterable[str]) -> set[SizeSource]:
    leaves = (parse_size(each) for each in sources)
    return {leaf for leaf in leaves if leaf is not None}
