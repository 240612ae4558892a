"""Entry point of the command line: errors to one sentence, results to an exit status."""

import sys
from collections.abc import Sequence
from typing import Any

import click
from click.exceptions import Exit

from recompile_doctor.cli.main import cli
from recompile_doctor.cli.streams import STATUS, give_up, show_error, standard_streams
from recompile_doctor.errors import DoctorError, ExitCode

_BROKEN_PIPE = 128 + 13  # what a shell reports for a program that SIGPIPE killed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status.

    Expected errors become one sentence; any other exception is a bug and keeps its traceback.
    The status of a program that failed wins over all that can happen to the report on it.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    shared: dict[str, Any] = {}
    with standard_streams():
        status = _status(words, shared)
    return int(shared.get(STATUS, 0)) or status


def _status(words: list[str], shared: dict[str, Any]) -> int:
    """Run the command line and return its own status; ``shared`` gets the commands' notes."""
    try:
        # Not cli.main(): click turns a broken pipe into status 1, which is "the gate failed" here.
        with cli.make_context("recompile-doctor", words) as context:
            try:
                status = cli.invoke(context)
            finally:
                shared.update(context.meta)
        sys.stdout.flush()
    except Exit as end:  # --help, --version
        return end.exit_code
    except DoctorError as error:
        show_error(error)
        return int(error.exit_code)
    except click.ClickException as error:
        _show_usage(error)
        return int(ExitCode.USAGE)
    except (click.Abort, KeyboardInterrupt):
        return int(ExitCode.INTERRUPTED)
    except SystemExit as stop:
        # click and rich end the process in this way when the reader of their output has left.
        return _BROKEN_PIPE if stop.code == 1 else int(stop.code or 0)
    except BrokenPipeError:
        # The reader (`head`, a pager) has left. Python would complain again when it flushes.
        give_up(sys.stdout)
        return _BROKEN_PIPE
    return int(status or 0)


def _show_usage(error: click.ClickException) -> None:
    """Write what click would write, with the user's words so that they do nothing."""
    from recompile_doctor.reports.words import visible

    context = getattr(error, "ctx", None)
    if isinstance(context, click.Context):
        click.echo(context.get_usage(), err=True)
        click.echo(f"Try '{context.command_path} --help' for help.\n", err=True)
    click.echo(f"Error: {visible(error.format_message())}", err=True)


if __name__ == "__main__":
    sys.exit(main())
