"""The whole way in a repository: the gate fails, the patch is written, the gate passes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "fixtures" / "cases" / "51_attention_block" / "case.py"
BUDGET = "total:\n  recompiles: 0\n  graph_breaks: 0\n"


def command(*words: str, cwd: Path, fails: bool = False) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, env=environment)
    assert (done.returncode != 0) is fails, f"{words}: {done.returncode}\n{done.stderr}"
    return done.stdout


def tool(*words: str, cwd: Path, fails: bool = False) -> str:
    return command(sys.executable, "-m", "recompile_doctor", *words, cwd=cwd, fails=fails)


def git(*words: str, cwd: Path) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.invalid")
    return command("git", *identity, *words, cwd=cwd)


@pytest.mark.torch
def test_a_repository_goes_from_a_failing_to_a_passing_gate(tmp_path: Path) -> None:
    """Six recompiles; the patch of `suggest` leaves none, and `--undo` gives the file back."""
    program = tmp_path / "train.py"
    shutil.copyfile(PROGRAM, program)
    (tmp_path / "recompile-budget.yaml").write_text(BUDGET, encoding="utf-8")
    git("init", "-q", cwd=tmp_path)
    git("add", "train.py", "recompile-budget.yaml", cwd=tmp_path)
    git("commit", "-qm", "first", cwd=tmp_path)

    tool("run", "--quiet", "--name", "before", "train.py", cwd=tmp_path)
    assert "recompiles" in tool("check", "before", cwd=tmp_path, fails=True)

    diff = tool("suggest", "--format", "patch", cwd=tmp_path)
    (tmp_path / ".git" / "p.diff").write_text(diff, encoding="utf-8")
    git("apply", "--check", ".git/p.diff", cwd=tmp_path)
    tool("suggest", "--write", "--yes", cwd=tmp_path)
    assert git("diff", "--stat", cwd=tmp_path).startswith(" train.py |")
    tool("suggest", "--format", "patch", cwd=tmp_path, fails=True)  # it has the marks already

    outputs = tool("run", "--quiet", "--name", "after", "train.py", cwd=tmp_path)
    assert "No recompiles, no graph breaks: 1 function compiled into 1 graph" in outputs
    tool("check", "after", cwd=tmp_path)
    assert tool("diff", "before", "after", cwd=tmp_path).startswith("recompiles 6 -> 0")

    tool("suggest", "--undo", "before", cwd=tmp_path)
    assert program.read_bytes() == PROGRAM.read_bytes()
    assert git("status", "--short", cwd=tmp_path) == ""
