"""Artifact ``dynamo_graph_break_reason``: a graph break, and the exception behind it."""

from collections.abc import Iterator

from recompile_doctor.events.decoders.artifact import ARTIFACT
from recompile_doctor.events.decoders.record import TraceRecord
from recompile_doctor.events.messages import data_dependent_error, parse_graph_break
from recompile_doctor.events.vocabulary import Event


def decode(record: TraceRecord) -> Iterator[Event]:
    """Yield the break, and the data-dependent error where that is its exception."""
    form = record.decode(ARTIFACT)
    payload = record.payload()
    if form is None or payload is None:
        return
    origin = record.origin(form)
    yield parse_graph_break(payload).event(origin)
    error = data_dependent_error(origin, payload)
    if error is not None:
        yield error
