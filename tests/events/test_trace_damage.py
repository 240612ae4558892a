"""Any damage to a trace gives events and issues, never an exception."""

import gzip
import io
from functools import cache
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recompile_doctor.events.trace import iter_trace_events
from recompile_doctor.events.vocabulary import CompileStarted, Event, ForeignLines, ParseIssue

LOGS = Path(__file__).parents[2] / "fixtures" / "logs-reader"
SCENARIOS = (
    ("2.6.0", "item_branch"),
    ("2.8.0", "mark_dynamic_violation"),
    ("2.11.0", "capture_scalar_dde"),
    ("2.13.0", "zero_one"),
    ("2.15.0", "item_branch"),
)
PIECES = (
    b"\x00",
    b"\xff\xfe",
    b"\n",
    b"\t",
    b"\n\t",
    b'"',
    b"{",
    b"}",
    b"null",
    b"1e400",
    b"-1",
    b"9" * 5000,
    b"[" * 10_000,
    b'{"a":' * 10_000,
    b"\\ud800",
    b"NaN",
    b"] {",
    b'V1130 05:00:30.713000 930 torch/a.py:1] {"create_symbol": ',
)
MANY = settings(
    max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


@cache
def log_of(index: int) -> bytes:
    """Return the beginning of a real log: without the bulk of the metrics that nobody reads."""
    release, scenario = SCENARIOS[index]
    path = next((LOGS / release / scenario / "trace").glob("*.gz"))
    lines = gzip.decompress(path.read_bytes()).split(b"\n")
    return b"\n".join(line for line in lines[:4000] if len(line) < 8000)


def read_all(data: bytes) -> list[object]:
    items = list(iter_trace_events(io.BytesIO(data), "trace.log"))
    for item in items:
        assert isinstance(item, Event | ParseIssue | ForeignLines)
        if isinstance(item, ParseIssue):
            assert len(item.excerpt) <= 200 and item.size >= 0 and item.position.line >= 1
    return list(items)


@MANY
@given(
    index=st.integers(0, len(SCENARIOS) - 1),
    damages=st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 40), st.sampled_from(PIECES)),
        min_size=1,
        max_size=6,
    ),
    end=st.floats(0, 1),
)
def test_cut_and_spliced_bytes(
    index: int, damages: list[tuple[float, int, bytes]], end: float
) -> None:
    """Bytes replaced, removed and put in, anywhere, and the end cut off."""
    data = log_of(index)
    for place, removed, piece in damages:
        at = int(place * len(data))
        data = data[:at] + piece + data[at + removed :]
    read_all(data[: int(end * len(data))])


@MANY
@given(
    index=st.integers(0, len(SCENARIOS) - 1),
    swaps=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=20),
    flips=st.lists(st.tuples(st.floats(0, 1), st.integers(1, 255)), max_size=20),
)
def test_swapped_lines_and_flipped_bits(
    index: int, swaps: list[tuple[float, float]], flips: list[tuple[float, int]]
) -> None:
    """Records lose their payloads, get others, and are changed in place."""
    lines = log_of(index).split(b"\n")
    for first, second in swaps:
        left, right = (int(place * (len(lines) - 1)) for place in (first, second))
        lines[left], lines[right] = lines[right], lines[left]
    data = bytearray(b"\n".join(lines))
    for place, mask in flips:
        data[int(place * (len(data) - 1))] ^= mask
    read_all(bytes(data))


@MANY
@given(data=st.binary(max_size=2000))
def test_any_bytes(data: bytes) -> None:
    """Also bytes that begin like a packed file."""
    read_all(data)
    read_all(b"\x1f\x8b\x08" + data)
    read_all(b"\x28\xb5\x2f\xfd" + data)


def test_damage_to_a_record_leaves_the_others() -> None:
    """All starts but the damaged one are still found."""
    data = log_of(3)
    at = data.rindex(b'{"dynamo_start"')
    whole = sum(isinstance(item, CompileStarted) for item in read_all(data))
    damaged = read_all(data[: at + 30] + b"\x00" + data[at + 30 :])
    assert sum(isinstance(item, CompileStarted) for item in damaged) == whole - 1
    assert sum(isinstance(item, ParseIssue) for item in damaged) == 1
