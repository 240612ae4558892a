"""Where the probe's calls and the logs tell different stories."""

from dataclasses import replace
from pathlib import Path

from recompile_doctor.capture.calls import CalledFunction, CalledProcess, Calls, UnreadCalls
from recompile_doctor.reports.call_notices import call_notices
from recompile_doctor.reports.document import NoticeKind
from tests.diagnosis.handmade import Maker
from tests.prescription.called import called

COMPILED = called("forward", ({"L['x']": (4,)}, 12), compiled=1)
PLAIN = called("step", ({"L['x']": (4,)}, 12), compiled=0, line=30)


def slugs(
    *functions: CalledFunction, pid: int = 7, told: frozenset[int] = frozenset()
) -> list[str]:
    maker = Maker()  # its process is 7
    maker.compile("0/0", sizes={"L['x']": (4,)})
    calls = Calls((CalledProcess(pid, True, functions),))
    return [each.slug for each in call_notices(calls, maker.run(), told)]


def test_calls_that_agree_with_the_logs_need_no_notice() -> None:
    """Also a process that compiled nothing and called nothing."""
    assert slugs(COMPILED) == []
    assert slugs(pid=8) == []


def test_a_function_that_was_called_and_never_compiled_is_named() -> None:
    """Once, with all its calls; not when another process or callable compiled it."""
    assert slugs(COMPILED, PLAIN) == ["calls-not-compiled"]
    assert slugs(COMPILED, PLAIN, replace(PLAIN, compiled_calls=1)) == []
    (notice,) = call_notices(Calls((CalledProcess(7, True, (PLAIN, PLAIN)),)), Maker().run())
    assert notice.kind is NoticeKind.NOTE
    assert "24 calls of step (train.py:30)" in notice.text


def test_a_function_that_torch_tried_to_compile_is_not_called_plain() -> None:
    """A compile that failed is in the logs; a graph that another callable made serves too."""
    assert slugs(called("forward", ({"L['x']": (4,)}, 12), compiled=0)) == []


def test_compiles_in_a_process_without_a_log_are_a_warning() -> None:
    """The gate takes it for a doubt, unless torch's own count has told of it already."""
    assert slugs(COMPILED, pid=8) == ["logging-silenced"]
    assert slugs(COMPILED, pid=8, told=frozenset({8})) == []


def test_calls_that_raised_are_told() -> None:
    """Nothing in a log tells of them when the program goes on."""
    raised = replace(COMPILED, raised_calls=2)
    calls = Calls((CalledProcess(7, True, (raised, raised)),))
    maker = Maker()
    maker.compile("0/0")
    (notice,) = call_notices(calls, maker.run())
    assert notice.slug == "calls-raised"
    assert "4 of 24 calls of forward (train.py:3)" in notice.text


def test_a_damaged_file_is_named() -> None:
    """The reader of the report learns that some calls are not counted."""
    calls = Calls(unread=(UnreadCalls(Path("/run/probe/7.calls.json"), "it is cut"),))
    (notice,) = call_notices(calls, Maker().run())
    assert notice.slug == "calls-unread"
    assert "7.calls.json" in notice.text
    assert "it is cut" in notice.text
