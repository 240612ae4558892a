"""``guard_added_fast``, and ``guard_added`` of TORCH_DTRACE: an expression was evaluated."""

from collections.abc import Iterator

import msgspec

from recompile_doctor.events.decoders.record import Envelope, Frame, TraceRecord
from recompile_doctor.events.vocabulary import Event, GuardAdded, GuardRole, IssueKind


class _Body(msgspec.Struct, gc=False):
    expr: object = None
    prefix: object = None
    user_stack: list[Frame] | None = None
    stack: list[Frame] | None = None


class _Record(Envelope, kw_only=True):
    guard_added: _Body | None = None
    guard_added_fast: _Body | None = None


_DECODER = msgspec.json.Decoder(_Record)


def decode(record: TraceRecord) -> Iterator[Event]:
    """Yield the guard; torch writes ``guard_added`` right before ``guard_added_fast``."""
    form = record.decode(_DECODER)
    if form is None:
        return
    body = form.guard_added or form.guard_added_fast
    expression = record.needed_text(body.expr) if body else None
    if body is None or expression is None:
        record.report(IssueKind.BAD_FIELD)
        return
    origin = record.origin(form)
    news = record.reading.is_news("guard", origin.process, origin.compile_id, expression)
    if form.guard_added is None:
        record.reading.last_fact = ()
        if not news:
            return
    yield GuardAdded(
        origin,
        expression,
        _role(record.text(body.prefix)),
        user_stack=record.stack(body.user_stack),
        torch_frame=record.asking_frame(body.stack),
    )


def _role(prefix: str | None) -> GuardRole:
    if prefix is None:
        return GuardRole.UNKNOWN
    if "suppressed" in prefix:
        return GuardRole.SUPPRESSED
    return GuardRole.RUNTIME_ASSERT if "runtime_assert" in prefix else GuardRole.GUARD
