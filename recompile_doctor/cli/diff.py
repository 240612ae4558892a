"""``recompile-doctor diff``: what changed between two runs, and whether it is better."""

from pathlib import Path

import click

from recompile_doctor.bundle import current_folder
from recompile_doctor.cli.render import emit, emit_terminal, output_options
from recompile_doctor.cli.target import find_target
from recompile_doctor.errors import ExitCode


@click.command()
@click.argument("before")
@click.argument("after")
@output_options(("terminal", "json", "markdown"))
@click.option(
    "--fail-on",
    type=click.Choice(("none", "worse")),
    default="none",
    show_default=True,
    help="Exit with 1 when AFTER is worse, broke the program, or cannot be judged.",
)
def diff(before: str, after: str, format_: str, output: Path | None, fail_on: str) -> int:
    """Compare two runs: what is fixed, improved, unchanged, worse or new.

    BEFORE and AFTER are each a bundle's name or path, a TORCH_TRACE folder or file, a text log, or
    a JSON report (a bundle's analysis.json, or what `analyze --format json` prints).

    What torch compiled is compared. A log does not say what else was called: a run that does less
    recompiles less, so give both the same inputs.

    \b
        recompile-doctor diff before after
        recompile-doctor diff main.json latest --fail-on worse
        recompile-doctor diff old_trace/ new_trace/ --format markdown
    """
    from recompile_doctor.pipeline import compare_runs
    from recompile_doctor.reports.diff_report import diff_json, diff_markdown, print_diff

    compared = compare_runs(find_target(before), find_target(after))
    difference, judgement = compared.difference, compared.judgement
    match format_:
        case "json":
            emit(diff_json(difference, judgement), output)
        case "markdown":
            emit(diff_markdown(difference, judgement), output)
        case _:
            emit_terminal(
                lambda console: print_diff(difference, judgement, console, base=current_folder()),
                output,
            )
    if fail_on == "worse" and judgement.verdict.is_bad:
        return int(ExitCode.GATE_FAILED)
    return int(ExitCode.CLEAN)
