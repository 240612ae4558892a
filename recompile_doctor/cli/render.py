"""Lays a document out in the format asked for, and writes it where it is wanted."""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

import click

from recompile_doctor.bundle import current_folder
from recompile_doctor.cli.streams import note
from recompile_doctor.errors import DoctorError, ExitCode
from recompile_doctor.reports.document import Document

TERMINAL = "terminal"
SARIF = "sarif"
# name: (module, function from a document to text). The module is imported when it is asked for.
FORMATS: dict[str, tuple[str, str]] = {
    TERMINAL: ("recompile_doctor.reports.terminal", "print_terminal"),
    "json": ("recompile_doctor.reports.json_report", "render_json"),
    "markdown": ("recompile_doctor.reports.markdown", "render_markdown"),
    "github": ("recompile_doctor.reports.github", "document_commands"),
    "sarif": ("recompile_doctor.reports.sarif_report", "render_sarif"),
}
# Paths in these are relative to the repository, wherever in it the command runs.
CI_FORMATS = ("github", "sarif", "junit")
FAIL_ON = ("none", "findings")

_FILE_WIDTH = 100
_Command = TypeVar("_Command", bound=Callable[..., Any])


def output_options(formats: tuple[str, ...]) -> Callable[[_Command], _Command]:
    """Return a decorator that adds ``--format`` and ``--output``."""

    def add(command: _Command) -> _Command:
        command = click.option(
            "--output",
            metavar="FILE",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Write the report to FILE instead of standard output.",
        )(command)
        return click.option(
            "--format",
            "format_",
            type=click.Choice(formats),
            default=TERMINAL,
            show_default=True,
            help="Form of the report.",
        )(command)

    return add


def report_options(command: _Command) -> _Command:
    """Add the options that every command with a report has."""
    command = click.option(
        "--fail-on",
        type=click.Choice(FAIL_ON),
        default="none",
        show_default=True,
        help="Exit with 1 when there is something to fix.",
    )(command)
    return output_options(tuple(FORMATS))(command)


def render(document: Document, format_: str, output: Path | None) -> None:
    """Write the report to ``output``, or to standard output.

    Raises DoctorError when the file cannot be written.
    """
    module, name = FORMATS[format_]
    make = getattr(import_module(module), name)
    if format_ == TERMINAL:
        emit_terminal(lambda console: make(document, console, base=current_folder()), output)
    elif format_ in CI_FORMATS:
        emit(make(document, base=repository()), output)
    else:
        emit(make(document), output)
    if format_ == "github":
        from recompile_doctor.reports.markdown import render_markdown

        add_step_summary(render_markdown(document, base=repository()))


def emit_terminal(show: Callable[[Any], None], output: Path | None) -> None:
    """Let ``show`` print to a rich console: the terminal's, or one that fills ``output``."""
    from rich.console import Console

    if output is None:
        show(Console(soft_wrap=False, highlight=False))
        return
    text = StringIO()
    show(Console(file=text, width=_FILE_WIDTH, no_color=True, highlight=False))
    emit(text.getvalue(), output)


def emit(text: str, output: Path | None) -> None:
    """Write a report to ``output``, or to standard output, as UTF-8.

    Raises DoctorError when the file cannot be written.
    """
    whole = text if text.endswith("\n") else text + "\n"
    emit_bytes(whole.encode("utf-8", "backslashreplace"), output)


def emit_bytes(content: bytes, output: Path | None) -> None:
    """Write bytes as they are, as ``emit`` does text."""
    if output is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        output.write_bytes(content)
    except OSError as error:
        raise DoctorError(
            f"The report cannot be written to {output}: {error.strerror or error}.",
            slug="report-not-written",
            hint="Name another file with --output, or leave it out for standard output.",
        ) from error


def repository() -> Path:
    """Return the folder that a CI's paths are relative to."""
    return Path(os.environ.get("GITHUB_WORKSPACE") or current_folder())


def add_step_summary(text: str) -> None:
    """Add a report to the page of the CI job, where GitHub Actions names a file for it."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{text}\n")
    except OSError as error:
        note(f"no step summary: {error.strerror or error}")


def status(document: Document, fail_on: str, format_: str) -> ExitCode:
    """Return the exit code that the findings ask for."""
    if format_ == SARIF:  # its readers take any other status for a failure of the tool
        return ExitCode.CLEAN
    if fail_on == "findings" and document.has_something_to_fix:
        return ExitCode.GATE_FAILED
    return ExitCode.CLEAN
