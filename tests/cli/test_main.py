"""The command line as a process: help, errors, status."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recompile_doctor.cli.main import COMMANDS, cli
from recompile_doctor.version import VERSION


def doctor(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "recompile_doctor", *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_version_and_help(tmp_path: Path) -> None:
    """Both answer on standard output with status 0."""
    version = doctor("--version", cwd=tmp_path)
    assert (version.returncode, version.stderr) == (0, "")
    assert VERSION in version.stdout
    for flag in ("--help", "-h"):
        help_text = doctor(flag, cwd=tmp_path)
        assert help_text.returncode == 0
        for name in COMMANDS:
            assert name in help_text.stdout


def test_help_imports_no_command(tmp_path: Path) -> None:
    """``--help`` stays fast: no command, no YAML, no rich, no torch is imported for it."""
    code = """
import sys
from recompile_doctor.__main__ import main
status = main(["--help"])
heavy = {"torch", "yaml", "rich", "msgspec", "jinja2", "libcst", "recompile_doctor.cli.run"}
print(sorted(heavy & set(sys.modules)), status)
"""
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "[] 0"


def test_every_command_can_be_imported_and_says_what_it_does() -> None:
    """The list of commands and the commands agree."""
    context = cli.make_context("recompile-doctor", ["--help"], resilient_parsing=True)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert command.help


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["--nonsense"], ["run"], ["run", "--nonsense", "a.py"], ["run", "-m"]],
)
def test_wrong_usage_is_2(tmp_path: Path, arguments: list[str]) -> None:
    """A wrong option or a missing argument is said on standard error, without a traceback."""
    result = doctor(*arguments, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert "Traceback" not in result.stderr


def test_an_expected_error_is_a_sentence_a_hint_and_a_name(tmp_path: Path) -> None:
    """What can be expected to go wrong has no traceback and status 3."""
    result = doctor("run", "missing.py", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (3, "")
    assert result.stderr.splitlines() == [
        "error: There is no script 'missing.py'.",
        "hint: For a command write `--` before it: `recompile-doctor run -- missing.py ...`.",
        "(docs/messages.md#script-not-found)",
    ]


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    """A broken pipe ends quietly, with the status that a shell gives for SIGPIPE."""
    (tmp_path / "a.py").write_text("")
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.run(
        [sys.executable, "-m", "recompile_doctor", "run", "--quiet", "a.py"],
        cwd=tmp_path,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert (process.returncode, process.stderr) == (141, "")
