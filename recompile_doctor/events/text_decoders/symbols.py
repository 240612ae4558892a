"""Symbols: made, shared, tracked and replaced (TORCH_LOGS=dynamic and +dynamic)."""

import re

from recompile_doctor.events.text_decoders.forms import RANGE, SOURCE, user_and_torch_frame
from recompile_doctor.events.text_decoders.message import Decoded, Message, MessageKind
from recompile_doctor.events.vocabulary import (
    SymbolCreated,
    SymbolSpecialized,
    SymbolTracked,
    UnbackedSymbolCreated,
)

# A singleton int of a jagged tensor has no range.
_BACKED = re.compile(
    rf"create_symbol\ (?P<symbol>\S+)\ =\ (?P<hint>\S+)\ for\ (?P<source>{SOURCE})"
    rf"(?:\ (?P<range>{RANGE}))?(?P<rest>.*)\Z",
    re.VERBOSE | re.DOTALL,
)
_DUCK_SIZED = re.compile(r"create_symbol (?P<symbol>\S+) duck sized (?P<source>\S.*)\Z", re.DOTALL)
_UNBACKED = re.compile(
    rf"create_unbacked_\w+\ (?P<symbol>\S+)\ (?P<range>{RANGE})(?P<rest>.*)\Z",
    re.VERBOSE | re.DOTALL,
)
_TRACKED = re.compile(
    rf"track_sym(?:int|float)\ (?P<source>{SOURCE})\ (?P<value>\S.*?)"
    r"(?:\ (?:None|\w*Constraint\w*\(.*\)))?\Z",
    re.VERBOSE | re.DOTALL,
)
_REPLACED = re.compile(
    r"set_replacement (?P<symbol>\S+) = (?P<value>.+) \((?P<reason>[^()]*)\) (?:VR\[.*|None)\Z",
    re.DOTALL,
)


def decode_backed(message: Message) -> Decoded:
    """Return the backed symbol that was made, or that is shared because sizes are equal."""
    match = _DUCK_SIZED.match(message.text)
    if match is not None:
        return (
            SymbolCreated(
                message.origin,
                match["symbol"],
                match["source"],
                hint=None,
                value_range=None,
                duck_sized=True,
            ),
        )
    match = _BACKED.match(message.text)
    if match is None:
        return (message.not_understood(),)
    user_stack, torch_frame = user_and_torch_frame(match["rest"].split("\n", 1)[0])
    return (
        SymbolCreated(
            message.origin,
            match["symbol"],
            match["source"],
            match["hint"],
            match["range"],
            user_stack,
            torch_frame,
        ),
    )


def decode_unbacked(message: Message) -> Decoded:
    """Return the unbacked symbol, with its source for a marked dimension, else with its place."""
    match = _UNBACKED.match(message.text)
    if match is None:
        return (message.not_understood(),)
    rest = match["rest"].split("\n", 1)[0].strip()
    user_stack, torch_frame = user_and_torch_frame(rest)
    is_source = not user_stack and torch_frame is None and rest
    return (
        UnbackedSymbolCreated(
            message.origin,
            match["symbol"],
            match["range"],
            rest if is_source else None,
            user_stack,
            torch_frame,
        ),
    )


def decode_tracked(message: Message) -> Decoded:
    """Return the value of one size, stride or offset of an input."""
    match = _TRACKED.match(message.text)
    if match is None:
        return (message.not_understood(),)
    return (SymbolTracked(message.origin, match["source"], match["value"]),)


def decode_replaced(message: Message) -> Decoded:
    """Return what a symbol was replaced by."""
    match = _REPLACED.match(message.text)
    if match is None:
        return (message.not_understood(),)
    return (
        SymbolSpecialized(message.origin, match["symbol"], match["value"], match["reason"] or None),
    )


_FILES = ("symbolic_shapes.py",)

BACKED_SYMBOLS = MessageKind(heads=("create_symbol ",), decode=decode_backed, files=_FILES)
UNBACKED_SYMBOLS = MessageKind(heads=("create_unbacked_",), decode=decode_unbacked, files=_FILES)
TRACKED_SYMBOLS = MessageKind(
    heads=("track_symint ", "track_symfloat "), decode=decode_tracked, files=_FILES
)
REPLACED_SYMBOLS = MessageKind(heads=("set_replacement ",), decode=decode_replaced, files=_FILES)
