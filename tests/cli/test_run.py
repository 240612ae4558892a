"""``run`` as a process: what belongs to the program stays the program's."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recompile_doctor.bundle import bundle_root, find_bundle

DOCTOR = [sys.executable, "-m", "recompile_doctor"]
SHOW = "import json, sys; json.dump([sys.argv, sys.stdin.read()], sys.stderr)"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "show.py").write_text(SHOW)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "show.py").write_text(SHOW)
    return tmp_path


def doctor_run(project: Path, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*DOCTOR, "run", *arguments],
        cwd=project,
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--epochs", "1", "--help"],
        ["--name", "theirs", "--version", "-m", "x"],
        ["--", "-x", "", "a b", "'\"$\\", "ü"],
    ],
)
def test_arguments_and_input_reach_a_script_untouched(project: Path, words: list[str]) -> None:
    """After the script everything is the program's, whatever it looks like."""
    result = doctor_run(project, "--name", "ours", "show.py", *words, text="input ü")
    assert json.loads(result.stderr) == [["show.py", *words], "input ü"]
    assert result.returncode == 0
    assert find_bundle(bundle_root(project), "ours").manifest.command[1:] == ("show.py", *words)


@pytest.mark.parametrize("spelling", [["-m", "package.show"], ["-mpackage.show"]])
def test_a_module_is_run_as_python_does(project: Path, spelling: list[str]) -> None:
    """``-m`` ends our options, as it ends Python's."""
    result = doctor_run(project, "--quiet", *spelling, "--help", "-m")
    arguments, _ = json.loads(result.stderr)
    assert Path(arguments[0]).name == "show.py"
    assert arguments[1:] == ["--help", "-m"]


def test_any_command_is_run_after_two_dashes(project: Path) -> None:
    """What stands after ``--`` is started as it is."""
    result = doctor_run(project, "--", "sh", "-c", 'echo "$0 $1" >&2; exit 9', "a", "--", "b")
    assert (result.returncode, result.stderr) == (9, "a --\n")


def test_the_report_goes_to_standard_output_after_the_programs(project: Path) -> None:
    """The program's own output stands first and as it was, with nothing added to its stderr."""
    result = doctor_run(project, "--", "sh", "-c", "echo out; echo err >&2")
    first, report = result.stdout.split("\n", 1)
    assert (first, result.stderr) == ("out", "err\n")
    assert report


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("raise SystemExit(0)", 0),
        ("raise SystemExit(7)", 7),
        ("import os; os._exit(3)", 3),
        ("import os; os.kill(os.getpid(), 9)", 137),
        ("import os; os.kill(os.getpid(), 11)", 139),
        ("import os; os.abort()", 134),
    ],
)
def test_the_status_is_the_programs(project: Path, script: str, status: int) -> None:
    """Its own, or 128 + the signal that killed it; the bundle is kept in each case."""
    (project / "end.py").write_text(script)
    assert doctor_run(project, "--name", "a", "end.py").returncode == status
    manifest = find_bundle(bundle_root(project), "a").manifest
    assert manifest.exit_code == status
    assert manifest.complete == (status < 128)


def test_python_chooses_the_interpreter(project: Path) -> None:
    """``--python`` is what runs a script or a module."""
    result = doctor_run(project, "--python", "/bin/echo", "show.py", "x")
    assert result.stdout.startswith("show.py x\n")


def test_a_name_that_is_taken_is_refused_before_the_program_runs(project: Path) -> None:
    """The second run under one name starts nothing."""
    (project / "mark.py").write_text("open('ran', 'a').write('x')")
    assert doctor_run(project, "--name", "a", "mark.py").returncode == 0
    second = doctor_run(project, "--name", "a", "mark.py")
    assert (second.returncode, (project / "ran").read_text()) == (3, "x")
    assert "bundle-exists" in second.stderr


def test_sigterm_reaches_the_program_and_its_status_comes_back(project: Path) -> None:
    """A batch system that ends the job ends the program, and the report is still made."""
    (project / "wait.py").write_text(
        """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
pathlib.Path("ready").touch()
time.sleep(30)
"""
    )
    process = subprocess.Popen(
        [*DOCTOR, "run", "wait.py"], cwd=project, stdout=subprocess.PIPE, text=True
    )
    wait_for(project / "ready")
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 5
    assert output


def test_ctrl_c_in_a_terminal_reaches_the_program_once_and_keeps_the_bundle(
    project: Path,
) -> None:
    """The terminal interrupts both; the program ends as it likes, and we report after it."""
    (project / "wait.py").write_text(
        """
import pathlib, time
pathlib.Path("ready").touch()
count = 0
for _ in range(100):
    try:
        time.sleep(0.05)
    except KeyboardInterrupt:
        count += 1
        pathlib.Path("interrupted").write_text(str(count))
        if count == 2:
            raise
"""
    )
    process, terminal = start_in_terminal(project, "run", "--name", "a", "wait.py")
    wait_for(project / "ready")
    os.write(terminal, b"\x03")
    wait_for(project / "interrupted")
    time.sleep(0.2)
    assert (project / "interrupted").read_text() == "1"
    os.write(terminal, b"\x03")
    output = read_all(terminal)
    assert process.wait(timeout=30) == 130
    assert "cut short" in output
    manifest = find_bundle(bundle_root(project), "a").manifest
    assert (manifest.complete, manifest.cut_short_reason) == (False, "interrupted with SIGINT")


COUNT_INTERRUPTS = """
import pathlib, time
pathlib.Path("ready").touch()
count = 0
end = time.monotonic() + 1
while time.monotonic() < end:
    try:
        time.sleep(0.05)
    except KeyboardInterrupt:
        count += 1
pathlib.Path("interrupted").write_text(str(count))
"""


def test_sigint_from_elsewhere_reaches_the_program_too(project: Path) -> None:
    """Without a terminal, and in one that did not send it: once, and the run is a whole one."""
    (project / "wait.py").write_text(COUNT_INTERRUPTS)
    process = subprocess.Popen([*DOCTOR, "run", "wait.py"], cwd=project, stdout=subprocess.PIPE)
    wait_for(project / "ready")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert (process.returncode, (project / "interrupted").read_text()) == (0, "1")
    assert find_bundle(bundle_root(project), "latest").manifest.complete

    (project / "ready").unlink()
    process, terminal = start_in_terminal(project, "run", "wait.py")
    wait_for(project / "ready")
    process.send_signal(signal.SIGINT)
    read_all(terminal)
    assert (process.wait(timeout=30), (project / "interrupted").read_text()) == (0, "1")


def test_the_end_of_the_terminal_ends_the_program_and_is_the_status(project: Path) -> None:
    """A connection that breaks leaves no program behind, and 128 + SIGHUP."""
    (project / "wait.py").write_text(
        "import os, pathlib, time\n"
        "pathlib.Path('pid').write_text(str(os.getpid()))\n"
        "pathlib.Path('ready').touch()\n"
        "time.sleep(60)\n"
    )
    process, terminal = start_in_terminal(project, "run", "wait.py")
    wait_for(project / "ready")
    time.sleep(0.7)  # so that the title has been written to the terminal
    os.close(terminal)
    assert process.wait(timeout=30) == 129
    with pytest.raises(ProcessLookupError):
        os.kill(int((project / "pid").read_text()), 0)
    assert find_bundle(bundle_root(project), "latest").manifest.signal == "SIGHUP"


def test_progress_leaves_nothing_on_the_terminals_screen(project: Path) -> None:
    """In a terminal the progress is in its title; the text is what the program wrote."""
    (project / "slow.py").write_text(
        """
import sys, time
for number in range(4):
    print("step", number, end="\\r" if number % 2 else "\\n", flush=True)
    print("\\x1b[31mred\\x1b[0m", file=sys.stderr)
    time.sleep(0.4)
"""
    )
    process, terminal = start_in_terminal(project, "run", "slow.py")
    output = read_all(terminal)
    assert process.wait(timeout=30) == 0
    assert "compilations in" in output
    screen = re.sub(r"\x1b\]0;[^\x07]*\x07|\x1b\[2[23];0t", "", output)
    expected = "".join(
        f"step {number}" + ("\r" if number % 2 else "\r\n") + "\x1b[31mred\x1b[0m\r\n"
        for number in range(4)
    )
    assert screen.startswith(expected)
    assert "compilations in" not in screen


@pytest.mark.parametrize(("term", "flag"), [("dumb", "--name=a"), ("xterm", "--quiet")])
def test_no_progress_where_it_could_be_seen_as_text(project: Path, term: str, flag: str) -> None:
    """A terminal that takes no titles gets none, and ``--quiet`` is quiet."""
    process, terminal = start_in_terminal(project, "run", flag, "show.py", term=term)
    os.write(terminal, b"\x04")
    assert "\x1b]0;" not in read_all(terminal)
    assert process.wait(timeout=30) == 0


def start_in_terminal(
    project: Path, *arguments: str, term: str = "xterm-256color"
) -> tuple[subprocess.Popen[bytes], int]:
    """Start the tool as the foreground job of a new terminal."""
    terminal, other_end = pty.openpty()
    process = subprocess.Popen(
        # A new session, whose controlling terminal becomes the one that is opened first.
        [
            sys.executable,
            "-c",
            "import os, sys; os.close(os.open(os.ttyname(0), os.O_RDWR));"
            "os.execv(sys.argv[1], sys.argv[1:])",
            *DOCTOR,
            *arguments,
        ],
        cwd=project,
        env={**os.environ, "TERM": term},
        stdin=other_end,
        stdout=other_end,
        stderr=other_end,
        start_new_session=True,
    )
    os.close(other_end)
    return process, terminal


def read_all(terminal: int) -> str:
    data = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # Linux says EIO when the last process has closed the terminal
            piece = b""
        if not piece:
            os.close(terminal)
            return data.decode()
        data += piece


def wait_for(path: Path) -> None:
    for _ in range(1500):
        if path.exists():
            return
        time.sleep(0.02)
    raise AssertionError(f"{path} did not appear")
