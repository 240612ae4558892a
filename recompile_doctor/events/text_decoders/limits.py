"""The recompile limit, which torch warns of with no TORCH_LOGS at all."""

import re

from recompile_doctor.events.text_decoders.message import (
    SEVERAL_LINES,
    Decoded,
    Message,
    MessageKind,
)
from recompile_doctor.events.vocabulary import RecompileLimitHit

# The names of the limits changed over the releases: cache_size_limit, recompile_limit, and both
# with accumulated_ in front.
_HIT = re.compile(r"torch\._dynamo hit (?:config\.)?(?P<limit>\w+) \((?P<value>[0-9]{1,9})\)")
_FUNCTION = re.compile(
    r"^ *function: '(?P<function>.{1,4096}?)' \((?P<file>.{1,4096}):(?P<line>[0-9]{1,9})\)$",
    re.MULTILINE,
)
_REASON = re.compile(
    r"^ *last reason: (?P<reason>.*?)(?=\nTo (?:log|diagnose) |\Z)", re.MULTILINE | re.DOTALL
)


def decode_limit(message: Message) -> Decoded:
    """Return the limit that was hit, and the function that runs eagerly from now on."""
    hit = _HIT.match(message.text)
    if hit is None:
        return (message.not_understood(),)
    function = _FUNCTION.search(message.text)
    reason = _REASON.search(message.text)
    return (
        RecompileLimitHit(
            message.origin,
            hit["limit"],
            int(hit["value"]),
            function=function["function"] if function else None,
            file=function["file"] if function else None,
            line=int(function["line"]) if function else None,
            last_reason=reason["reason"].rstrip() if reason else None,
        ),
    )


LIMITS = MessageKind(
    heads=("torch._dynamo hit ",),
    decode=decode_limit,
    files=("convert_frame.py",),
    longest=SEVERAL_LINES,
)
