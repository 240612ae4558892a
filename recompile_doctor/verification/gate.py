"""The gate: a run held against a budget, and against a run before it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from recompile_doctor.diagnosis.finding import Finding
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.verification.baseline import baseline_warnings, not_worse
from recompile_doctor.verification.budget import (
    Allowance,
    Budget,
    Limit,
    Metric,
    Scope,
    frame_pattern,
)
from recompile_doctor.verification.diff import Difference, compare
from recompile_doctor.verification.facts import Doubt, RunFacts
from recompile_doctor.verification.tally import Tally
from recompile_doctor.verification.violation import Check, Kind, Violation

# A run with one of these proves nothing, however low its counts are.
IMPLAUSIBLE = (
    Doubt.NOTHING_COMPILED,
    Doubt.NO_GRAPH,
    Doubt.SILENCED,
    Doubt.CUT_SHORT,
    Doubt.FAILED,
)
_WARN_BEFORE = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class GateResult:
    """What the gate says of a run.

    ``apart`` is how many recompiles did not count: expected ones, those that happen once, and
    those that are allowed. ``allowed`` are the findings that an allowance covers.
    """

    facts: RunFacts
    checks: tuple[Check, ...]
    warnings: tuple[str, ...]
    allowed: tuple[tuple[Finding, Allowance], ...]
    apart: int

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Return all violations, in the order of the checks."""
        return tuple(each for check in self.checks for each in check.violations)

    @property
    def passed(self) -> bool:
        """Return whether every check holds."""
        return not self.violations

    @property
    def is_plausible(self) -> bool:
        """Return whether the run proves anything."""
        return all(each.kind is not Kind.NOT_PLAUSIBLE for each in self.violations)


def check_run(
    facts: RunFacts, budget: Budget, *, today: date, baseline: RunFacts | None = None
) -> GateResult:
    """Return whether a run keeps to its budget and is nowhere worse than ``baseline``."""
    tally = Tally(facts, budget, today)
    difference = None if baseline is None else compare(baseline, facts)
    checks = [
        _plausible(facts),
        *(_limit(limit, tally) for limit in budget.limits_that_hold()),
        *(_expired(each, tally) for each in budget.allow if tally.has_expired(each)),
    ]
    if difference is not None:
        checks.append(not_worse(difference, Tally(difference.before, budget, today), tally))
    return GateResult(
        facts,
        tuple(checks),
        tuple(_warnings(facts, budget, tally, difference)),
        tuple(tally.allowed()),
        len(tally.apart()),
    )


def present_numbers(facts: RunFacts, budget: Budget, today: date) -> dict[Limit, int]:
    """Return what the run spends of each limit in the budget's file.

    A limit that means no function of this run is left out: the run says nothing about it.
    """
    tally = Tally(facts, budget, today)
    present: dict[Limit, int] = {}
    for limit in budget.limits:
        if limit.scope is Scope.FRAMES:
            counts = [tally.of_frame(limit.metric, each) for each in tally.frames(limit.name)]
            if counts:
                present[limit] = max(counts)
        elif limit.scope is Scope.RULES:
            present[limit] = tally.of_rule(limit.metric, limit.name)
        else:
            present[limit] = tally.total(limit.metric)
    return present


def present_totals(facts: RunFacts, today: date) -> dict[Metric, int]:
    """Return what the run spends, for a first budget; compilations are left out as a detail."""
    tally = Tally(facts, Budget(), today)
    metrics = (Metric.RECOMPILES, Metric.GRAPH_BREAKS, Metric.LIMIT_HITS)
    return {metric: tally.total(metric) for metric in metrics}


def present_frames(facts: RunFacts, today: date) -> dict[str, dict[Metric, int]]:
    """Return what each function spends that spends anything, for a first budget."""
    tally = Tally(facts, Budget(), today)
    frames: dict[str, dict[Metric, int]] = {}
    for each in facts.frames:
        numbers = {
            metric: tally.of_frame(metric, each)
            for metric in (Metric.RECOMPILES, Metric.GRAPH_BREAKS)
        }
        if each.frame.function and any(numbers.values()):
            known = frames.setdefault(frame_pattern(each.frame), numbers)
            known.update({key: max(known[key], number) for key, number in numbers.items()})
    return frames


def _plausible(facts: RunFacts) -> Check:
    violations = tuple(
        Violation(Kind.NOT_PLAUSIBLE, f"the run proves nothing: {text}")
        for kind, text in facts.doubts
        if kind in IMPLAUSIBLE
    )
    counts = facts.totals
    graphs = "unknown" if counts.graphs_captured is None else counts.graphs_captured
    compilations = counts.compilations
    detail = f"{compilations} compilation{'' if compilations == 1 else 's'}, "
    detail += f"graphs captured: {graphs}"
    return Check("the run can be judged", detail, violations)


def _limit(limit: Limit, tally: Tally) -> Check:
    match limit.scope:
        case Scope.TOTAL:
            violations = tuple(_total(limit, tally))
            spent = tally.total(limit.metric)
        case Scope.FRAMES:
            violations = tuple(_frames(limit, tally))
            counts = [tally.of_frame(limit.metric, each) for each in tally.frames(limit.name)]
            spent = max(counts, default=0)
        case Scope.RULES:
            spent = tally.of_rule(limit.metric, limit.name)
            violations = tuple(_over(limit, tally, spent, f" of {limit.name}", None, limit.name))
    detail = f"{spent} of at most {limit.most}"
    if limit.scope is Scope.FRAMES and not tally.frames(limit.name):
        detail = "no function of this run is meant"
    return Check(str(limit), detail, violations)


def _total(limit: Limit, tally: Tally) -> Iterator[Violation]:
    unknown = tally.facts.doubt(Doubt.STARTS_UNKNOWN)
    if limit.metric is Metric.COMPILATIONS and unknown is not None:
        yield Violation(Kind.NOT_PLAUSIBLE, f"compilations cannot be counted: {unknown}")
        return
    yield from _over(limit, tally, tally.total(limit.metric), "", None, None)


def _frames(limit: Limit, tally: Tally) -> Iterator[Violation]:
    for each in tally.frames(limit.name):
        spent = tally.of_frame(limit.metric, each)
        yield from _over(limit, tally, spent, f" in {each.frame}", each.frame, None)


def _over(
    limit: Limit, tally: Tally, spent: int, where: str, frame: FrameKey | None, rule: str | None
) -> Iterator[Violation]:
    if spent <= limit.most:
        return
    noun = limit.metric.noun
    text = f"{spent} {noun}{'' if spent == 1 else 's'}{where}, at most {limit.most} allowed"
    kind = Kind.OVER_BUDGET
    if limit.metric is Metric.LIMIT_HITS:
        kind = Kind.LIMIT_HIT
        text += ": torch stops compiling there, and calls run eagerly and unseen"
    if limit.place is not None:
        text += f" ({limit.place})"
    yield Violation(kind, text, tally.to_blame(limit.metric, frame, rule), frame, limit.place)


def _expired(allowance: Allowance, tally: Tally) -> Check:
    findings = tuple(filter(allowance.covers, tally.facts.findings))
    text = (
        f"the allowance for {allowance} ended on {allowance.until} ({allowance.place}); "
        f"its reason was: {allowance.reason}"
    )
    violation = Violation(Kind.EXPIRED, text, findings, findings[0].frame, allowance.place)
    return Check(f"allowance for {allowance}", f"until {allowance.until}", (violation,))


def _warnings(
    facts: RunFacts, budget: Budget, tally: Tally, difference: Difference | None
) -> Iterator[str]:
    for allowance in budget.allow:
        yield from _allowance_warning(allowance, facts.findings, tally.today)
    for limit in budget.limits:
        if limit.scope is Scope.FRAMES and not tally.frames(limit.name):
            yield f"{limit.place}: no function of this run is meant by {limit.name}"
    for each in facts.frames:
        if each.counts.runs_eagerly and not facts.totals.runs_eagerly:
            yield f"{each.frame} runs eagerly: 0 graphs captured"
    if facts.is_warm:
        yield "the run used compile caches and a profile of earlier runs, which can save recompiles"
    if facts.unread_records:
        yield f"{facts.unread_records} records of the log were not understood and do not count"
    for kind, text in facts.doubts:
        if kind not in IMPLAUSIBLE:
            yield text
    if difference is not None:
        yield from baseline_warnings(difference)


def _allowance_warning(
    allowance: Allowance, findings: Iterable[Finding], today: date
) -> Iterator[str]:
    if not any(map(allowance.covers, findings)):
        yield f"{allowance.place}: nothing in this run needs the allowance for {allowance}"
    elif allowance.until is not None and today <= allowance.until <= today + _WARN_BEFORE:
        days = (allowance.until - today).days
        when = "today" if days == 0 else f"in {days} day{'' if days == 1 else 's'}"
        yield (
            f"{allowance.place}: the allowance for {allowance} ends {when}, on {allowance.until}"
        )
