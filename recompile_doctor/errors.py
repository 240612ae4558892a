"""Expected failures: one sentence, what to do next, and a documented slug."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What the tool's exit status means; the same table stands in docs/messages.md."""

    CLEAN = 0
    GATE_FAILED = 1
    USAGE = 2
    EXPECTED_ERROR = 3
    PROGRAM_FAILED = 4
    INTERRUPTED = 130


class DoctorError(Exception):
    """A command cannot be carried out, for a reason that the user can act on.

    ``message`` is one sentence, ``hint`` what to do next, and ``slug`` the anchor of the
    explanation in docs/messages.md.
    """

    def __init__(
        self,
        message: str,
        *,
        slug: str,
        hint: str = "",
        exit_code: ExitCode = ExitCode.EXPECTED_ERROR,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.slug = slug
        self.hint = hint
        self.exit_code = exit_code
