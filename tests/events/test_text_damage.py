"""Any damage to a text log gives events and issues, never an exception."""

import gzip
import io
from functools import cache
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from recompile_doctor.events.text import iter_text_events
from recompile_doctor.events.vocabulary import CompileStarted, Event, ForeignLines, ParseIssue
from tests.events.text_samples import logged, recompile

LOGS = Path(__file__).parents[2] / "fixtures" / "logs-reader"
SCENARIOS = (
    ("2.6.0", "capture_scalar_dde", "verbose"),
    ("2.8.0", "mark_dynamic_violation", "dynamic"),
    ("2.11.0", "recompile_limit", "verbose"),
    ("2.13.0", "item_branch", "stderr"),
    ("2.15.0", "two_ranks", "dynamic"),
)
PIECES = (
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\n",
    b"\r",
    b"\t",
    b"\x1b[31m",
    b"\x1b]",
    b"[rank99999999999]:",
    b"9" * 5000,
    b"L['" * 2000,
    b"(" * 5000,
    b", " * 5000,
    b" Constraint(" * 2000,
    b" - 0/0: ",
    b"UserError: Could not guard on data-dependent expression u0 (unhinted: u0). ",
    b"ConstraintViolationError: Constraints violated (L['x'])!\n  - ",
    logged("create_symbol s0 = 1 for ").encode()[:-1],
    logged("eval [guard added]").encode(),
    recompile("0/0: x").encode(),
    b'V1130 05:00:30.713000 930 torch/a.py:1] {"create_symbol": ',
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
)


@cache
def log_bytes(index: int) -> bytes:
    release, scenario, name = SCENARIOS[index]
    return gzip.decompress((LOGS / release / scenario / f"{name}.log.gz").read_bytes())


@st.composite
def damaged_logs(draw: st.DrawFn) -> bytes:
    data = bytearray(log_bytes(draw(st.integers(0, len(SCENARIOS) - 1))))
    for _ in range(draw(st.integers(1, 8))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(("cut", "flip", "insert", "drop", "splice", "swap"))):
            case "cut":
                del data[at:]
            case "flip" if at < len(data):
                data[at] ^= draw(st.integers(1, 255))
            case "insert":
                data[at:at] = draw(st.sampled_from(PIECES))
            case "drop":
                del data[at : at + draw(st.integers(1, 3000))]
            case "splice":
                other = log_bytes(draw(st.integers(0, len(SCENARIOS) - 1)))
                start = draw(st.integers(0, len(other)))
                data[at:at] = other[start : start + 2000]
            case _:
                lines = bytes(data).split(b"\n")
                one, two = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
                lines[one], lines[two] = lines[two], lines[one]
                data = bytearray(b"\n".join(lines))
    return bytes(data)


def read_all(data: bytes) -> None:
    for item in iter_text_events(io.BytesIO(data), "damaged.log"):
        assert isinstance(item, Event | ParseIssue | ForeignLines)
        if isinstance(item, ParseIssue):
            assert len(item.excerpt) <= 200
        position = item.position if isinstance(item, ParseIssue | ForeignLines) else None
        line = position.line if position else item.origin.position.line  # type: ignore[union-attr]
        assert 1 <= line <= data.count(b"\n") + 1


@settings(
    max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(damaged_logs())
def test_damage_is_never_an_exception(data: bytes) -> None:
    read_all(data)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(st.one_of(st.binary(max_size=60), st.sampled_from(PIECES)), max_size=20))
@example([])
def test_any_bytes_are_read(parts: list[bytes]) -> None:
    read_all(b"".join(parts))


def test_what_follows_a_damaged_place_is_still_read() -> None:
    data = log_bytes(0)
    good = [i for i in iter_text_events(io.BytesIO(data), "a") if isinstance(i, CompileStarted)]
    broken = b"\x00\xff garbage " * 100 + b"\n" + data[1000:]
    read = [i for i in iter_text_events(io.BytesIO(broken), "a") if isinstance(i, CompileStarted)]
    assert len(good) - 2 <= len(read) <= len(good)


def test_a_packed_log_that_is_cut_is_read_to_the_cut() -> None:
    packed = gzip.compress(log_bytes(0))
    items = [*iter_text_events(io.BytesIO(packed[: len(packed) // 2]), "a.log.gz")]
    assert [item for item in items if isinstance(item, CompileStarted)]
    assert [item for item in items if isinstance(item, ParseIssue)]
