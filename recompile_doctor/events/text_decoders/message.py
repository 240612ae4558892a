"""One message of the text log, and what a decoder of a kind of message is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from recompile_doctor.events.envelope import Prefix
from recompile_doctor.events.vocabulary import Event, IssueKind, Origin, ParseIssue

_EXCERPT = 200
# Far beyond what torch writes in one line, and short enough for patterns that look ahead.
_ONE_LINE = 20_000
SEVERAL_LINES = 1 << 20


@dataclass(frozen=True, slots=True)
class Message:
    """What torch wrote with one call, without prefixes.

    ``text`` is all of it, its lines joined by a line feed; ``size`` is its length in the log, in
    bytes. ``is_last`` tells that the log ended with it, so that some of it may be missing.
    """

    origin: Origin
    prefix: Prefix
    text: str
    size: int
    is_last: bool = False

    def lines(self) -> list[str]:
        """Return the lines of the text."""
        return self.text.split("\n")

    def not_understood(self) -> ParseIssue:
        """Return the issue that this message is when its decoder does not know its form."""
        kind = IssueKind.CUT_SHORT if self.is_last else IssueKind.UNKNOWN_FORM
        return self.issue(kind)

    def issue(self, kind: IssueKind) -> ParseIssue:
        """Return an issue of this ``kind`` about this message."""
        return ParseIssue(self.origin.position, kind, self.text[:_EXCERPT], self.size)


Decoded: TypeAlias = tuple[Event | ParseIssue, ...]


@dataclass(frozen=True, slots=True)
class MessageKind:
    """A kind of message: where it is logged, how it begins, and how it is read.

    A kind belongs to an ``artifact``, or to the Python ``files`` that log it (line numbers differ
    in every release). ``heads`` are the words it can begin with. They also tell two messages of
    one line of code and one millisecond apart, which have equal prefixes. A message with more than
    ``longest`` characters is not read.
    """

    heads: tuple[str, ...]
    decode: Callable[[Message], Decoded]
    files: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    longest: int = _ONE_LINE

    def read(self, message: Message) -> Decoded:
        """Return what ``message`` tells."""
        if len(message.text) > self.longest:
            return (message.not_understood(),)
        return self.decode(message)
