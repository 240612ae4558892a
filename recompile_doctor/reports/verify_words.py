"""What the reports of `verify` say, in each format alike.

Three words are kept apart: measured in a rerun, estimated from the calls seen, and unknown.
"""

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath

from recompile_doctor.diagnosis.finding import Disposition, Finding
from recompile_doctor.prescription.marks import Prescription
from recompile_doctor.prescription.prescription_file import trial_of
from recompile_doctor.prescription.rendering import Rendering, frame_words
from recompile_doctor.prescription.verified import Shown
from recompile_doctor.reports import words
from recompile_doctor.reports.prescription_forms import (
    calls_as_code,
    can_be_patched,
    setting_lines,
    shell_lines,
    variables_beside_calls,
)
from recompile_doctor.torch_compat import NEWEST_MEASURED, TorchFeatures, features_of
from recompile_doctor.verification.assess import LEAST_CALLS
from recompile_doctor.verification.equivalence import OutputsCompared, Sameness
from recompile_doctor.verification.facts import Counts, explains_recompiles, is_fixable
from recompile_doctor.verification.refine import without_promises
from recompile_doctor.verification.trial_run import (
    Baseline,
    Ending,
    Remaining,
    TrialRun,
    Verification,
)
from recompile_doctor.verification.verdict import Verdict

ARROW = "->"  # the first line is there to be found by grep, in each encoding
_NONE = "-"


def torch_version(verification: Verification) -> str:
    """Return the release that the program ran on."""
    known = verification.baseline.facts.torch_version
    return known or f"{NEWEST_MEASURED[0]}.{NEWEST_MEASURED[1]}"


def features(verification: Verification) -> TorchFeatures:
    """Return what the torch of the program understands."""
    return features_of(torch_version(verification))


# The headline


def headline(verification: Verification) -> str:
    """Return the one sentence that says what was shown.

    >>> headline(...)
    'Verified: 6 recompiles -> 0 with 5 marks (measured in 3 trials; outputs the same).'
    """
    best = verification.best
    if best is None:
        return f"No prescription was verified: {_why_none(verification)}."
    word = "Verified" if best.verdict is Verdict.FIXED else "Verified in part"
    trials = words.counted(len(verification.trials), "trial")
    outputs = _outputs_words(best.outputs, verification.baseline)
    return (
        f"{word}: {_changes(verification.baseline, best)} with {size_words(best.prescription)} "
        f"(measured in {trials}; {outputs})."
    )


def _changes(baseline: Baseline, best: TrialRun) -> str:
    old, new = baseline.facts.totals, best.facts.totals
    low, high = min(baseline.recompiles), max(baseline.recompiles)
    parts = []
    if low != high:
        parts.append(f"{low} to {high} recompiles {ARROW} {new.recompiles}")
    elif new.recompiles != high:
        parts.append(f"{words.counted(high, 'recompile')} {ARROW} {new.recompiles}")
    for noun, first, second in (
        ("graph break", old.graph_breaks, new.graph_breaks),
        ("recompile-limit hit", old.recompile_limit_hits, new.recompile_limit_hits),
    ):
        if first != second:
            parts.append(f"{words.counted(first, noun)} {ARROW} {second}")
    return ", ".join(parts) or "; ".join(best.judgement.reasons)


def size_words(prescription: Prescription) -> str:
    """Return of how many marks and settings a prescription consists."""
    counts = ((len(prescription.marks), "mark"), (len(prescription.flags), "setting"))
    parts = [words.counted(number, noun) for number, noun in counts if number]
    return " and ".join(parts) or prescription.id


def _outputs_words(outputs: OutputsCompared, baseline: Baseline) -> str:
    if outputs.sameness is not Sameness.UNKNOWN:
        return f"outputs {'the same' if outputs.sameness is Sameness.SAME else 'different'}"
    if baseline.varies is not None:
        return "outputs unknown, the program varies"
    return "outputs unknown" if outputs.calls else "outputs not compared"


def _why_none(verification: Verification) -> str:
    trials = verification.trials
    if trials:
        subject = "the trial" if len(trials) == 1 else "every trial"
        return f"{subject} {_either(dict.fromkeys(map(_outcome, trials)))}"
    facts = verification.baseline.facts
    totals = facts.totals
    if not (totals.recompiles or totals.graph_breaks or totals.recompile_limit_hits):
        return "nothing recompiled, so there is nothing to try"
    if not any(map(is_fixable, facts.findings)):
        return "there is nothing to try: what recompiles is expected or happened once"
    return "there is nothing to try: no mark or setting can help"


_MEASURED = "measured "
_OUTCOMES = {
    Verdict.WORSE: f"{_MEASURED}worse",
    Verdict.UNCHANGED: f"{_MEASURED}the same",
    Verdict.BROKE: "broke the program",
    Verdict.UNKNOWN: "could not be judged",
}


def _outcome(trial: TrialRun) -> str:
    if trial.ending is Ending.TIMED_OUT:
        return "ran out of time"
    if trial.outputs.sameness is Sameness.DIFFERENT:
        return "changed the outputs"
    return _OUTCOMES.get(trial.verdict, f"{_MEASURED}{trial.verdict.value}")


def _either(outcomes: Iterable[str]) -> str:
    """Return outcomes as the end of a sentence: ``measured worse or the same``."""
    all_of_them = list(outcomes)
    measured = [each for each in all_of_them if each.startswith(_MEASURED)]
    parts = [each for each in all_of_them if each not in measured]
    if measured:
        figures = (each.removeprefix(_MEASURED) for each in measured)
        parts.insert(0, _MEASURED + " or ".join(figures))
    return " or ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


# Before and after


def rows(verification: Verification) -> Iterator[tuple[str, str, str]]:
    """Yield a name and its figures, before and after; the last is empty without a best one.

    What was not measured is a dash, and no row at all where there is nothing to compare it with.
    """
    baseline, best = verification.baseline, verification.best
    before = _figures(
        baseline.facts.totals,
        baseline.facts.exit_code,
        _NONE if best is None or best.pace is None else call_time(best.pace.before),
        _NONE if baseline.varies is None else "vary",
    )
    low, high = min(baseline.recompiles), max(baseline.recompiles)
    if low != high:
        before[0] = f"{low} to {high}"
    after = [""] * len(before)
    if best is not None:
        after = _figures(
            best.facts.totals,
            best.facts.exit_code,
            _NONE if best.pace is None else call_time(best.pace.after),
            best.outputs.sameness.value,
        )
    for name, first, second in zip(_NAMES, before, after, strict=True):
        if first != _NONE or second:
            yield name, first, second


_NAMES = (
    "recompiles",
    "graph breaks",
    "graphs captured",
    "recompile-limit hits",
    "compile time",
    "time of a call",
    "exit code",
    "outputs",
)


def _figures(counts: Counts, exit_code: int | None, call: str, outputs: str) -> list[str]:
    return [
        str(counts.recompiles),
        str(counts.graph_breaks),
        "unknown" if counts.graphs_captured is None else str(counts.graphs_captured),
        str(counts.recompile_limit_hits),
        words.time_text(counts.compile_seconds),
        call,
        "unknown" if exit_code is None else str(exit_code),
        outputs,
    ]


def call_time(seconds: float) -> str:
    """Return the time of one call."""
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def about_rows(verification: Verification) -> Iterator[str]:
    """Yield what is to be known of the figures: what was compared, and how exactly."""
    best = verification.best
    if best is None:
        return
    if best.pace is not None:
        calls = words.counted(best.pace.calls, "call")
        few = "; so few say nothing" if best.pace.calls < LEAST_CALLS else ""
        yield f"time of a call: mean of {calls} of the same sizes that compiled nothing{few}"
    tolerance = f" ({best.outputs.tolerance})" if best.outputs.tolerance else ""
    yield f"outputs: {best.outputs.reason}{tolerance}"
    for each in best.judgement.reservations:
        yield f"although {each}"


# The prescription


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a prescription: a title, and lines to paste, in some language.

    ``lost`` is what the form does not say, empty where it says all. ``calls`` tells that the lines
    are calls, which stand under the names of functions.
    """

    title: str
    lines: tuple[str, ...] = ()
    language: str = "sh"
    lost: str = ""
    calls: bool = False


def forms(
    verification: Verification, rendering: Rendering, sources: Iterable[str]
) -> Iterator[Form]:
    """Yield the forms of the best prescription, first the one that was measured.

    Where ties and bounds ask for calls, the trial marked arguments; the variables alone say less
    than that and can do harm, so they come last, under a title that says so.
    """
    marked = bool(trial_of(rendering.prescription, features(verification)).marks)
    variables = Form(
        "As environment variables:",
        tuple(shell_lines(rendering.environment.variables)),
        lost="; ".join(rendering.environment_loses),
    )
    either = "Or as" if variables.lines and not marked else "As"
    settings = tuple(setting_lines(rendering))
    if variables.lines and not marked:
        yield variables
    yield from _calls(either, verification, rendering, sources)
    if settings:
        yield Form("And at the start of the program:", settings, "python")
    yield Form("Or without touching the program:", tuple(_commands_to_apply(verification)))
    if can_be_patched(rendering):
        command = f"recompile-doctor suggest {_subject(verification)} --format patch"
        yield Form("Or as a patch, to read and then to apply:", (command,))
    if marked:
        yield _alone(variables, verification, rendering.prescription)


def _alone(variables: Form, verification: Verification, prescription: Prescription) -> Form:
    """Return the variables as a form that says less than what was verified.

    The search may have tried just that; what it refused is not printed as something to paste.
    """
    plain = without_promises(prescription)
    tried = None
    if not trial_of(plain, features(verification)).marks:
        tried = next((each for each in verification.trials if _is_of(each, plain)), None)
    start = "Environment variables alone say less"
    if tried is None:
        return replace(variables, title=f"{start}; no trial here measured that:")
    if tried.is_proof:
        left = words.counted(tried.facts.totals.recompiles, "recompile")
        return replace(variables, title=f"{start}; trial {tried.number} measured {left}:")
    return replace(variables, title=f"{start}; trial {tried.number} refused that.", lines=())


def _is_of(trial: TrialRun, prescription: Prescription) -> bool:
    tried = trial.prescription
    return set(tried.marks) == set(prescription.marks) and set(tried.flags) == set(
        prescription.flags
    )


def _calls(
    either: str, verification: Verification, rendering: Rendering, sources: Iterable[str]
) -> Iterator[Form]:
    if not rendering.calls:
        return
    lost = ", ".join(rendering.code_loses)
    beside = shell_lines(variables_beside_calls(rendering, features(verification), sources))
    title = f"{either} calls in the program:"
    yield Form(title, tuple(calls_as_code(rendering)), "python", lost, calls=True)
    if beside:
        yield Form("With these variables beside the calls:", tuple(beside))


def _commands_to_apply(verification: Verification) -> list[str]:
    return [
        f"recompile-doctor suggest {_subject(verification)} --format yaml "
        "--output prescription.yaml",
        "recompile-doctor run --prescription prescription.yaml "
        f"-- {shlex.join(verification.command)}",
    ]


def _subject(verification: Verification) -> str:
    return shlex.quote(verification.subject)


# The trials


def verdict_words(trial: TrialRun, best: TrialRun | None) -> str:
    """Return the verdict, and whether it is the one that was kept."""
    return f"{trial.verdict.value}, kept" if trial is best else trial.verdict.value


def trial_figures(trial: TrialRun) -> Iterator[str]:
    """Yield what was counted in a trial; one that was ended had at least so many recompiles."""
    totals = trial.facts.totals
    at_least = "" if trial.ending is Ending.WHOLE else "at least "
    yield at_least + words.counted(totals.recompiles, "recompile")
    yield words.counted(totals.graph_breaks, "graph break")
    if totals.recompile_limit_hits:
        yield words.counted(totals.recompile_limit_hits, "recompile-limit hit")
    yield f"outputs {trial.outputs.sameness.value}"
    if trial.facts.exit_code and trial.ending is Ending.WHOLE:  # else it is our own signal's
        yield f"exit code {trial.facts.exit_code}"
    yield trial_time(trial)


def trial_time(trial: TrialRun) -> str:
    """Return how long the program ran, and whether that was in an earlier verify."""
    seconds = "time unknown" if trial.seconds is None else words.seconds_text(trial.seconds)
    return f"{seconds} (from before)" if trial.reused else seconds


def remarks(trial: TrialRun) -> Iterator[tuple[str, str]]:
    """Yield why a trial was made, what it showed, and what speaks against that."""
    yield "tried", trial.reason
    reasons = "; ".join(trial.judgement.reasons)
    if reasons:
        yield "measured" if trial.is_proof else "refused", reasons
    reservations = "; ".join(trial.judgement.reservations)
    if reservations:
        yield "although", reservations


def shown_by(trial: TrialRun, baseline: Baseline) -> Shown:
    """Return a trial in the few words that `suggest` keeps of it."""
    return Shown(
        trial.prescription,
        trial.content,
        trial.is_proof,
        trial.verdict.value,
        trial.outputs.sameness.value,
        min(baseline.recompiles),
        trial.facts.totals.recompiles,
        "" if trial.is_proof else "; ".join(trial.judgement.reasons),
    )


# What remains


def cause(remaining: Remaining, verification: Verification) -> str:
    """Return what is left, with its source and dimension where it has one."""
    found = _finding(remaining.finding_id, verification)
    if found is None:
        return remaining.title
    place = words.place(found)
    title = f"{place}: {remaining.title}" if place else remaining.title
    line = None if found.location is None else found.location.frame
    if not place and line is not None:
        return f"{title} ({PurePath(line.file).name}:{line.line})"
    return f"{title}, in {frame_words(found.frame)}"


def _finding(name: str, verification: Verification) -> Finding | None:
    run = verification.best or verification.baseline
    return next((each for each in run.facts.findings if each.id == name), None)


def expected(verification: Verification) -> list[Finding]:
    """Return the findings of the program as it is that ask for nothing."""
    findings = verification.baseline.facts.findings
    return [
        each
        for each in findings
        if explains_recompiles(each) and each.disposition is Disposition.EXPECTED
    ]
