"""Recompiles, from the artifacts ``recompiles`` and ``recompiles_verbose``."""

import re

from recompile_doctor.events.messages import parse_entry_failures
from recompile_doctor.events.text_decoders.message import (
    SEVERAL_LINES,
    Decoded,
    Message,
    MessageKind,
)
from recompile_doctor.events.vocabulary import EntryFailure, IssueKind, RecompileReported

_HEAD = re.compile(
    r"Recompiling function (?P<function>.{1,4096}?) in (?P<file>.{1,4096}):(?P<line>[0-9]{1,9})\Z"
)

# Torch 2.6 writes L['x'] where 2.7 and later write x.
_LOCAL_SOURCE = re.compile(r"\bL\[['\"]")
# A tensor, or a name that is compared: the reason is about a source.
_BARE_SOURCE = re.compile(r"tensor '|^(?:[0-9]+ [<>!=]=? )?[A-Za-z_]\w*(?:[.\[]| [<>!=]=)")


def decode_recompile(message: Message) -> Decoded:
    """Return the recompile; when the list of reasons is missing, also an issue that says so."""
    first, *rest = message.lines()
    head = _HEAD.match(first.rstrip())
    if head is None:
        return (message.not_understood(),)
    verbose = message.prefix.artifact == "recompiles_verbose"
    failures = parse_entry_failures(rest, verbose)
    recompile = RecompileReported(
        message.origin,
        failures,
        function=head["function"],
        file=head["file"],
        line=int(head["line"]),
        verbose=verbose,
        sources_stripped=_sources_stripped(failures),
    )
    # A recompile is worth reporting when its reasons were lost.
    return (recompile,) if failures else (recompile, message.issue(IssueKind.CUT_SHORT))


def _sources_stripped(failures: tuple[EntryFailure, ...]) -> bool | None:
    """Return whether sources are written without ``L[...]``; None when no reason names one."""
    # User code behind the "#" can hold L[' by itself.
    reasons = [failure.text.split("# ", 1)[0] for failure in failures]
    if any(_LOCAL_SOURCE.search(reason) for reason in reasons):
        return False
    return True if any(_BARE_SOURCE.search(reason) for reason in reasons) else None


RECOMPILES = MessageKind(
    heads=("Recompiling function ",),
    decode=decode_recompile,
    artifacts=("recompiles", "recompiles_verbose"),
    longest=SEVERAL_LINES,
)
