"""Fills the chain of one recompile: from the recompile back to the user's call."""

from collections.abc import Iterator

from recompile_doctor.diagnosis.attribution import Cause, parse_size
from recompile_doctor.diagnosis.diagnose import Diagnosis
from recompile_doctor.diagnosis.finding import Evidence, Finding
from recompile_doctor.diagnosis.rule import recompile_evidence
from recompile_doctor.events.user_code import user_frames
from recompile_doctor.events.vocabulary import SymbolCreated
from recompile_doctor.model.expression import expression_text
from recompile_doctor.model.frame import resume_point
from recompile_doctor.model.reason import GuardFailure, ShapeGuardFailure, SizeMismatch
from recompile_doctor.model.run import Compilation
from recompile_doctor.model.source import SizeSource, source_of
from recompile_doctor.reports.chain import Chain, ChainStep, ListedEntry


def trace_back(cause: Cause, diagnosis: Diagnosis) -> Chain:
    """Return the chain from a recompile to the line that called the compiled function."""
    recompile = cause.recompile
    findings = [
        each
        for each in diagnosis.findings
        if any(ref.key == recompile.key for ref in each.recompiles)
    ]
    steps = (
        _recompile_step(cause),
        *_guard_steps(cause),
        *(step for failure in cause.chosen.failures[:1] for step in _origin(failure, cause)),
        *(_finding_step(each, cause, diagnosis) for each in findings),
        *_resume_steps(recompile, diagnosis),
        *_argument_steps(cause),
    )
    entries = tuple(
        ListedEntry(
            "?" if candidate.reported.entry is None else str(candidate.reported.entry),
            candidate.reported.text,
            decisive=candidate is cause.chosen,
        )
        for candidate in sorted(
            (cause.chosen, *cause.others),
            key=lambda each: recompile.failures.index(each.reported),
        )
    )
    return Chain(f"Why {recompile.key} of {recompile.frame} was compiled", steps, entries)


def _recompile_step(cause: Cause) -> ChainStep:
    recompile = cause.recompile
    cost = (
        "its compile time is unknown"
        if recompile.seconds is None
        else f"it took {recompile.seconds:.2f} s to compile (measured)"
    )
    rank = "" if recompile.rank is None else f" on rank {recompile.rank}"
    return ChainStep(
        "recompile",
        f"{recompile.key} of {recompile.frame}{rank}; {cost}",
        evidence=recompile_evidence(cause),
    )


def _guard_steps(cause: Cause) -> Iterator[ChainStep]:
    entry = cause.chosen.reported.entry
    of_entry = "" if entry is None else f" of cached entry {entry}, the closest to serving,"
    for failure in cause.chosen.failures:
        yield ChainStep("guard", f"{_check(failure)}{of_entry} failed{_actual(failure, cause)}")
    if cause.joint:
        names = ", ".join(f"{each.source} dim {each.dim}" for each in cause.joint)
        yield ChainStep(
            "guard",
            f"torch stops at the first; this entry could not have taken {names} either",
            note="inferred from the sizes of both calls",
        )


def _check(failure: GuardFailure) -> str:
    if isinstance(failure, ShapeGuardFailure):
        return f"`{expression_text(failure.expression)}`"
    return f"`{failure.text.strip().splitlines()[0]}`" if failure.text.strip() else "a guard"


def _actual(failure: GuardFailure, cause: Cause) -> str:
    if not isinstance(failure, ShapeGuardFailure):
        return ""
    seen = [f"{size} was {cause.sizes[size]}" for size in failure.sizes if size in cause.sizes]
    return f": {', '.join(seen)}" if seen else ""


def _origin(failure: GuardFailure, cause: Cause) -> Iterator[ChainStep]:
    """Yield where the guarded value comes from: its symbol, or the constant it was compiled as."""
    entry = cause.chosen.entry
    if entry is None:
        return
    for size in _sizes(failure):
        symbol = _symbol_of(entry, size)
        if symbol is not None:
            yield from _symbol_steps(symbol, entry)
        elif isinstance(failure, SizeMismatch):
            yield ChainStep(
                "constant", f"entry {entry.key} was compiled for {size} = {failure.expected}"
            )


def _sizes(failure: GuardFailure) -> tuple[SizeSource, ...]:
    if isinstance(failure, SizeMismatch):
        return (SizeSource(failure.source, failure.dim),)
    return failure.sizes if isinstance(failure, ShapeGuardFailure) else ()


def _symbol_of(entry: Compilation, size: SizeSource) -> SymbolCreated | None:
    return next((each for each in entry.symbols if parse_size(each.source) == size), None)


def _symbol_steps(symbol: SymbolCreated, entry: Compilation) -> Iterator[ChainStep]:
    stack = user_frames(symbol.user_stack)
    hint = "" if symbol.hint is None else f", created when it was {symbol.hint}"
    bounds = "" if symbol.value_range is None else f", range {symbol.value_range}"
    yield ChainStep(
        "symbol",
        f"{symbol.symbol} stands for {symbol.source}{hint}{bounds}",
        location=stack[-1] if stack else None,
        note="first use of the value" if stack else "",
        evidence=Evidence(symbol.origin.position, symbol.source),
    )
    for guard in entry.guards:
        asked = user_frames(guard.user_stack)
        if symbol.symbol in guard.expression.replace("(", " ").replace(",", " ").split() and asked:
            yield ChainStep(
                "asked by",
                f"`{guard.expression}` ({guard.role.value})",
                location=asked[-1],
                evidence=Evidence(guard.origin.position, guard.expression),
            )


def _finding_step(finding: Finding, cause: Cause, diagnosis: Diagnosis) -> ChainStep:
    lead = cause.recompile.key in finding.leading
    claim = diagnosis.claim_of(finding, cause)
    message = finding.message if claim is None else claim.message
    return ChainStep(
        "cause" if lead else "see also",
        f"{finding.rule}: {message}; {finding.why}" if lead else message,
        location=finding.location.frame if finding.location else None,
        note=finding.location.role.value if finding.location else "",
    )


def _resume_steps(recompile: Compilation, diagnosis: Diagnosis) -> Iterator[ChainStep]:
    """Yield the graph break that made the frame, where it is a resume function."""
    point = None if recompile.code_name is None else resume_point(recompile.code_name)
    if point is None:
        return
    place = diagnosis.breaks.at(recompile.frame.file, point.line)
    kind = place.title if place else ""
    reason = f" ({kind})" if kind else ""
    yield ChainStep(
        "graph break",
        f"{recompile.code_name} is {point.function} going on after the graph break at line "
        f"{point.line}{reason}; ___stack0 and the like are values that the break left behind",
        location=place.place if place else None,
        evidence=Evidence(place.origin.position, kind or "graph break") if place else None,
    )


def _argument_steps(cause: Cause) -> Iterator[ChainStep]:
    recompile = cause.recompile
    failure = cause.chosen.failures[0] if cause.chosen.failures else None
    source = getattr(failure, "source", None)
    sizes = () if failure is None else _sizes(failure)
    if source is None and sizes:
        source = source_of(sizes[0])
    name = None if source is None else source.root_name
    callers = user_frames(recompile.callers)
    if name is None and not callers:
        return
    what = "" if name is None else f"{name} in {recompile.frame.function or 'the frame'}"
    called = "called here" if callers else "the log does not tell where it was called"
    yield ChainStep(
        "argument" if name else "call",
        what or str(recompile.frame),
        location=callers[-1] if callers else None,
        note=called,
    )
