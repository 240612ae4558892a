"""One run as `diff` and the gate see it: counts, functions, findings, and what is in doubt."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from recompile_doctor.diagnosis.finding import OVERVIEWS, Disposition, Finding, RecompileRef
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.model.run import CompileKey

LIMIT_RULE = "recompile-limit-hit"
COLD = "cold"


class Doubt(Enum):
    """Why the counts of a run may say less than they seem to; most are notices of the report."""

    NOTHING_COMPILED = "nothing-compiled"
    CUT_SHORT = "cut-short"
    SILENCED = "logging-silenced"
    FAILED = "program-failed"
    NO_GRAPH = "no-graph-captured"
    STARTS_UNKNOWN = "starts-unknown"


# A run of these kinds may have recompiled more than its logs tell.
TOO_FEW = (Doubt.NOTHING_COMPILED, Doubt.CUT_SHORT, Doubt.SILENCED)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a run, or one function of it, cost. None is unknown, never zero.

    ``graph_breaks`` are distinct places.
    """

    compilations: int = 0
    recompiles: int = 0
    graphs_captured: int | None = None
    graph_breaks: int = 0
    recompile_limit_hits: int = 0
    compile_seconds: float | None = None

    @property
    def runs_eagerly(self) -> bool:
        """Return whether no graph at all was captured, as far as is known."""
        return self.graphs_captured == 0


@dataclass(frozen=True, slots=True)
class FrameFacts:
    """One function of the user's program, with its resume functions."""

    frame: FrameKey
    counts: Counts


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run, read from a bundle, from logs or from a JSON report.

    ``source`` is bundle, trace or text. ``caches`` is ``cold`` or how else the compile caches
    were; it and ``exit_code`` are None where what was read does not tell. ``doubts`` say in words
    what makes the counts doubtful.
    """

    subject: str
    source: str
    torch_version: str | None
    ranks: int
    totals: Counts
    frames: tuple[FrameFacts, ...]
    findings: tuple[Finding, ...]
    unread_records: int = 0
    caches: str | None = None
    exit_code: int | None = None
    doubts: tuple[tuple[Doubt, str], ...] = ()

    @property
    def is_warm(self) -> bool:
        """Return whether earlier runs can have made this one compile less."""
        return self.caches not in (None, COLD)

    def doubt(self, *kinds: Doubt) -> str | None:
        """Return the first doubt of these kinds in words, or None."""
        return next((text for kind, text in self.doubts if kind in kinds), None)


def explains_recompiles(finding: Finding) -> bool:
    """Return whether a finding is the cause of its recompiles, not another view of them."""
    return (
        bool(finding.recompiles) and finding.rule not in OVERVIEWS and finding.together_with is None
    )


def own_breaks(finding: Finding) -> int:
    """Return the places where the graph breaks for this cause; overviews repeat those of others."""
    return 0 if finding.rule in OVERVIEWS else finding.graph_breaks


def limit_hits(finding: Finding) -> int:
    """Return how often torch refused to compile a function again, by this finding."""
    return len(finding.evidence) if finding.rule == LIMIT_RULE else 0


def is_fixable(finding: Finding) -> bool:
    """Return whether a finding is neither expected nor a one-off."""
    return finding.disposition is Disposition.FIXABLE


def recompile_keys(findings: Iterable[Finding]) -> set[CompileKey]:
    """Return the recompiles that findings explain, each once."""
    return {ref.key for finding in findings for ref in finding.recompiles}


def recompile_name(ref: RecompileRef, facts: RunFacts) -> str:
    """Return a recompile's name, as in the report of the run: ``0/2`` or ``rank1:reset1:0/2``."""
    parts = [str(ref.key)]
    if ref.key.epoch:
        parts.insert(0, f"reset{ref.key.epoch}")
    if facts.ranks > 1 and ref.rank is not None:
        parts.insert(0, f"rank{ref.rank}")
    elif len({each.process for each in recompile_keys(facts.findings)}) > 1:
        parts.insert(0, f"pid{ref.key.process}")
    return ":".join(parts)


def complete_frames(
    frames: Iterable[FrameFacts], findings: Iterable[Finding]
) -> tuple[FrameFacts, ...]:
    """Return ``frames`` and, of findings, functions that are not among them."""
    known = list(frames)
    names = {(each.frame.function, each.frame.file) for each in known}
    return (*known, *_only_in_findings(names, findings))


def _only_in_findings(
    names: set[tuple[str | None, str | None]], findings: Iterable[Finding]
) -> Iterator[FrameFacts]:
    groups: dict[tuple[str | None, str | None], list[Finding]] = {}
    for finding in findings:
        name = (finding.frame.function, finding.frame.file)
        if name not in names:
            groups.setdefault(name, []).append(finding)
    for group in groups.values():
        yield FrameFacts(
            group[0].frame,
            Counts(
                recompiles=len(recompile_keys(group)),
                graph_breaks=sum(own_breaks(each) for each in group),
                recompile_limit_hits=sum(limit_hits(each) for each in group),
            ),
        )
