"""Real processes: streams, status, signals, progress."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from recompile_doctor.capture.launch import Outcome, TraceProgress, launch
from recompile_doctor.errors import DoctorError


def run_python(code: str, cwd: Path, **options: float) -> Outcome:
    return launch([sys.executable, "-c", code], dict(os.environ), cwd, **options)


def when_there(path: Path, action: Callable[[], None]) -> None:
    """Call ``action`` in a thread once the child has made ``path``."""

    def wait() -> None:
        for _ in range(500):
            if path.exists():
                action()
                return
            time.sleep(0.02)

    threading.Thread(target=wait, daemon=True).start()


@pytest.mark.parametrize("status", [0, 1, 3, 255])
def test_exit_status_is_the_programs(tmp_path: Path, status: int) -> None:
    """A program that ends by itself gives its own status and is not cut short."""
    outcome = run_python(f"raise SystemExit({status})", tmp_path)
    assert (outcome.exit_code, outcome.signal) == (status, None)
    assert outcome.cut_short_reason is None


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM"])
def test_a_killed_program_has_the_shells_status(tmp_path: Path, name: str) -> None:
    """Death by a signal is 128 + its number, with its name as the reason."""
    outcome = run_python(f"import os, signal; os.kill(os.getpid(), signal.{name})", tmp_path)
    assert outcome.exit_code == 128 + signal.Signals[name]
    assert outcome.cut_short_reason == f"killed by {name}"


def test_os_exit_is_an_end_like_any_other(tmp_path: Path) -> None:
    """A program that leaves without cleaning up has ended by itself."""
    assert run_python("import os; os._exit(5)", tmp_path).exit_code == 5


def test_wall_seconds_are_measured(tmp_path: Path) -> None:
    """The time is that of the child, from start to end."""
    assert 0.3 <= run_python("import time; time.sleep(0.3)", tmp_path).wall_seconds < 30


@pytest.mark.parametrize(
    "name",
    ["SIGTERM", "SIGUSR1", "SIGHUP", "SIGINT", "SIGQUIT", "SIGALRM", "SIGXCPU", "SIGRTMIN"],
)
def test_signals_sent_to_us_reach_the_program(tmp_path: Path, name: str) -> None:
    """A signal is passed on, and the program decides what it means."""
    code = f"""
import pathlib, signal, time
signal.signal(signal.{name}, lambda *_: (_ for _ in ()).throw(SystemExit(7)))
pathlib.Path("ready").touch()
time.sleep(30)
"""
    number = signal.Signals[name]
    before = signal.getsignal(number)
    when_there(tmp_path / "ready", lambda: os.kill(os.getpid(), number))
    assert run_python(code, tmp_path).exit_code == 7
    assert signal.getsignal(number) == before


@pytest.mark.parametrize(("status", "reason"), [(0, None), (5, "interrupted with SIGINT")])
def test_a_program_that_sigint_ends_well_is_not_cut_short(
    tmp_path: Path, status: int, reason: str | None
) -> None:
    """SIGINT sent to us is passed on, and a program that then ends with 0 ended by itself."""
    code = f"""
import pathlib, time
try:
    pathlib.Path("ready").touch()
    time.sleep(30)
except KeyboardInterrupt:
    raise SystemExit({status})
"""
    when_there(tmp_path / "ready", lambda: os.kill(os.getpid(), signal.SIGINT))
    outcome = run_python(code, tmp_path)
    assert (outcome.exit_code, outcome.cut_short_reason) == (status, reason)


def test_inherited_descriptors_are_the_programs_and_ours_are_not(tmp_path: Path) -> None:
    """A pipe of `<(command)` can be read; a file that we have open cannot."""
    reading, writing = os.pipe()
    os.write(writing, b"data")
    os.close(writing)
    os.set_inheritable(reading, True)
    with (tmp_path / "ours").open("w") as ours:
        code = f"""
import os
assert os.read({reading}, 9) == b"data"
try:
    os.fstat({ours.fileno()})
except OSError:
    raise SystemExit(7)
"""
        assert run_python(code, tmp_path).exit_code == 7
    os.close(reading)


def test_a_time_limit_ends_the_program(tmp_path: Path) -> None:
    """A program over its limit gets SIGTERM, and the outcome says why."""
    outcome = run_python("import time; time.sleep(60)", tmp_path, timeout=0.6)
    assert outcome.cut_short_reason == "the time limit was reached"
    assert outcome.exit_code == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("command", "slug"),
    [
        ([], "no-program"),
        ([""], "no-program"),
        (["no-such-program-here"], "program-not-found"),
        (["./missing"], "program-not-found"),
        (["./folder"], "program-not-executable"),
        (["./plain.txt"], "program-not-executable"),
        (["./no-shebang"], "program-not-started"),
        (["a\0b"], "program-not-started"),
    ],
)
def test_a_command_that_cannot_start_is_an_expected_error(
    tmp_path: Path, command: list[str], slug: str
) -> None:
    """Each way of not starting has its own name."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "plain.txt").write_text("text")
    (tmp_path / "no-shebang").write_bytes(b"\0\1\2")
    (tmp_path / "no-shebang").chmod(0o755)
    with pytest.raises(DoctorError) as caught:
        launch(command, dict(os.environ), tmp_path)
    assert caught.value.slug == slug


def test_progress_counts_only_new_files_and_whole_lines(tmp_path: Path) -> None:
    """The counts grow with the files, also when a record arrives in pieces."""
    (tmp_path / "old.log").write_text('{"artifact": {"name": "recompile_reasons"}}\n')
    progress = TraceProgress(tmp_path)
    path = tmp_path / "new.log"
    path.write_text('V1 {"dynamo_start": {}}\nV1 {"artifact": {"name": "recompile_rea')
    progress.update()
    assert (progress.recompiles, progress.compilations) == (0, 1)
    with path.open("a") as file:
        file.write('sons"}}\nV1 {"dynamo_start": {}}\n')
    progress.update()
    progress.update()
    assert (progress.recompiles, progress.compilations) == (1, 2)


def test_progress_of_a_folder_that_is_not_there_is_zero(tmp_path: Path) -> None:
    """Before the first compilation there is no folder, and that is no error."""
    progress = TraceProgress(tmp_path / "later")
    progress.update()
    assert (progress.recompiles, progress.compilations) == (0, 0)


def test_on_progress_is_called_while_the_program_runs(tmp_path: Path) -> None:
    """The numbers arrive about twice a second."""
    (tmp_path / "t").mkdir()
    seen: list[tuple[int, int]] = []
    code = """
import pathlib, time
pathlib.Path("t/a.log").write_text('V1 {"dynamo_start": {}}\\n')
time.sleep(1.4)
"""
    launch(
        [sys.executable, "-c", code],
        {**os.environ, "TORCH_TRACE": "t"},
        tmp_path,
        lambda recompiles, compilations, seconds: seen.append((recompiles, compilations)),
    )
    assert 1 <= len(seen) <= 4
    assert seen[-1] == (0, 1)
