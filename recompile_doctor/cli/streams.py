"""The standard streams as the user left them: closed, full, or a terminal that is gone.

What cannot be written to standard error is dropped. Standard output is what the user asked for:
that it cannot be written is an expected error, whoever of click, rich and us was writing.
"""

import errno
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import Any, TextIO

import click

from recompile_doctor.errors import DoctorError

STATUS = "recompile_doctor.program_status"
"""Where in ``click.Context.meta`` the status of a program is kept, which wins over ours."""


@contextmanager
def standard_streams() -> Iterator[None]:
    """Let writing to the standard streams fail in an orderly way inside of the ``with`` block."""
    before = sys.stdout, sys.stderr
    if os.name == "posix":
        _occupy_descriptors()
        if sys.stdout is None or _is_descriptor(sys.stdout, 1):
            sys.stdout = _text(_Output(1, "w", closefd=False), sys.stdout)
        if sys.stderr is None or _is_descriptor(sys.stderr, 2):
            sys.stderr = _text(_Notes(2, "w", closefd=False), sys.stderr)
    try:
        yield
    finally:
        for ours, theirs in ((sys.stdout, before[0]), (sys.stderr, before[1])):
            if ours is not theirs:
                try:
                    ours.flush()
                except (DoctorError, OSError):  # told already; Python would flush once more
                    give_up(ours)
        sys.stdout, sys.stderr = before


def give_up(stream: TextIO) -> None:
    """Let what is still in the buffers of ``stream`` go nowhere."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        stream.flush()


def note(text: str) -> None:
    """Write one line of ours to standard error."""
    from recompile_doctor.reports.words import visible

    click.echo(f"recompile-doctor: {visible(text)}", err=True)


def show_error(error: DoctorError) -> None:
    """Write an expected error to standard error: sentence, hint, and its name in the docs.

    It can hold names of files, which can hold anything.
    """
    from recompile_doctor.reports.words import visible

    click.echo(f"error: {visible(error.message)}", err=True)
    if error.hint:
        click.echo(f"hint: {visible(error.hint)}", err=True)
    click.echo(f"(docs/messages.md#{error.slug})", err=True)


class _Output(FileIO):
    """Standard output; what goes wrong with it has a name of its own."""

    def write(self, data: Any, /) -> int:
        """Write all or some of ``data``, waiting for a reader that is slow."""
        try:
            while (count := super().write(data)) is None:
                select.select([], [self], [])
        except BrokenPipeError:
            raise
        except OSError as error:
            raise DoctorError(
                f"Standard output {_what_is_wrong(error)}.",
                slug="output-not-written",
                hint="Name a file for the report with --output.",
            ) from error
        return count


class _Notes(FileIO):
    """Standard error; what cannot be written there is dropped."""

    def write(self, data: Any, /) -> int:
        """Write ``data`` where that is possible, and claim to have written it all."""
        with suppress(OSError):
            return super().write(data) or len(data)
        return len(data)


def _what_is_wrong(error: OSError) -> str:
    if error.errno == errno.EBADF:
        return "is closed"
    return f"cannot be written: {error.strerror or error}"


def _occupy_descriptors() -> None:
    """Give 0, 1 and 2 to streams that fail, where they are closed.

    Else the next file that is opened would be "standard error". Not inherited: the program finds
    them closed, as it would without us.
    """
    for number, flags in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number, inheritable=False)
                os.close(opened)


def _is_descriptor(stream: TextIO, number: int) -> bool:
    try:
        return stream.fileno() == number
    except (AttributeError, OSError, ValueError):  # e.g. the stand-in of a test
        return False


def _text(raw: FileIO, like: TextIO | None) -> TextIOWrapper:
    """Return a text stream on ``raw`` that encodes as ``like`` does."""
    if not isinstance(like, TextIOWrapper):
        return TextIOWrapper(BufferedWriter(raw), "utf-8", "backslashreplace", line_buffering=True)
    with suppress(OSError, ValueError):
        like.flush()
    return TextIOWrapper(
        BufferedWriter(raw),
        like.encoding,
        like.errors,
        line_buffering=like.line_buffering,
        write_through=like.write_through,
    )
