"""A prescription that ends all recompiles and gives wrong results, with real torch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from recompile_doctor.verification.equivalence import Sameness
from recompile_doctor.verification.printed import compare_text

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "fixtures" / "verify-programs" / "wrong-for-one" / "program.py"
PRESCRIPTION = """
prescription_version: 1
marks:
  - {source: "L['rows']", dim: 0, kind: unbacked}
"""


def printed(project: Path, name: str, *options: str) -> Path:
    """Run the program and return the file with what it printed."""
    words = ["run", "--name", name, *options, str(PROGRAM)]
    path = project / f"{name}.txt"
    with path.open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-m", "recompile_doctor", *words],
            cwd=project,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return path


def test_the_marked_program_compiles_once_and_prints_other_numbers(tmp_path: Path) -> None:
    """By recompiles alone it is fixed; its shapes are right too."""
    (tmp_path / "marks.yaml").write_text(PRESCRIPTION)
    options = ("--format", "json", "--output", str(tmp_path / "report.json"))
    before = printed(tmp_path, "before", *options)
    old = json.loads((tmp_path / "report.json").read_text())["summary"]
    after = printed(tmp_path, "after", "--prescription", "marks.yaml", *options)
    new = json.loads((tmp_path / "report.json").read_text())["summary"]
    assert (old["recompiles"], new["recompiles"], new["graphs_captured"]) == (3, 0, 1)
    result = compare_text(before, after)
    assert result.sameness is Sameness.DIFFERENT
    assert result.differences == (
        "line 4 is '1 (1, 3) -0.544396', before '1 (1, 3) 0.544396'",
        "line 6 is '1 (1, 3) -0.544396', before '1 (1, 3) 0.544396'",
    )
    assert compare_text(before, before).sameness is Sameness.SAME
