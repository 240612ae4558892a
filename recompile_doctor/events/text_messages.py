"""Lines of a text log, put together to the messages that torch wrote."""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from recompile_doctor.events.envelope import match_prefix, prefix_of
from recompile_doctor.events.text_decoders import NEEDED_ARTIFACTS, kinds_logged_at
from recompile_doctor.events.text_decoders.message import Message, MessageKind
from recompile_doctor.events.text_decoders.raised import Raised
from recompile_doctor.events.text_lines import LogLine
from recompile_doctor.events.vocabulary import LogKind, Origin, Position

# A process writes a message at once, but launchers and CI systems merge the output of several
# line by line. A message is complete when its process has gone on or, since it may never go on,
# when this many of torch's lines have followed.
_PATIENCE = 256
_MOST_WAITING = 4_096
_LONGEST_MESSAGE = 4 << 20

# What keeps messages of one moment apart: rank, process, compile id.
_Stream: TypeAlias = tuple[str | None, str | None, str | None]


@dataclass(frozen=True, slots=True)
class _Place:
    """A prefix as it stands in the log, time included, and how messages behind it can begin."""

    raw_prefix: str
    heads: tuple[str, ...]

    def continues(self, text: str) -> bool:
        """Return whether a line has this prefix and is not the begin of another message."""
        return text.startswith(self.raw_prefix) and not text.startswith(
            self.heads, len(self.raw_prefix) + 1
        )

    def message_in(self, text: str) -> str:
        """Return what follows the prefix in a line."""
        return text[len(self.raw_prefix) + 1 :]


@dataclass(slots=True)
class AssembledMessage:
    """A message, complete or still growing. ``kind`` is None when its first line is missing."""

    message: Message
    kind: MessageKind | None
    place: _Place
    stream: _Stream
    last_seen: int = 0
    last_number: int = 0
    size: int = 0
    is_complete: bool = False
    lines: list[str] = field(default_factory=list)

    def add(self, line: LogLine, count: int) -> None:
        """Add a line, which is the ``count``-th of torch's."""
        self.last_seen = count
        self.last_number = line.number
        self.size += line.size
        if self.size <= _LONGEST_MESSAGE:
            self.lines.append(self.place.message_in(line.text))

    def whole(self, is_last: bool) -> Message:
        """Return the message with all of its lines."""
        head = self.message
        return Message(head.origin, head.prefix, "\n".join(self.lines), self.size, is_last)


class Assembly:
    """Takes torch's lines and gives messages, in the order in which they begin.

    Messages that nobody needs are dropped. Memory is bounded: a message waits for its end no
    longer than for ``_PATIENCE`` lines.
    """

    def __init__(self, file_name: str) -> None:
        self._file = file_name
        self._count = 0
        self._open: dict[_Stream, AssembledMessage] = {}
        self._waiting: deque[AssembledMessage | Raised] = deque()
        self._current: AssembledMessage | None = None
        self._unneeded: _Place | None = None

    def take(self, line: LogLine) -> bool:
        """Add a line; return False when it has no readable prefix."""
        text = line.text
        self._count += 1
        if self._unneeded is not None and self._unneeded.continues(text):
            self._current = None
            return True
        current = self._current
        if current is not None and not current.is_complete and current.place.continues(text):
            current.add(line, self._count)
            return True
        match = match_prefix(text)
        if match is None:
            return False
        stream = (match["rank"], match["process"], match["id"])
        before = self._open.get(stream)
        if before is None or not before.place.continues(text):
            if before is not None:
                self._complete(before)
            before = self._begin(match, line, stream)
        if before is not None:
            before.add(line, self._count)
        self._current = before
        return True

    def is_needed(self) -> bool:
        """Return whether the line taken last belongs to a message that is kept."""
        return self._current is not None

    def follow(self, errors: Iterable[Raised]) -> None:
        """Put errors that the program raised behind the messages that have begun."""
        self._waiting.extend(errors)

    def messages(self) -> Iterator[AssembledMessage | Raised]:
        """Yield the messages that are complete, and that nothing older waits in front of."""
        waiting = self._waiting
        while waiting and self._is_ready(waiting[0]):
            yield waiting.popleft()

    def rest(self) -> Iterator[AssembledMessage | Raised]:
        """Yield what is left when the log has ended."""
        while self._waiting:
            yield self._waiting.popleft()

    def _is_ready(self, first: AssembledMessage | Raised) -> bool:
        if not isinstance(first, AssembledMessage) or first.is_complete:
            return True
        is_late = self._count - first.last_seen > _PATIENCE or len(self._waiting) > _MOST_WAITING
        if is_late:
            self._complete(first)
        return is_late

    def _complete(self, message: AssembledMessage) -> None:
        message.is_complete = True
        if self._open.get(message.stream) is message:
            del self._open[message.stream]

    def _begin(
        self, match: re.Match[str], line: LogLine, stream: _Stream
    ) -> AssembledMessage | None:
        artifact = match["artifact"]
        kinds = kinds_logged_at(match["path"], artifact)
        body = match["message"] or ""
        place = _Place(_raw_prefix(match), kinds.heads)
        kind = kinds.kind_of(body)
        if kind is None and artifact not in NEEDED_ARTIFACTS:
            self._unneeded = place
            return None
        prefix = prefix_of(match)
        origin = Origin(
            LogKind.TEXT,
            Position(self._file, line.number),
            prefix.process,
            prefix.rank,
            prefix.compile_id,
            prefix.time,
        )
        message = AssembledMessage(Message(origin, prefix, body, line.size), kind, place, stream)
        self._open[stream] = message
        self._waiting.append(message)
        return message


def _raw_prefix(match: re.Match[str]) -> str:
    if match["message"] is None:
        return match.string.rstrip()
    return match.string[: match.start("message") - 1]
