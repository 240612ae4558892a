"""Whether a program printed the same in two runs: for programs whose outputs are not recorded."""

import math
import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from recompile_doctor.verification.call_by_call import MOST_DIFFERENCES, count_of
from recompile_doctor.verification.equivalence import OutputsCompared, Sameness

RTOL = 1e-4
TOLERANCE = f"numbers with a point: rtol {RTOL:g} or the last printed place; all else exact"

# A last place is below this share of its number when there are four places or more: with fewer, as
# in 0.5 and 0.6, it is no rounding.
_LARGEST_LAST_PLACE = 1e-3
_LONGEST_SHOWN = 60
_LONGEST_LINE = 1 << 20
_NUMBER = re.compile(rb"(?<![\w.])[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE][-+]?\d))(?:[eE][-+]?\d+)?")


def compare_text(before: Path, after: Path) -> OutputsCompared:
    """Return whether two runs printed the same, line by line."""
    return judge_text([before], after)


def judge_text(baselines: Sequence[Path], after: Path) -> OutputsCompared:
    """Return whether ``after`` has the lines of the ``baselines``, printed without changes.

    Lines that differ among the baselines, such as times and addresses, are ignored and counted.
    Lines are matched by their number: where the baselines print different numbers of lines, the
    program varies and nothing can be said. A line may also equal any one of the baselines'.
    """
    if not baselines:
        return OutputsCompared(Sameness.UNKNOWN, "there is no run without changes to compare with")
    try:
        return _judge([_lines(path) for path in baselines], _lines(after))
    except OSError as error:
        reason = f"what the program printed cannot be read: {error.strerror or error}"
        return OutputsCompared(Sameness.UNKNOWN, reason)


def _judge(baselines: Sequence[Iterator[bytes]], after: Iterator[bytes]) -> OutputsCompared:
    compared = varying = total = new_total = 0
    totals = [0] * len(baselines)
    differences: list[str] = []
    for number, (new, *olds) in enumerate(zip_longest(after, *baselines), start=1):
        new_total += new is not None
        totals = [count + (old is not None) for count, old in zip(totals, olds, strict=True)]
        known = [old for old in olds if old is not None]
        if len(known) < len(olds) or new is None:
            continue
        total += 1
        if not all(_is_same(known[0], each) for each in known[1:]):
            varying += 1
            continue
        compared += 1
        same = any(_is_same(old, new) for old in known)
        if not same and len(differences) < MOST_DIFFERENCES:
            differences.append(f"line {number} is {_show(new)}, before {_show(known[0])}")
    return _result(totals, new_total, compared, varying, differences)


def _result(
    totals: Sequence[int], new_total: int, compared: int, varying: int, differences: list[str]
) -> OutputsCompared:
    if len(set(totals)) > 1:
        few, many = min(totals), max(totals)
        reason = f"the program varies: runs without changes print {few} and {many} lines"
        return OutputsCompared(Sameness.UNKNOWN, reason, compared, (), TOLERANCE)
    if new_total != totals[0]:
        differences.append(f"{count_of(new_total, 'line')} printed, before {totals[0]}")
    if differences:
        words = tuple(differences[:MOST_DIFFERENCES])
        return OutputsCompared(Sameness.DIFFERENT, words[0], compared, words, TOLERANCE)
    if not compared:
        reason = "every line varies by itself" if varying else "the program printed nothing"
        return OutputsCompared(Sameness.UNKNOWN, reason, 0, (), TOLERANCE)
    reason = f"{count_of(compared, 'line')} printed the same"
    if varying:
        verb = "varies by itself" if varying == 1 else "vary by themselves"
        reason += f"; {count_of(varying, 'line')} {verb}"
    return OutputsCompared(Sameness.SAME, reason, compared, (), TOLERANCE)


def _lines(path: Path) -> Iterator[bytes]:
    """Yield the lines; one without an end is as long as a disk is, so it is cut into pieces."""
    with path.open("rb") as file:
        while line := file.readline(_LONGEST_LINE):
            yield line.rstrip(b"\r\n")


def _is_same(old: bytes, new: bytes) -> bool:
    if old == new:
        return True
    if _NUMBER.sub(b"\x00", old) != _NUMBER.sub(b"\x00", new):
        return False
    return all(map(_is_close, _NUMBER.findall(old), _NUMBER.findall(new)))


def _is_close(old: bytes, new: bytes) -> bool:
    first, second = float(old), float(new)
    largest = max(abs(first), abs(second))
    if first == second or not math.isfinite(largest):
        return math.isfinite(largest) or old == new
    last_place = max(_last_place(old), _last_place(new))
    if last_place > _LARGEST_LAST_PLACE * largest:
        last_place = 0.0
    # Half a place more, since 0.1235 - 0.1234 is a little more than 0.0001 in binary.
    return abs(first - second) <= max(RTOL * largest, 1.5 * last_place)


def _last_place(number: bytes) -> float:
    """Return what 1 in the last printed place is worth."""
    mantissa, _, exponent = number.lower().partition(b"e")
    places = len(mantissa.partition(b".")[2])
    power = int(exponent or b"0") - places if len(exponent) < 6 else 0
    return 10.0**power if abs(power) < 300 else 0.0


def _show(line: bytes) -> str:
    text = line.decode("utf-8", "replace")
    return repr(text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "...")
