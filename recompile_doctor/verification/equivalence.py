"""Whether a run gave the same results as another: the fingerprints of its outputs, call by call.

Fewer recompiles are worth nothing when the numbers are wrong, and a graph that is right for sizes
from 2 on need not be right for 0 and 1. So each call of a compiled function is compared with the
same call of a run without changes: what it returned or raised, the tensors that it was given as
they were afterwards, and in the end the parameters of the modules and their gradients.

A program that draws random numbers gives other results when it draws them in other code, as eager
and compiled code do, although nothing is wrong; "different" is then the truth, not a fault found.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from recompile_doctor.bundle import Bundle
from recompile_doctor.capture.outputs import read_outputs
from recompile_doctor.verification.call_by_call import (
    MOST_DIFFERENCES,
    PROCESS,
    Comparison,
    Difference,
    compare_calls,
    count_of,
)
from recompile_doctor.verification.tolerance import ACCUMULATED, Kind, tolerance_for


class Sameness(Enum):
    """Whether two runs gave the same results. UNKNOWN: nothing differs, but not all is known."""

    SAME = "same"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class OutputsCompared:
    """What a comparison came to, and why in one sentence without a full stop.

    ``calls`` were compared (or lines, of printed text). ``differences`` are the first ones, in
    words; ``tolerance`` says how far numbers could differ.
    """

    sameness: Sameness
    reason: str
    calls: int = 0
    differences: tuple[str, ...] = ()
    tolerance: str = ""


def compare_outputs(before: Bundle, after: Bundle) -> OutputsCompared:
    """Return whether two runs gave the same results."""
    return _result(compare_calls(read_outputs(before), read_outputs(after)))


def judge_outputs(baselines: Sequence[Bundle], after: Bundle) -> OutputsCompared:
    """Return whether ``after`` gave the results of the ``baselines``, runs without changes.

    Where the baselines agree, a difference counts only when each of them shows it: to be as close
    to one of them as the tolerance asks is to be the same.

    Where they differ among themselves, from random numbers or from a race, values prove nothing.
    What no random number explains still counts: another shape, dtype or structure, a NaN, an
    exception, another number of calls. But a shape can depend on random values too, and in one
    call two runs may agree on it by chance. So a difference counts only in a function of whose
    structure the baselines agree in all calls. Where they do not even have the same processes and
    functions, nothing counts.
    """
    if not baselines:
        return OutputsCompared(Sameness.UNKNOWN, "there is no run without changes to compare with")
    first, *others = [read_outputs(each) for each in baselines]
    changed = read_outputs(after)
    compared = compare_calls(first, changed)
    variations = [compare_calls(first, other) for other in others]
    varied = [each for variation in variations for each in variation.found]
    words = [each.words for each in varied]
    words += [each for variation in variations for each in variation.unsure]
    if words:
        return _judge_varying(compared, varied, words[0])
    result = _result(compared)
    for other in others:
        if result.sameness is Sameness.DIFFERENT:
            result = _result(compare_calls(other, changed))
    return result


def _judge_varying(
    compared: Comparison, varied: Sequence[Difference], words: str
) -> OutputsCompared:
    structural = {each.place for each in varied if each.kind is Kind.STRUCTURE}
    if not any(subject == PROCESS for _, subject in structural):
        certain = [
            each
            for each in compared.found
            if each.kind is Kind.STRUCTURE and each.place not in structural
        ]
        if certain:
            return _different(compared, certain)
    reason = f"the program varies: two runs without changes differ ({words})"
    return _compared(compared, Sameness.UNKNOWN, reason)


def _result(comparison: Comparison) -> OutputsCompared:
    if comparison.found:
        return _different(comparison, comparison.found)
    unknown = _what_is_unknown(comparison)
    if unknown is not None:
        return _compared(comparison, Sameness.UNKNOWN, unknown)
    reason = f"{count_of(comparison.calls, 'call')} gave the same outputs"
    return _compared(comparison, Sameness.SAME, reason)


def _what_is_unknown(comparison: Comparison) -> str | None:
    reasons = [*comparison.unsure, *comparison.gaps]
    if comparison.unread:
        reasons.append(f"{count_of(comparison.unread, 'record')} of outputs cannot be read")
    if comparison.unreadable:
        reasons.append(f"values of {count_of(comparison.unreadable, 'output')} cannot be read")
    if not comparison.calls:
        reasons.append("no outputs were recorded")
    return reasons[0] if reasons else None


def _different(comparison: Comparison, differences: Sequence[Difference]) -> OutputsCompared:
    words = tuple(each.words for each in differences[:MOST_DIFFERENCES])
    return _compared(comparison, Sameness.DIFFERENT, words[0], words)


def _compared(
    comparison: Comparison, sameness: Sameness, reason: str, words: tuple[str, ...] = ()
) -> OutputsCompared:
    return OutputsCompared(sameness, reason, comparison.calls, words, _tolerance(comparison))


def _tolerance(comparison: Comparison) -> str:
    words = [
        f"{dtype.removeprefix('torch.')}: {tolerance}"
        for dtype in sorted(comparison.dtypes)
        if (tolerance := tolerance_for(dtype)) is not None
    ]
    if comparison.parameters:
        words.append(f"{ACCUMULATED:g} times as much for parameters and gradients")
    return "; ".join(words)
