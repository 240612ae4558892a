"""``chromium_event`` with the name ``automatic_dynamic``: what automatic dynamic found changed."""

from collections.abc import Iterator

import msgspec

from recompile_doctor.events.decoders.artifact import ARTIFACT
from recompile_doctor.events.decoders.record import TraceRecord
from recompile_doctor.events.vocabulary import AutomaticDynamic, Event, IssueKind

_NAME = "automatic_dynamic"
NEEDLE = b'"automatic_dynamic"'
_WHAT = {
    "size change": "size",
    "stride change": "stride",
    "scalar change": "scalar",
    "dimensionality change": "rank",
}


class _Arguments(msgspec.Struct, gc=False):
    name: object = None
    dim_changed: object = None
    reason: object = None
    cached: object = None
    new: object = None


class _Name(msgspec.Struct, gc=False):
    name: object = None


class _Payload(msgspec.Struct, gc=False):
    args: _Arguments


_NAME_DECODER = msgspec.json.Decoder(_Name)
_DECODER = msgspec.json.Decoder(_Payload)


def decode(record: TraceRecord) -> Iterator[Event]:
    """Yield the change; the caller has found the event's name in the payload."""
    form = record.decode(ARTIFACT)
    payload = record.payload()
    if form is None or payload is None:
        return
    data = payload.encode()
    event = record.decode_json(_NAME_DECODER, data)
    if event is None or event.name != _NAME:
        return
    content = record.decode_json(_DECODER, data)
    if content is None:
        return
    name = record.needed_text(content.args.name)
    reason = record.needed_text(content.args.reason)
    if name is None or reason is None:
        return
    yield AutomaticDynamic(
        record.origin(form),
        name,
        _WHAT.get(reason, reason),
        _dim(record, content.args.dim_changed),
        cached=record.text(content.args.cached) or "",
        new=record.text(content.args.new) or "",
    )


def _dim(record: TraceRecord, dim: object) -> int | None:
    """Return the dimension; torch writes "scalar" or "all" where there is none."""
    if isinstance(dim, int) and not isinstance(dim, bool):
        return dim
    if not isinstance(dim, str):
        record.report(IssueKind.BAD_FIELD)
    return None
