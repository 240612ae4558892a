"""``dynamo_start``: an attempt to compile a frame begins."""

from collections.abc import Iterator

import msgspec

from recompile_doctor.events.decoders.record import Envelope, Frame, TraceRecord
from recompile_doctor.events.user_code import user_frames
from recompile_doctor.events.vocabulary import CompileStarted, Event


class _Body(msgspec.Struct, gc=False):
    stack: list[Frame] | None = None


class _Record(Envelope, kw_only=True):
    dynamo_start: _Body


_DECODER = msgspec.json.Decoder(_Record)


def decode(record: TraceRecord) -> Iterator[Event]:
    """Yield the start; the stack's last frame is the first line of the function to compile."""
    form = record.decode(_DECODER)
    if form is None:
        return
    origin = record.origin(form)
    stack = record.stack(form.dynamo_start.stack)
    if not stack:
        yield CompileStarted(origin, None, None, None)
        return
    *callers, own = stack
    yield CompileStarted(origin, own.function, own.file, own.line, user_frames(callers))
