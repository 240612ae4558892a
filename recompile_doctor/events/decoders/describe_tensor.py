"""``describe_tensor``: sizes and properties of a tensor whose source another record tells."""

from collections.abc import Iterator

import msgspec

from recompile_doctor.events.decoders.record import DescribedTensor, Envelope, TraceRecord
from recompile_doctor.events.vocabulary import Event, IssueKind


class _Record(Envelope, kw_only=True):
    describe_tensor: DescribedTensor


_DECODER = msgspec.json.Decoder(_Record)


def decode(record: TraceRecord) -> Iterator[Event]:
    """Yield nothing, and keep the tensor for ``describe_source``."""
    form = record.decode(_DECODER)
    if form is not None:
        tensor = form.describe_tensor
        describer, number = record.integer(tensor.describer_id), record.integer(tensor.id)
        if describer is None or number is None:
            record.report(IssueKind.BAD_FIELD)
        else:
            record.reading.remember_tensor(record.process, describer, number, tensor)
    yield from ()
