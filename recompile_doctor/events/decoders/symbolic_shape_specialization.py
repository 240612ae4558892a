"""``symbolic_shape_specialization``: a symbol became a constant, or another symbol's expression."""

from collections.abc import Iterator

import msgspec

from recompile_doctor.events.decoders.record import Envelope, Frame, TraceRecord
from recompile_doctor.events.vocabulary import Event, SymbolSpecialized


class _Body(msgspec.Struct, gc=False):
    symbol: object = None
    sources: object = None
    value: object = None
    reason: object = None
    user_stack: list[Frame] | None = None


class _Record(Envelope, kw_only=True):
    symbolic_shape_specialization: _Body


_DECODER = msgspec.json.Decoder(_Record)


def decode(record: TraceRecord) -> Iterator[Event]:
    """Yield the specialization."""
    form = record.decode(_DECODER)
    if form is None:
        return
    body = form.symbolic_shape_specialization
    symbol = record.needed_text(body.symbol)
    value = record.needed_text(body.value)
    if symbol is None or value is None:
        return
    yield SymbolSpecialized(
        record.origin(form),
        symbol,
        value,
        record.text(body.reason),
        sources=record.texts(body.sources),
        user_stack=record.stack(body.user_stack),
    )
