"""The prefix that torch writes in front of every log line, in both logs."""

import re
from dataclasses import dataclass
from functools import lru_cache

from recompile_doctor.ids import CompileId, parse_compile_id

# Numbers are bounded since int() refuses, with an exception, more than 4,300 digits.
_PREFIX = re.compile(
    r"""
    (?:\[rank(?P<rank>[0-9]{1,9})\]:)?               # no space follows it
    (?P<level>[VIWEC]|[A-Za-z][\w ]{0,30}?)         # other levels stand in full, e.g. "Level 15"
    (?P<month>[0-9]{2})(?P<day>[0-9]{2})[ ]
    (?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2}\.[0-9]{6})[ ]
    (?P<process>[0-9]{1,12})[ ]
    (?P<path>.{1,4096}?):(?P<line>[0-9]{1,9})\]
    (?:[ ]\[(?P<id>
        [0-9]{1,9}/[0-9]{1,9}(?:_[0-9]{1,9})?
      | ![0-9]{1,9}(?:/[0-9]{1,9}/[0-9]{1,9})?(?:_[0-9]{1,9})?
    )\])?
    (?:[ ]\[__(?P<artifact>\w+)\])?
    (?:[ ](?P<message>.*))?\Z                         # editors strip the space of a blank line
    """,
    re.VERBOSE | re.DOTALL,
)

# Days before each month in a leap year: torch writes no year, and only differences count.
_DAYS_BEFORE = (0, 0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)

# Many lines in a row have one id.
_cached_compile_id = lru_cache(1024)(parse_compile_id)


@dataclass(frozen=True, slots=True)
class Prefix:
    """What stands in front of a message.

    ``level`` is V, I, W, E, C or another level's name. ``time`` counts seconds as ``Origin.time``
    does. ``artifact`` is the name without the underscores, e.g. ``recompiles``.
    """

    level: str
    time: float | None
    process: str
    path: str
    line: int
    rank: int | None
    compile_id: CompileId | None
    artifact: str | None


def split_prefix(line: str) -> tuple[Prefix, str] | None:
    """Return the prefix of ``line`` and the message after it, or None when torch wrote neither."""
    match = match_prefix(line)
    return None if match is None else (prefix_of(match), match["message"] or "")


def match_prefix(line: str) -> re.Match[str] | None:
    """Return the match of a prefix, for readers that drop most lines at a look at its groups."""
    return _PREFIX.match(line.rstrip("\r\n"))


def prefix_of(match: re.Match[str]) -> Prefix:
    """Return the prefix that ``match_prefix`` found."""
    return Prefix(
        level=match["level"].strip(),
        time=_seconds(match),
        process=match["process"],
        path=match["path"],
        line=int(match["line"]),
        rank=None if match["rank"] is None else int(match["rank"]),
        compile_id=_cached_compile_id(match["id"]) if match["id"] else None,
        artifact=match["artifact"],
    )


def _seconds(match: re.Match[str]) -> float | None:
    month, day = int(match["month"]), int(match["day"])
    if not 1 <= month <= 12:
        return None
    days = _DAYS_BEFORE[month] + day - 1
    minutes = (days * 24 + int(match["hour"])) * 60 + int(match["minute"])
    return round(minutes * 60 + float(match["second"]), 6)
