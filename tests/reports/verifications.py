"""Results of `verify`, made by hand; the verdicts are those of the real judge."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from recompile_doctor.capture.applied import Applied
from recompile_doctor.capture.calls import Calls
from recompile_doctor.diagnosis.finding import Disposition
from recompile_doctor.events.vocabulary import MarkKind, StackFrame
from recompile_doctor.prescription.marks import Flag, Mark, Prescription, Status
from recompile_doctor.prescription.observed import INT, Place
from recompile_doctor.prescription.rendering import Rendering, render
from recompile_doctor.torch_compat import features_of
from recompile_doctor.verification.assess import assess
from recompile_doctor.verification.equivalence import OutputsCompared, Sameness
from recompile_doctor.verification.facts import RunFacts
from recompile_doctor.verification.lessons import Lesson, LessonKind
from recompile_doctor.verification.pace import Pace
from recompile_doctor.verification.trial_run import (
    Baseline,
    Ending,
    Remaining,
    TrialRun,
    Verification,
)
from tests.reports.gates import HOSTILE
from tests.verification import runs
from tests.verification.runs import cause, frame, function, graph_break

BUNDLE = Path("/home/user/project/.recompile-doctor/train")
COMMAND = ("/usr/bin/python3", "train.py", "--name", "a b")
SAME = OutputsCompared(
    Sameness.SAME, "40 calls gave the same outputs", 40, (), "float32: rtol 0.0001, atol 1e-05"
)
CUT = OutputsCompared(Sameness.UNKNOWN, "the run was cut short after 3 calls", 3)
NOT_COMPARED = OutputsCompared(Sameness.UNKNOWN, "no outputs were recorded")
DIFFERENT = OutputsCompared(
    Sameness.DIFFERENT,
    "call 3 of forward (model.py:10): output is 1.5 at flat index 0, before 0.5",
    40,
)

_GROUPED = (
    ("L['x']", 0, "x_0"),
    ("L['x']", 1, None),
    ("L['mask']", 0, "x_0"),
    ("L['mask']", 2, None),
    ("L['mask']", 3, None),
)


def strongest() -> Prescription:
    marks = tuple(
        Mark(source, dim, MarkKind.UNBACKED, group, minimum=1, frame=frame())
        for source, dim, group in _GROUPED
    )
    return Prescription(
        "strongest",
        "unbacked dimensions, equal ones tied together",
        marks,
        estimated_recompiles_after=0,
        explains=("zero-one-specialization/model.py:forward/L['x']:0",),
        risks=("a call in which tied dimensions differ raises an error",),
    )


def plain() -> Prescription:
    marks = (
        Mark("L['x']", 0, MarkKind.DYNAMIC, frame=frame()),
        Mark("L['n']", None, MarkKind.DYNAMIC, frame=frame()),
    )
    flags = (
        Flag("torch._dynamo.config.capture_scalar_outputs", True),
        Flag("torch._dynamo.config.recompile_limit", 64),
    )
    return Prescription("flags-and-marks", "capture data, mark the rest", marks, flags)


def before(recompiles: int = 6, **changes: object) -> RunFacts:
    found = cause(recompiles=range(1, recompiles + 1))
    frames = [function(recompiles=recompiles, graphs=recompiles + 1)]
    return runs.run(found, frames=frames, **{"seconds": 97.0, **changes})  # type: ignore[arg-type]


def baseline(facts: RunFacts | None = None, *more: int, varies: str | None = None) -> Baseline:
    first = facts or before()
    counts = (first.totals.recompiles, *(more or (first.totals.recompiles,)))
    bundles = tuple(BUNDLE / "trials" / f"baseline-{n + 1}" for n in range(len(counts)))
    return Baseline(bundles, first, counts, varies, Pace(0.012, 0.0121, 30), 31.5)


def trial(
    number: int,
    prescription: Prescription,
    facts: RunFacts,
    of: Baseline,
    *,
    reason: str = "suggested: unbacked dimensions, equal ones tied together",
    outputs: OutputsCompared = SAME,
    ending: Ending = Ending.WHOLE,
    pace: Pace | None = None,
    stopped_because: str = "",
    reused: bool = False,
    lessons: tuple[Lesson, ...] = (),
    seconds: float | None = 12.3,
) -> TrialRun:
    judgement = assess(
        of,
        facts,
        ending=ending,
        outputs=outputs,
        applied=Applied(),
        before_calls=Calls(),
        calls=Calls(),
        pace=pace,
        stopped_because=stopped_because,
    )
    return TrialRun(
        number,
        prescription,
        f"what {prescription.id} applies",
        reason,
        BUNDLE / "trials" / f"{number:02}-{prescription.id}",
        facts,
        judgement,
        outputs,
        ending,
        seconds,
        pace,
        reused,
        lessons,
    )


def verification(
    of: Baseline,
    *trials: TrialRun,
    best: TrialRun | None = None,
    remaining: tuple[Remaining, ...] = (),
    notes: tuple[str, ...] = (),
) -> Verification:
    subject = ".recompile-doctor/train"
    return Verification(subject, COMMAND, of, trials, best, remaining, notes)


def fixed() -> Verification:
    of = baseline()
    undecided = Lesson(
        LessonKind.MINIMUM,
        (Place("L['x']", 0), Place("L['n']", INT)),
        frame(),
        "Eq(u0, 0)",
        "Could not guard on data-dependent expression Eq(u0, 0)",
        StackFrame("/home/user/project/model.py", 31, "forward", "y = x.mean(0)"),
    )
    first = replace(strongest(), marks=tuple(replace(m, minimum=None) for m in strongest().marks))
    failed = before(1, exit_code=1, seconds=3.0)
    one = trial(1, first, failed, of, outputs=CUT, lessons=(undecided,), seconds=4.0)
    two = trial(
        2,
        replace(strongest(), id="strongest+2"),
        runs.run(seconds=23.0),
        of,
        reason="promise min=1 for L['x']:0: it was asked whether a size is 0 "
        "(Eq(u0, 0) at model.py:31)",
        pace=Pace(0.012, 0.0118, 34),
    )
    three = trial(
        3,
        replace(strongest(), id="strongest+2-smaller", marks=strongest().marks[:3]),
        before(1),
        of,
        reason="smaller: without L['mask']:2, L['mask']:3, which the replay of the calls does not "
        "need",
        ending=Ending.STOPPED_EARLY,
        stopped_because="ended early with 1 recompiles, where 0 is the best so far",
        outputs=CUT,
    )
    return verification(of, one, two, three, best=two)


def improved() -> Verification:
    of = baseline(
        runs.run(
            cause(recompiles=range(1, 5)),
            graph_break(),
            cause("global-state-change", (7,), disposition=Disposition.EXPECTED, source=None),
            seconds=None,
        )
    )
    left = cause("range-guard", (1, 2))
    one = trial(
        1,
        plain(),
        runs.run(left, graph_break(), seconds=None),
        of,
        outputs=NOT_COMPARED,
        reused=True,
        seconds=None,
    )
    remaining = (
        Remaining(
            left.id,
            left.title,
            "the program branches on it: each branch needs a graph",
            "Could not guard on data-dependent expression u0 < 16 "
            "(/home/user/project/model.py:31: if x.shape[0] < 16:)",
        ),
        Remaining(graph_break().id, "a graph break", "no mark or setting that was tried helps it"),
    )
    notes = ("the search ended at 1 trials (--max-trials)",)
    return verification(of, one, best=one, remaining=remaining, notes=notes)


def nothing() -> Verification:
    of = baseline()
    names = ("flags-and-marks", "flags", "strongest", "environment", "dynamic-only")
    named = [replace(strongest(), id=each) for each in names]
    worse = runs.run(cause(recompiles=range(1, 13)), graph_break(), seconds=120.0)
    return verification(
        of,
        trial(1, named[0], worse, of),
        trial(2, named[1], before(2, exit_code=134), of, outputs=CUT),
        trial(3, named[2], runs.run(), of, outputs=DIFFERENT),
        trial(
            4,
            named[3],
            before(3, exit_code=143),
            of,
            ending=Ending.TIMED_OUT,
            stopped_because="timed out after 277 s",
            outputs=CUT,
        ),
        trial(
            5,
            named[4],
            before(7),
            of,
            ending=Ending.STOPPED_EARLY,
            stopped_because="ended early with 7 recompiles, where 6 is the best so far",
            outputs=CUT,
        ),
        trial(6, plain(), before(), of),
        remaining=(Remaining(cause().id, cause().title, "no mark or setting helps it"),),
    )


def without_trials() -> Verification:
    why = "the program makes a new graph for each value: pass it as a tensor"
    return verification(
        baseline(), remaining=(Remaining(cause().id, "the value of a float changes", why),)
    )


def varies() -> Verification:
    words = "call 1 of forward (model.py:10): output is 0.5 at flat index 0, before 0.25"
    of = baseline(before(4), 6, varies=words)
    unknown = OutputsCompared(
        Sameness.UNKNOWN, f"the program varies: two runs without changes differ ({words})", 40
    )
    one = trial(1, strongest(), runs.run(seconds=23.0), of, outputs=unknown)
    notes = (
        "without any change the program recompiles 4 to 6 times: a gain within that is not counted",
        f"two runs without a change give different outputs: {words}",
    )
    return verification(of, one, best=one, notes=notes)


def hostile() -> Verification:
    found = replace(cause(recompiles=(1,)), source=HOSTILE, title=HOSTILE)
    of = baseline(runs.run(found, seconds=1.0))
    mark = Mark(f"L[{HOSTILE!r}]", 0, MarkKind.UNBACKED, HOSTILE, minimum=1, frame=frame(HOSTILE))
    prescription = Prescription(HOSTILE, HOSTILE, (mark,), risks=(HOSTILE,))
    lesson = Lesson(LessonKind.TIE, (), None, HOSTILE, HOSTILE, None)
    outputs = OutputsCompared(Sameness.UNKNOWN, HOSTILE, 1, (HOSTILE,))
    one = trial(1, prescription, runs.run(), of, reason=HOSTILE, outputs=outputs, lessons=(lesson,))
    made = verification(
        of,
        one,
        best=one,
        remaining=(Remaining(found.id, HOSTILE, HOSTILE, HOSTILE),),
        notes=(HOSTILE,),
    )
    return replace(made, subject=HOSTILE, command=("python", HOSTILE))


def rendering(of: Verification) -> Rendering | None:
    """Return the best prescription in all forms, as the pipeline makes it."""
    if of.best is None:
        return None
    verified = replace(of.best.prescription, status=Status.VERIFIED)
    return render(verified, features_of(of.baseline.facts.torch_version or "2.13"))


ALL: dict[str, Callable[[], Verification]] = {
    "fixed": fixed,
    "improved": improved,
    "nothing": nothing,
    "without_trials": without_trials,
    "varies": varies,
    "hostile": hostile,
}
