"""``recompile-doctor run``: launch a program, capture its compilations, report on them."""

import os
import sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from recompile_doctor.bundle import Bundle, bundle_root, create_bundle, default_name
from recompile_doctor.capture.environment import torch_logged_by_itself
from recompile_doctor.capture.record import Recording, record
from recompile_doctor.cli.check import (
    baseline_of_settings,
    budget_options,
    find_budget,
    hold,
    report_gate,
)
from recompile_doctor.cli.pages import make_pages_of
from recompile_doctor.cli.progress import terminal_title
from recompile_doctor.cli.render import TERMINAL, render, report_options
from recompile_doctor.cli.render import status as exit_status
from recompile_doctor.cli.streams import STATUS, note, show_error
from recompile_doctor.cli.target import LONGEST_SHOWN, exists
from recompile_doctor.errors import DoctorError
from recompile_doctor.reports.document import Document
from recompile_doctor.verification.budget import Budget


class ProgramCommand(click.Command):
    """A command whose own options end where the program begins.

    The program begins at ``--``, at ``-m``, or at the first word that is not an option of ours.
    From there on nothing is read as ours, not even ``--help``.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the program's words aside, and let click read the rest."""
        ours, program, is_command = self._split(ctx, args)
        ctx.meta["program"] = program
        ctx.meta["is_command"] = is_command
        return super().parse_args(ctx, ours)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return what the usage line shows after the command's name."""
        return ["[OPTIONS]", "{SCRIPT | -m MODULE | -- COMMAND}", "[ARGS]..."]

    def _split(self, ctx: click.Context, args: list[str]) -> tuple[list[str], list[str], bool]:
        takes_value = {
            name
            for option in self.get_params(ctx)
            if isinstance(option, click.Option) and not option.is_flag
            for name in option.opts
        }
        index = 0
        while index < len(args):
            word = args[index]
            if word == "--":
                return args[:index], args[index + 1 :], True
            if word.startswith("-m") or word == "-" or not word.startswith("-"):
                return args[:index], args[index:], False
            index += 2 if word in takes_value else 1
        return args, [], False


@click.command(cls=ProgramCommand)
@click.option("--name", metavar="NAME", help="Name of the bundle [default: script and time].")
@click.option(
    "--python",
    metavar="PATH",
    default=sys.executable,
    help="Interpreter for SCRIPT or -m MODULE [default: the one that runs this tool].",
)
@click.option(
    "--use-caches",
    is_flag=True,
    help="Leave the compile caches and PGO as they are set, instead of starting cold.",
)
@click.option(
    "--no-probe",
    is_flag=True,
    help="Run none of our code in the program; torch's log lines then show on its stderr too.",
)
@click.option(
    "--prescription",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Apply a prescription file of `suggest` to this run, without touching the program.",
)
@report_options
@click.option("--check", is_flag=True, help="Hold the run against its budget, as `check` does.")
@budget_options
@click.option("--tlparse", is_flag=True, help="Make tlparse's pages as well.")
@click.option("--quiet", is_flag=True, help="No progress and no notes on standard error.")
@click.pass_context
def run(ctx: click.Context, /, **options: Any) -> int:
    """Launch a program with torch's logging on and explain what it recompiled.

    The program is a script, `-m MODULE`, or after `--` any command: torchrun, accelerate, pytest.
    It keeps its own input, output, arguments, signals and exit status; what was captured is kept
    in .recompile-doctor/NAME. The report follows what the program writes to standard output:
    where another program is to read it (--format json), keep the two apart with --output FILE.

    \b
        recompile-doctor run train.py --epochs 1
        recompile-doctor run -m mypackage.train --epochs 1
        recompile-doctor run --name before -- torchrun --nproc-per-node 2 train.py
    """
    # Mistakes in the budget are told before the program has run for an hour.
    budget = _budget(options)
    command, script = _command(ctx.meta["program"], ctx.meta["is_command"], options["python"])
    quiet: bool = options["quiet"]
    cwd = _working_folder()
    name: str | None = options["name"]
    prescription: Path | None = options["prescription"]
    _check_prescription(prescription, probe=not options["no_probe"])
    bundle = create_bundle(
        bundle_root(cwd),
        default_name(script, datetime.now()) if name is None else name,
        exact=name is not None,
        on_problem=None if quiet else note,
    )
    overrides, applied = _prepared(prescription, bundle)
    with terminal_title(enabled=not quiet) as on_progress:
        recording = record(
            bundle,
            command,
            base=os.environ,
            cwd=cwd,
            use_caches=options["use_caches"],
            probe=not options["no_probe"],
            overrides=overrides,
            prescription=applied,
            on_progress=on_progress,
        )
    # From here on the program's status is ours, whatever becomes of the report.
    status = ctx.meta[STATUS] = recording.outcome.exit_code
    if not quiet:
        _note(recording, probe=not options["no_probe"])
    problem = recording.problem
    if problem is not None:
        if not bundle.path.is_dir():
            raise DoctorError(
                f"{bundle.path} was removed while the program ran.",
                slug="bundle-gone",
                hint="Run the program again, and let it leave .recompile-doctor alone.",
            )
        show_error(problem)
    found = _report(bundle, options, budget)
    return status or (found if problem is None else int(problem.exit_code))


def _working_folder() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise DoctorError(
            f"The current folder cannot be used: {error.strerror or error}.",
            slug="no-working-folder",
            hint="It was removed or replaced: change to a folder that is there.",
        ) from error


def _check_prescription(path: Path | None, *, probe: bool) -> None:
    """Refuse a prescription file that cannot be read, or not be applied, before anything starts."""
    if path is None:
        return
    from recompile_doctor.prescription.prescription_file import read_prescription

    trial = read_prescription(path)
    if not probe and (trial.marks or trial.config):
        raise DoctorError(
            f"{path} has marks or settings, which only the probe can set.",
            slug="prescription-needs-probe",
            hint="Leave out --no-probe, or use a prescription with an environment alone.",
        )


def _prepared(path: Path | None, bundle: Bundle) -> tuple[dict[str, str], str | None]:
    """Return the variables of a prescription file, and what the manifest says of it."""
    if path is None:
        return {}, None
    from recompile_doctor.prescription.prescription_file import (
        content_name,
        prepare,
        read_prescription,
    )

    return prepare(read_prescription(path), bundle, os.environ), content_name(path)


def _budget(options: dict[str, Any]) -> Budget | None:
    """Return the budget that the run is held against, or None when it is not."""
    if not options["check"]:
        if options["budget"] is not None or options["baseline"] is not None:
            raise click.UsageError("--budget and --baseline belong to --check.")
        return None
    options["baseline"] = options["baseline"] or baseline_of_settings()
    has_baseline = options["baseline"] is not None
    return find_budget(options["budget"], may_be_missing=False, has_baseline=has_baseline).budget


def _report(bundle: Bundle, options: dict[str, Any], budget: Budget | None) -> int:
    """Report on the bundle; return the status that findings give to a program that succeeded.

    With a budget the gate's report stands for the report on the run, except on a terminal, where
    it follows.
    """
    from recompile_doctor.pipeline import bundle_facts, examine_bundle

    pages = _pages(bundle) if options["tlparse"] else None
    examined = examine_bundle(bundle, pages=pages)
    document = examined.document
    _keep_analysis(bundle, document)
    format_, output = options["format_"], options["output"]
    if budget is None or (format_ == TERMINAL and output is None):
        render(document, format_, output)
    found = int(exit_status(document, options["fail_on"], format_))
    if budget is not None:
        result = hold(bundle_facts(bundle, examined), budget, options["baseline"])
        return report_gate(result, format_, output) or found
    return found


def _keep_analysis(bundle: Bundle, document: Document) -> None:
    """Leave the JSON report in the bundle; a full disk must not cost the report itself."""
    from recompile_doctor.reports.json_report import render_json

    path = bundle.path / "analysis.json"
    try:
        path.write_text(render_json(document), encoding="utf-8")
    except OSError as error:
        with suppress(OSError):  # half a report is worse than none
            path.unlink()
        note(f"analysis.json was not written: {error}")


def _pages(bundle: Bundle) -> Path | None:
    """Return tlparse's pages; a report without them is better than none."""
    try:
        return make_pages_of(bundle.path)
    except DoctorError as error:
        note(f"no tlparse pages: {error.message}")
        return None


def _command(program: list[str], is_command: bool, python: str) -> tuple[list[str], str]:
    """Return the command to start, and what names it: the script, the module or the program."""
    if not program:
        raise click.UsageError("Name a program: a script, -m MODULE, or -- COMMAND.")
    if is_command:
        return program, program[0]
    if program[0].startswith("-m"):
        module = program[0][2:] or (program[1] if len(program) > 1 else "")
        if not module:
            raise click.UsageError("Name a module after -m.")
        return [python, *program], module.rpartition(".")[2]
    script = Path(program[0])
    if not exists(script):
        name = program[0][:LONGEST_SHOWN]
        raise DoctorError(
            f"There is no script {name!r}.",
            slug="script-not-found",
            hint=f"For a command write `--` before it: `recompile-doctor run -- {name} ...`.",
        )
    if script.is_dir() and not any(script.glob("__main__.py*")):
        raise DoctorError(
            f"{program[0]!r} is a folder without a __main__.py.",
            slug="script-not-found",
            hint="Name a script in it, or a module with -m.",
        )
    return [python, *program], program[0]


def _note(recording: Recording, *, probe: bool) -> None:
    outcome = recording.outcome
    if outcome.cut_short_reason is not None:
        note(f"the run was cut short ({outcome.cut_short_reason}); what was captured is kept")
    failures = recording.bundle.failure_files()
    if failures:
        note(f"not all could be captured, and the report can lack recompiles: see {failures[0]}")
    if probe and torch_logged_by_itself(recording.bundle):
        note("a process could not be probed, so torch's log lines were on standard error too")
