"""Pieces that the forms of several kinds of message share."""

from recompile_doctor.events.messages import parse_location_comment
from recompile_doctor.events.vocabulary import StackFrame

# A source is not to be cut at a space or bracket inside a dictionary key, as in L['a, b [1, 2]'].
# Outside of quotes a space only follows a comma: tuple_iterator_getitem(L['it'], 0).
SOURCE = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|,\ |[^\s'"])+"""
# A bound can be an expression, as in [2, 4*s0].
RANGE = r"\[[^\[\],]+,\ [^\[\],]+\]"


def user_and_torch_frame(text: str) -> tuple[tuple[StackFrame, ...], StackFrame | None]:
    """Return the user stack and torch's frame of a location comment.

    The text log has only the innermost frame of the stack here, with a shortened file name.
    """
    user_frame, torch_frame = parse_location_comment(text)
    return (() if user_frame is None else (user_frame,)), torch_frame
