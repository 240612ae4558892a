"""Exceptions of the program's signal handlers, told from failures of ours."""

import functools
import logging
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from recompile_doctor.bundle import bundle_root, create_bundle
from recompile_doctor.capture.probe.foreign import is_from_signal_handler
from recompile_doctor.capture.probe.marks import _Marks
from recompile_doctor.capture.probe.torch_logs import ProcessFile, quiet_trace


def late(*given: object) -> NoReturn:
    raise TimeoutError("late")


def with_names(number: int, frame: object) -> NoReturn:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    late()


def with_any(*given: object) -> NoReturn:
    with_names(*given)  # type: ignore[arg-type]


class Alarm:
    def __call__(self, number: int, frame: object) -> NoReturn:
        late()

    def method(self, number: int, frame: object) -> NoReturn:
        late()


@functools.wraps(late)
def wrapped(*given: object) -> NoReturn:
    late()


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.signal(signal.SIGALRM, before)


def caught(action: Callable[[], object]) -> bool:
    try:
        action()
    except (TimeoutError, ZeroDivisionError) as error:
        return is_from_signal_handler(error)
    raise AssertionError("nothing was raised")


def ring() -> None:
    signal.raise_signal(signal.SIGALRM)


@pytest.mark.parametrize(
    "handler",
    [
        late,
        wrapped,
        Alarm(),
        Alarm().method,
        functools.partial(late, 1),
        lambda number, frame: late(),
        with_names,
        with_any,
    ],
)
def test_what_a_handler_raises_is_the_program_s(handler: Callable[..., Any]) -> None:
    """However it is written, and though it has put another one in its place."""
    signal.signal(signal.SIGALRM, handler)
    assert caught(ring)


def test_other_failures_are_ours() -> None:
    """Of the same kind, and where the program has a handler that was not called."""
    signal.signal(signal.SIGALRM, Alarm())
    assert not caught(late)
    assert not caught(lambda: 1 / 0)
    assert not caught(lambda: with_names(14, None))
    assert not is_from_signal_handler(TimeoutError())


class Interrupted(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        ring()
        return "x"


def test_a_log_line_does_not_swallow_an_alarm(tmp_path: Path) -> None:
    """What the handler raises gets past the text log, and is no failure to note."""
    signal.signal(signal.SIGALRM, late)
    file = ProcessFile(str(tmp_path), pytest.fail)
    file.setFormatter(Interrupted())
    with pytest.raises(TimeoutError, match="late"):
        file.handle(logging.makeLogRecord({"msg": "x"}))


def test_a_trace_does_not_swallow_an_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """logging itself catches what is raised while a record is written."""
    bundle = create_bundle(bundle_root(tmp_path), "run")
    monkeypatch.setenv("RECOMPILE_DOCTOR_BUNDLE", str(bundle.path))
    signal.signal(signal.SIGALRM, late)
    with (tmp_path / "trace.log").open("w") as stream:
        handler: Any = logging.StreamHandler(stream)
        handler.root_dir = str(bundle.trace_directory)
        handler.setFormatter(Interrupted())
        quiet_trace(handler, pytest.fail)
        with pytest.raises(TimeoutError, match="late"):
            handler.handle(logging.makeLogRecord({"msg": "x"}))


def test_a_mark_does_not_swallow_an_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch does not compile then, as if the alarm had come before."""
    bundle = create_bundle(bundle_root(tmp_path), "run")
    monkeypatch.setenv("RECOMPILE_DOCTOR_BUNDLE", str(bundle.path))
    signal.signal(signal.SIGALRM, late)

    class Holder:
        @property
        def x(self) -> None:
            ring()

    names = ("source", "dim", "kind", "function", "file", "line")
    mark = {**dict.fromkeys(names), "root": "self", "path": [["attribute", "x"]]}
    compiler = SimpleNamespace(_compile=lambda *given: pytest.fail("it was compiled"))
    _Marks({"marks": [mark], "config": {}}, pytest.fail).start(compiler)
    with pytest.raises(TimeoutError, match="late"):
        compiler._compile(late.__code__, {}, {"self": Holder()})
