"""Entry point of the command line: errors to one sentence, results to an exit status."""

import os
import sys
from collections.abc import Sequence

import click
from click.exceptions import Exit

from recompile_doctor.cli.main import cli
from recompile_doctor.errors import DoctorError, ExitCode

_BROKEN_PIPE = 128 + 13  # what a shell reports for a program that SIGPIPE killed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status.

    Expected errors become one sentence; any other exception is a bug and keeps its traceback.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        # Not cli.main(): click turns a broken pipe into status 1, which is "the gate failed" here.
        with cli.make_context("recompile-doctor", words) as context:
            status = cli.invoke(context)
        sys.stdout.flush()
    except Exit as end:  # --help, --version
        return end.exit_code
    except DoctorError as error:
        _show(error)
        return int(error.exit_code)
    except click.ClickException as error:
        error.show()
        return int(ExitCode.USAGE)
    except (click.Abort, KeyboardInterrupt):
        return int(ExitCode.INTERRUPTED)
    except SystemExit as stop:
        # click and rich end the process in this way when the reader of their output has left.
        return _BROKEN_PIPE if stop.code == 1 else int(stop.code or 0)
    except BrokenPipeError:
        # The reader (`head`, a pager) has left. Python would complain again when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    return int(status or 0)


def _show(error: DoctorError) -> None:
    click.echo(f"error: {error.message}", err=True)
    if error.hint:
        click.echo(f"hint: {error.hint}", err=True)
    click.echo(f"(docs/messages.md#{error.slug})", err=True)


if __name__ == "__main__":
    sys.exit(main())
