"""Artifact ``dynamo_error``: the traceback of the exception that ended a compile."""

from collections.abc import Iterator

from recompile_doctor.events.decoders.artifact import ARTIFACT
from recompile_doctor.events.decoders.record import TraceRecord
from recompile_doctor.events.messages import (
    constraint_violations,
    data_dependent_error,
    parse_exception,
    stack_from_user_code,
)
from recompile_doctor.events.vocabulary import CompileErrored, Event


def decode(record: TraceRecord) -> Iterator[Event]:
    """Yield the error, and what it says of data-dependent expressions and broken promises."""
    form = record.decode(ARTIFACT)
    payload = record.payload()
    if form is None or payload is None:
        return
    origin = record.origin(form)
    error = parse_exception(payload)
    yield CompileErrored(
        origin, error.type, error.message, user_stack=stack_from_user_code(error.message)
    )
    data_dependent = data_dependent_error(origin, payload)
    if data_dependent is not None:
        yield data_dependent
    yield from constraint_violations(origin, payload)
