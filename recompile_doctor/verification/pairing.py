"""Which process and which function of one run is which of another."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import NamedTuple

from recompile_doctor.capture.outputs import ProcessOutputs, RecordedFunction


class ProcessName(NamedTuple):
    """A process by what is the same in the next run: its rank, and its place among those of it."""

    rank: tuple[tuple[str, str], ...]
    place: int

    def __str__(self) -> str:
        rank = dict(self.rank).get("RANK")
        if rank is not None:
            return f"rank {rank}" + (f", process {self.place + 1}" if self.place else "")
        return f"process {self.place + 1}"


def name_processes(processes: Iterable[ProcessOutputs]) -> dict[ProcessName, ProcessOutputs]:
    """Return the processes by name; they come in the order in which they started.

    One that recorded nothing is left out: a run may start any number of such helpers.
    """
    named: dict[ProcessName, ProcessOutputs] = {}
    places: dict[tuple[tuple[str, str], ...], int] = defaultdict(int)
    for each in processes:
        if each.calls or each.parameters:
            rank = tuple(sorted(each.rank.items()))
            named[ProcessName(rank, places[rank])] = each
            places[rank] += 1
    return named


def pair_functions(before: ProcessOutputs, after: ProcessOutputs) -> dict[int, int]:
    """Return which function of ``after`` each function of ``before`` is; some may have none.

    A patch moves lines, but not one function past another, and it may write a copy of the file.
    So functions of the same name are paired by their line where it is the same, else in the order
    of their lines.
    """
    pairs: dict[int, int] = {}
    old, new = dict(before.functions), dict(after.functions)
    for group in (_name_and_file, _name):
        olds, news = _groups(old, group), _groups(new, group)
        for key, numbers in olds.items():
            for one, other in _pair(numbers, news.get(key, ()), before, after):
                pairs[one] = other
                del old[one], new[other]
    return pairs


def _name_and_file(function: RecordedFunction) -> tuple[str, ...]:
    return function.name, PurePath(function.file).name


def _name(function: RecordedFunction) -> tuple[str, ...]:
    return (function.name,)


def _groups(
    functions: dict[int, RecordedFunction], key: Callable[[RecordedFunction], tuple[str, ...]]
) -> dict[tuple[str, ...], list[int]]:
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, function in functions.items():
        groups[key(function)].append(number)
    return groups


def _pair(
    numbers: Sequence[int], others: Sequence[int], before: ProcessOutputs, after: ProcessOutputs
) -> list[tuple[int, int]]:
    def old_line(number: int) -> tuple[int, int]:
        return before.functions[number].line, number

    def new_line(number: int) -> tuple[int, int]:
        return after.functions[number].line, number

    first, second = sorted(numbers, key=old_line), sorted(others, key=new_line)
    if len(first) == len(second):  # lines that moved may coincide with another function's
        return list(zip(first, second, strict=True))
    same_line: list[tuple[int, int]] = []
    for one in list(first):
        other = next((each for each in second if new_line(each)[0] == old_line(one)[0]), None)
        if other is not None:
            same_line.append((one, other))
            first.remove(one)
            second.remove(other)
    return same_line + list(zip(first, second, strict=False))
