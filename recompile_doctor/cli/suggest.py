"""``recompile-doctor suggest``: what to change, in the form that the user can apply."""

import sys
from dataclasses import replace
from pathlib import Path

import click

from recompile_doctor.cli.target import find_target
from recompile_doctor.errors import DoctorError
from recompile_doctor.prescription.environment import Shell, lines_for
from recompile_doctor.prescription.prescription_file import prescription_file, trial_of
from recompile_doctor.prescription.rendering import Rendering
from recompile_doctor.reports.suggest_report import (
    SuggestDocument,
    print_suggestions,
    suggestions_json,
    suggestions_markdown,
)

_SHELLS = {shell.value: shell for shell in (Shell.ENV, Shell.SH, Shell.FISH, Shell.POWERSHELL)}
_REPORTS = ("terminal", "json", "markdown")
_FORMATS = (*_REPORTS, "yaml", *_SHELLS)
_FILE_WIDTH = 100


@click.command()
@click.argument("path", required=False)
@click.option(
    "--target-torch",
    metavar="VERSION",
    help="Write for this release of torch [default: that of the log].",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(_FORMATS),
    default="terminal",
    show_default=True,
    help="A report, a prescription file (yaml), or lines for a shell or an .env file.",
)
@click.option(
    "--id", "id_", metavar="ID", help="Only this prescription [yaml and shells: the first]."
)
@click.option("--bounds", is_flag=True, help="Promise the smallest and largest sizes seen.")
@click.option(
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to FILE instead of standard output.",
)
def suggest(
    path: str | None,
    target_torch: str | None,
    format_: str,
    id_: str | None,
    bounds: bool,
    output: Path | None,
) -> None:
    """Say what to change so that torch recompiles less.

    PATH is a bundle, a TORCH_TRACE folder or file, or a text log, as for `analyze`; without it the
    latest bundle is taken. Nothing is applied, and nothing is verified: `verify` reruns the program
    with the changes.

    \b
        recompile-doctor suggest
        recompile-doctor suggest /tmp/my_trace --target-torch 2.11
        eval "$(recompile-doctor suggest --format sh)"
        recompile-doctor suggest --id strongest --format yaml --output prescription.yaml
    """
    from recompile_doctor.pipeline import examine
    from recompile_doctor.pipeline import suggest as suggest_for

    document = suggest_for(examine(find_target(path)), target_torch=target_torch, bounds=bounds)
    document = _chosen(document, id_)
    if format_ == "terminal" and output is None:
        _print(document)
        return
    _write(_text(document, format_), output)


def _print(document: SuggestDocument) -> None:
    from rich.console import Console

    print_suggestions(document, Console(soft_wrap=False, highlight=False), base=Path.cwd())


def _chosen(document: SuggestDocument, name: str | None) -> SuggestDocument:
    if name is None:
        return document
    kept = tuple(each for each in document.renderings if each.prescription.id == name)
    if not kept:
        names = ", ".join(each.prescription.id for each in document.renderings) or "none"
        raise DoctorError(
            f"There is no prescription {name!r} for {document.subject}.",
            slug="no-such-prescription",
            hint=f"Its prescriptions are: {names}.",
        )
    return replace(document, renderings=kept)


def _text(document: SuggestDocument, format_: str) -> str:
    if format_ == "terminal":
        from io import StringIO

        from rich.console import Console

        text = StringIO()
        console = Console(file=text, width=_FILE_WIDTH, no_color=True, highlight=False)
        print_suggestions(document, console, base=Path.cwd())
        return text.getvalue()
    if format_ == "json":
        return suggestions_json(document)
    if format_ == "markdown":
        return suggestions_markdown(document)
    return _applicable(document, format_)


def _applicable(document: SuggestDocument, format_: str) -> str:
    """Return one prescription as a file or as lines to paste, and say what they leave out."""
    rendering = _to_apply(document, format_)
    if rendering is None:
        raise DoctorError(
            f"There is no mark or flag to write for {document.subject}.",
            slug="nothing-to-prescribe",
            hint="`recompile-doctor suggest` says what to rewrite, or that there is nothing to do.",
        )
    if format_ == "yaml":
        trial = trial_of(rendering.prescription, document.features, document.sources)
        return prescription_file(rendering, document.target_torch, trial)
    for lost in rendering.environment_loses:
        click.echo(f"recompile-doctor: the variables do not say: {lost}", err=True)
    if not rendering.environment.variables:
        raise DoctorError(
            f"Torch {document.target_torch} takes nothing of {rendering.prescription.id} from "
            "environment variables.",
            slug="nothing-to-prescribe",
            hint="Use --format yaml with `run --prescription`, or write the calls in the program.",
        )
    lines = lines_for(rendering.environment.variables, _SHELLS[format_])
    return "".join(f"{line}\n" for line in lines)


def _to_apply(document: SuggestDocument, format_: str) -> Rendering | None:
    """Return the first prescription; for variables rather the first that they express whole."""
    changing = [
        each for each in document.renderings if each.prescription.marks or each.prescription.flags
    ]
    if format_ != "yaml":
        whole = [each for each in changing if not each.environment_loses]
        changing = whole or changing
    return changing[0] if changing else None


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
        sys.stdout.buffer.flush()
        return
    try:
        output.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise DoctorError(
            f"The report cannot be written to {output}: {error.strerror or error}.",
            slug="report-not-written",
            hint="Name another file with --output, or leave it out for standard output.",
        ) from error
