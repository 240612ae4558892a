"""Lines of a text log, for the tests of its reader."""

import io

from recompile_doctor.events.text import iter_text_events
from recompile_doctor.events.vocabulary import Event, ForeignLines, ParseIssue, ReadItem

SYMBOLS = "torch/fx/experimental/symbolic_shapes.py:4058"
RECOMPILES = "torch/_dynamo/guards.py:5396"
BREAKS = "torch/_dynamo/symbolic_convert.py:5124"


def logged(
    text: str,
    place: str = SYMBOLS,
    compile_id: str | None = "0/0",
    *,
    artifact: str | None = None,
    level: str = "V",
    rank: int | None = None,
    process: int = 24523,
    time: str = "04:20:29.133000",
) -> str:
    """Return a message as torch writes it, with the prefix on each line."""
    prefix = "" if rank is None else f"[rank{rank}]:"
    prefix += f"{level}1130 {time} {process} {place}]"
    prefix += "" if compile_id is None else f" [{compile_id}]"
    prefix += "" if artifact is None else f" [__{artifact}]"
    return "".join(f"{prefix} {line}\n" for line in text.split("\n"))


def recompile(*reasons: str, compile_id: str = "0/1", **others: object) -> str:
    """Return a recompile message with the reasons given."""
    text = "Recompiling function f in /home/user/a.py:7\n"
    text += "    triggered by the following guard failure(s):"
    text += "".join(f"\n    - {reason}" for reason in reasons)
    return logged(text, RECOMPILES, compile_id, artifact="recompiles", **others)  # type: ignore[arg-type]


def read(log: str | bytes) -> list[ReadItem]:
    """Return all items of a log."""
    data = log.encode() if isinstance(log, str) else log
    return [*iter_text_events(io.BytesIO(data), "a.log")]


def events(log: str | bytes) -> list[Event]:
    """Return the events of a log in which everything is understood."""
    items = read(log)
    assert not [item for item in items if isinstance(item, ParseIssue)]
    return [item for item in items if not isinstance(item, ForeignLines | ParseIssue)]
