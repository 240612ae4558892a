"""The gate: what fails a run, what only warns, and what does not count."""

from datetime import date
from pathlib import Path

import pytest

from recompile_doctor.config import parse_yaml
from recompile_doctor.diagnosis.finding import Disposition
from recompile_doctor.pipeline import run_facts
from recompile_doctor.verification.budget import Budget, Metric, read_budget
from recompile_doctor.verification.facts import Doubt, RunFacts
from recompile_doctor.verification.gate import (
    GateResult,
    check_run,
    present_frames,
    present_numbers,
    present_totals,
)
from recompile_doctor.verification.violation import Kind
from tests.verification import runs
from tests.verification.runs import cause, doubtful, frame, function, graph_break, limit_hit

TODAY = date(2026, 1, 15)
ONE_OFF = cause("unmarked-dynamic-dim", (1,), disposition=Disposition.ONE_OFF)
FIXABLE = cause(recompiles=(2, 3))
MIXED = runs.run(ONE_OFF, FIXABLE)


def budget(text: str = "") -> Budget:
    return read_budget(parse_yaml(text, Path("budget.yaml")))


def gate(facts: RunFacts, text: str = "", *, baseline: RunFacts | None = None) -> GateResult:
    return check_run(facts, budget(text), today=TODAY, baseline=baseline)


def kinds(result: GateResult) -> list[Kind]:
    return [each.kind for each in result.violations]


def test_a_run_within_its_budget_passes() -> None:
    result = gate(MIXED, "total: {recompiles: 2, graph_breaks: 0}")
    assert result.passed
    assert not result.warnings


def test_a_limit_that_is_passed_is_named_with_the_findings_to_blame() -> None:
    (violation,) = gate(MIXED, "total:\n  recompiles: 1\n").violations
    assert violation.kind is Kind.OVER_BUDGET
    assert violation.message == "2 recompiles, at most 1 allowed (budget.yaml:2)"
    assert violation.findings == (FIXABLE,)


def test_what_happens_once_or_is_expected_counts_only_when_all_does() -> None:
    assert gate(MIXED, "total: {recompiles: 2}").apart == 1
    result = gate(MIXED, "count: all\ntotal: {recompiles: 2}")
    assert kinds(result) == [Kind.OVER_BUDGET]
    assert result.violations[0].findings == (ONE_OFF, FIXABLE)


def test_a_recompile_with_one_fixable_cause_counts() -> None:
    facts = runs.run(ONE_OFF, cause(recompiles=(1,)))
    assert kinds(gate(facts, "total: {recompiles: 0}")) == [Kind.OVER_BUDGET]


def test_other_views_of_a_recompile_do_not_make_it_count() -> None:
    churn = cause("resume-function-churn", (1,), source=None, dim=None)
    together = cause("equal-sizes-guard", (1,), together_with=ONE_OFF.id)
    assert gate(runs.run(ONE_OFF, churn, together), "total: {recompiles: 0}").passed


def test_limits_of_functions_hold_for_each_of_them() -> None:
    other = frame("forward", "/home/user/project/other.py")
    facts = runs.run(cause(recompiles=(1, 2)), cause(recompiles=(1, 2), of=other, frame_id=1))
    result = gate(
        facts, "frames:\n  '*.py:forward': {recompiles: 2}\n  other.py:*: {recompiles: 1}"
    )
    (violation,) = result.violations
    assert violation.frame == other
    assert "in forward (other.py:10)" in violation.message


def test_a_pattern_that_means_no_function_warns() -> None:
    result = gate(MIXED, "frames: {forwrd: {recompiles: 0}}")
    assert result.passed
    assert result.warnings == ("budget.yaml:1: no function of this run is meant by forwrd",)


def test_limits_of_rules() -> None:
    text = "rules: {zero-one-specialization: {recompiles: 1}, rank-change: {recompiles: 0}}"
    (violation,) = gate(MIXED, text).violations
    assert "2 recompiles of zero-one-specialization" in violation.message


def test_compilations_and_graph_breaks_have_limits_too() -> None:
    facts = runs.run(FIXABLE, graph_break())
    result = gate(facts, "total: {compilations: 2, graph_breaks: 0}")
    assert [each.message.split(",")[0] for each in result.violations] == [
        "3 compilations",
        "1 graph break",
    ]


def test_a_hit_of_the_recompile_limit_fails_without_any_budget() -> None:
    assert kinds(gate(runs.run(limit_hit(), cause()))) == [Kind.LIMIT_HIT]


def test_a_hit_of_the_recompile_limit_can_be_allowed() -> None:
    facts = runs.run(limit_hit(), cause())
    assert gate(facts, "total: {recompile_limit_hits: 1}").passed
    assert gate(facts, "allow: [{rule: recompile-limit-hit, reason: known}]").passed


@pytest.mark.parametrize(
    "doubt",
    [Doubt.NOTHING_COMPILED, Doubt.NO_GRAPH, Doubt.SILENCED, Doubt.CUT_SHORT, Doubt.FAILED],
)
def test_a_run_that_proves_nothing_fails(doubt: Doubt) -> None:
    result = gate(doubtful(runs.run(), doubt), "total: {recompiles: 5}")
    assert kinds(result) == [Kind.NOT_PLAUSIBLE]
    assert not result.is_plausible
    assert f"{doubt.value} it is" in result.violations[0].message


def test_compilations_that_were_not_logged_cannot_be_limited() -> None:
    facts = doubtful(runs.run(), Doubt.STARTS_UNKNOWN)
    assert gate(facts, "total: {recompiles: 0}").warnings == ("starts-unknown it is",)
    assert kinds(gate(facts, "total: {compilations: 9}")) == [Kind.NOT_PLAUSIBLE]


ALLOW = f"""\
total:
  recompiles: 0
allow:
  - id: "{FIXABLE.id}"
    reason: padded upstream
    until: {{until}}
"""


def test_what_is_allowed_does_not_count() -> None:
    result = gate(MIXED, ALLOW.format(until="2027-01-01"))
    assert result.passed
    assert result.apart == 3
    assert [(finding, each.reason) for finding, each in result.allowed] == [
        (FIXABLE, "padded upstream")
    ]


def test_a_rule_can_be_allowed_in_some_functions() -> None:
    text = "total: {recompiles: 0}\nallow: [{rule: zero-one-specialization, frame: %s, reason: a}]"
    assert gate(MIXED, text % "'model.py:for*'").passed
    assert not gate(MIXED, text % "'train.py:*'").passed


def test_an_allowance_that_ended_fails_and_its_findings_count() -> None:
    result = gate(MIXED, ALLOW.format(until="2026-01-14"))
    assert kinds(result) == [Kind.OVER_BUDGET, Kind.EXPIRED]
    assert result.violations[1].message == (
        f"the allowance for {FIXABLE.id} ended on 2026-01-14 (budget.yaml:4); "
        "its reason was: padded upstream"
    )


def test_an_allowance_fails_the_day_after_its_last() -> None:
    assert gate(MIXED, ALLOW.format(until="2026-01-15")).passed
    assert not gate(MIXED, ALLOW.format(until="2026-01-14")).passed


@pytest.mark.parametrize(
    ("until", "warning"),
    [
        ("2026-01-15", "ends today, on 2026-01-15"),
        ("2026-01-16", "ends in 1 day, on 2026-01-16"),
        ("2026-01-29", "ends in 14 days, on 2026-01-29"),
        ("2026-01-30", None),
    ],
)
def test_an_allowance_warns_two_weeks_before_its_end(until: str, warning: str | None) -> None:
    warnings = gate(MIXED, ALLOW.format(until=until)).warnings
    assert [each.partition(FIXABLE.id)[2].strip() for each in warnings] == (
        [warning] if warning else []
    )


def test_an_allowance_that_nothing_needs_warns_even_when_it_ended() -> None:
    result = gate(runs.run(ONE_OFF), ALLOW.format(until="2020-01-01"))
    assert result.passed
    assert "nothing in this run needs the allowance" in result.warnings[0]


def test_functions_that_run_eagerly_warn() -> None:
    facts = runs.run(frames=[function(), function(frame("g"), graphs=0)])
    assert gate(facts).warnings == ("g (model.py:10) runs eagerly: 0 graphs captured",)


def test_caches_of_earlier_runs_warn() -> None:
    """torch's profile makes a second run look mended."""
    (warning,) = gate(runs.run(caches="as the user set them")).warnings
    assert "earlier runs" in warning


def test_nothing_worse_than_the_baseline_passes() -> None:
    assert gate(MIXED, baseline=MIXED).passed
    assert gate(runs.run(ONE_OFF), baseline=MIXED).passed


def test_a_new_cause_is_worse_than_the_baseline_though_the_total_is_not() -> None:
    before = runs.run(cause(recompiles=(1, 2)))
    after = runs.run(cause(recompiles=(1,)), cause("rank-change", (2,)))
    (violation,) = gate(after, baseline=before).violations
    assert violation.kind is Kind.WORSE
    assert violation.message == (
        "new since the baseline: what rank-change means (L['x'] dim 0) in forward (model.py:10)"
    )


def test_a_cause_that_grew_is_worse_than_the_baseline() -> None:
    after = runs.run(ONE_OFF, cause(recompiles=(2, 3, 4)))
    (violation,) = gate(after, baseline=MIXED).violations
    assert violation.message.endswith("recompiles 2 -> 3")


def test_new_recompiles_that_happen_once_are_no_worse_by_default() -> None:
    assert gate(runs.run(ONE_OFF), baseline=runs.run()).passed
    assert not gate(runs.run(ONE_OFF), "count: all", baseline=runs.run()).passed


def test_what_is_allowed_is_no_worse_than_the_baseline() -> None:
    text = "allow: [{rule: zero-one-specialization, reason: a}]"
    assert gate(MIXED, text, baseline=runs.run()).passed


def test_a_function_without_graphs_is_worse_than_the_baseline() -> None:
    after = runs.run(frames=[function(graphs=0), function(frame("g"))])
    before = runs.run(frames=[function(), function(frame("g"))])
    assert kinds(gate(after, baseline=before)) == [Kind.WORSE]


def test_a_function_that_ran_eagerly_before_is_not_compared() -> None:
    before = runs.run(frames=[function(graphs=0), function(frame("g"))])
    after = runs.run(FIXABLE, frames=[function(recompiles=2, graphs=3), function(frame("g"))])
    result = gate(after, baseline=before)
    assert result.passed
    assert result.warnings == (
        "forward (model.py:10) ran eagerly in the baseline and is compiled now: not compared",
    )


def test_a_baseline_of_another_torch_release_warns() -> None:
    warnings = gate(MIXED, baseline=runs.run(ONE_OFF, FIXABLE, torch_version="2.8.0")).warnings
    assert warnings == ("the torch releases differ: 2.8.0 before, 2.13.0 after",)


def test_present_numbers_are_those_that_the_limits_count() -> None:
    text = """\
total: {recompiles: 9, graph_breaks: 9, compilations: 9}
frames: {'*': {recompiles: 9}, nowhere: {recompiles: 9}}
rules: {zero-one-specialization: {recompiles: 9}}
"""
    present = present_numbers(MIXED, budget(text), TODAY)
    assert [(each.name, each.metric.value, number) for each, number in present.items()] == [
        ("", "recompiles", 2),
        ("", "graph_breaks", 0),
        ("", "compilations", 4),
        ("*", "recompiles", 2),
        ("zero-one-specialization", "recompiles", 2),
    ]


def test_a_first_budget_states_what_was_spent() -> None:
    assert present_totals(MIXED, TODAY)[Metric.RECOMPILES] == 2
    assert present_frames(MIXED, TODAY) == {
        "model.py:forward": {Metric.RECOMPILES: 2, Metric.GRAPH_BREAKS: 0}
    }


@pytest.mark.parametrize("name", ["zero_one", "recompile_limit", "nonzero_mask", "two_ranks"])
def test_a_budget_of_a_real_run_holds_for_it_and_one_less_does_not(name: str) -> None:
    facts = run_facts(runs.SCENARIOS / name / "trace")
    totals = present_totals(facts, TODAY)
    lines = "\n".join(f"  {each.value}: {number}" for each, number in totals.items())
    assert gate(facts, f"total:\n{lines}\n").passed
    for metric, number in totals.items():
        if number:
            tight = f"total:\n{lines}\n".replace(
                f"{metric.value}: {number}", f"{metric.value}: {number - 1}"
            )
            assert not gate(facts, tight).passed


def test_a_log_in_which_nothing_was_compiled_fails(tmp_path: Path) -> None:
    log = tmp_path / "ci.log"
    log.write_text("V0712 09:30:15.123000 77 torch/_logging/_internal.py:1 [__x] nothing\n")
    assert kinds(gate(run_facts(log))) == [Kind.NOT_PLAUSIBLE]
