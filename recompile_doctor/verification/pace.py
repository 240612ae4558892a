"""How fast calls are that compile nothing, in two runs: of the same sizes only."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from recompile_doctor.capture.calls import CalledFunction, CallRow, Calls


@dataclass(frozen=True, slots=True)
class Pace:
    """The mean seconds of a call before and after, over ``calls`` calls of the same arguments."""

    before: float
    after: float
    calls: int

    @property
    def ratio(self) -> float:
        """Return how many times as long a call takes; 1.0 where nothing was measured."""
        return self.after / self.before if self.before > 0 and self.after > 0 else 1.0

    def __str__(self) -> str:
        return f"{_seconds(self.before)} -> {_seconds(self.after)} a call of the same sizes"


def compare_pace(before: Calls, after: Calls) -> Pace | None:
    """Return how the times of equal calls compare, or None when no such calls were timed.

    Each kind of call counts as often as ``after`` made it. Clocks that differ do not compare.
    """
    old = dict(_timed(before))
    first = second = 0.0
    count = 0
    for key, (seconds, calls) in _timed(after):
        if key in old:
            earlier, earlier_calls = old[key]
            first += earlier / earlier_calls * calls
            second += seconds
            count += calls
    return Pace(first / count, second / count, count) if count else None


def _timed(calls: Calls) -> Iterator[tuple[Hashable, tuple[float, int]]]:
    """Yield the seconds and number of the timed calls of each function and its arguments."""
    total: dict[Hashable, tuple[float, int]] = {}
    for function in calls.functions:
        for row in function.rows:
            timed = row.calls - row.compiled_calls
            if timed > 0 and row.steady_seconds > 0 and not function.raised_calls:
                key = _key(function, row)
                seconds, number = total.get(key, (0.0, 0))
                total[key] = (seconds + row.steady_seconds, number + timed)
    yield from total.items()


def _key(function: CalledFunction, row: CallRow) -> Hashable:
    return (function.key.qualname, function.clock, row.arguments)


def _seconds(value: float) -> str:
    return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"
