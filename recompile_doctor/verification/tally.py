"""Counts what counts of a run, by its budget."""

from collections.abc import Callable, Iterator
from datetime import date

from recompile_doctor.diagnosis.finding import Finding
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.model.run import CompileKey
from recompile_doctor.verification.budget import (
    Allowance,
    Budget,
    Counting,
    Metric,
    frame_matches,
)
from recompile_doctor.verification.facts import (
    FrameFacts,
    RunFacts,
    explains_recompiles,
    is_fixable,
    limit_hits,
    own_breaks,
)


class Tally:
    """Counts what counts: not what is allowed, nor (by the budget) expected and one-off."""

    def __init__(self, facts: RunFacts, budget: Budget, today: date) -> None:
        self.facts = facts
        self._budget = budget
        self.today = today

    def has_expired(self, allowance: Allowance) -> bool:
        """Return whether an allowance is over and something is left that it would cover."""
        over = allowance.until is not None and allowance.until < self.today
        return over and any(map(allowance.covers, self.facts.findings))

    def allowed(self) -> Iterator[tuple[Finding, Allowance]]:
        """Yield the findings that an allowance covers that is not over."""
        for finding in self.facts.findings:
            allowance = self.allowance(finding)
            if allowance is not None:
                yield finding, allowance

    def allowance(self, finding: Finding) -> Allowance | None:
        """Return the allowance that covers a finding today."""
        for each in self._budget.allow:
            if each.covers(finding) and (each.until is None or each.until >= self.today):
                return each
        return None

    def counts(self, finding: Finding) -> bool:
        """Return whether what a finding explains counts."""
        if self._budget.count is Counting.FIXABLE and not is_fixable(finding):
            return False
        return self.allowance(finding) is None

    def apart(self, frame: FrameKey | None = None) -> set[CompileKey]:
        """Return the recompiles that do not count, since none of their causes does."""
        causes: dict[CompileKey, list[Finding]] = {}
        for finding in filter(explains_recompiles, self.facts.findings):
            if frame is None or same_function(finding.frame, frame):
                for ref in finding.recompiles:
                    causes.setdefault(ref.key, []).append(finding)
        return {key for key, findings in causes.items() if not any(map(self.counts, findings))}

    def total(self, metric: Metric) -> int:
        """Return what the whole run spends."""
        totals = self.facts.totals
        match metric:
            case Metric.RECOMPILES:
                return totals.recompiles - len(self.apart())
            case Metric.GRAPH_BREAKS:
                return totals.graph_breaks - self._excused(own_breaks, None)
            case Metric.LIMIT_HITS:
                return totals.recompile_limit_hits - self._excused(limit_hits, None)
            case Metric.COMPILATIONS:
                return totals.compilations

    def of_frame(self, metric: Metric, facts: FrameFacts) -> int:
        """Return what one function spends."""
        counts, frame = facts.counts, facts.frame
        match metric:
            case Metric.RECOMPILES:
                return max(counts.recompiles - len(self.apart(frame)), 0)
            case Metric.GRAPH_BREAKS:
                return max(counts.graph_breaks - self._excused(own_breaks, frame), 0)
            case Metric.LIMIT_HITS:
                return max(counts.recompile_limit_hits - self._excused(limit_hits, frame), 0)
            case Metric.COMPILATIONS:
                return counts.compilations

    def of_rule(self, metric: Metric, rule: str) -> int:
        """Return what the findings of one rule explain."""
        findings = [each for each in self.facts.findings if each.rule == rule]
        findings = [each for each in findings if self.counts(each)]
        if metric is Metric.RECOMPILES:
            return len({ref.key for each in findings for ref in each.recompiles})
        return sum(each.graph_breaks for each in findings)

    def _excused(self, number: Callable[[Finding], int], frame: FrameKey | None) -> int:
        return sum(
            number(each)
            for each in self.facts.findings
            if not self.counts(each) and (frame is None or same_function(each.frame, frame))
        )

    def frames(self, pattern: str) -> list[FrameFacts]:
        """Return the functions that a pattern means."""
        return [each for each in self.facts.frames if frame_matches(pattern, each.frame)]

    def to_blame(
        self, metric: Metric, frame: FrameKey | None = None, rule: str | None = None
    ) -> tuple[Finding, ...]:
        """Return the findings that count for a metric."""
        return tuple(
            each
            for each in self.facts.findings
            if self.counts(each)
            and (frame is None or same_function(each.frame, frame))
            and (rule is None or each.rule == rule)
            and _explains(each, metric, any_view=rule is not None)
        )


def _explains(finding: Finding, metric: Metric, *, any_view: bool) -> bool:
    match metric:
        case Metric.RECOMPILES:
            return explains_recompiles(finding) or (any_view and bool(finding.recompiles))
        case Metric.GRAPH_BREAKS:
            return bool(own_breaks(finding)) or (any_view and bool(finding.graph_breaks))
        case Metric.LIMIT_HITS:
            return bool(limit_hits(finding))
        case Metric.COMPILATIONS:
            return explains_recompiles(finding)


def same_function(one: FrameKey, other: FrameKey) -> bool:
    """Return whether two keys mean one function; findings on a break may lack its line."""
    if None not in (one.line, other.line) and one.line != other.line:
        return False
    return (one.function, one.file) == (other.function, other.file)
