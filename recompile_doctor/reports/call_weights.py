"""How many of the calls that the probe saw had the value that a finding is about."""

from collections.abc import Iterable

from recompile_doctor.capture.calls import CalledFunction
from recompile_doctor.diagnosis.diagnose import Diagnosis
from recompile_doctor.diagnosis.finding import Finding
from recompile_doctor.prescription.called import SeenCalls, is_resume, seen_calls
from recompile_doctor.reports.document import CallWeight

_ZERO_ONE = "zero-one-specialization"
_SPECIAL = (0, 1)


def call_weights(diagnosis: Diagnosis, called: Iterable[CalledFunction]) -> dict[str, CallWeight]:
    """Return the weight of each finding that is about one special size, by the finding's id.

    A finding has none where the probe did not see its calls, or not all of them: torch then
    compiled for a size that no call had.
    """
    seen = seen_calls(diagnosis.run, called)
    if not seen:
        return {}
    resumed = {each.key for each in diagnosis.run.compilations if is_resume(each)}
    weights = {}
    for finding in diagnosis.findings:
        if finding.rule != _ZERO_ONE or any(ref.key in resumed for ref in finding.recompiles):
            continue
        weight = _weight(finding, seen.get(finding.frame, ()))
        if weight is not None:
            weights[finding.id] = weight
    return weights


def _weight(finding: Finding, calls: Iterable[SeenCalls]) -> CallWeight | None:
    if finding.source is None or finding.dim is None:
        return None
    total = 0
    special: dict[int, int] = {}
    for each in calls:
        total += each.calls
        value = each.size(finding.source, finding.dim)
        if value in _SPECIAL:
            special[value] = special.get(value, 0) + each.calls
    if not special:
        return None
    values = " or ".join(str(value) for value in sorted(special))
    return CallWeight(sum(special.values()), total, values)
