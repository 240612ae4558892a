"""``verify`` as a command, on programs that need no torch: what it refuses, and its statuses."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOL = [sys.executable, "-m", "recompile_doctor"]


def tool(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TOOL, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"},
    )


def captured(folder: Path, source: str) -> None:
    (folder / "program.py").write_text(source)
    tool("run", "--quiet", "--name", "it", "program.py", cwd=folder)


def test_without_a_run_there_is_nothing_to_verify(tmp_path: Path) -> None:
    done = tool("verify", cwd=tmp_path)
    assert done.returncode == 3
    assert "There is no run below" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_log_is_no_program(tmp_path: Path) -> None:
    log = ROOT / "fixtures" / "case-logs" / "51_attention_block"
    done = tool("verify", str(log), cwd=tmp_path)
    assert done.returncode == 3
    assert "docs/messages.md#nothing-to-rerun" in done.stderr


def test_kept_logs_are_no_program_either(tmp_path: Path) -> None:
    log = ROOT / "fixtures" / "case-logs" / "51_attention_block"
    tool("analyze", str(log), "--name", "kept", cwd=tmp_path)
    done = tool("verify", "kept", cwd=tmp_path)
    assert done.returncode == 3
    assert "docs/messages.md#nothing-to-rerun" in done.stderr


def test_a_prescription_and_a_patch_exclude_each_other(tmp_path: Path) -> None:
    done = tool("verify", "--patch", "--prescription", "p.yaml", cwd=tmp_path)
    assert done.returncode == 2


@pytest.mark.parametrize(
    "options",
    [
        ("--max-trials", "0"),
        ("--timeout", "0"),
        ("--timeout", "nan"),
        ("--jobs", "0"),
        ("--baseline-runs", "0"),
        ("--device-command", "ssh 'open"),
        ("--device-command", ""),
    ],
)
def test_options_without_sense_are_wrong_usage(tmp_path: Path, options: tuple[str, ...]) -> None:
    captured(tmp_path, "print('hello')\n")
    assert tool("verify", *options, cwd=tmp_path).returncode == 2


def test_a_program_that_fails_by_itself_is_told_apart(tmp_path: Path) -> None:
    captured(tmp_path, "raise SystemExit('no data here')\n")
    done = tool("verify", cwd=tmp_path)
    assert done.returncode == 4
    assert "The program as it is ends with exit code 1. It said: no data here" in done.stderr


def test_a_program_that_hangs_is_ended(tmp_path: Path) -> None:
    captured(tmp_path, "import os, time\ntime.sleep(0 if os.path.exists('.ran') else 0)\n")
    (tmp_path / "program.py").write_text("import time\ntime.sleep(60)\n")
    done = tool("verify", "--timeout", "2", cwd=tmp_path)
    assert done.returncode == 4
    assert "did not end within the time limit" in done.stderr


def test_a_program_without_torch_has_nothing_to_verify(tmp_path: Path) -> None:
    captured(tmp_path, "print('hello')\n")
    done = tool("verify", cwd=tmp_path)
    assert done.returncode == 3
    assert "docs/messages.md#nothing-compiled" in done.stderr
    assert "hello" not in done.stdout


def test_a_command_that_is_too_long_to_keep_is_not_run_cut(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("print('hello')\n")
    words = [f"{number:0100}" for number in range(4000)]
    tool("run", "--quiet", "--name", "it", "program.py", *words, cwd=tmp_path)
    done = tool("verify", cwd=tmp_path)
    assert done.returncode == 3
    assert "too long to be kept" in done.stderr


def test_a_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    captured(project, "print('hello')\n")
    (project / ".recompile-doctor" / "it").rename(tmp_path / "it")
    shutil.rmtree(project)
    done = tool("verify", str(tmp_path / "it"), cwd=tmp_path)
    assert done.returncode == 3
    assert f"{project}, where it was captured, is not there" in done.stderr


def test_a_damaged_prescription_stops_it_before_anything_runs(tmp_path: Path) -> None:
    captured(tmp_path, "print('hello')\n")
    (tmp_path / "p.yaml").write_text("prescription_version: 99\n")
    done = tool("verify", "--prescription", "p.yaml", cwd=tmp_path)
    assert done.returncode == 3
    assert "docs/messages.md#bad-prescription" in done.stderr
    assert not (tmp_path / ".recompile-doctor" / "it" / "trials").exists()


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupt_keeps_what_is_done(tmp_path: Path) -> None:
    captured(tmp_path, "print('hello')\n")
    (tmp_path / "program.py").write_text(
        "import pathlib, time\npathlib.Path('on').touch()\ntime.sleep(60)\n"
    )
    started = subprocess.Popen(
        [*TOOL, "verify"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    for _ in range(200):
        if (tmp_path / "on").exists():
            break
        time.sleep(0.05)
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=30)
    assert started.returncode == 130
    assert "repeats no finished trial" in said
    assert "Traceback" not in said
