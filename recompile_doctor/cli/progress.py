"""Progress of a run in the title of the terminal's window.

Not as a line of text: the program writes to the same terminal, directly and whenever it likes, so
a status line would end up inside of its output, and be left there or wipe a part of it. The title
takes no room on the screen, and one short ``write`` cannot be torn apart.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from recompile_doctor.capture.launch import OnProgress

# Terminals known to take a title; on others the sequence could show as text (TERM=linux, dumb).
_WITH_TITLE = ("xterm", "screen", "tmux", "rxvt", "alacritty", "kitty", "foot", "wezterm", "vte")
_PUSH_TITLE = "\x1b[22;0t"
_POP_TITLE = "\x1b[23;0t"


@contextmanager
def terminal_title(*, enabled: bool) -> Iterator[OnProgress | None]:
    """Yield a function that shows the progress, or None where there is no terminal to show it."""
    if not (enabled and sys.stderr.isatty() and os.environ.get("TERM", "").startswith(_WITH_TITLE)):
        yield None
        return

    def show(recompiles: int, compilations: int, seconds: float) -> None:
        _write(
            f"\x1b]0;{recompiles} recompiles, {compilations} compilations in {seconds:.0f} s\x07"
        )

    _write(_PUSH_TITLE)
    try:
        yield show
    finally:
        _write("\x1b]0;\x07" + _POP_TITLE)


def _write(sequence: str) -> None:
    # Past Python's buffers: one system call, so that the terminal gets it whole. A terminal that
    # has been closed costs the progress and nothing else.
    with suppress(OSError):
        os.write(sys.stderr.fileno(), sequence.encode("ascii"))
