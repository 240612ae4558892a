"""Lays a document out in the format asked for, and writes it where it is wanted."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from recompile_doctor.errors import DoctorError, ExitCode
from recompile_doctor.reports.document import Document

FORMATS = ("terminal", "json", "markdown")
FAIL_ON = ("none", "findings")

_Command = TypeVar("_Command", bound=Callable[..., Any])


def report_options(command: _Command) -> _Command:
    """Add the options that every command with a report has."""
    options = (
        click.option(
            "--format",
            "format_",
            type=click.Choice(FORMATS),
            default="terminal",
            show_default=True,
            help="Form of the report.",
        ),
        click.option(
            "--output",
            metavar="FILE",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Write the report to FILE instead of standard output.",
        ),
        click.option(
            "--fail-on",
            type=click.Choice(FAIL_ON),
            default="none",
            show_default=True,
            help="Exit with 1 when there is something to fix.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def render(document: Document, format_: str, output: Path | None) -> None:
    """Write the report to ``output``, or to standard output.

    Raises DoctorError when the file cannot be written.
    """
    if output is None:
        _to_standard_output(document, format_)
        return
    try:
        output.write_text(_text(document, format_), encoding="utf-8")
    except OSError as error:
        raise DoctorError(
            f"The report cannot be written to {output}: {error.strerror or error}.",
            slug="report-not-written",
            hint="Name another file with --output, or leave it out for standard output.",
        ) from error


def _to_standard_output(document: Document, format_: str) -> None:
    if format_ == "terminal":
        from rich.console import Console

        from recompile_doctor.reports.terminal import print_terminal

        print_terminal(document, Console(soft_wrap=False, highlight=False), base=Path.cwd())
        return
    stream = sys.stdout.buffer
    stream.write(_text(document, format_).encode("utf-8", "backslashreplace"))
    stream.flush()


def _text(document: Document, format_: str) -> str:
    if format_ == "json":
        from recompile_doctor.reports.json_report import render_json

        return _ended(render_json(document))
    if format_ == "markdown":
        from recompile_doctor.reports.markdown import render_markdown

        return _ended(render_markdown(document))
    from io import StringIO

    from rich.console import Console

    from recompile_doctor.reports.terminal import print_terminal

    text = StringIO()
    console = Console(file=text, width=_FILE_WIDTH, no_color=True, highlight=False)
    print_terminal(document, console, base=Path.cwd())
    return text.getvalue()


_FILE_WIDTH = 100


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def status(document: Document, fail_on: str) -> ExitCode:
    """Return the exit code that the findings ask for."""
    if fail_on == "findings" and document.has_something_to_fix:
        return ExitCode.GATE_FAILED
    return ExitCode.CLEAN
