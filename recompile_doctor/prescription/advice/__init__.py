"""What to rewrite where no mark and no flag helps: one text for each kind of cause."""

from collections.abc import Iterator, Mapping, Sequence

from recompile_doctor.diagnosis.diagnose import Diagnosis
from recompile_doctor.diagnosis.finding import Disposition, Finding
from recompile_doctor.prescription.advice.data import DATA
from recompile_doctor.prescription.advice.objects import OBJECTS
from recompile_doctor.prescription.advice.program import PROGRAM
from recompile_doctor.prescription.advice.sizes import BROADCAST, SIZES
from recompile_doctor.prescription.advice.text import AdviceText
from recompile_doctor.prescription.advice.values import VALUES
from recompile_doctor.prescription.marks import Advice
from recompile_doctor.prescription.observed import ObservedFrame

ADVICE: Mapping[str, AdviceText] = {**DATA, **OBJECTS, **PROGRAM, **SIZES, **VALUES}


def advice_for(diagnosis: Diagnosis, frames: Sequence[ObservedFrame]) -> Iterator[Advice]:
    """Yield what to rewrite for each finding that asks for something and has a text."""
    broadcast = {
        (frame.frame, place.source, place.dim) for frame in frames for place in frame.broadcast
    }
    for finding in diagnosis.findings:
        if finding.disposition is not Disposition.FIXABLE:
            continue
        if (finding.frame, finding.source, finding.dim) in broadcast:
            yield _advice(finding, BROADCAST)
        elif finding.rule in ADVICE:
            yield _advice(finding, ADVICE[finding.rule])


def _advice(finding: Finding, text: AdviceText) -> Advice:
    subject = finding.source or "it"
    if finding.source is not None and finding.dim is not None:
        subject = f"dimension {finding.dim} of {finding.source}"
    return Advice(finding.rule, finding.id, text.text.replace("{subject}", subject), text.example)
