"""``str``: a string that later records name by its number."""

from collections.abc import Iterator

import msgspec

from recompile_doctor.events.decoders.record import Envelope, TraceRecord
from recompile_doctor.events.vocabulary import Event, IssueKind


class _Record(Envelope, kw_only=True):
    str: object = None


_DECODER = msgspec.json.Decoder(_Record)


def decode(record: TraceRecord) -> Iterator[Event]:
    """Yield nothing, and remember the string."""
    form = record.decode(_DECODER)
    if form is not None:
        match form.str:
            case [str(text), int(number)]:
                record.reading.intern(record.process, number, text)
            case _:
                record.report(IssueKind.BAD_FIELD)
    yield from ()
