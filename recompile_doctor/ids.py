"""Identities that torch gives: compile ids, and the process that they belong to."""

import re
from dataclasses import dataclass

_COMPILE_ID = re.compile(
    r"(?:!(?P<autograd>\d{1,9})(?:/(?=\d+/\d+))?)?"
    r"(?:(?P<frame>\d{1,9})/(?P<compile>\d{1,9}))?(?:_(?P<attempt>\d{1,9}))?\Z"
)


@dataclass(frozen=True, slots=True)
class CompileId:
    """One compilation of one frame: ``0/1``, ``0/1_2`` (third attempt), ``!3/0/1`` or ``!3``.

    ``autograd_id`` is set inside compiled autograd; there ``frame_id`` and ``frame_compile_id``
    are None while no frame is compiled. Ids restart after ``torch._dynamo.reset()`` and in each
    process, so an id names a compilation only together with a process and a reset epoch.
    """

    frame_id: int | None
    frame_compile_id: int | None
    attempt: int = 0
    autograd_id: int | None = None

    def __str__(self) -> str:
        text = self.without_attempt()
        return f"{text}_{self.attempt}" if self.attempt else text

    def without_attempt(self) -> str:
        """Return the id as torch writes it in a list of cache entries, e.g. ``0/1``."""
        frame = "" if self.frame_id is None else f"{self.frame_id}/{self.frame_compile_id}"
        if self.autograd_id is None:
            return frame
        return f"!{self.autograd_id}/{frame}" if frame else f"!{self.autograd_id}"


def parse_compile_id(text: str) -> CompileId | None:
    """Return the compile id that ``text`` spells, or None when it spells none."""
    match = _COMPILE_ID.match(text)
    if match is None or (match["frame"] is None and match["autograd"] is None):
        return None

    def number(name: str) -> int | None:
        return None if match[name] is None else int(match[name])

    return CompileId(number("frame"), number("compile"), number("attempt") or 0, number("autograd"))
