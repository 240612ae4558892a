"""``recompile-doctor suggest``: what to change, in the form that the user can apply."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import click

from recompile_doctor.bundle import bundle_root, is_bundle
from recompile_doctor.cli.render import emit_bytes
from recompile_doctor.cli.target import find_target
from recompile_doctor.errors import DoctorError
from recompile_doctor.pipeline import Examined, examine
from recompile_doctor.prescription.apply import is_applied
from recompile_doctor.prescription.environment import Shell, lines_for
from recompile_doctor.prescription.patched import PatchResult
from recompile_doctor.prescription.prescription_file import prescription_file, trial_of
from recompile_doctor.prescription.rendering import Rendering
from recompile_doctor.prescription.verified import read_shown
from recompile_doctor.reports.suggest_report import (
    SuggestDocument,
    print_suggestions,
    suggestions_json,
    suggestions_markdown,
)
from recompile_doctor.reports.words import visible

_SHELLS = {shell.value: shell for shell in (Shell.ENV, Shell.SH, Shell.FISH, Shell.POWERSHELL)}
_REPORTS = ("terminal", "json", "markdown")
_FORMATS = (*_REPORTS, "yaml", "patch", *_SHELLS)
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
    help="A report, a prescription file (yaml), a diff (patch), or lines for a shell or .env file.",
)
@click.option("--id", "id_", metavar="ID", help="Only this prescription [other forms: the first].")
@click.option(
    "--declare",
    is_flag=True,
    help="Patch the declaration of shapes in torch.compile instead of writing calls (2.13+).",
)
@click.option("--write", is_flag=True, help="Make the edits of the patch, after asking.")
@click.option("--yes", is_flag=True, help="Do not ask before --write.")
@click.option("--undo", is_flag=True, help="Take the edits of --write back.")
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
    declare: bool,
    write: bool,
    yes: bool,
    undo: bool,
    bounds: bool,
    output: Path | None,
) -> None:
    """Say what to change so that torch recompiles less.

    PATH is a bundle, a TORCH_TRACE folder or file, or a text log, as for `analyze`; without it the
    latest bundle is taken. What `verify` has measured comes first and is said to be verified, and
    what it refused is left out; all else is an estimate. Only --write edits files: it shows the
    diff, asks, and keeps what was there in the bundle; --undo restores it.

    \b
        recompile-doctor suggest
        recompile-doctor suggest /tmp/my_trace --target-torch 2.11
        eval "$(recompile-doctor suggest --format sh)"
        recompile-doctor suggest --id strongest --format yaml --output prescription.yaml
        recompile-doctor suggest --format patch | git apply
    """
    from recompile_doctor.pipeline import suggest as suggest_for

    target = find_target(path)
    if undo:
        _undo(target)
        return
    examined = examine(target)
    shown = read_shown(target) if isinstance(target, Path) else None
    document = suggest_for(examined, target_torch=target_torch, bounds=bounds, shown=shown)
    document = _chosen(document, id_)
    if write and is_applied(backup_of(target)):
        raise DoctorError(
            f"The patch of {document.subject} was written before.",
            slug="patch-already-written",
            hint="Undo it with `suggest --undo`, or run the program again for a new one.",
        )
    if write or format_ == "patch":
        patch = _patch(examined, document, declare=declare)
        if write:
            _make_edits(patch, backup_of(target), ask=not yes)
        else:
            emit_bytes(patch.diff_bytes, output)
        return
    if format_ == "terminal" and output is None:
        _print(document)
        return
    emit_bytes(_text(document, format_).encode("utf-8", "backslashreplace"), output)


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
        shown = document.measured.get(rendering.prescription.id)
        measured = None if shown is None else shown.after
        return prescription_file(rendering, document.target_torch, trial, measured)
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


def _patch(examined: Examined, document: SuggestDocument, *, declare: bool) -> PatchResult:
    """Return the patch of the first prescription with marks, and say what it leaves out."""
    from recompile_doctor.pipeline import patch_of

    marking = [each for each in document.renderings if each.prescription.marks]
    if not marking:
        raise DoctorError(
            f"There is no mark to write for {document.subject}.",
            slug="nothing-to-prescribe",
            hint="`recompile-doctor suggest` shows settings and what to rewrite, where these help.",
        )
    patch = patch_of(examined, marking[0], document.target_torch, declare=declare)
    run = document.patches.get(marking[0].prescription.id)
    if run is not None and not run.proof:
        click.echo(
            f"recompile-doctor: verify refused this patch: {visible(run.verdict)}, "
            f"{visible(run.why)}",
            err=True,
        )
    for lost in patch.losses:
        click.echo(f"recompile-doctor: the patch does not say: {lost}", err=True)
    for left in patch.declined:
        click.echo(f"recompile-doctor: not patched: {visible(str(left))}", err=True)
    if not patch.files:
        raise DoctorError(
            "No call of the compiled function could be patched."
            if patch.declined
            else "The program has these marks already: nothing is to be patched.",
            slug="nothing-patched",
            hint="Use the environment variables (`--format sh`) or `run --prescription` instead."
            if patch.declined
            else "Run it again to see what is left.",
        )
    return patch


def backup_of(target: Path | BinaryIO) -> Path:
    """Return where the files stay that --write edits: in the bundle, or beside all bundles."""
    if isinstance(target, Path) and is_bundle(target):
        return target.resolve() / "backup"
    return bundle_root(Path.cwd()) / "backup"


def _make_edits(patch: PatchResult, backup: Path, *, ask: bool) -> None:
    from recompile_doctor.prescription.apply import write

    sys.stdout.buffer.write(patch.diff_bytes)
    sys.stdout.buffer.flush()
    names = ", ".join(visible(each.name) for each in patch.files)
    try:
        agreed = not ask or click.confirm(f"Edit {names}?", err=True)
    except click.Abort:  # the end of the input is no agreement either
        click.echo(err=True)
        agreed = False
    if not agreed:
        click.echo("recompile-doctor: no file was changed", err=True)
        return
    write(patch, backup)
    click.echo(f"recompile-doctor: edited {names}; `suggest --undo` restores it", err=True)


def _undo(target: Path | BinaryIO) -> None:
    from recompile_doctor.prescription.apply import undo

    for path in undo(backup_of(target)):
        click.echo(f"recompile-doctor: restored {visible(str(path))}", err=True)
