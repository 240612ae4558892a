"""What the calls that the probe saw make a reader beware of, where the logs alone do not tell."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath

from recompile_doctor.capture.calls import CalledFunction, CalledProcess, Calls, FunctionKey
from recompile_doctor.model.run import Run
from recompile_doctor.reports.document import Notice, NoticeKind
from recompile_doctor.reports.words import counted

_MOST_NAMED = 5


def call_notices(calls: Calls, run: Run, told: Collection[int] = ()) -> Iterator[Notice]:
    """Yield where the probe's calls and the logs tell different stories.

    ``told`` are the processes whose missing logs another notice is about.
    """
    for unread in calls.unread:
        yield Notice(
            NoticeKind.NOTE,
            "calls-unread",
            f"the calls in {unread.path.name} could not be read ({unread.reason}); they are not "
            "counted",
        )
    for process in calls.processes:
        if process.pid not in told:
            yield from _unlogged(process, run)
    totals = _totals(calls.functions)
    raised = {key: total for key, total in totals.items() if total.raised_calls}
    if raised:
        named = [f"{each.raised_calls} of {_calls_of(key, each)}" for key, each in raised.items()]
        yield Notice(
            NoticeKind.NOTE,
            "calls-raised",
            f"an exception came from {_listed(named)}; the program may have caught it",
        )
    plain = {
        key: total
        for key, total in totals.items()
        if total.calls and not total.compiled_calls and not _is_logged(key, run)
    }
    if plain:
        named = [_calls_of(key, total) for key, total in plain.items()]
        yield Notice(
            NoticeKind.NOTE,
            "calls-not-compiled",
            f"torch compiled nothing in {_listed(named)}, and the logs have no compile of what was "
            "called: it ran as plain Python",
        )


def _unlogged(process: CalledProcess, run: Run) -> Iterator[Notice]:
    """Yield a warning where torch compiled in a process of which the logs hold no compile."""
    compiled = sum(each.compiled_calls for each in process.functions)
    if compiled and not any(each.key.process == str(process.pid) for each in run.compilations):
        yield Notice(
            NoticeKind.WARNING,
            "logging-silenced",
            f"torch compiled during {counted(compiled, 'call')} in process {process.pid}, and the "
            "logs hold no compile of that process: its logging was silenced, or its log was lost",
        )


@dataclass(slots=True)
class _Total:
    """The calls of one function over all processes."""

    calls: int = 0
    compiled_calls: int = 0
    raised_calls: int = 0


def _totals(functions: Iterable[CalledFunction]) -> dict[FunctionKey, _Total]:
    totals: dict[FunctionKey, _Total] = {}
    for each in functions:
        total = totals.setdefault(each.key, _Total())
        total.calls += each.calls
        total.compiled_calls += each.compiled_calls
        total.raised_calls += each.raised_calls
    return totals


def _is_logged(key: FunctionKey, run: Run) -> bool:
    """Return whether torch tried to compile a function; a patch or a wrapper may move its line."""
    return any(
        (each.frame.function, each.frame.file) == (key.function, key.file)
        for each in run.compilations
    )


def _calls_of(key: FunctionKey, total: _Total) -> str:
    return (
        f"{counted(total.calls, 'call')} of {key.qualname} ({PurePath(key.file).name}:{key.line})"
    )


def _listed(named: list[str]) -> str:
    more = len(named) - _MOST_NAMED
    return ", ".join(named[:_MOST_NAMED]) + (f" and {more} more functions" if more > 0 else "")
