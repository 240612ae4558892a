"""``describe_source``: what a tensor that was described before is called."""

import re
from collections.abc import Iterator

import msgspec

from recompile_doctor.events.decoders.record import DescribedTensor, Envelope, TraceRecord
from recompile_doctor.events.vocabulary import Event, InputDescribed, IssueKind

_DEVICE = re.compile(r"device\(type='(?P<type>[^']+)'(?:, index=(?P<index>[0-9]+))?\)\Z")


class _Body(msgspec.Struct, gc=False):
    id: object = None
    describer_id: object = None
    source: object = None


class _Record(Envelope, kw_only=True):
    describe_source: _Body


_DECODER = msgspec.json.Decoder(_Record)


def decode(record: TraceRecord) -> Iterator[Event]:
    """Yield the input, if the record before told its sizes."""
    form = record.decode(_DECODER)
    if form is None:
        return
    body = form.describe_source
    source = record.needed_text(body.source)
    describer, number = record.integer(body.describer_id), record.integer(body.id)
    if source is None or describer is None or number is None:
        record.report(IssueKind.BAD_FIELD)
        return
    tensor = record.reading.tensors.get((record.process, describer, number))
    if tensor is not None:
        yield _input(record, form, source, tensor)


def _input(
    record: TraceRecord, form: Envelope, source: str, tensor: DescribedTensor
) -> InputDescribed:
    return InputDescribed(
        record.origin(form),
        source,
        sizes=_known(record.items(tensor.size)),
        strides=None if tensor.stride is None else _known(record.items(tensor.stride)),
        dtype=record.text(tensor.dtype),
        device=_device(record.text(tensor.device)),
        is_parameter=record.truth(tensor.is_parameter) or False,
        is_view=record.truth(tensor.is_view) or False,
        requires_grad=record.truth(tensor.requires_grad) or False,
        dynamic_dims=tuple(
            dim for dim in record.items(tensor.dynamo_dynamic_indices) if isinstance(dim, int)
        ),
    )


def _known(sizes: list[object]) -> tuple[int | None, ...]:
    """Return the sizes; torch writes a symbolic one as text."""
    return tuple(size if isinstance(size, int) else None for size in sizes)


def _device(text: str | None) -> str | None:
    """Return ``cuda:0`` for ``device(type='cuda', index=0)``, and other text as it is."""
    match = _DEVICE.match(text or "")
    if match is None:
        return text
    return match["type"] if match["index"] is None else f"{match['type']}:{match['index']}"
