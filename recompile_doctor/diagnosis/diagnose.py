"""Asks every rule, and ranks what they found by what it costs."""

from dataclasses import dataclass, replace

from recompile_doctor.diagnosis.all_rules import ALL_RULES, find_rule
from recompile_doctor.diagnosis.attribution import Cause, find_causes
from recompile_doctor.diagnosis.breaks import BreakTable
from recompile_doctor.diagnosis.finding import OVERVIEWS, Disposition, Finding, Severity
from recompile_doctor.diagnosis.history import History
from recompile_doctor.diagnosis.locate import FirstUses
from recompile_doctor.diagnosis.rule import Claim, Examination, RecompileRule
from recompile_doctor.model.run import CompileKey, Run

# Shares of the compile time of the run (or, without times, of its recompiles) from which on a
# finding is called costly.
_HIGH_SHARE = 0.25
_MEDIUM_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found in a run: all findings, and what the rules looked at."""

    examination: Examination
    findings: tuple[Finding, ...]

    @property
    def run(self) -> Run:
        """Return the run itself."""
        return self.examination.run

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Return the cause of each recompile, in order."""
        return self.examination.causes

    @property
    def breaks(self) -> BreakTable:
        """Return the places at which graphs break."""
        return self.examination.breaks

    def claim_of(self, finding: Finding, cause: Cause) -> Claim | None:
        """Return what the finding's rule says of one recompile that it explains.

        A finding speaks of all its recompiles; its values are those of the first.
        """
        rule = find_rule(finding.rule)
        if rule is None or not issubclass(rule, RecompileRule):
            return None
        for failure in (*cause.chosen.failures, *cause.joint):
            claim = rule().claim(failure, cause, self.examination)
            if claim is not None and (claim.source, claim.dim) == (finding.source, finding.dim):
                return claim
        return None


def diagnose(run: Run) -> Diagnosis:
    """Return the findings of all rules, ranked: what costs most stands first."""
    causes = find_causes(run)
    examination = Examination(run, causes, History(run, causes), BreakTable(run), FirstUses(run))
    findings: list[Finding] = []
    for rule in ALL_RULES:
        explained = frozenset(ref.key for each in findings for ref in each.recompiles)
        findings.extend(rule().check(replace(examination, explained=explained)))
    findings = _joined_to_leads(findings)
    seconds = sum(each.seconds or 0.0 for each in run.compilations)
    total = seconds if run.has_times else len(causes)
    findings = [_with_severity(each, total, run.has_times) for each in findings]
    findings.sort(key=_rank)
    return Diagnosis(examination, tuple(findings))


def _joined_to_leads(findings: list[Finding]) -> list[Finding]:
    """Say of each finding without a cost of its own which finding carries the cost.

    A call can fail several guards at once; then one finding carries the recompile's cost and the
    others say that they happen together with it, so that no second counts twice.
    """
    leads: dict[CompileKey, Finding] = {}
    for finding in findings:
        for ref in finding.leading:
            leads.setdefault(ref, finding)
    joined: list[Finding] = []
    for finding in findings:
        if finding.leading or not finding.recompiles or finding.rule in OVERVIEWS:
            joined.append(finding)
            continue
        lead = next((leads[ref.key] for ref in finding.recompiles if ref.key in leads), None)
        joined.append(replace(finding, together_with=None if lead is None else lead.id))
    return joined


def _with_severity(finding: Finding, total: float, by_time: bool) -> Finding:
    """Return the finding with its severity: ``total`` is of seconds, or else of recompiles."""
    if finding.severity is Severity.HIGH:
        return finding
    if finding.disposition is not Disposition.FIXABLE:
        return replace(finding, severity=Severity.INFO)
    cost = (finding.seconds or 0.0) if by_time else len(finding.leading)
    return replace(finding, severity=_severity(cost / total if total else 0.0, finding))


def _severity(share: float, finding: Finding) -> Severity:
    if share >= _HIGH_SHARE or finding.graph_breaks:
        return Severity.HIGH if share >= _HIGH_SHARE else Severity.MEDIUM
    return Severity.MEDIUM if share >= _MEDIUM_SHARE else Severity.LOW


_ORDER = (Severity.HIGH, Severity.MEDIUM, Severity.LOW, Severity.INFO)


def _rank(finding: Finding) -> tuple[int, int, int, float, int, str]:
    """Sort by: limit hits, then what can be fixed, by severity, seconds and recompiles."""
    return (
        int(finding.rule != "recompile-limit-hit"),
        int(finding.disposition is not Disposition.FIXABLE),
        _ORDER.index(finding.severity),
        -(finding.seconds or 0.0),
        -len(finding.recompiles) - finding.break_times,
        finding.id,
    )
