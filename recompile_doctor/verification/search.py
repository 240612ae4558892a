"""The search: try the strongest plausible prescription, learn from its run, keep the smallest.

Everything that decides is measured in a rerun. What is estimated (the replay of the calls seen)
only orders the candidates, and spares trials whose outcome it leaves in no doubt; then the reason
says so. The order is a function of what the runs showed, so that a verify which is started again
asks for the same trials and finds them done.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TypeAlias

from recompile_doctor.capture.applied import read_applied
from recompile_doctor.capture.calls import Calls
from recompile_doctor.capture.overlay import read_overlay
from recompile_doctor.diagnosis.diagnose import Diagnosis
from recompile_doctor.diagnosis.finding import Disposition, Finding
from recompile_doctor.errors import DoctorError, ExitCode
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.model.run import Run
from recompile_doctor.prescription.advice import advice_for
from recompile_doctor.prescription.environment import idle_entries
from recompile_doctor.prescription.marks import Mark, Prescription
from recompile_doctor.prescription.observed import INT, ObservedFrame, Place, observe
from recompile_doctor.prescription.prescription_file import Trial, trial_of
from recompile_doctor.prescription.replay import estimated_recompiles
from recompile_doctor.prescription.suggest import suggest
from recompile_doctor.torch_compat import TorchFeatures, features_of
from recompile_doctor.verification.assess import assess
from recompile_doctor.verification.diff import Change, compare
from recompile_doctor.verification.equivalence import (
    OutputsCompared,
    Sameness,
    compare_outputs,
    judge_outputs,
)
from recompile_doctor.verification.facts import (
    RunFacts,
    explains_recompiles,
    limit_hits,
    own_breaks,
)
from recompile_doctor.verification.lessons import (
    Lesson,
    assumptions_of,
    is_contradicted,
    lessons_of,
)
from recompile_doctor.verification.pace import compare_pace
from recompile_doctor.verification.printed import judge_text
from recompile_doctor.verification.refine import (
    Candidate,
    merged,
    refined,
    spared,
    without,
    without_promises,
)
from recompile_doctor.verification.rerun import Applying, Finished, Order, Rerunner
from recompile_doctor.verification.trial_run import (
    Baseline,
    Ending,
    Remaining,
    TrialRun,
    Verification,
)
from recompile_doctor.verification.verdict import Judgement, Verdict

_TAIL_LINES = 3
_NO_FAULT = {
    Disposition.EXPECTED: "expected: the program really has such variants",
    Disposition.ONE_OFF: "it happens once, and does not grow",
}
_NOT_IN_NAMES = re.compile(r"[^\w.+-]", re.ASCII)  # the id of a prescription file can be anything
_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class Looked:
    """What the bundle of a run says."""

    diagnosis: Diagnosis
    facts: RunFacts
    calls: Calls


Look: TypeAlias = Callable[[Finished], Looked]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a verify may do. ``baseline_runs`` tell whether the program varies by itself."""

    max_trials: int = 8
    baseline_runs: int = 2
    compare_stdout: bool = False


@dataclass(slots=True)
class _Known:
    """The baseline, and what the search knows of it."""

    baseline: Baseline
    finished: tuple[Finished, ...]
    looked: Looked
    frames: tuple[ObservedFrame, ...]
    features: TorchFeatures
    sources: tuple[str, ...]


@dataclass(slots=True)
class Search:
    """One verify. ``on_trial`` is told of each trial that ended."""

    rerunner: Rerunner
    look: Look
    subject: str
    limits: Limits = Limits()
    on_trial: Callable[[TrialRun], None] | None = None
    _known: _Known = field(init=False)
    _trials: list[TrialRun] = field(default_factory=list)
    _looked: dict[int, Looked] = field(default_factory=dict)
    _tried: dict[str, TrialRun] = field(default_factory=dict)

    def best_of_suggestions(self) -> Verification:
        """Search from what is suggested for the program as it is."""
        known = self._known = self._baseline()
        called = known.looked.calls.functions
        found = suggest(known.looked.diagnosis, known.features, called=called)
        queue = deque(
            Candidate(each, f"suggested: {each.title}")
            for each in found
            if each.marks or each.flags
        )
        self._work_off(queue)
        best = self._best()
        if best is not None:
            best = self._confirmed(self._shrunk(best))
        return self._result(best)

    def of_one(self, prescription: Prescription, trial: Trial) -> Verification:
        """Check one prescription, as its file says it."""
        self._known = self._baseline()
        candidate = Candidate(prescription, "named on the command line")
        (result,) = self._try_all([candidate], trial)
        return self._result(result if result.is_proof else None)

    def of_files(self, prescription: Prescription, change: Applying) -> Verification:
        """Check patched files."""
        self._known = self._baseline()
        order = self._order(prescription, change)
        result = self._judged(
            Candidate(prescription, "the patched files, in place of the user's"),
            change.content,
            self.rerunner.run(order),
            {},
            patched=True,
        )
        return self._result(result if result.is_proof else None)

    # The baseline

    def _baseline(self) -> _Known:
        orders = [Order(f"baseline-{n + 1}") for n in range(self.limits.baseline_runs)]
        finished = tuple(self.rerunner.run_all(orders))
        looked = [self.look(each) for each in finished]
        for made, seen in zip(finished, looked, strict=True):
            _check_baseline(made, seen.facts)
        first = looked[0]
        run = first.diagnosis.run
        version = finished[0].bundle.manifest.torch_version or run.torch_version
        if version is None:
            raise DoctorError(
                "The program never imported torch's compiler, so there is nothing to verify.",
                slug="nothing-compiled",
                hint="Check that the captured command is the one that compiles.",
            )
        baseline = Baseline(
            tuple(each.bundle.path for each in finished),
            first.facts,
            tuple(each.facts.totals.recompiles for each in looked),
            self._varies(finished),
            compare_pace(first.calls, looked[1].calls) if len(looked) > 1 else None,
            finished[0].bundle.manifest.wall_seconds,
        )
        return _Known(
            baseline,
            finished,
            first,
            observe(run, first.calls.functions),
            features_of(version),
            tuple(sorted(run.sources)),
        )

    def _varies(self, finished: Sequence[Finished]) -> str | None:
        for one, other in combinations(finished, 2):
            compared = compare_outputs(one.bundle, other.bundle)
            if compared.sameness is Sameness.DIFFERENT:
                return compared.reason
        return None

    # Candidates

    def _work_off(self, queue: deque[Candidate]) -> None:
        while queue and self._left() > 0:
            batch: list[Candidate] = []
            while queue and len(batch) < min(self.rerunner.jobs, self._left()):
                candidate = queue.popleft()
                if self._content(candidate.prescription) not in self._tried and not any(
                    self._content(candidate.prescription) == self._content(each.prescription)
                    for each in batch
                ):
                    batch.append(candidate)
            for result in self._try_all(batch):
                queue.extendleft(reversed(list(self._next(result))))
            best = self._best()
            if best is not None:
                queue = deque(each for each in queue if self._may_beat(each, best))

    def _may_beat(self, candidate: Candidate, best: TrialRun) -> bool:
        """Return whether a candidate is worth a trial, when one is known that works."""
        estimated = candidate.prescription.estimated_recompiles_after
        if estimated is None:
            return not self._is_perfect(best)
        return estimated < best.facts.totals.recompiles

    def _next(self, result: TrialRun) -> Iterator[Candidate]:
        """Yield what to try after a trial: what it taught first, then what it uncovered."""
        known = self._known
        looked = self._looked[result.number]
        prescription = _renamed(result.prescription, len(self._trials) + 1)
        lessons = () if result.is_proof else result.lessons
        learnt = refined(prescription, lessons, known.frames, known.features)
        if learnt is None and not result.is_proof:
            learnt = spared(prescription, self._blamed(result, looked))
        if learnt is not None:
            yield learnt
        if result.is_proof and not self._is_perfect(result):
            more = suggest(looked.diagnosis, known.features, called=looked.calls.functions)
            for each in more[:1]:
                if each.marks or each.flags:
                    yield Candidate(
                        merged(prescription, each),
                        f"{result.prescription.id} uncovered the next guard: {each.title}",
                    )

    def _blamed(self, result: TrialRun, looked: Looked) -> Iterator[FrameKey]:
        """Yield the functions that got worse, and the one whose compile ended the program."""
        for diff in compare(self._known.baseline.facts, result.facts).frames:
            if diff.change is Change.WORSE:
                yield diff.frame
        last = looked.diagnosis.run.compilations[-1:]
        if result.facts.exit_code and last and last[0].errors:
            yield last[0].frame

    def _is_perfect(self, result: TrialRun) -> bool:
        """Return whether nothing is left that a mark or a flag could be for."""
        left = [
            each
            for each in self._looked[result.number].diagnosis.findings
            if each.recompiles and each.disposition is not Disposition.EXPECTED
        ]
        totals = result.facts.totals
        return (
            result.is_proof
            and not left
            and not totals.graph_breaks
            and not totals.recompile_limit_hits
        )

    # Shrinking

    def _shrunk(self, best: TrialRun) -> TrialRun:
        """Return the smallest prescription that measures as well as ``best``."""
        if any(_promises(mark) for mark in best.prescription.marks):
            plain = without_promises(best.prescription)
            reason = "smaller: without groups and bounds, as environment variables can say it"
            best = self._kept(best, plain, "plain", reason)
        idle = self._idle(best)
        if len(_by_place(idle)) > 1:
            reason = f"smaller: without {_names(idle)}, which the replay of the calls does not need"
            best = self._kept(best, without(best.prescription, idle), "smaller", reason)
        for place, marks in _by_place(self._idle(best)).items():
            kept = [each for each in best.prescription.marks if each in marks]
            reason = f"smaller: without {place}"
            best = self._kept(best, without(best.prescription, kept), "smaller", reason)
        if len(best.prescription.flags) > 1:
            for flag in best.prescription.flags:
                flags = tuple(each for each in best.prescription.flags if each != flag)
                fewer = replace(best.prescription, flags=flags)
                best = self._kept(best, fewer, "smaller", f"smaller: without {flag.name}")
        return best

    def _idle(self, best: TrialRun) -> list[Mark]:
        """Return the marks without which the replay of the calls seen counts no more recompiles.

        All others are kept without a trial: the replay says which recompiles would come back.
        """
        marks = best.prescription.marks
        frames = self._known.frames
        whole = estimated_recompiles(frames, marks)
        idle: list[Mark] = []
        for group in _by_place(marks).values():
            rest = [each for each in marks if each not in group]
            if estimated_recompiles(frames, rest) <= whole:
                idle += group
        return idle

    def _kept(self, best: TrialRun, smaller: Prescription, name: str, reason: str) -> TrialRun:
        """Return the trial of a smaller prescription when it measures as well, else ``best``."""
        if not (smaller.marks or smaller.flags):
            return best
        result = self._tried.get(self._content(smaller))
        if result is None:
            if self._left() < 1:
                return best
            prescription = replace(smaller, id=f"{best.prescription.id}-{name}")
            prescription = _unique(prescription, self._trials)
            result = self._try_all([Candidate(prescription, reason)])[0]
        good = result.is_proof and result.score <= best.score
        return result if good else best

    def _confirmed(self, best: TrialRun) -> TrialRun | None:
        """Return a best that a second run bears out, where the program's own counts vary.

        One run of a program that recompiles 2 or 3 times by itself may come to 1 by chance.
        """
        tried: TrialRun | None = best
        while tried is not None and len(set(self._known.baseline.recompiles)) > 1:
            again = replace(tried.prescription, id=f"{tried.prescription.id}-again")
            trial = self._trial(again)
            order = replace(self._order(again, Applying(trial)), repeat=1)
            reason = "once more, since the program's own counts vary"
            second = self._judged(
                Candidate(again, reason),
                order.change.content,
                self.rerunner.run(order),
                trial.environment,
            )
            if second.is_proof:
                return max(tried, second, key=lambda each: each.score)
            why = f"a second run does not bear it out: {second.judgement.reasons[0]}"
            self._trials[tried.number - 1] = replace(
                tried, judgement=Judgement(Verdict.UNCHANGED, (why,), tried.judgement.reasons)
            )
            tried = self._best()
        return tried

    # Trials

    def _left(self) -> int:
        return self.limits.max_trials - len(self._trials)

    def _content(self, prescription: Prescription) -> str:
        return Applying(self._trial(prescription)).content

    def _trial(self, prescription: Prescription) -> Trial:
        known = self._known
        return trial_of(prescription, known.features, known.sources)

    def _order(self, prescription: Prescription, change: Applying, offset: int = 0) -> Order:
        number = len(self._trials) + 1 + offset
        name = _NOT_IN_NAMES.sub("-", prescription.id)[:_LONGEST_NAME].rstrip(".")
        return Order(f"{number:02}-{name}", change, self._most())

    def _try_all(
        self, candidates: Sequence[Candidate], trial: Trial | None = None
    ) -> list[TrialRun]:
        orders = []
        for offset, candidate in enumerate(candidates):
            change = Applying(trial or self._trial(candidate.prescription))
            orders.append(self._order(candidate.prescription, change, offset))
        finished = self.rerunner.run_all(orders) if orders else []
        results = []
        for candidate, order, run in zip(candidates, orders, finished, strict=True):
            applied = order.change.trial
            variables = {} if applied is None else applied.environment
            result = self._judged(candidate, order.change.content, run, variables)
            self._tried[order.change.content] = result
            results.append(result)
        return results

    def _judged(
        self,
        candidate: Candidate,
        content: str,
        finished: Finished,
        variables: Mapping[str, str],
        *,
        patched: bool = False,
    ) -> TrialRun:
        known = self._known
        looked = self.look(finished)
        alone = self.rerunner.jobs == 1  # else the runs slow each other down
        pace = compare_pace(known.looked.calls, looked.calls) if alone else None
        outputs = self._outputs(finished)
        errors = "" if looked.facts.exit_code in (0, None) else finished.errors()
        result = TrialRun(
            number=len(self._trials) + 1,
            prescription=candidate.prescription,
            content=content,
            reason=candidate.reason,
            bundle=finished.bundle.path,
            facts=looked.facts,
            judgement=assess(
                known.baseline,
                looked.facts,
                ending=finished.ending,
                outputs=outputs,
                applied=read_applied(finished.bundle),
                before_calls=known.looked.calls,
                calls=looked.calls,
                pace=pace,
                stopped_because=finished.stopped_because,
                overlay=read_overlay(finished.bundle) if patched else None,
                idle_entries=idle_entries(variables, looked.diagnosis.run.sources),
            ),
            outputs=outputs,
            ending=finished.ending,
            seconds=finished.bundle.manifest.wall_seconds,
            pace=pace,
            reused=finished.reused,
            lessons=self._lessons(looked.diagnosis.run, errors, outputs),
        )
        self._trials.append(result)
        self._looked[result.number] = looked
        if self.on_trial is not None:
            self.on_trial(result)
        return result

    def _lessons(self, run: Run, errors: str, outputs: OutputsCompared) -> tuple[Lesson, ...]:
        """Return what a run taught; where outputs differ, also the assumptions that do not hold."""
        lessons = lessons_of(run, errors)
        if outputs.sameness is not Sameness.DIFFERENT:
            return lessons
        wrong = (each for each in assumptions_of(run) if is_contradicted(each, self._known.frames))
        return (*lessons, *wrong)

    def _outputs(self, finished: Finished) -> OutputsCompared:
        """Return whether a run's results are those of the baseline, and what it printed too."""
        baselines = self._known.finished
        compared = judge_outputs([each.bundle for each in baselines], finished.bundle)
        if not self.limits.compare_stdout or compared.sameness is Sameness.DIFFERENT:
            return compared
        printed = judge_text([each.stdout for each in baselines], finished.stdout)
        reason = f"printed: {printed.reason}"
        if printed.sameness is Sameness.SAME:
            return replace(compared, reason=f"{compared.reason}; {reason}")
        return replace(printed, reason=reason)

    def _most(self) -> int | None:
        """Return above which number of recompiles a trial cannot win any more.

        Recompiles may come in the place of graph breaks. None where the number does not tell: the
        run hits the limit or captures no graph, and then more recompiles can be the better run.
        """
        best = self._best()
        facts = self._known.baseline.facts if best is None else best.facts
        recompiles = facts.totals.recompiles
        if best is None:
            recompiles = max(self._known.baseline.recompiles)
        eager = any(each.counts.runs_eagerly for each in facts.frames)
        if facts.totals.recompile_limit_hits or eager or not facts.totals.graphs_captured:
            return None
        return recompiles + facts.totals.graph_breaks

    def _best(self) -> TrialRun | None:
        proofs = [each for each in self._trials if each.is_proof]
        return min(proofs, key=lambda each: (each.score, each.number), default=None)

    # The result

    def _result(self, best: TrialRun | None) -> Verification:
        return Verification(
            subject=self.subject,
            command=self.rerunner.program.command,
            baseline=self._known.baseline,
            trials=tuple(self._trials),
            best=best,
            remaining=tuple(self._remaining(best)),
            notes=tuple(self._notes()),
        )

    def _remaining(self, best: TrialRun | None) -> Iterator[Remaining]:
        """Yield what is left, each cause with torch's own words where a trial met them.

        First what is to be fixed, then what is expected or happens once.
        """
        looked = self._known.looked if best is None else self._looked[best.number]
        advice = {
            each.finding: each.text for each in advice_for(looked.diagnosis, self._known.frames)
        }
        for finding in looked.diagnosis.findings:
            weighs = explains_recompiles(finding) or own_breaks(finding) or limit_hits(finding)
            if finding.disposition is not Disposition.FIXABLE or not weighs:
                continue
            lesson = next(self._met(finding), None)
            why = advice.get(finding.id) or self._why_not(finding)
            sentence = "" if lesson is None else _with_line(lesson)
            yield Remaining(finding.id, finding.title, why, sentence)
        for finding in looked.diagnosis.findings:
            why = _NO_FAULT.get(finding.disposition, "")
            if why and explains_recompiles(finding):
                yield Remaining(finding.id, finding.title, why)

    def _why_not(self, finding: Finding) -> str:
        """Return what became of the strongest trial that marked the input of a finding."""
        for trial in self._trials:
            for mark in trial.prescription.marks:
                if (mark.source, mark.dim) == (finding.source, finding.dim) and not trial.is_proof:
                    reason = trial.judgement.reasons[0]
                    return f"{mark.kind.value}, as {trial.prescription.id} marks it: {reason}"
        return "no mark or setting that was tried helps it"

    def _met(self, finding: Finding) -> Iterator[Lesson]:
        for trial in self._trials:
            for lesson in trial.lessons:
                about = {
                    (each.source, None if each.dim == INT else each.dim) for each in lesson.places
                }
                if (finding.source, finding.dim) in about:
                    yield lesson

    def _notes(self) -> Iterator[str]:
        baseline = self._known.baseline
        counts = baseline.recompiles
        if len(set(counts)) > 1:
            yield (
                f"without any change the program recompiles {min(counts)} to {max(counts)} times: "
                "a gain within that is not counted"
            )
        if baseline.varies is not None:
            yield f"two runs without a change give different outputs: {baseline.varies}"
        if len(counts) == 1:
            yield "the program ran once as it is, so whether it varies by itself is unknown"
        best = self._best()
        facts = baseline.facts if best is None else best.facts
        if facts.totals.graphs_captured == 0:
            yield "no graph is captured: all of it runs eagerly, whatever recompiles"
        if self._left() < 1:
            most = self.limits.max_trials
            trials = f"{most} trial{'' if most == 1 else 's'}"
            yield f"the search ended at {trials} (--max-trials)"


def _check_baseline(finished: Finished, facts: RunFacts) -> None:
    """Raise when the program as it is does not run: then there is nothing to compare with."""
    if finished.ending is Ending.TIMED_OUT:
        raise DoctorError(
            "The program as it is did not end within the time limit.",
            slug="verify-program-failed",
            hint="Give it more time with --timeout, or a shorter job.",
            exit_code=ExitCode.PROGRAM_FAILED,
        )
    if facts.exit_code:
        lines = [line for line in finished.errors().splitlines() if line.strip()][-_TAIL_LINES:]
        said = f" It said: {' / '.join(lines)}" if lines else ""
        raise DoctorError(
            f"The program as it is ends with exit code {facts.exit_code}.{said}",
            slug="verify-program-failed",
            hint=f"Its output is in {finished.bundle.path}; it must succeed before a change can be "
            "judged.",
            exit_code=ExitCode.PROGRAM_FAILED,
        )


def _by_place(marks: Iterable[Mark]) -> dict[Place, list[Mark]]:
    """Return marks by input: those of several functions go together, as in a variable."""
    found: dict[Place, list[Mark]] = {}
    for mark in marks:
        place = Place(mark.source, INT if mark.dim is None else mark.dim)
        found.setdefault(place, []).append(mark)
    return found


def _promises(mark: Mark) -> bool:
    return any(each is not None for each in (mark.shape_group, mark.minimum, mark.maximum))


def _renamed(prescription: Prescription, number: int) -> Prescription:
    """Return a prescription under the name of its next version."""
    base = prescription.id.split("+", 1)[0]
    return replace(prescription, id=f"{base}+{number}")


def _unique(prescription: Prescription, trials: Iterable[TrialRun]) -> Prescription:
    names = {each.prescription.id for each in trials}
    name, number = prescription.id, 1
    while name in names:
        number += 1
        name = f"{prescription.id}-{number}"
    return replace(prescription, id=name)


def _names(marks: Iterable[Mark]) -> str:
    return ", ".join(map(str, _by_place(marks)))


def _with_line(lesson: Lesson) -> str:
    if lesson.line is None:
        return lesson.sentence
    place = f"{lesson.line.file}:{lesson.line.line}"
    code = f": {lesson.line.code}" if lesson.line.code else ""
    return f"{lesson.sentence} ({place}{code})"
