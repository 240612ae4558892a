"""``recompile-doctor verify``: rerun the program under candidate changes, keep what works."""

import os
import shlex
from math import isfinite
from pathlib import Path
from typing import Any

import click

from recompile_doctor.bundle import Bundle, current_folder, is_bundle, open_bundle
from recompile_doctor.cli.render import emit, emit_terminal, output_options
from recompile_doctor.cli.streams import note, show_error
from recompile_doctor.cli.target import find_target
from recompile_doctor.errors import DoctorError, ExitCode


@click.command()
@click.argument("path", metavar="[BUNDLE]", required=False)
@click.option(
    "--prescription",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Check this prescription file alone, instead of searching.",
)
@click.option(
    "--patch",
    is_flag=True,
    help="Check the patch that `suggest --format patch` prints, without editing a file.",
)
@click.option(
    "--max-trials",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="At most so many reruns under a change.",
)
@click.option(
    "--baseline-runs",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Reruns without a change: two tell whether the program varies by itself.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End a rerun after so long [default: five times the captured run, and two minutes].",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Reruns at a time; with more than one, times of calls are not judged.",
)
@click.option(
    "--compare-stdout",
    is_flag=True,
    help="Compare what the program prints as well; numbers may differ a little.",
)
@click.option(
    "--fallback-random",
    is_flag=True,
    help="Let inductor draw random numbers as eager code does, in all reruns, to compare outputs.",
)
@click.option(
    "--device-command",
    metavar="WORDS",
    help="Run the program through these words, e.g. 'ssh gpu-host --'; needs a shared folder.",
)
@click.option("--fresh", is_flag=True, help="Repeat trials that an earlier verify has finished.")
@output_options(("terminal", "json", "markdown"))
@click.option("--quiet", is_flag=True, help="No progress and no notes on standard error.")
def verify(path: str | None, **options: Any) -> int:
    """Rerun the program under candidate changes, and keep the smallest that measurably works.

    BUNDLE is a run of `recompile-doctor run` by name or path; without it the latest is taken. Its
    command is run again as it is, then under what `suggest` finds most plausible; what fails is
    read, and the next candidate answers it. Each rerun is judged by recompiles, graph breaks,
    recompile-limit hits, graphs captured, exit status, time of a call, and whether the results of
    all compiled calls are the same. Your files are never edited. Trials are bundles in the
    folder BUNDLE/trials; a verify that was stopped goes on where it was.

    \b
        recompile-doctor run train.py
        recompile-doctor verify
        recompile-doctor suggest --format patch | git apply
        recompile-doctor verify --prescription prescription.yaml
    """
    from recompile_doctor.pipeline import VerifyOptions
    from recompile_doctor.pipeline import verify as verify_bundle
    from recompile_doctor.reports.verify_report import (
        print_verification,
        verification_json,
        verification_markdown,
    )
    from recompile_doctor.verification.rerun import InterruptedVerify
    from recompile_doctor.verification.search import Limits

    if options["timeout"] is not None and not isfinite(options["timeout"]):
        raise click.BadParameter("it is no number of seconds.", param_hint="--timeout")
    if options["prescription"] is not None and options["patch"]:
        raise click.UsageError("--prescription and --patch exclude each other.")
    bundle = _bundle(path)
    progress = None if options["quiet"] else _Progress()
    wanted = VerifyOptions(
        limits=Limits(options["max_trials"], options["baseline_runs"], options["compare_stdout"]),
        timeout=options["timeout"],
        jobs=options["jobs"],
        fresh=options["fresh"],
        fallback_random=options["fallback_random"],
        launcher=_launcher(options["device_command"]),
        prescription=options["prescription"],
        patch=options["patch"],
    )
    try:
        verified = verify_bundle(
            bundle,
            os.environ,
            wanted,
            on_start=None if progress is None else progress.started,
            on_trial=None if progress is None else progress.ended,
        )
    except KeyboardInterrupt:
        raise InterruptedVerify from None
    result, rendering, sources = verified.verification, verified.rendering, verified.sources
    match options["format_"]:
        case "json":
            emit(verification_json(result, rendering, sources=sources), options["output"])
        case "markdown":
            emit(verification_markdown(result, rendering, sources=sources), options["output"])
        case _:
            emit_terminal(
                lambda console: print_verification(
                    result, rendering, console, base=current_folder(), sources=sources
                ),
                options["output"],
            )
    if verified.problem is not None:
        show_error(verified.problem)
        return int(verified.problem.exit_code)
    named = options["prescription"] is not None or options["patch"]
    return int(ExitCode.GATE_FAILED if named and result.best is None else ExitCode.CLEAN)


def _bundle(path: str | None) -> Bundle:
    target = find_target(path)
    if not isinstance(target, Path) or not is_bundle(target):
        raise DoctorError(
            "verify reruns a program, and what you named is a log.",
            slug="nothing-to-rerun",
            hint="Capture the program with `recompile-doctor run`, then verify that run.",
        )
    return open_bundle(target)


def _launcher(text: str | None) -> tuple[str, ...]:
    if text is None:
        return ()
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise click.UsageError(f"--device-command: {error}.") from error
    if not words:
        raise click.UsageError("--device-command names no command.")
    return words


class _Progress:
    """Says on standard error what runs and what came of it, a line each."""

    def started(self, name: str) -> None:
        """Say that a rerun starts."""
        note(f"running {name}")

    def ended(self, trial: Any) -> None:
        """Say how a trial ended."""
        totals = trial.facts.totals
        seconds = "" if trial.seconds is None else f" in {trial.seconds:.0f} s"
        reused = ", from before" if trial.reused else ""
        note(
            f"trial {trial.number} {trial.prescription.id}: {trial.verdict.value}, "
            f"{totals.recompiles} recompiles, outputs {trial.outputs.sameness.value}"
            f"{seconds}{reused}"
        )
