"""Code objects that torch compiles, as the user wrote them."""

import re
from dataclasses import dataclass
from pathlib import PurePath

# Dynamo names the continuation of f after a break at line N in this way
# (torch/_dynamo/resume_execution.py, TORCH_DYNAMO_RESUME_IN_PREFIX); it nests.
_RESUME = re.compile(r"torch_dynamo_resume_in_(?P<function>.+?)_at_(?P<line>\d+)\Z")
_RESUME_PREFIX = "torch_dynamo_resume_in_"


@dataclass(frozen=True, slots=True)
class FrameKey:
    """A function of the user's program, the same in every run of it.

    ``line`` is the first line of the code object and only breaks ties: a patch moves lines.
    All three are None where the log does not name the frame.
    """

    function: str | None
    file: str | None
    line: int | None

    def __str__(self) -> str:
        name = self.function or "(unnamed frame)"
        if self.file is None:
            return name
        return f"{name} ({PurePath(self.file).name}:{self.line})"


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The line after which a resume function goes on with ``function``."""

    function: str
    line: int


def resume_point(function: str) -> ResumePoint | None:
    """Return where a resume function goes on, or None when ``function`` is not one.

    A resume function of a resume function keeps the name of the user's function: only the
    innermost name and the outermost line count.
    """
    match = _RESUME.match(function)
    if match is None:
        return None
    name = match["function"]
    while name.startswith(_RESUME_PREFIX):
        inner = _RESUME.match(name)
        name = name.removeprefix(_RESUME_PREFIX) if inner is None else inner["function"]
    return ResumePoint(name, int(match["line"]))


def user_function(function: str | None) -> str | None:
    """Return the name of the user's function that a frame runs, also for a resume function."""
    if function is None:
        return None
    point = resume_point(function)
    return function if point is None else point.function
