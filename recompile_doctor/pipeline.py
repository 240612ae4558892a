"""One short function per verb; the only module that joins the rooms."""

import shutil
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import BinaryIO

from recompile_doctor.bundle import (
    Bundle,
    Manifest,
    bundle_root,
    create_bundle,
    is_bundle,
    is_latest,
    open_bundle,
    write_manifest,
)
from recompile_doctor.capture.applied import read_applied
from recompile_doctor.capture.calls import CalledFunction, Calls, read_calls
from recompile_doctor.capture.snapshot import Snapshot, read_snapshots
from recompile_doctor.diagnosis.diagnose import Diagnosis, diagnose
from recompile_doctor.diagnosis.finding import Disposition
from recompile_doctor.diagnosis.rule import ref_of
from recompile_doctor.errors import DoctorError
from recompile_doctor.events.stream import log_files, read_events
from recompile_doctor.events.vocabulary import IssueKind, LogKind, ParseIssue, Position, ReadItem
from recompile_doctor.model.build import build_run
from recompile_doctor.model.run import Compilation, Run
from recompile_doctor.prescription.environment import Environment
from recompile_doctor.prescription.marks import Flag, Prescription, Status
from recompile_doctor.prescription.patched import PatchResult
from recompile_doctor.prescription.prescription_file import (
    Trial,
    content_of,
    prescription_of,
    trial_of,
)
from recompile_doctor.prescription.rendering import Rendering, render
from recompile_doctor.prescription.suggest import suggest as prescribe
from recompile_doctor.prescription.verified import Shown, ShownInBundle, read_shown, write_shown
from recompile_doctor.reports.call_notices import call_notices
from recompile_doctor.reports.chain import Chain
from recompile_doctor.reports.compose import STANDARD_INPUT, Context, compose
from recompile_doctor.reports.document import Document, Notice, NoticeKind, SourceKind
from recompile_doctor.reports.report_reader import read_report
from recompile_doctor.reports.run_facts import facts_of
from recompile_doctor.reports.suggest_report import SuggestDocument
from recompile_doctor.reports.trace_back import trace_back
from recompile_doctor.reports.verify_words import shown_by
from recompile_doctor.reports.words import recompile_name
from recompile_doctor.torch_compat import NEWEST_MEASURED, TorchFeatures, features_of
from recompile_doctor.verification.budget import Budget
from recompile_doctor.verification.diff import Difference, compare
from recompile_doctor.verification.facts import RunFacts
from recompile_doctor.verification.gate import GateResult, check_run
from recompile_doctor.verification.rerun import Applying, Finished, Program, Rerunner, digest_of
from recompile_doctor.verification.search import Limits, Looked, Search
from recompile_doctor.verification.trial_run import TrialRun, Verification
from recompile_doctor.verification.verdict import Judgement, judge


@dataclass(frozen=True, slots=True)
class Examined:
    """What a bundle or a log says: its diagnosis, and the document for a report.

    ``called`` are the calls that the probe saw; only a bundle can have them.
    """

    diagnosis: Diagnosis
    document: Document
    called: tuple[CalledFunction, ...] = ()


def examine(target: Path | BinaryIO, *, pages: Path | None = None) -> Examined:
    """Return what a bundle, a folder or file of logs, or a binary stream of a log says.

    ``pages`` is tlparse's index page, when it was made.
    """
    if isinstance(target, Path) and is_bundle(target):
        return examine_bundle(open_bundle(target), pages=pages)
    run = build_run(read_events([target]))
    context = Context(
        subject=str(target) if isinstance(target, Path) else STANDARD_INPUT,
        source=SourceKind.TRACE if run.has_trace else SourceKind.TEXT,
        pages=None if pages is None else str(pages),
    )
    return _examined(run, context)


def keep(target: Path | BinaryIO, name: str) -> Bundle:
    """Make a bundle of logs that exist already, so that other commands find them by name.

    The logs are copied as they are. Raises DoctorError when there is no log, or the name is taken.
    """
    bundle = create_bundle(bundle_root(Path.cwd()), name, exact=True)
    try:
        if isinstance(target, Path):
            for number, (path, kind) in enumerate(log_files(target)):
                shutil.copyfile(path, _place(bundle, kind) / _kept_name(path, number))
        else:
            with (bundle.log_directory / "stdin.log").open("wb") as copy:
                shutil.copyfileobj(target, copy)
        if not (bundle.trace_files() or bundle.log_files()):
            deque(read_events([target] if isinstance(target, Path) else []), maxlen=0)
    except (DoctorError, OSError) as error:
        shutil.rmtree(bundle.path, ignore_errors=True)
        if isinstance(error, DoctorError):
            raise
        raise DoctorError(
            f"The logs cannot be copied into the bundle: {error.strerror or error}.",
            slug="bundle-not-writable",
            hint="Free some space, or leave --name out.",
        ) from error
    source = str(target.resolve()) if isinstance(target, Path) else "-"
    write_manifest(
        bundle,
        Manifest(
            command=("recompile-doctor", "analyze", source),
            cwd=str(Path.cwd()),
            environment={},
            started=datetime.now().astimezone().isoformat(timespec="seconds"),
            caches="unknown",
            logging=(),
            complete=True,
            cut_short_reason=None,
        ),
    )
    return bundle


def _place(bundle: Bundle, kind: LogKind) -> Path:
    return bundle.trace_directory if kind is LogKind.TRACE else bundle.log_directory


def _kept_name(path: Path, number: int) -> str:
    """Return a name that keeps the rank in a trace's name; packed logs are told by their bytes."""
    stem = path.name.removesuffix(".gz").removesuffix(".zst").removesuffix(".log")
    return f"{stem}.{number}.log"


def examine_bundle(bundle: Bundle, *, pages: Path | None = None) -> Examined:
    """Return what a bundle says."""
    manifest = bundle.manifest
    run = build_run(_bundle_events(bundle))
    calls = read_calls(bundle)
    context = Context(
        subject=_shown(bundle.path),
        is_latest=is_latest(bundle),
        source=SourceKind.BUNDLE,
        can_rerun=bool(manifest.logging) and not manifest.command_cut,
        torch_version=manifest.torch_version,
        run_seconds=manifest.wall_seconds,
        notices=tuple(_bundle_notices(bundle, run, calls)),
        pages=None if pages is None else str(pages),
        called=calls.functions,
    )
    return _examined(run, context)


def _shown(path: Path) -> str:
    """Return a path as a user of this folder would write it."""
    try:
        cwd = Path.cwd()
    except OSError:
        return str(path)  # the folder is gone
    return str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)


def _bundle_events(bundle: Bundle) -> Iterator[ReadItem]:
    """Yield the events of a bundle's logs, the traces first.

    One file that is no log (cut in its first line, or written in a format of the user's own) does
    not cost the others: it counts as not understood. Empty files are no fault.
    """
    for path in (*bundle.trace_files(), *bundle.log_files()):
        try:
            size = path.stat().st_size
            if size:
                yield from read_events([path])
        except DoctorError as error:
            yield ParseIssue(Position(str(path), 1), IssueKind.NO_LOG, error.message, size)
        except OSError as error:
            yield ParseIssue(Position(str(path), 1), IssueKind.NO_LOG, str(error), 0)


def _examined(run: Run, context: Context) -> Examined:
    diagnosis = diagnose(run)
    return Examined(diagnosis, compose(diagnosis, context), context.called)


def _bundle_notices(bundle: Bundle, run: Run, calls: Calls) -> Iterator[Notice]:
    manifest = bundle.manifest
    if not manifest.complete:
        yield Notice(
            NoticeKind.WARNING,
            "cut-short",
            f"the run was cut short ({manifest.cut_short_reason}); "
            "what it would have compiled later is not in this report",
        )
    elif manifest.exit_code:
        yield Notice(
            NoticeKind.WARNING,
            "program-failed",
            f"the program ended with exit code {manifest.exit_code}",
        )
    yield from _not_applied(bundle)
    snapshots = [each for each in read_snapshots(bundle) if isinstance(each, Snapshot)]
    for snapshot in snapshots:
        yield from _silenced(snapshot, run)
    yield from call_notices(calls, run, {each.pid for each in snapshots if each.recompiles})


def _not_applied(bundle: Bundle) -> Iterator[Notice]:
    """Yield a warning for what a prescription asked for and no process did."""
    applied = read_applied(bundle)
    for mark in applied.without_effect:
        why = "; ".join(mark.problems) or f"torch never compiled {mark.function or 'its function'}"
        yield Notice(
            NoticeKind.WARNING,
            "mark-without-effect",
            f"the mark on dimension {mark.dim} of {mark.source} took no effect ({why})",
        )
    for name, result in applied.config.items():
        if result != "set":
            yield Notice(
                NoticeKind.WARNING,
                "mark-without-effect",
                f"the setting {name} took no effect ({result})",
            )


def _silenced(snapshot: Snapshot, run: Run) -> Iterator[Notice]:
    """Yield a warning where torch counted more recompiles in a process than the logs hold."""
    # Refused compiles are in the logs too: torch gives them a reason like a recompile.
    logged = [
        each for each in run.compilations if each.failures and each.key.process == str(snapshot.pid)
    ]
    missing = snapshot.recompiles - len(logged)
    why = "; ".join(dict.fromkeys((*snapshot.logging.trace, *snapshot.logging.text)))
    reason = f" ({why})" if why else ""
    if missing > 0:
        yield Notice(
            NoticeKind.WARNING,
            "logging-silenced",
            f"torch counted {snapshot.recompiles} recompiles in process {snapshot.pid}, the logs "
            f"hold {len(logged)}: the program silenced torch's logging{reason}. "
            f"Missing: {_missing(snapshot, logged)}",
        )
    elif snapshot.logging.trace:
        yield Notice(
            NoticeKind.NOTE,
            "logging-silenced",
            f"the program changed torch's logging{reason}; no recompile is missing by torch's own "
            "count",
        )


_MOST_MISSING = 5


def _missing(snapshot: Snapshot, logged: Iterable[Compilation]) -> str:
    """Return torch's own reasons for the recompiles that the logs do not hold."""
    known = {str(each.key) for each in logged}
    lost = [
        f"{each.co_name or 'a function'} {each.compile_id} ({_first_line(each.recompile_reason)})"
        for each in snapshot.compilations
        if each.recompile_reason and str(each.compile_id) not in known
    ]
    more = f" and {len(lost) - _MOST_MISSING} more" if len(lost) > _MOST_MISSING else ""
    return ", ".join(lost[:_MOST_MISSING]) + more


def _first_line(text: str | None) -> str:
    """Return the first line without runs of blanks, which torch pads its reasons with."""
    return " ".join((text or "").split("\n", 1)[0].split())


def explain_recompile(examined: Examined, name: str) -> tuple[Chain, ...]:
    """Return the chains of all recompiles called ``name``.

    A plain id (0/3) names one in each process and after each reset; the report's name
    (rank1:0/3) names one. Raises DoctorError when no recompile has that name.
    """
    names = {
        each.recompile.key: recompile_name(ref_of(each.recompile), examined.document)
        for each in examined.diagnosis.causes
    }
    causes = [
        each
        for each in examined.diagnosis.causes
        if name in (str(each.recompile.key), names[each.recompile.key])
    ]
    if not causes:
        known = list(names.values())
        listed = ", ".join(dict.fromkeys(known)) or "none"
        raise DoctorError(
            f"There is no recompile {name} in {examined.document.subject}.",
            slug="no-such-recompile",
            hint=f"Its recompiles are: {listed}.",
        )
    return tuple(trace_back(each, examined.diagnosis) for each in causes)


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """What a verify may do; ``timeout`` is in seconds, None is a multiple of the captured run."""

    limits: Limits = field(default_factory=Limits)
    timeout: float | None = None
    jobs: int = 1
    fresh: bool = False
    fallback_random: bool = False
    launcher: tuple[str, ...] = ()
    prescription: Path | None = None
    patch: bool = False


@dataclass(frozen=True, slots=True)
class Verified:
    """A verification, the best prescription in all its forms, and the names of all inputs.

    ``problem`` is set when it could not be kept in the bundle for `suggest`.
    """

    verification: Verification
    rendering: Rendering | None
    sources: tuple[str, ...]
    problem: DoctorError | None = None


def verify(
    bundle: Bundle,
    base: Mapping[str, str],
    options: VerifyOptions,
    *,
    on_start: Callable[[str], None] | None = None,
    on_trial: Callable[[TrialRun], None] | None = None,
    on_progress: Callable[[int, int, float], None] | None = None,
) -> Verified:
    """Rerun the command of a bundle under candidate prescriptions; return what was measured.

    ``base`` is the environment for the program. Trials that an earlier verify finished are not
    repeated. Raises DoctorError when the bundle has no command, or the program as it is fails.
    """
    examined = examine_bundle(bundle)
    program = _program(bundle, examined, base, options)
    rerunner = Rerunner(
        program,
        bundle.path / TRIALS,
        jobs=options.jobs,
        fresh=options.fresh,
        on_start=on_start,
        on_progress=on_progress,
    )
    search = Search(rerunner, _look, _shown(bundle.path), options.limits, on_trial)
    task = _task(examined, bundle, options)
    verification = task.done_by(search)
    if bundle.manifest.prescription is not None:
        note = f"the captured run had {bundle.manifest.prescription} applied; here it is not"
        verification = replace(verification, notes=(*verification.notes, note))
    problem = None
    try:
        shown = _shown_of(verification, task.patched).joined(read_shown(bundle.path))
        write_shown(bundle, shown)
    except DoctorError as error:
        problem = error
    sources = tuple(sorted(examined.diagnosis.run.sources))
    rendering = _rendering_of(verification, sources, task.trial)
    return Verified(verification, rendering, sources, problem)


@dataclass(frozen=True, slots=True)
class _Task:
    """What a verify is to check: a prescription file (``trial``), a patch, or what it finds."""

    prescription: Prescription | None = None
    trial: Trial | None = None
    patched: Prescription | None = None
    files: tuple[tuple[Path, bytes], ...] = ()

    def done_by(self, search: Search) -> Verification:
        """Return what the search makes of it."""
        if self.prescription is not None and self.trial is not None:
            return search.of_one(self.prescription, self.trial)
        if self.patched is not None:
            named = replace(self.patched, id=f"{self.patched.id}-patch")
            return search.of_files(named, Applying(files=self.files))
        return search.best_of_suggestions()


def _task(examined: Examined, bundle: Bundle, options: VerifyOptions) -> _Task:
    if options.prescription is not None:
        return _Task(*prescription_of(options.prescription))
    if options.patch:
        return _patched(examined, bundle)
    return _Task()


def _rendering_of(
    verification: Verification, sources: tuple[str, ...], trial: Trial | None
) -> Rendering | None:
    """Return the best prescription in all forms; ``trial`` is that of a file, as it was run."""
    if verification.best is None:
        return None
    prescription = replace(verification.best.prescription, status=Status.VERIFIED)
    rendering = render(prescription, features_of(_torch_of(verification)), sources)
    if trial is None:
        return rendering
    return replace(rendering, environment=Environment(trial.environment))


def _torch_of(verification: Verification) -> str:
    return verification.baseline.facts.torch_version or _UNKNOWN_TORCH


TRIALS = "trials"
# Inductor then draws random numbers as eager code does, whatever the graph.
FALLBACK_RANDOM = Flag("torch._inductor.config.fallback_random", True)
_TIMES_AS_LONG = 5.0
_AND_SECONDS = 120.0


def _program(
    bundle: Bundle, examined: Examined, base: Mapping[str, str], options: VerifyOptions
) -> Program:
    from recompile_doctor.prescription.requests import program_files

    manifest = bundle.manifest
    if not manifest.logging or not manifest.command:
        raise DoctorError(
            f"{bundle.name} holds logs and no program that could be run again.",
            slug="nothing-to-rerun",
            hint="Capture the program with `recompile-doctor run`, then verify that run.",
        )
    if manifest.command_cut:
        raise DoctorError(
            f"The command of {bundle.name} is too long to be kept, so it cannot be run again.",
            slug="nothing-to-rerun",
            hint="Give the program its long list in a file, or a shorter one.",
        )
    cwd = Path(manifest.cwd)
    if not cwd.is_dir():
        raise DoctorError(
            f"{cwd}, where {bundle.name} was captured, is not there.",
            slug="nothing-to-rerun",
            hint="Capture the program again with `recompile-doctor run`.",
        )
    timeout = options.timeout
    if timeout is None and manifest.wall_seconds is not None:
        timeout = _TIMES_AS_LONG * manifest.wall_seconds + _AND_SECONDS
    named = [cwd / word for word in manifest.command[1:] if word.endswith(".py")]
    files = dict.fromkeys((*named, *program_files(examined.diagnosis.run)))
    return Program(
        command=manifest.command,
        cwd=cwd,
        base=base,
        digest=digest_of(list(files)),
        timeout=timeout,
        launcher=options.launcher,
        settings=(FALLBACK_RANDOM,) if options.fallback_random else (),
    )


def _look(finished: Finished) -> Looked:
    examined = examine_bundle(finished.bundle)
    facts = bundle_facts(finished.bundle, examined)
    return Looked(examined.diagnosis, facts, read_calls(finished.bundle))


def _shown_of(verification: Verification, patched: Prescription | None) -> ShownInBundle:
    """Return what `suggest` is to know; ``patched`` is the prescription whose patch was run."""
    torch, best = _torch_of(verification), verification.best
    if patched is not None:
        (run,) = (shown_by(each, verification.baseline) for each in verification.trials)
        return ShownInBundle(torch, patches=(replace(run, prescription=patched),))
    return ShownInBundle(
        torch_version=torch,
        best=None if best is None else best.prescription.id,
        shown=tuple(shown_by(each, verification.baseline) for each in verification.trials),
    )


def _patched(examined: Examined, bundle: Bundle) -> _Task:
    """Return the check of the prescription that `suggest --format patch` writes."""
    document = suggest(examined, shown=read_shown(bundle.path))
    marking = [each for each in document.renderings if each.prescription.marks]
    if not marking:
        raise DoctorError(
            f"There is no mark to write for {document.subject}.",
            slug="nothing-to-prescribe",
            hint="`recompile-doctor suggest` says what to rewrite, or that there is nothing to do.",
        )
    patch = patch_of(examined, marking[0], document.target_torch)
    if not patch.files:
        raise DoctorError(
            "No call of the compiled function could be patched.",
            slug="nothing-patched",
            hint="`recompile-doctor suggest --format patch` says why.",
        )
    files = tuple((each.path, each.after) for each in patch.files)
    return _Task(patched=marking[0].prescription, files=files)


_UNKNOWN_TORCH = f"{NEWEST_MEASURED[0]}.{NEWEST_MEASURED[1]}"
_BEFORE_STATED = "2.9"  # torch states its version in traces since 2.10


def suggest(
    examined: Examined,
    *,
    target_torch: str | None = None,
    bounds: bool = False,
    shown: ShownInBundle | None = None,
) -> SuggestDocument:
    """Return what to change, written for ``target_torch``, or for the torch of the log.

    ``shown`` is what verify has measured: what it kept comes first, what measured worse or broke
    the program is left out. Raises DoctorError when ``target_torch`` is no version, or one that is
    too old.
    """
    diagnosis, document = examined.diagnosis, examined.document
    stated = target_torch or document.torch_version
    assumed = _BEFORE_STATED if diagnosis.run.has_trace else _UNKNOWN_TORCH
    torch = stated or assumed
    features = features_of(torch)
    sources = diagnosis.run.sources
    found = prescribe(diagnosis, features, bounds=bounds, called=examined.called)
    measured: dict[str, Shown] = {}
    refused: tuple[Shown, ...] = ()
    if shown is not None:
        found, measured, refused = _as_shown(found, shown, features, tuple(sorted(sources)))
    return SuggestDocument(
        subject=document.subject,
        target_torch=torch,
        target_assumed=stated is None,
        features=features,
        sources=tuple(sorted(sources)),
        recompiles=len(diagnosis.run.recompiles),
        limit_hits=document.summary.recompile_limit_hits,
        renderings=tuple(render(each, features, sources) for each in found),
        measured=measured,
        refused=refused,
        patches=_patches(found, shown),
        findings=diagnosis.findings,
        expected=tuple(
            each
            for each in diagnosis.findings
            if each.disposition is Disposition.EXPECTED and each.recompiles
        ),
        weights=document.weights,
    )


def _patches(found: Iterable[Prescription], shown: ShownInBundle | None) -> dict[str, Shown]:
    """Return what runs of their patches showed, by the ids of prescriptions."""
    runs = {} if shown is None else {each.id: shown.patch_of(each) for each in found}
    return {name: run for name, run in runs.items() if run is not None}


def _as_shown(
    found: tuple[Prescription, ...],
    shown: ShownInBundle,
    features: TorchFeatures,
    sources: tuple[str, ...],
) -> tuple[tuple[Prescription, ...], dict[str, Shown], tuple[Shown, ...]]:
    """Return prescriptions as reruns have shown them, what these measured, and the refused.

    What verify kept comes first.
    """
    kept: list[Prescription] = []
    measured: dict[str, Shown] = {}
    refused: list[Shown] = []
    proof = shown.proof
    advice = next((each.advice for each in found), ())
    if proof is not None and (proof.prescription.marks or proof.prescription.flags):
        kept.append(replace(proof.prescription, status=Status.VERIFIED, advice=advice))
        measured[proof.prescription.id] = proof
    for each in found:
        known = None
        if each.marks or each.flags:
            known = shown.of(content_of(trial_of(each, features, sources)))
        if known is None:
            kept.append(each)
        elif not known.proof:
            refused.append(known)
        elif known.prescription.id not in measured:
            kept.append(replace(each, status=Status.VERIFIED))
            measured[each.id] = known
    if advice and not kept:
        title = "change the program: reruns refused all marks and flags"
        kept.append(Prescription("code", title, advice=advice))
    return tuple(kept), measured, tuple(refused)


def patch_of(
    examined: Examined, rendering: Rendering, target_torch: str, *, declare: bool = False
) -> PatchResult:
    """Return the edit that a prescription makes in the files below the current folder.

    ``declare`` asks for the declarative form of ``torch.compile`` instead of calls. Nothing is
    written.
    """
    from recompile_doctor.prescription.call_sites import read_source_files
    from recompile_doctor.prescription.patch import Form, make_patch
    from recompile_doctor.prescription.requests import frame_marks, program_files

    run = examined.diagnosis.run
    requests, unreached = frame_marks(rendering.prescription.marks, run)
    patch = make_patch(
        requests,
        read_source_files(program_files(run), Path.cwd()),
        target_torch=target_torch,
        form=Form.DECLARATION if declare else Form.CALLS,
    )
    return replace(patch, declined=(*unreached, *patch.declined))


@dataclass(frozen=True, slots=True)
class Compared:
    """Two runs, what differs between them, and the verdict on the second."""

    difference: Difference
    judgement: Judgement


def compare_runs(before: Path | BinaryIO, after: Path | BinaryIO) -> Compared:
    """Return what differs between two runs; each is a bundle, logs or a JSON report."""
    difference = compare(run_facts(before), run_facts(after))
    return Compared(difference, judge(difference))


def run_facts(target: Path | BinaryIO) -> RunFacts:
    """Return what a bundle, logs or a JSON report say of a run, for a comparison."""
    if isinstance(target, Path) and is_bundle(target):
        return bundle_facts(open_bundle(target))
    if isinstance(target, Path):
        report = (
            read_report(target.read_bytes(), str(target)) if _looks_like_report(target) else None
        )
        return facts_of(report or examine(target).document)
    if isinstance(target, BufferedReader) and target.peek(1)[:1] == b"{":
        content = target.read()
        report = read_report(content, STANDARD_INPUT)
        return facts_of(report or examine(BytesIO(content)).document)
    return facts_of(examine(target).document)


def bundle_facts(bundle: Bundle, examined: Examined | None = None) -> RunFacts:
    """Return what a bundle says of its run; ``examined`` is what was read of it already."""
    return facts_of((examined or examine_bundle(bundle)).document, bundle.manifest)


def hold_against(
    facts: RunFacts,
    budget: Budget,
    *,
    today: date,
    baseline: Path | BinaryIO | None = None,
) -> GateResult:
    """Return whether a run keeps to its budget and is nowhere worse than a baseline."""
    before = None if baseline is None else run_facts(baseline)
    return check_run(facts, budget, today=today, baseline=before)


def _looks_like_report(path: Path) -> bool:
    """Return whether a file begins as a JSON report does; a log can be too large to try."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(_HEAD)
    return head.lstrip().startswith(b"{") and b'"format_version"' in head


_HEAD = 4096
