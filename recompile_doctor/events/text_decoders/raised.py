"""Exceptions that the program raised or printed: on stderr, without torch's prefix.

Since torch 2.8 a data-dependent error that ends a compilation is told nowhere else in a text log.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from recompile_doctor.events.text_decoders.failures import (
    constraint_violations,
    data_dependent_errors,
)
from recompile_doctor.events.text_lines import LogLine
from recompile_doctor.events.vocabulary import (
    ConstraintViolated,
    DataDependentError,
    LogKind,
    Origin,
    Position,
)

Raised: TypeAlias = DataDependentError | ConstraintViolated

_TRIGGERS = (" data-dependent expression ", "ConstraintViolationError: ")
_START = re.compile(
    r"(?P<lead>.*?)(?:"
    r"(?:[A-Za-z_][\w.]*: )?(?:Consider annotating your code using [^ ]+ )?"
    r"Could not (?:guard on|extract specialized integer from) data-dependent expression "
    r"|(?:[A-Za-z_][\w.]*\.)?ConstraintViolationError: )"
)
_RANK = re.compile(r"\[rank(?P<rank>[0-9]{1,9})\]: \Z")
_DIGITS = re.compile(r"[0-9]")

_CHAIN = (
    "During handling of the above exception",
    "The above exception was the direct cause",
)
_ENDS = (*_CHAIN, "Traceback (most recent call last):")

# Torch 2.8 writes a C++ stack of some 400 lines between the error and the user's stack.
# The begin of an error is looked for in this much of a line.
_LONGEST_START = 2_000
_LONGEST_ERROR = 2_000
_MOST_STRANGERS = 200
_MOST_RANKS = 64
_MOST_REMEMBERED = 10_000


@dataclass(slots=True)
class _Error:
    """An exception's text while it is read.

    ``lead`` is what stands in front of each of its lines: a time stamp, ``[rank0]: ``, or the
    ``E   `` of pytest. Digits are 0, since a time goes on.
    """

    line: LogLine
    lead: str
    rank: int | None
    lines: list[str] = field(default_factory=list)
    strangers: int = 0

    def owns(self, text: str) -> bool:
        return _shape(text[: len(self.lead)]) == self.lead


def _shape(lead: str) -> str:
    rank = _RANK.search(lead)
    # A rank is no time: its digits stay.
    return _DIGITS.sub("0", lead[: rank.start()]) + rank.group() if rank else _DIGITS.sub("0", lead)


class RaisedErrors:
    """Finds the errors in lines that are not torch's, for each rank by itself.

    Torch logged some of these errors before they were raised, and a chain of exceptions repeats
    the text of the first: both are one event.
    """

    def __init__(self, file_name: str) -> None:
        self._file = file_name
        self._open: dict[int | None, _Error] = {}
        self._chained: dict[int | None, str] = {}
        self._logged: dict[str, None] = {}

    def remember(self, logged: Iterable[object]) -> None:
        """Note what torch logged itself."""
        for event in logged:
            if isinstance(event, Raised) and len(self._logged) < _MOST_REMEMBERED:
                self._logged[_identity(event)] = None

    def is_new(self, error: Raised) -> bool:
        """Return whether torch has not logged ``error`` before it was raised."""
        return _identity(error) not in self._logged

    def take(self, line: LogLine) -> tuple[Raised, ...]:
        """Return what the errors that end at ``line`` tell."""
        if any(trigger in line.text for trigger in _TRIGGERS):
            start = _START.match(line.text[:_LONGEST_START])
            if start is not None:
                return self._begin(line, start["lead"])
        return self._go_on(line) if self._open else ()

    def interrupt(self) -> tuple[Raised, ...]:
        """Return what the errors tell that end where torch logs again: those of plain output."""
        plain = self._open.get(None)
        return self._end(plain, "") if plain is not None and not plain.lead else ()

    def _go_on(self, line: LogLine) -> tuple[Raised, ...]:
        # Torch and CI systems put nothing in front of a blank line.
        owners = (e for e in self._open.values() if e.owns(line.text) or not line.text.strip())
        owner = next(owners, None)
        if owner is None:
            return self._strange_line()
        text = line.text[len(owner.lead) :]
        if text.startswith(_ENDS) or len(owner.lines) >= _LONGEST_ERROR:
            return self._end(owner, text)
        owner.lines.append(text)
        return ()

    def finish(self) -> tuple[Raised, ...]:
        """Return what the errors still open tell."""
        return tuple(event for error in [*self._open.values()] for event in self._end(error, ""))

    def _begin(self, line: LogLine, lead: str) -> tuple[Raised, ...]:
        rank = _RANK.search(lead)
        error = _Error(line, _shape(lead), int(rank["rank"]) if rank else None)
        error.lines.append(line.text[len(lead) :])
        before = self._open.get(error.rank)
        events = self._end(before, "") if before else ()
        if len(self._open) < _MOST_RANKS:
            self._open[error.rank] = error
        return events

    def _strange_line(self) -> tuple[Raised, ...]:
        """Count a line that belongs to no open error; too many of them end the errors."""
        events: tuple[Raised, ...] = ()
        for error in [*self._open.values()]:
            error.strangers += 1
            if error.strangers > _MOST_STRANGERS:
                events += self._end(error, "")
        return events

    def _end(self, error: _Error, next_text: str) -> tuple[Raised, ...]:
        del self._open[error.rank]
        text = "\n".join(error.lines)
        position = Position(self._file, error.line.number)
        origin = Origin(LogKind.TEXT, position, "?", error.rank, None, None)
        found: tuple[Raised, ...] = (
            *data_dependent_errors(origin, text),
            *constraint_violations(origin, text),
        )
        before = self._chained.pop(error.rank, None)
        if found and next_text.startswith(_CHAIN) and len(self._chained) < _MOST_RANKS:
            self._chained[error.rank] = _identity(found[0])
        return tuple(event for event in found if _identity(event) != before)


def _identity(event: Raised) -> str:
    if isinstance(event, DataDependentError):
        return event.expression
    return f"{event.source} {event.value}"
