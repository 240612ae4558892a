"""The begin of an attempt to compile, and the end of its tracing (TORCH_LOGS=dynamic)."""

from recompile_doctor.events.text_decoders.message import Decoded, Message, MessageKind
from recompile_doctor.events.vocabulary import CompilePassed, CompileStarted


def decode_start(message: Message) -> Decoded:
    """Return the begin of an attempt; the text log names no function here."""
    return (CompileStarted(message.origin, function=None, file=None, line=None),)


def decode_pass(message: Message) -> Decoded:
    """Return that guards were produced."""
    return (CompilePassed(message.origin),)


STARTS = MessageKind(heads=("create_env",), decode=decode_start, files=("symbolic_shapes.py",))
PASSES = MessageKind(heads=("produce_guards",), decode=decode_pass, files=("symbolic_shapes.py",))
