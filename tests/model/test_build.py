"""Runs built from the logs of real programs, and from a few events."""

from pathlib import Path

import pytest

from recompile_doctor.events.stream import read_events
from recompile_doctor.events.vocabulary import (
    CompileStarted,
    Event,
    GraphBroke,
    GraphCaptured,
    GuardAdded,
    GuardRole,
    LogKind,
    Origin,
    Position,
    StackFrame,
    SymbolCreated,
    UnbackedSymbolCreated,
)
from recompile_doctor.ids import parse_compile_id
from recompile_doctor.model.build import build_run
from recompile_doctor.model.run import Run

SCENARIOS = Path(__file__).parents[2] / "fixtures" / "scenarios"
RELEASES = sorted(path.name for path in SCENARIOS.iterdir() if path.is_dir())

# These make an int of a module a symbol, so that one of the functions does not reach the limit.
SYMBOLIC_INTS = ("2.6.0", "2.7.1")


def read(release: str, name: str, *logs: str) -> Run:
    """Return the run of some logs of a scenario."""
    return build_run(read_events([SCENARIOS / release / name / log for log in logs]))


def keys(run: Run) -> list[tuple[int, str]]:
    """Return epoch and id of each compile, in order."""
    return [(each.key.epoch, str(each.key)) for each in run.compilations]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", ["item_input", "mark_dynamic_violation", "nonzero_mask"])
def test_after_a_reset_the_same_ids_are_other_compiles(release: str, name: str) -> None:
    """The trace, the text and both together tell the same epochs."""
    from_trace = keys(read(release, name, "trace"))
    assert from_trace == keys(read(release, name, "dynamic.log.gz"))
    assert from_trace == keys(read(release, name, "trace", "dynamic.log.gz"))
    assert len(set(from_trace)) == len(from_trace)
    assert max(epoch for epoch, _ in from_trace) > 0


@pytest.mark.parametrize("release", RELEASES)
def test_both_logs_of_a_process_are_joined_once(release: str) -> None:
    """A fact that both logs tell is one fact, and keeps what each of them adds."""
    trace = read(release, "resume_stack", "trace")
    both = read(release, "resume_stack", "trace", "dynamic.log.gz")
    assert keys(trace) == keys(both)
    assert (both.has_trace, both.has_text, both.has_times) == (True, True, True)
    for one, joined in zip(trace.compilations, both.compilations, strict=True):
        assert len(joined.symbols) == len(one.symbols)
        assert len(joined.guards) == len(one.guards)
        assert len(joined.failures) == len(one.failures)
        assert joined.inputs == one.inputs
        assert joined.seconds == one.seconds
        assert joined.frame == one.frame


def test_the_text_tells_what_each_guard_became() -> None:
    """The trace has the expression, the text has its role."""
    trace = read("2.13.0", "divisibility", "trace")
    both = read("2.13.0", "divisibility", "trace", "dynamic.log.gz")
    roles = {guard.role for each in trace.compilations for guard in each.guards}
    assert roles == {GuardRole.UNKNOWN}
    roles = {guard.role for each in both.compilations for guard in each.guards}
    assert GuardRole.GUARD in roles


@pytest.mark.parametrize("release", RELEASES)
def test_a_refused_compile_is_a_limit_hit_and_no_recompile(release: str) -> None:
    """Torch 2.6 writes no metrics for it: a report without a start is all there is."""
    for logs in (["trace"], ["dynamic.log.gz"], ["trace", "dynamic.log.gz"]):
        run = read(release, "recompile_limit", *logs)
        hits = [str(key) for key, _ in run.limit_hits]
        assert hits == (["0/3", "0/3"] if release in SYMBOLIC_INTS else ["0/3", "1/3", "0/3"])
        refused = {each.key for each in run.compilations if each.refused}
        assert not refused & {each.key for each in run.recompiles}
        assert {key for key, _ in run.limit_hits} == refused


@pytest.mark.parametrize("release", RELEASES)
def test_a_killed_program_leaves_a_recompile_of_unknown_cost(release: str) -> None:
    """What was logged before the kill counts; what is not known is not zero."""
    run = read(release, "killed", "trace")
    assert [str(each.key) for each in run.recompiles] == ["0/1", "0/2"]
    assert run.recompiles[0].seconds is not None
    assert run.recompiles[1].seconds is None
    assert run.unread.records == 0


@pytest.mark.parametrize("release", RELEASES)
def test_two_ranks_have_compiles_of_their_own(release: str) -> None:
    """The same id in two processes is two compiles."""
    for logs in (["trace"], ["dynamic.log.gz"], ["trace", "dynamic.log.gz"]):
        run = read(release, "two_ranks", *logs)
        assert run.ranks == (0, 1)
        assert len(run.processes) == 2
        assert len({each.key for each in run.compilations}) == len(run.compilations) == 5
        recompiles = sorted((each.rank, str(each.key)) for each in run.recompiles)
        assert recompiles == [(0, "0/1"), (0, "0/2"), (1, "0/1")] or recompiles == [
            (0, "0/1"),
            (1, "0/1"),
            (1, "0/2"),
        ]


def test_a_resume_function_belongs_to_the_function_that_it_continues() -> None:
    """Its own name is kept beside it."""
    run = read("2.13.0", "resume_stack", "trace")
    named = {each.code_name: each.frame.function for each in run.compilations}
    assert named["torch_dynamo_resume_in_opaque_at_8"] == "opaque"
    assert named["torch_dynamo_resume_in_f_at_19"] == "f"


def test_what_a_log_does_not_tell_is_unknown() -> None:
    """A text log has no times, no graphs and no inputs."""
    run = read("2.13.0", "zero_one", "dynamic.log.gz")
    assert (run.has_trace, run.has_times) == (False, False)
    assert all(each.seconds is None and each.graphs is None for each in run.compilations)
    assert not any(each.inputs for each in run.compilations)


def origin(compile_id: str, kind: LogKind = LogKind.TRACE, line: int = 1) -> Origin:
    """Return a place in a log of process 7."""
    position = Position("made.log", line)
    return Origin(kind, position, "7", None, parse_compile_id(compile_id), float(line))


def start(compile_id: str, line: int = 1) -> CompileStarted:
    """Return the start of an attempt."""
    return CompileStarted(origin(compile_id, line=line), "f", "/a.py", 3)


def test_of_several_attempts_the_last_has_the_symbols_and_all_have_the_breaks() -> None:
    """An abandoned attempt is no compile of its own."""
    place = StackFrame("/a.py", 5, "f")
    events: list[Event] = [
        start("0/0"),
        SymbolCreated(origin("0/0"), "s0", "L['x'].size()[0]", "8", None),
        GraphBroke(origin("0/0"), place, "Unsupported"),
        GraphCaptured(origin("0/0")),
        start("0/0_1", line=2),
        SymbolCreated(origin("0/0_1"), "s1", "L['y'].size()[0]", "4", None),
        GraphCaptured(origin("0/0_1")),
    ]
    (compilation,) = build_run(events).compilations
    assert compilation.attempts == 2
    assert [each.symbol for each in compilation.symbols] == ["s1"]
    assert len(compilation.graph_breaks) == 1
    assert compilation.graphs == 1


def test_a_second_start_of_an_id_opens_an_epoch() -> None:
    """Other ids that follow belong to it as well."""
    run = build_run([start("0/0"), start("1/0", 2), start("0/0", 3), start("1/0", 4)])
    assert keys(run) == [(0, "0/0"), (0, "1/0"), (1, "0/0"), (1, "1/0")]


def test_the_text_adds_the_source_of_an_unbacked_symbol() -> None:
    """The trace has the symbol without it."""
    text = origin("0/0", LogKind.TEXT)
    run = build_run(
        [
            start("0/0"),
            UnbackedSymbolCreated(origin("0/0"), "u0", None),
            UnbackedSymbolCreated(text, "u0", None, "L['x'].size()[0]"),
            GuardAdded(origin("0/0"), "Eq(s0, 6)", GuardRole.UNKNOWN),
            GuardAdded(text, "Eq(s0, 6)", GuardRole.SUPPRESSED),
        ]
    )
    (compilation,) = run.compilations
    assert [each.source for each in compilation.unbacked] == ["L['x'].size()[0]"]
    assert [each.role for each in compilation.guards] == [GuardRole.SUPPRESSED]


def test_nothing_gives_an_empty_run() -> None:
    """No log at all is a run without compiles."""
    run = build_run([])
    assert (run.compilations, run.torch_version, run.has_trace) == ((), None, False)
