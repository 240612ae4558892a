"""Graph breaks, from the artifact ``graph_breaks`` and from the warning about ``.item()``."""

from recompile_doctor.events.messages import parse_graph_break, parse_user_stack
from recompile_doctor.events.text_decoders.message import (
    SEVERAL_LINES,
    Decoded,
    Message,
    MessageKind,
)
from recompile_doctor.events.vocabulary import GraphBroke


def decode_graph_break(message: Message) -> Decoded:
    """Return the graph break."""
    return (parse_graph_break(message.text).event(message.origin),)


def decode_item_warning(message: Message) -> Decoded:
    """Return the break at the first ``.item()``, which torch warns of with no TORCH_LOGS at all.

    It is the same break as one of the artifact ``graph_breaks``, when that is logged.
    """
    advice, _, stack = message.text.partition("\n\n")
    frames = parse_user_stack(stack.split("\n"))
    if not frames:
        return (message.not_understood(),)
    title, _, hint = advice.partition(", consider ")
    return (
        GraphBroke(
            message.origin,
            place=frames[-1],
            kind=title.removeprefix("Graph break from ").strip("`"),
            hints=(" ".join(hint.split()),),
            user_stack=frames,
            text=message.text.rstrip(),
        ),
    )


def skip_message(message: Message) -> Decoded:
    """Return nothing: the message says again what another one says."""
    return ()


GRAPH_BREAKS = MessageKind(
    # More than "Graph break", with which titles of breaks begin too.
    heads=("Graph break in user code at ", "Graph break (", "Graph break: skip"),
    decode=decode_graph_break,
    artifacts=("graph_breaks",),
    longest=SEVERAL_LINES,
)
# Since 2.6 a break with a warning is preceded by the same exception in another form.
UNCONVERTED = MessageKind(
    heads=("WON'T CONVERT ",),
    decode=skip_message,
    artifacts=("graph_breaks",),
    longest=SEVERAL_LINES,
)
ITEM_WARNING = MessageKind(
    heads=("Graph break from `",), decode=decode_item_warning, files=("tensor.py",)
)
