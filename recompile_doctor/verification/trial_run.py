"""One trial: a prescription, the run under it, and what was measured of it."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from recompile_doctor.prescription.marks import Prescription
from recompile_doctor.verification.equivalence import OutputsCompared, Sameness
from recompile_doctor.verification.facts import RunFacts
from recompile_doctor.verification.lessons import Lesson
from recompile_doctor.verification.pace import Pace
from recompile_doctor.verification.verdict import Judgement, Verdict


class Ending(Enum):
    """How the run of a trial ended."""

    WHOLE = "it came to its end"
    STOPPED_EARLY = "it was ended early, since it could not win any more"
    TIMED_OUT = "it was ended when the time limit was reached"


@dataclass(frozen=True, slots=True)
class TrialRun:
    """One run of the program under a prescription.

    ``content`` is what the run had applied. ``reason`` says why it was tried, ``seconds`` how long
    the program ran. ``reused`` tells that an earlier, interrupted verify had run it already.
    ``lessons`` are what torch said in it that tells what to try next.
    """

    number: int
    prescription: Prescription
    content: str
    reason: str
    bundle: Path
    facts: RunFacts
    judgement: Judgement
    outputs: OutputsCompared
    ending: Ending = Ending.WHOLE
    seconds: float | None = None
    pace: Pace | None = None
    reused: bool = False
    lessons: tuple[Lesson, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Return the verdict on the run."""
        return self.judgement.verdict

    @property
    def is_proof(self) -> bool:
        """Return whether it shows that the prescription works: better, and never different."""
        return (
            self.verdict in (Verdict.FIXED, Verdict.IMPROVED)
            and self.outputs.sameness is not Sameness.DIFFERENT
        )

    @property
    def score(self) -> tuple[int, ...]:
        """Return what is compared among trials: less is better."""
        totals = self.facts.totals
        eager = sum(1 for each in self.facts.frames if each.counts.runs_eagerly)
        return (
            totals.recompile_limit_hits,
            eager,
            totals.recompiles + totals.graph_breaks,
            totals.recompiles,
            0 if self.outputs.sameness is Sameness.SAME else 1,
        )


@dataclass(frozen=True, slots=True)
class Baseline:
    """The program as it is, run once or more. ``facts`` are those of the first run.

    ``recompiles`` are the counts of all runs, in order. ``varies`` says in words what differs
    among them without any change, or is None.
    """

    bundles: tuple[Path, ...]
    facts: RunFacts
    recompiles: tuple[int, ...]
    varies: str | None = None
    noise: Pace | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Remaining:
    """A cause that the best prescription leaves, and why nothing helps it.

    ``sentence`` is torch's own, with the line of the program or library that it names.
    """

    finding_id: str
    title: str
    why: str
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Verification:
    """All that a verify did: the baseline, the trials in order, and the best of them.

    ``best`` is None when no prescription measured better. ``notes`` say what limits the result.
    """

    subject: str
    command: tuple[str, ...]
    baseline: Baseline
    trials: tuple[TrialRun, ...]
    best: TrialRun | None
    remaining: tuple[Remaining, ...] = ()
    notes: tuple[str, ...] = ()
