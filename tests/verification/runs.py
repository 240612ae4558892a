"""Runs made by hand, as `diff` and the gate see them."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from recompile_doctor.diagnosis.finding import (
    Confidence,
    Disposition,
    Evidence,
    Finding,
    LocationRole,
    RecompileRef,
    UserLocation,
)
from recompile_doctor.events.vocabulary import Position, StackFrame
from recompile_doctor.ids import CompileId
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.model.run import CompileKey
from recompile_doctor.verification.facts import (
    COLD,
    Counts,
    Doubt,
    FrameFacts,
    RunFacts,
    complete_frames,
    limit_hits,
    own_breaks,
    recompile_keys,
)

ROOT = Path(__file__).parents[2]
SCENARIOS = ROOT / "fixtures" / "scenarios" / "2.13.0"
FILE = "/home/user/project/model.py"


def frame(function: str = "forward", file: str | None = FILE, line: int | None = 10) -> FrameKey:
    return FrameKey(function, file, line)


def ref(number: int, frame_id: int = 0, rank: int | None = None) -> RecompileRef:
    return RecompileRef(CompileKey("77", 0, CompileId(frame_id, number)), rank, None)


def cause(
    rule: str = "zero-one-specialization",
    recompiles: Iterable[int] = (1,),
    *,
    of: FrameKey | None = None,
    source: str | None = "L['x']",
    dim: int | None = 0,
    frame_id: int = 0,
    disposition: Disposition = Disposition.FIXABLE,
    together_with: str | None = None,
) -> Finding:
    refs = tuple(ref(number, frame_id) for number in recompiles)
    return Finding(
        rule=rule,
        title=f"what {rule} means",
        frame=of or frame(),
        source=source,
        dim=dim,
        message="a size was 1",
        why="torch guards on it",
        evidence=(Evidence(Position("trace.log", 7), "L['x'].size()[0] == 8"),),
        confidence=Confidence.OBSERVED,
        disposition=disposition,
        recompiles=refs,
        leading=tuple(each.key for each in refs),
        location=UserLocation(StackFrame(FILE, 12, "forward", "y = x * 2"), LocationRole.ASKED),
        together_with=together_with,
    )


def graph_break(code: str | None = "print(x)", *, of: FrameKey | None = None) -> Finding:
    return replace(
        cause("graph-break", (), of=of, source=None, dim=None),
        graph_breaks=1,
        break_times=2,
        location=UserLocation(StackFrame(FILE, 14, "forward", code), LocationRole.BREAK),
    )


def limit_hit(*, of: FrameKey | None = None) -> Finding:
    return replace(cause("recompile-limit-hit", (), of=of, source=None, dim=None))


def function(key: FrameKey | None = None, graphs: int | None = 1, **counts: int) -> FrameFacts:
    """Return a function that was compiled once, with other counts where they are given."""
    return FrameFacts(
        key or frame(), Counts(**{"compilations": 1, "graphs_captured": graphs, **counts})
    )


def run(
    *findings: Finding,
    frames: Iterable[FrameFacts] | None = None,
    seconds: float | None = 2.0,
    graphs: int | None = 1,
    **changes: object,
) -> RunFacts:
    """Return a run; without ``frames`` its functions are those of the findings."""
    if frames is None:
        keys = list(dict.fromkeys(each.frame for each in findings)) or [frame()]
        frames = [_function(key, findings, graphs) for key in keys]
    whole = complete_frames(frames, findings)
    known = [each.counts.graphs_captured for each in whole]
    totals = Counts(
        compilations=sum(each.counts.compilations for each in whole),
        recompiles=sum(each.counts.recompiles for each in whole),
        graphs_captured=None if None in known else sum(each or 0 for each in known),
        graph_breaks=sum(each.counts.graph_breaks for each in whole),
        recompile_limit_hits=sum(each.counts.recompile_limit_hits for each in whole),
        compile_seconds=seconds,
    )
    plain = RunFacts(
        subject=".recompile-doctor/run",
        source="bundle",
        torch_version="2.13.0",
        ranks=1,
        totals=totals,
        frames=whole,
        findings=findings,
        caches=COLD,
        exit_code=0,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def _function(key: FrameKey, findings: Iterable[Finding], graphs: int | None) -> FrameFacts:
    own = [each for each in findings if each.frame == key]
    recompiles = len(recompile_keys(own))
    return function(
        key,
        graphs,
        compilations=recompiles + 1,
        recompiles=recompiles,
        graph_breaks=sum(own_breaks(each) for each in own),
        recompile_limit_hits=sum(limit_hits(each) for each in own),
    )


def doubtful(facts: RunFacts, *doubts: Doubt) -> RunFacts:
    texts = tuple((each, f"{each.value} it is") for each in doubts)
    return replace(facts, doubts=texts)
