"""Reruns: each is a bundle, none is repeated, and whoever ends verify ends what it started."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recompile_doctor.errors import DoctorError, ExitCode
from recompile_doctor.prescription.prescription_file import Trial
from recompile_doctor.verification.rerun import (
    Applying,
    InterruptedVerify,
    Order,
    Program,
    Rerunner,
    digest_of,
)
from recompile_doctor.verification.trial_run import Ending

COUNTING = """
import os, sys
with open("count", "a") as file:
    file.write("x")
print("out", os.environ.get("TORCH_COMPILE_UNBACKED_SOURCES"))
print("err", file=sys.stderr)
"""
RECOMPILING = """
import os, pathlib, time
log = pathlib.Path(os.environ["TORCH_TRACE"]) / "trace.log"
for _ in range(5):
    with log.open("a") as file:
        file.write('V {"artifact": {"name": "recompile_reasons"}}\\n')
time.sleep(60)
"""
SLEEPING = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path("child").write_text(str(child.pid))
time.sleep(60)
"""
MARKED = Applying(Trial("a", environment={"TORCH_COMPILE_UNBACKED_SOURCES": "L['x']:0"}))


def rerunner(folder: Path, source: str, **options: object) -> Rerunner:
    script = folder / "program.py"
    script.write_text(source)
    timeout = options.pop("timeout", None)
    program = Program(
        (sys.executable, str(script)),
        folder,
        dict(os.environ),
        digest_of([script]),
        timeout=timeout,  # type: ignore[arg-type]
    )
    return Rerunner(program, folder / "trials", **options)  # type: ignore[arg-type]


def times_run(folder: Path) -> int:
    path = folder / "count"
    return len(path.read_text()) if path.exists() else 0


def gone_pid() -> int:
    """Return the number of a process that has ended."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def cut_off(bundle: Path, **pids: int) -> None:
    """Leave a bundle as a verify does that is killed while the program runs."""
    (bundle / "trial.json").unlink(missing_ok=True)
    (bundle / "running.json").write_text(json.dumps(pids))


def gone(pid: int) -> bool:
    """Return whether a process ends within some seconds."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if Path(f"/proc/{pid}/stat").exists() and " Z " in Path(f"/proc/{pid}/stat").read_text():
            return True
        time.sleep(0.1)
    return False


def test_a_run_is_a_bundle_with_what_the_program_wrote(tmp_path: Path) -> None:
    made = rerunner(tmp_path, COUNTING).run(Order("01-a", MARKED))
    assert made.bundle.path == tmp_path / "trials" / "01-a"
    assert made.ending is Ending.WHOLE
    assert not made.reused
    assert made.stdout.read_text() == "out L['x']:0\n"
    assert made.errors() == "err\n"
    assert made.bundle.manifest.prescription == "a"
    assert made.bundle.manifest.exit_code == 0


def test_a_finished_run_is_not_repeated(tmp_path: Path) -> None:
    rerunner(tmp_path, COUNTING).run(Order("01-a", MARKED))
    again = rerunner(tmp_path, COUNTING).run(Order("05-other-name", MARKED))
    assert again.reused
    assert again.bundle.name == "01-a"
    assert times_run(tmp_path) == 1


def test_baselines_are_runs_of_their_own(tmp_path: Path) -> None:
    runs = rerunner(tmp_path, COUNTING)
    runs.run_all([Order("baseline-1"), Order("baseline-2")])
    assert times_run(tmp_path) == 2


@pytest.mark.parametrize("what", ["program", "change", "environment", "fresh"])
def test_what_changes_the_run_makes_it_run_again(tmp_path: Path, what: str) -> None:
    rerunner(tmp_path, COUNTING).run(Order("01-a", MARKED))
    change = MARKED
    source = COUNTING
    if what == "program":
        source += "# edited\n"
    if what == "change":
        change = Applying(Trial("a", environment={"TORCH_COMPILE_UNBACKED_SOURCES": "L['y']:0"}))
    runs = rerunner(tmp_path, source, fresh=what == "fresh")
    if what == "environment":
        runs.program.base["TORCH_COMPILE_DISABLE"] = "1"  # type: ignore[index]
    assert not runs.run(Order("01-a", change)).reused
    assert times_run(tmp_path) == 2


def test_a_run_that_was_cut_off_is_removed_and_made_again(tmp_path: Path) -> None:
    made = rerunner(tmp_path, COUNTING).run(Order("01-a", MARKED))
    cut_off(made.bundle.path, program=gone_pid(), verify=gone_pid())
    runs = rerunner(tmp_path, COUNTING)
    assert not made.bundle.path.exists()
    assert runs.run(Order("01-a", MARKED)).bundle.path == made.bundle.path
    assert times_run(tmp_path) == 2


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 1}', '{"format": 99}', "null"])
def test_a_damaged_note_counts_as_none(tmp_path: Path, content: str) -> None:
    made = rerunner(tmp_path, COUNTING).run(Order("01-a", MARKED))
    (made.bundle.path / "trial.json").write_text(content)
    assert not rerunner(tmp_path, COUNTING).run(Order("01-a", MARKED)).reused


@pytest.mark.parametrize("alive", ["program", "verify"])
def test_a_run_that_somebody_still_works_on_keeps_its_bundle(tmp_path: Path, alive: str) -> None:
    """A kill leaves the program behind; another verify may be about to write its note."""
    made = rerunner(tmp_path, COUNTING).run(Order("01-a", MARKED))
    pids = {"program": gone_pid(), "verify": gone_pid(), alive: os.getpid()}
    cut_off(made.bundle.path, **pids)
    again = rerunner(tmp_path, COUNTING).run(Order("01-a", MARKED))
    assert made.bundle.path.exists()
    assert again.bundle.path != made.bundle.path


def test_what_is_not_ours_is_never_removed(tmp_path: Path) -> None:
    """Nor what lies behind a link: the user may have put the trials on a larger disk."""
    rerunner(tmp_path, COUNTING).run(Order("01-a", MARKED))
    notes = tmp_path / "trials" / "my-notes"
    notes.mkdir()
    (notes / "gold.txt").write_text("gold")
    rerunner(tmp_path, COUNTING)
    assert (notes / "gold.txt").exists()

    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "trials").rename(elsewhere)
    (tmp_path / "trials").symlink_to(elsewhere)
    cut_off(elsewhere / "01-a", program=gone_pid(), verify=gone_pid())
    rerunner(tmp_path, COUNTING)
    assert (elsewhere / "01-a").exists()


def test_a_pipe_in_the_place_of_a_note_is_not_waited_for(tmp_path: Path) -> None:
    made = rerunner(tmp_path, COUNTING).run(Order("01-a", MARKED))
    (made.bundle.path / "trial.json").unlink()
    os.mkfifo(made.bundle.path / "trial.json")
    os.mkfifo(made.bundle.path / "running.json")
    assert not rerunner(tmp_path, COUNTING).run(Order("01-a", MARKED)).reused


def test_a_trial_ends_as_soon_as_it_cannot_win(tmp_path: Path) -> None:
    started = time.monotonic()
    made = rerunner(tmp_path, RECOMPILING).run(Order("01-a", MARKED, most=4))
    assert made.ending is Ending.STOPPED_EARLY
    assert made.stopped_because == "ended early with 5 recompiles, where 4 is the best so far"
    assert time.monotonic() - started < 30
    assert made.bundle.manifest.complete is False


@pytest.mark.parametrize(("most", "reused"), [(4, True), (2, True), (9, False), (None, False)])
def test_a_run_that_was_ended_early_answers_only_what_it_can(
    tmp_path: Path, most: int | None, reused: bool
) -> None:
    source = RECOMPILING.replace(
        "sleep(60)", "sleep(60 if not pathlib.Path('quick').exists() else 0)"
    )
    rerunner(tmp_path, source).run(Order("01-a", MARKED, most=4))
    (tmp_path / "quick").touch()
    assert rerunner(tmp_path, source).run(Order("01-a", MARKED, most=most)).reused is reused


@pytest.mark.parametrize(("seconds", "reused"), [(1.0, True), (60.0, False), (None, False)])
def test_more_time_gives_a_run_another_chance(
    tmp_path: Path, seconds: float | None, reused: bool
) -> None:
    source = "import pathlib, time\ntime.sleep(0 if pathlib.Path('quick').exists() else 60)\n"
    rerunner(tmp_path, source, timeout=1.0).run(Order("01-a", MARKED))
    (tmp_path / "quick").touch()
    again = rerunner(tmp_path, source, timeout=seconds).run(Order("01-a", MARKED))
    assert again.reused is reused


def test_a_baseline_that_failed_is_tried_again(tmp_path: Path) -> None:
    source = "import pathlib\nraise SystemExit(not pathlib.Path('data').exists())\n"
    assert rerunner(tmp_path, source).run(Order("baseline-1")).bundle.manifest.exit_code == 1
    (tmp_path / "data").touch()
    again = rerunner(tmp_path, source).run(Order("baseline-1"))
    assert not again.reused
    assert again.bundle.manifest.exit_code == 0


def test_a_trial_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    made = rerunner(tmp_path, SLEEPING, timeout=3.0).run(Order("01-a", MARKED))
    assert made.ending is Ending.TIMED_OUT
    assert gone(int((tmp_path / "child").read_text()))


def test_several_jobs_run_at_a_time_and_keep_their_order(tmp_path: Path) -> None:
    source = """
import os, pathlib, time
me = os.environ["TORCH_COMPILE_UNBACKED_SOURCES"]
pathlib.Path(me).touch()
for _ in range(200):
    if pathlib.Path("a").exists() and pathlib.Path("b").exists():
        raise SystemExit(0)
    time.sleep(0.05)
raise SystemExit(1)
"""
    orders = [
        Order(name, Applying(Trial(name, environment={"TORCH_COMPILE_UNBACKED_SOURCES": name})))
        for name in ("a", "b")
    ]
    made = rerunner(tmp_path, source, jobs=2).run_all(orders)
    assert [each.bundle.name for each in made] == ["a", "b"]
    assert [each.bundle.manifest.exit_code for each in made] == [0, 0]


def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    program = Program(("/nowhere/python",), tmp_path, {}, "")
    with pytest.raises(DoctorError) as caught:
        Rerunner(program, tmp_path / "trials").run(Order("01-a"))
    assert caught.value.slug == "program-not-found"


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="POSIX signals")
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("stubborn", [False, True])
def test_who_ends_verify_ends_the_run(tmp_path: Path, jobs: int, name: str, stubborn: bool) -> None:
    """In a process of its own: signals come to the main thread."""
    ignoring = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" if stubborn else ""
    script = f"""
import sys
from pathlib import Path
from recompile_doctor.verification.rerun import InterruptedVerify, Order
from tests.verification.test_rerun import SLEEPING, MARKED, rerunner
runs = rerunner(Path({str(tmp_path)!r}), {ignoring!r} + SLEEPING, jobs={jobs})
try:
    runs.run_all([Order("baseline-1"), Order("baseline-2")])
except InterruptedVerify as error:
    sys.exit(int(error.exit_code))
"""
    started = subprocess.Popen([sys.executable, "-c", script], cwd=Path(__file__).parents[2])
    for _ in range(300):
        if (tmp_path / "child").exists() and (tmp_path / "child").read_text():
            break
        time.sleep(0.05)
    started.send_signal(getattr(signal, name))
    assert started.wait(30) == ExitCode.INTERRUPTED
    assert gone(int((tmp_path / "child").read_text()))
    assert not list((tmp_path / "trials").glob("*/trial.json"))


def test_an_interrupted_verify_starts_nothing_more(tmp_path: Path) -> None:
    runs = rerunner(tmp_path, COUNTING)
    runs._end_children()
    with pytest.raises(InterruptedVerify):
        runs.run(Order("01-a", MARKED))
    assert times_run(tmp_path) == 0
