"""``dynamo_output_graph``: a graph went to the backend."""

from collections.abc import Iterator

import msgspec

from recompile_doctor.events.decoders.record import Envelope, TraceRecord
from recompile_doctor.events.vocabulary import Event, GraphCaptured, IssueKind


class _Body(msgspec.Struct, gc=False):
    sizes: object = None


class _Record(Envelope, kw_only=True):
    dynamo_output_graph: _Body


_DECODER = msgspec.json.Decoder(_Record)


def decode(record: TraceRecord) -> Iterator[Event]:
    """Yield the graph; its code, the payload, is left unread."""
    form = record.decode(_DECODER)
    if form is None:
        return
    sizes = form.dynamo_output_graph.sizes
    if sizes is not None and not isinstance(sizes, dict):
        record.report(IssueKind.BAD_FIELD)
        sizes = None
    yield GraphCaptured(
        record.origin(form),
        tuple((name, _dims(record, dims)) for name, dims in (sizes or {}).items()),
    )


def _dims(record: TraceRecord, dims: object) -> tuple[int | str, ...]:
    return tuple(dim for dim in record.items(dims) if isinstance(dim, int | str))
