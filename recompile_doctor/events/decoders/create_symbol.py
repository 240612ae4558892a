"""``create_symbol``: a backed symbol for a size, a stride or an int."""

from collections.abc import Iterator

import msgspec

from recompile_doctor.events.decoders.record import Envelope, Frame, TraceRecord
from recompile_doctor.events.user_code import user_frames
from recompile_doctor.events.vocabulary import Event, SymbolCreated


class _Body(msgspec.Struct, gc=False):
    symbol: object = None
    val: object = None
    vr: object = None
    source: object = None
    user_stack: list[Frame] | None = None
    stack: list[Frame] | None = None


class _Record(Envelope, kw_only=True):
    create_symbol: _Body


_DECODER = msgspec.json.Decoder(_Record)


def decode(record: TraceRecord) -> Iterator[Event]:
    """Yield the symbol."""
    form = record.decode(_DECODER)
    if form is None:
        return
    body = form.create_symbol
    symbol = record.needed_text(body.symbol)
    source = record.needed_text(body.source)
    if symbol is None or source is None:
        return
    yield SymbolCreated(
        record.origin(form),
        symbol,
        source,
        hint=record.text(body.val),
        value_range=record.text(body.vr),
        user_stack=record.stack(body.user_stack),
        torch_frame=record.asking_frame(body.stack),
        # The Python stack of the tracer: the traced program itself is not on it.
        callers=user_frames(record.stack(body.stack)),
    )
