"""``recompile-doctor check``: the gate for CI."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, TypeVar

import click

from recompile_doctor.bundle import current_folder
from recompile_doctor.cli.render import (
    SARIF,
    TERMINAL,
    add_step_summary,
    emit,
    emit_terminal,
    output_options,
    repository,
)
from recompile_doctor.cli.streams import note
from recompile_doctor.cli.target import exists, find_target
from recompile_doctor.config import Settings, find_config, read_yaml
from recompile_doctor.errors import DoctorError, ExitCode
from recompile_doctor.verification.budget import Budget, first_budget, read_budget, updated
from recompile_doctor.verification.facts import RunFacts
from recompile_doctor.verification.gate import (
    GateResult,
    present_frames,
    present_numbers,
    present_totals,
)

DEFAULT_BUDGET = "recompile-budget.yaml"
FORMATS = (TERMINAL, "json", "markdown", "github", "sarif", "junit")

_Command = TypeVar("_Command", bound=Callable[..., Any])


def budget_options(command: _Command) -> _Command:
    """Add the options that say what a run is held against."""
    command = click.option(
        "--baseline",
        metavar="RUN",
        help="A bundle or JSON report than which nothing may be worse.",
    )(command)
    return click.option(
        "--budget",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help=f"The budget [default: that of the settings, or {DEFAULT_BUDGET}].",
    )(command)


@click.command()
@click.argument("run", required=False)
@budget_options
@click.option(
    "--update-budget",
    is_flag=True,
    help="Lower the budget's numbers to what the run spends, or write a first budget.",
)
@click.option("--loosen", is_flag=True, help="Let --update-budget raise numbers too.")
@output_options(FORMATS)
def check(
    run: str | None,
    budget: Path | None,
    baseline: str | None,
    update_budget: bool,
    loosen: bool,
    format_: str,
    output: Path | None,
) -> int:
    """Fail when a run spends more recompiles than its budget allows.

    RUN is a bundle's name or path (the latest by default), a log, or a JSON report. The budget is
    a YAML file, or `[tool.recompile-doctor.budget]` in pyproject.toml. A hit of the recompile
    limit always fails unless the budget allows it, and so does a run that proves nothing: one
    that compiled nothing, failed, was cut short, or silenced torch's logging. The exit status is
    0 or 1; with --format sarif it is 0, and the results tell.

    \b
        recompile-doctor check --budget recompile-budget.yaml
        recompile-doctor check --baseline main.json --format github
        recompile-doctor check --update-budget
    """
    from recompile_doctor.pipeline import run_facts

    if loosen and not update_budget:
        raise click.UsageError("--loosen belongs to --update-budget.")
    found = find_budget(budget, may_be_missing=update_budget, has_baseline=baseline is not None)
    facts = run_facts(find_target(run))
    result = hold(facts, found.budget, baseline)
    if update_budget:
        found = _update(found, result, loosen=loosen)
        result = hold(facts, found.budget, baseline)
    return report_gate(result, format_, output)


@dataclass(frozen=True, slots=True)
class FoundBudget:
    """A budget and the file it stands in, or would stand in; no settings: there is none yet."""

    budget: Budget
    settings: Settings | None
    path: Path


def find_budget(named: Path | None, *, may_be_missing: bool, has_baseline: bool) -> FoundBudget:
    """Return the budget that is named, or that of the settings, or the one in this folder.

    A file that the user named must be there unless it ``may_be_missing``. Where none is named,
    a baseline is enough.
    """
    config = find_config(current_folder())
    if named is None and config.budget is not None:
        return FoundBudget(read_budget(config.budget), config.budget, config.budget.path)
    wanted = named or config.budget_file
    path = wanted or Path(DEFAULT_BUDGET)
    if exists(path):
        settings = read_yaml(path)
        return FoundBudget(read_budget(settings), settings, path)
    if may_be_missing or (wanted is None and has_baseline):
        return FoundBudget(Budget(), None, path)
    raise DoctorError(
        f"There is no budget: {path} does not exist.",
        slug="no-budget",
        hint="`recompile-doctor check --update-budget` writes one of what the latest run spends.",
    )


def baseline_of_settings() -> str | None:
    """Return the baseline that the settings of `check` name; `run --check` takes it too."""
    baseline = find_config(current_folder()).options.get("check", {}).get("baseline")
    return None if baseline is None else str(baseline)


def hold(facts: RunFacts, budget: Budget, baseline: str | None) -> GateResult:
    """Return what the gate says of a run today."""
    from recompile_doctor.pipeline import hold_against

    before = None if baseline is None else find_target(baseline)
    return hold_against(facts, budget, today=date.today(), baseline=before)


def report_gate(result: GateResult, format_: str, output: Path | None) -> int:
    """Write the gate's report; return its exit status."""
    from recompile_doctor.reports.gate_report import gate_json, gate_markdown, print_gate

    base = repository()
    match format_:
        case "json":
            emit(gate_json(result), output)
        case "markdown":
            emit(gate_markdown(result, base=base), output)
        case "github":
            from recompile_doctor.reports.github import gate_commands

            emit(gate_commands(result, base=base), output)
            add_step_summary(gate_markdown(result, base=base))
        case "sarif":
            from recompile_doctor.reports.sarif_report import gate_sarif

            emit(gate_sarif(result, base=base), output)
        case "junit":
            from recompile_doctor.reports.junit import gate_junit

            emit(gate_junit(result, base=base), output)
        case _:
            emit_terminal(
                lambda console: print_gate(result, console, base=current_folder()), output
            )
    if result.passed or format_ == SARIF:
        return int(ExitCode.CLEAN)
    return int(ExitCode.GATE_FAILED)


def _update(found: FoundBudget, result: GateResult, *, loosen: bool) -> FoundBudget:
    """Write the budget's new numbers; a run that proves nothing must not set any."""
    facts, today = result.facts, date.today()
    if not result.is_plausible:
        raise DoctorError(
            f"The budget stays as it is: {result.violations[0].message}.",
            slug="run-not-plausible",
            hint="Take the numbers of a whole, successful run.",
        )
    if found.settings is None:
        text = first_budget(present_totals(facts, today), present_frames(facts, today))
    else:
        if found.path.suffix == ".toml":
            raise DoctorError(
                f"The budget in {found.path} cannot be rewritten.",
                slug="budget-not-rewritten",
                hint="Change its numbers by hand, or keep the budget in a YAML file and name that "
                "as budget_file.",
            )
        update = updated(found.settings, present_numbers(facts, found.budget, today), loosen=loosen)
        text = update.text
        for limit, number in update.changes:
            note(f"{limit}: {limit.most} -> {number}")
    try:
        found.path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DoctorError(
            f"{found.path} cannot be written: {error.strerror or error}.",
            slug="report-not-written",
            hint="Name another file with --budget.",
        ) from error
    if found.settings is None:
        note(f"{found.path} written")
    settings = read_yaml(found.path)
    return FoundBudget(read_budget(settings), settings, found.path)
