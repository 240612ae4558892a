"""``guard_on_data_dependent_error`` of TORCH_DTRACE."""

from collections.abc import Iterator

import msgspec

from recompile_doctor.events.decoders.record import Envelope, Frame, TraceRecord
from recompile_doctor.events.user_code import user_frames
from recompile_doctor.events.vocabulary import DataDependentError, Event


class _Body(msgspec.Struct, gc=False):
    expr: object = None
    stack: list[Frame] | None = None


class _Record(Envelope, kw_only=True):
    guard_on_data_dependent_error: _Body


_DECODER = msgspec.json.Decoder(_Record)


def decode(record: TraceRecord) -> Iterator[Event]:
    """Yield the error; its stack is that of the compiler, so only callers in it are the user's."""
    form = record.decode(_DECODER)
    if form is None:
        return
    expression = record.needed_text(form.guard_on_data_dependent_error.expr)
    if expression is None:
        return
    stack = record.stack(form.guard_on_data_dependent_error.stack)
    yield DataDependentError(record.origin(form), expression, "", user_stack=user_frames(stack))
