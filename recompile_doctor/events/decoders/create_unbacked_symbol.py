"""``create_unbacked_symbol``: a symbol for data, or for a dimension marked unbacked."""

from collections.abc import Iterator

import msgspec

from recompile_doctor.events.decoders.record import Envelope, Frame, TraceRecord
from recompile_doctor.events.vocabulary import Event, UnbackedSymbolCreated


class _Body(msgspec.Struct, gc=False):
    symbol: object = None
    vr: object = None
    user_stack: list[Frame] | None = None
    stack: list[Frame] | None = None


class _Record(Envelope, kw_only=True):
    create_unbacked_symbol: _Body


_DECODER = msgspec.json.Decoder(_Record)


def decode(record: TraceRecord) -> Iterator[Event]:
    """Yield the symbol; a trace does not name its source."""
    form = record.decode(_DECODER)
    if form is None:
        return
    body = form.create_unbacked_symbol
    symbol = record.needed_text(body.symbol)
    if symbol is None:
        return
    yield UnbackedSymbolCreated(
        record.origin(form),
        symbol,
        value_range=record.text(body.vr),
        user_stack=record.stack(body.user_stack),
        torch_frame=record.asking_frame(body.stack),
    )
