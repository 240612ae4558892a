"""The verdict: fewer recompiles are not always better."""

from dataclasses import replace

from recompile_doctor.diagnosis.finding import Disposition
from recompile_doctor.pipeline import run_facts
from recompile_doctor.verification.diff import compare
from recompile_doctor.verification.facts import Doubt, RunFacts
from recompile_doctor.verification.verdict import Judgement, Verdict, judge
from tests.verification import runs
from tests.verification.runs import cause, doubtful, frame, function, graph_break, limit_hit

SIX = runs.run(cause(recompiles=range(1, 7)))


def verdict(before: RunFacts, after: RunFacts) -> Judgement:
    return judge(compare(before, after))


def test_no_recompiles_left_is_fixed() -> None:
    assert verdict(SIX, runs.run()) == Judgement(Verdict.FIXED, ("recompiles 6 -> 0",))


def test_what_is_left_only_once_is_fixed_too() -> None:
    left = runs.run(cause("unmarked-dynamic-dim", disposition=Disposition.ONE_OFF))
    assert verdict(SIX, left).verdict is Verdict.FIXED


def test_fewer_recompiles_are_improved() -> None:
    assert verdict(SIX, runs.run(cause())).verdict is Verdict.IMPROVED


def test_more_recompiles_are_worse() -> None:
    judgement = verdict(runs.run(cause()), SIX)
    assert judgement == Judgement(Verdict.WORSE, ("more recompiles: 1 -> 6",))


def test_a_function_that_runs_eagerly_now_is_worse() -> None:
    judgement = verdict(SIX, runs.run(frames=[function(graphs=0)]))
    assert judgement.verdict is Verdict.WORSE
    assert judgement.reasons == ("forward (model.py:10) runs eagerly: graphs captured 1 -> 0",)


def test_recompiles_that_became_graph_breaks_are_worse() -> None:
    judgement = verdict(SIX, runs.run(graph_break()))
    assert judgement.reasons == ("recompiles became graph breaks: 0 -> 1",)
    assert judgement.reservations == ("recompiles 6 -> 0",)


def test_a_hit_of_the_recompile_limit_is_worse() -> None:
    judgement = verdict(SIX, runs.run(limit_hit(), cause()))
    assert judgement.verdict is Verdict.WORSE


def test_a_program_that_fails_now_is_broken() -> None:
    judgement = verdict(SIX, runs.run(exit_code=1))
    assert judgement.verdict is Verdict.BROKE
    assert judgement.verdict.value == "broke the program"


def test_a_program_that_failed_before_as_well_is_judged_by_the_rest() -> None:
    before = doubtful(runs.run(cause(), exit_code=1), Doubt.FAILED)
    after = doubtful(runs.run(exit_code=1), Doubt.FAILED)
    assert verdict(before, after).verdict is Verdict.FIXED


def test_a_run_that_was_interrupted_cannot_be_shown_to_be_better() -> None:
    after = doubtful(runs.run(exit_code=130), Doubt.CUT_SHORT)
    assert verdict(SIX, after).verdict is Verdict.UNKNOWN


def test_a_run_that_was_interrupted_can_be_shown_to_be_worse() -> None:
    assert verdict(runs.run(), doubtful(SIX, Doubt.CUT_SHORT)).verdict is Verdict.WORSE


def test_silenced_logging_is_not_an_improvement() -> None:
    assert verdict(SIX, doubtful(runs.run(), Doubt.SILENCED)).verdict is Verdict.UNKNOWN


def test_nothing_compiled_any_more_is_worse() -> None:
    after = doubtful(runs.run(frames=[]), Doubt.NOTHING_COMPILED)
    assert verdict(SIX, after).verdict is Verdict.WORSE


def test_a_log_of_recompiles_only_cannot_tell_that_nothing_is_compiled() -> None:
    before = doubtful(runs.run(cause(), graphs=None), Doubt.STARTS_UNKNOWN)
    after = doubtful(runs.run(frames=[]), Doubt.NOTHING_COMPILED)
    assert verdict(before, after).verdict is Verdict.UNKNOWN


def test_the_right_fix_of_an_eager_function_may_recompile() -> None:
    """A branch on data ran eagerly with one break and no recompile; rewritten, it compiles."""
    before = runs.run(graph_break(), graphs=0)
    after = runs.run(cause(), graphs=2)
    assert verdict(before, after).verdict is Verdict.IMPROVED


def test_recompiles_that_the_limit_had_cut_off_are_no_harm() -> None:
    before = runs.run(limit_hit(), cause(recompiles=range(1, 8)))
    after = runs.run(cause(recompiles=range(1, 13)))
    judgement = verdict(before, after)
    assert judgement.verdict is Verdict.IMPROVED
    assert judgement.reservations == ("forward (model.py:10): recompiles 7 -> 12",)


def test_a_function_of_another_name_may_be_the_same_code() -> None:
    judgement = verdict(SIX, runs.run(frames=[function(frame("apply"))]))
    assert judgement.verdict is Verdict.FIXED
    assert judgement.reservations == (
        "forward (model.py:10) is not compiled under this name any more",
    )


def test_a_function_that_is_not_compiled_any_more_is_worse() -> None:
    other = function(frame("other"))
    before = runs.run(cause(), frames=[function(recompiles=1), other])
    assert verdict(before, runs.run(frames=[other])).verdict is Verdict.WORSE


def test_a_gain_with_a_loss_elsewhere_is_said() -> None:
    other = frame("other")
    after = runs.run(cause(of=other), frames=[function(), function(other, recompiles=1)])
    before = runs.run(cause(recompiles=(1, 2, 3)), frames=[function(recompiles=3), function(other)])
    judgement = verdict(before, after)
    assert judgement.verdict is Verdict.IMPROVED
    assert judgement.reservations == (
        "other (model.py:10): recompiles 0 -> 1, graph breaks 0 -> 0",
    )


def test_real_logs_marks_in_the_environment_fix_a_run() -> None:
    before = run_facts(runs.SCENARIOS / "zero_one" / "trace")
    after = run_facts(runs.SCENARIOS / "unbacked_env_dim" / "trace")
    assert verdict(before, after).verdict is Verdict.FIXED
    assert verdict(after, before).verdict is Verdict.WORSE


def test_a_function_may_be_part_of_its_callers_graph_when_breaks_are_gone() -> None:
    """A graph break made the inner function one of its own; without it nothing runs eagerly."""
    outer, inner = frame("outer", line=3), frame("inner", line=9)
    before = runs.run(
        graph_break(of=inner),
        frames=[
            function(outer, recompiles=2),
            function(inner, recompiles=3, graph_breaks=1),
        ],
    )
    after = runs.run(frames=[function(outer)])
    judgement = verdict(before, after)
    assert judgement.verdict in (Verdict.FIXED, Verdict.IMPROVED)
    assert any("inner" in each for each in judgement.reservations)


def test_a_function_that_is_gone_while_its_breaks_stay_is_worse() -> None:
    outer, inner = frame("outer", line=3), frame("inner", line=9)
    before = runs.run(
        graph_break(of=outer),
        frames=[function(outer, graph_breaks=1), function(inner, recompiles=3)],
    )
    after = runs.run(graph_break(of=outer), frames=[function(outer, graph_breaks=1)])
    judgement = verdict(before, after)
    assert judgement.verdict is Verdict.WORSE
    assert "inner" in judgement.reasons[0]


def test_cuda_graphs_that_are_recorded_for_many_sizes_are_a_reservation() -> None:
    """One graph for all sizes saves recompiles, and CUDA graphs are recorded for each size."""
    after = runs.run(cause("cudagraph-rerecord", (), source=None, dim=None))
    judgement = verdict(SIX, after)
    assert judgement.verdict is Verdict.FIXED
    assert any("CUDA graphs" in each for each in judgement.reservations)
    same = verdict(replace(SIX, findings=(*SIX.findings, *after.findings)), after)
    assert not any("CUDA graphs" in each for each in same.reservations)
