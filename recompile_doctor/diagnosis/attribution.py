"""The cause of each recompile: which cached entry was closest to serving the call, and why not.

Torch lists, for each cached entry that it tried, the guards that failed (only the first that
failed, for some kinds). A recompile would have been avoided if *one* entry had passed, so the
cause is what kept the entry that was closest to passing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from recompile_doctor.events.vocabulary import EntryFailure, InputDescribed
from recompile_doctor.ids import CompileId
from recompile_doctor.model.reason import (
    GuardFailure,
    ShapeGuardFailure,
    SizeMismatch,
    StrideMismatch,
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
    """Finds the compilation that a cached entry's id names."""

    def __init__(self, run: Run) -> None:
        self._by_key = {each.key: each for each in run.compilations}

    def entry_of(self, recompile: Compilation, entry: CompileId | None) -> Compilation | None:
        """Return the compile that made ``entry``, which ``recompile`` reports as failed."""
        if entry is None:
            return None
        plain = CompileId(entry.frame_id, entry.frame_compile_id, 0, entry.autograd_id)
        key = CompileKey(recompile.key.process, recompile.key.epoch, plain)
        return self._by_key.get(key)


def find_causes(run: Run) -> tuple[Cause, ...]:
    """Return the cause of each recompile of ``run``, in order."""
    index = EntryIndex(run)
    return tuple(find_cause(each, index) for each in run.recompiles)


def find_cause(recompile: Compilation, index: EntryIndex) -> Cause:
    """Return why ``recompile``, which has failures, could not use a cached entry."""
    candidates = tuple(
        Candidate(
            failure,
            index.entry_of(recompile, failure.entry),
            parse_reason(failure.text, stripped=recompile.sources_stripped),
        )
        for failure in recompile.failures
    )
    sizes = known_sizes(recompile, candidates)
    chosen = min(candidates, key=_distance)
    return Cause(
        recompile=recompile,
        chosen=chosen,
        others=tuple(each for each in candidates if each is not chosen),
        joint=tuple(_joint_changes(recompile, chosen)),
        sizes=sizes,
    )


def _distance(candidate: Candidate) -> tuple[int, bool, bool, int, int, int]:
    """Return how far an entry is from passing; the smallest is the cause.

    Guards on global state and types stand before those on sizes and hide them, so an entry that
    fails such a guard is further away. Among the others an entry whose sizes all fit (only a
    stride or an offset does not) is closest. Then come those that failed a guard on a symbol:
    a size that was compiled as a constant was never meant to be another. Of these the one with
    fewest failures counts, of static ones the most general, and the newest on a tie.
    """
    geometry = [each for each in candidate.failures if _is_geometry(each)]
    static = any(isinstance(each, SizeMismatch) for each in geometry)
    return (
        len(candidate.failures) - len(geometry),
        any(_is_size(each) for each in geometry),
        static,
        -symbolic_sizes(candidate.entry) if static else 0,
        len(candidate.failures),
        -_age_rank(candidate),
    )


def _is_geometry(failure: GuardFailure) -> bool:
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


def _joint_changes(recompile: Compilation, chosen: Candidate) -> Iterable[SizeMismatch]:
    """Yield the sizes that the chosen entry could not have taken either, beside the named ones."""
    if chosen.entry is None or not all(_is_geometry(each) for each in chosen.failures):
        return
    named = {(each.source, each.dim) for each in chosen.failures if isinstance(each, SizeMismatch)}
    for failure in chosen.failures:
        if isinstance(failure, ShapeGuardFailure):
            named.update((each.source, each.dim) for each in failure.sizes)
    general = symbolic_dims(chosen.entry)
    before = {each.source: each for each in chosen.entry.inputs}
    for new in recompile.inputs:
        old = before.get(new.source)
        if old is None or len(old.sizes) != len(new.sizes):
            continue
        source = parse_source(new.source)
        yield from (
            each
            for each in _changed_sizes(source, old, new, general)
            if (each.source, each.dim) not in named
        )


def _changed_sizes(
    source: Source, old: InputDescribed, new: InputDescribed, general: set[SizeSource]
) -> Iterable[SizeMismatch]:
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
