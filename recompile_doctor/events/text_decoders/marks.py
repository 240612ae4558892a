"""Sources that torch treats as dynamic, unbacked or static, and who asked for it."""

import re

from recompile_doctor.events.text_decoders.message import Decoded, Message, MessageKind
from recompile_doctor.events.vocabulary import MarkKind, SourceMarked

_FORMS = (
    # 2.13 and later, with TORCH_LOGS=dynamic.
    re.compile(r"marking (?P<source>.+) as (?P<kind>dynamic|unbacked) \(from (?P<cause>.+)\)\Z"),
    re.compile(
        r"(?P<source>.+?) was marked (?P<kind>dynamic|unbacked|static) due to (?P<cause>.+)\Z"
    ),
    # With TORCH_LOGS=+dynamo only.
    re.compile(
        r"(?P<source>.+?) dim (?P<dim>[0-9]{1,9}) marked (?P<kind>dynamic) via (?P<cause>.+)\Z"
    ),
)
_ENTRY_DIM = re.compile(r" entry: .+:(?P<dim>[0-9]{1,9})\Z")


def decode_mark(message: Message) -> Decoded:
    """Return the mark; other lines of these files start with a source too, and are no marks."""
    for form in _FORMS:
        match = form.match(message.text)
        if match is not None:
            return (
                SourceMarked(
                    message.origin,
                    match["source"],
                    MarkKind(match["kind"]),
                    match["cause"],
                    _dim(match),
                ),
            )
    return (message.not_understood(),) if message.text.startswith("marking ") else ()


def _dim(match: re.Match[str]) -> int | None:
    dim = match.groupdict().get("dim")
    if dim is None:
        entry = _ENTRY_DIM.search(match["cause"])
        dim = entry["dim"] if entry else None
    return None if dim is None else int(dim)


# Some of these messages begin with the source, so with anything.
MARKS = MessageKind(heads=("",), decode=decode_mark, files=("builder.py", "pgo.py"))
