"""Artifact ``recompile_reasons``: why each cached entry did not serve a call."""

from collections.abc import Iterator

import msgspec

from recompile_doctor.events.decoders.artifact import ARTIFACT
from recompile_doctor.events.decoders.record import JSON_ERRORS, TraceRecord
from recompile_doctor.events.messages import parse_entry_failure, sources_stripped
from recompile_doctor.events.vocabulary import Event, IssueKind, RecompileReported

_REASONS = msgspec.json.Decoder(object)
_REASON = msgspec.json.Decoder(str)


def decode(record: TraceRecord) -> Iterator[Event]:
    """Yield the recompile.

    Since torch 2.11 a lone reason is the bare text, although the record says that it is JSON.
    A reason begins with a compile id, never with a bracket.
    """
    form = record.decode(ARTIFACT)
    payload = record.payload()
    if form is None or payload is None:
        return
    failures = tuple(parse_entry_failure(reason) for reason in _reasons(record, payload))
    yield RecompileReported(
        record.origin(form), failures, sources_stripped=sources_stripped(failures)
    )


def _reasons(record: TraceRecord, payload: str) -> list[str]:
    if not payload.startswith("["):
        return [payload]
    try:
        value = _REASONS.decode(payload)
    except JSON_ERRORS:
        record.report(IssueKind.BAD_JSON)
        return _readable_lines(payload)
    return list(record.texts(value))


def _readable_lines(payload: str) -> list[str]:
    """Return the reasons that a damaged list still has whole: torch writes one a line."""
    reasons = []
    for line in payload.split("\n"):
        try:
            reasons.append(_REASON.decode(line.removesuffix(",")))
        except JSON_ERRORS:
            continue
    return reasons
