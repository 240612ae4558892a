"""Data-dependent errors and violated constraints, logged by torch or raised to the program."""

import re

from recompile_doctor.events.messages import parse_constraints, parse_data_dependent
from recompile_doctor.events.text_decoders.message import (
    SEVERAL_LINES,
    Decoded,
    Message,
    MessageKind,
)
from recompile_doctor.events.vocabulary import ConstraintViolated, DataDependentError, Origin

# Torch 2.6 and 2.7; without TORCH_LOGS this line is all there is, and no traceback follows.
_FAILED = re.compile(
    r"failed while running \w+\(\*\((?P<expression>.+?), (?:None|-?[0-9]+|True|False)\b.*\Z"
)
_UNBACKED = re.compile(r"\bu[0-9]+\b")


def data_dependent_errors(origin: Origin, text: str) -> tuple[DataDependentError, ...]:
    """Return the data-dependent error that an exception's text tells, if it tells one."""
    error = parse_data_dependent(text)
    if error is None:
        return ()
    return (DataDependentError(origin, error.expression, error.message, error.user_stack),)


def constraint_violations(origin: Origin, text: str) -> tuple[ConstraintViolated, ...]:
    """Return the violated constraints that an exception's text lists."""
    if "ConstraintViolationError" not in text:
        return ()
    return tuple(
        ConstraintViolated(origin, item.source, item.value, item.message, item.user_stack)
        for item in parse_constraints(text)
    )


def decode_failed_evaluation(message: Message) -> Decoded:
    """Return the data-dependent error; other errors end up here too, and are no events."""
    errors = data_dependent_errors(message.origin, message.text)
    if errors or "\n" in message.text:
        return errors
    match = _FAILED.match(message.text)
    if match is None or not _UNBACKED.search(match["expression"]):
        return ()
    return (DataDependentError(message.origin, match["expression"], message.text),)


def decode_guard_error(message: Message) -> Decoded:
    """Return the violated constraints; guards fail to be made for other reasons too."""
    return constraint_violations(message.origin, message.text)


FAILED_EVALUATIONS = MessageKind(
    heads=("failed while running ",),
    decode=decode_failed_evaluation,
    files=("recording.py",),
    longest=SEVERAL_LINES,
)
GUARD_ERRORS = MessageKind(
    heads=("Error while creating guard:",),
    decode=decode_guard_error,
    files=("_guards.py",),
    longest=SEVERAL_LINES,
)
