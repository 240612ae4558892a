"""``dynamo_start``: an attempt to compile a frame begins."""

import re
from collections.abc import Iterator, Sequence

import msgspec

from recompile_doctor.events.decoders.record import Envelope, Frame, TraceRecord
from recompile_doctor.events.user_code import is_torch_frame, user_frames
from recompile_doctor.events.vocabulary import CompileStarted, Event, StackFrame


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
    known = user_frames(callers) if _ends_at_the_call(callers, own) else ()
    yield CompileStarted(origin, own.function, own.file, own.line, known)


def _ends_at_the_call(callers: Sequence[StackFrame], own: StackFrame) -> bool:
    """Return whether the innermost caller is the one that called the compiled function.

    Since 2.9 torch leaves the direct caller of a plain function out of this stack (measured on
    2.13 and 2.15), but not that of a module, whose call goes through torch's own frames.
    """
    if not callers:
        return False
    last = callers[-1]
    named = re.search(rf"\b{re.escape(own.function)}\b", last.code or "")
    return is_torch_frame(last.file) or named is not None
