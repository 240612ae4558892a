"""How fast calls are in two runs: only calls with the same arguments compare."""

from dataclasses import replace

import pytest

from recompile_doctor.capture.calls import CalledFunction, CalledProcess, Calls
from recompile_doctor.verification.pace import Pace, compare_pace
from tests.prescription.called import called


def timed(function: CalledFunction, *seconds: float) -> CalledFunction:
    rows = zip(function.rows, seconds, strict=True)
    return replace(function, rows=tuple(replace(row, steady_seconds=each) for row, each in rows))


def run(*functions: CalledFunction) -> Calls:
    return Calls((CalledProcess(1, True, functions),))


ROWS = (({"L['x']": (4, 8)}, 11), ({"L['x']": (1, 8)}, 21))


def test_each_kind_of_call_counts_as_often_as_it_was_made() -> None:
    before = run(timed(called("f", *ROWS), 0.010, 0.020))
    after = run(timed(called("f", *ROWS, compiled=1), 0.020, 0.021))
    pace = compare_pace(before, after)
    assert pace is not None
    assert pace.calls == 10 + 21
    assert pace.before == pytest.approx((0.001 * 10 + 0.001 * 21) / 31)
    assert pace.after == pytest.approx((0.020 + 0.021) / 31)
    assert pace.ratio == pytest.approx(0.041 / 0.031)


def test_calls_of_other_sizes_do_not_compare() -> None:
    before = run(timed(called("f", ({"L['x']": (4,)}, 9)), 0.1))
    after = run(timed(called("f", ({"L['x']": (5,)}, 9)), 0.1))
    assert compare_pace(before, after) is None


def test_calls_that_compiled_are_not_timed() -> None:
    only = run(timed(called("f", ({"L['x']": (4,)}, 1)), 0.1))
    assert compare_pace(only, only) is None


def test_other_clocks_do_not_compare() -> None:
    wall = timed(called("f", ({"L['x']": (4,)}, 9)), 0.1)
    assert compare_pace(run(wall), run(replace(wall, clock="cuda-events"))) is None


def test_nothing_seen_is_unknown_and_not_zero() -> None:
    assert compare_pace(Calls(), Calls()) is None


@pytest.mark.parametrize(
    ("pace", "text"),
    [
        (Pace(0.00123, 0.00246, 9), "1.23 ms -> 2.46 ms a call of the same sizes"),
        (Pace(2.0, 1.5, 9), "2 s -> 1.5 s a call of the same sizes"),
    ],
)
def test_it_reads_as_people_say_it(pace: Pace, text: str) -> None:
    assert str(pace) == text
