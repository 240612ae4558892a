"""``propagate_real_tensors``, and ``..._provenance`` of TORCH_DTRACE: a truth value was assumed."""

from collections.abc import Iterator

import msgspec

from recompile_doctor.events.decoders.record import Envelope, Frame, TraceRecord
from recompile_doctor.events.vocabulary import AssumptionMade, Event, IssueKind


class _Body(msgspec.Struct, gc=False):
    expr: object = None
    result: object = None
    user_stack: list[Frame] | None = None


class _Record(Envelope, kw_only=True):
    propagate_real_tensors: _Body | None = None
    propagate_real_tensors_provenance: _Body | None = None


_DECODER = msgspec.json.Decoder(_Record)


def decode(record: TraceRecord) -> Iterator[Event]:
    """Yield the assumption; torch writes the provenance right after the other record."""
    form = record.decode(_DECODER)
    if form is None:
        return
    body = form.propagate_real_tensors or form.propagate_real_tensors_provenance
    expression = record.needed_text(body.expr) if body else None
    assumed = record.needed_text(body.result) if body else None
    if body is None or expression is None or assumed is None:
        record.report(IssueKind.BAD_FIELD)
        return
    origin = record.origin(form)
    news = record.reading.is_news(
        "assumption", origin.process, origin.compile_id, expression, assumed
    )
    if form.propagate_real_tensors is None:
        record.reading.last_fact = ()
        if not news:
            return
    yield AssumptionMade(origin, expression, assumed, user_stack=record.stack(body.user_stack))
