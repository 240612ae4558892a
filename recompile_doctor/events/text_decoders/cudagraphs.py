"""Warnings about CUDA graphs: many sizes recorded, or recording skipped."""

import re

from recompile_doctor.events.text_decoders.message import Decoded, Message, MessageKind
from recompile_doctor.events.vocabulary import CudagraphNoted

_DISTINCT_SIZES = re.compile(r"We have observed (?P<number>[0-9]{1,9}) distinct sizes")


def decode_cudagraph_note(message: Message) -> Decoded:
    """Return the warning."""
    match = _DISTINCT_SIZES.search(message.text)
    sizes = None if match is None else int(match["number"])
    return (CudagraphNoted(message.origin, sizes, message.text.rstrip()),)


# The file is always the same; the artifact was perf_hints before it was cudagraphs.
CUDAGRAPHS = MessageKind(
    heads=("CUDAGraph supports dynamic shapes ", "skipping cudagraphs "),
    decode=decode_cudagraph_note,
    files=("cudagraph_utils.py",),
    artifacts=("cudagraphs", "perf_hints"),
)
