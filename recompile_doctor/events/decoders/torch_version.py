"""Artifact ``torch_version`` (torch 2.12 and later)."""

from collections.abc import Iterator

import msgspec

from recompile_doctor.events.decoders.artifact import ARTIFACT
from recompile_doctor.events.decoders.record import TraceRecord
from recompile_doctor.events.vocabulary import Event, Origin, TorchVersion


class _Payload(msgspec.Struct, gc=False):
    pytorch_version: object = None


_DECODER = msgspec.json.Decoder(_Payload)


def decode(record: TraceRecord) -> Iterator[Event]:
    """Yield the version."""
    form = record.decode(ARTIFACT)
    payload = record.payload()
    if form is None or payload is None:
        return
    content = record.decode_json(_DECODER, payload.encode())
    version = record.needed_text(content.pytorch_version) if content else None
    if version is not None:
        yield from version_if_new(record, record.origin(form), version)


def version_if_new(record: TraceRecord, origin: Origin, version: str) -> Iterator[Event]:
    """Yield the version of a process the first time that it is told."""
    versions = record.reading.versions
    if versions.get(record.process) != version:
        versions[record.process] = version
        yield TorchVersion(origin, version)
