"""``suggest`` as a command: its forms, its choices, and what it says when there is nothing."""

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).parents[2]
LOGS = ROOT / "fixtures" / "case-logs"
SCHEMA = json.loads((ROOT / "docs" / "suggest.schema.json").read_text("utf-8"))
CASES = sorted(path.name for path in LOGS.iterdir())


def suggest(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "recompile_doctor", "suggest", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT), "COLUMNS": "80", "PATH": ""},
    )


def log(case: str) -> str:
    return str(next(path for path in LOGS.iterdir() if path.name.startswith(case)))


@pytest.mark.parametrize("case", CASES)
def test_the_json_keeps_its_schema(case: str) -> None:
    """Each stored case gives JSON as docs/suggest.schema.json describes it."""
    done = suggest(log(case), "--format", "json")
    assert done.returncode == 0
    jsonschema.validate(json.loads(done.stdout), SCHEMA)


def test_the_terminal_shows_what_to_paste() -> None:
    """Lines to paste stay whole, and nothing claims to be verified."""
    done = suggest(log("01"))
    assert done.returncode == 0
    assert (
        """export TORCH_COMPILE_UNBACKED_SOURCES="L['inputs']:0,L['labels']:0"\n""" in done.stdout
    )
    assert (
        "torch._dynamo.decorators.mark_unbacked"
        "(inputs, 0, shape_id='inputs_0', min=1, hint_override=8)\n" in done.stdout
    )
    assert "3 -> 1, estimated, unverified" in " ".join(done.stdout.split())
    assert "expected: 2 graphs of loss_fn" in done.stdout


def test_nothing_to_do_is_an_answer() -> None:
    """Expected recompiles are counted, and nothing is to be changed."""
    done = suggest(log("13"))
    assert done.returncode == 0
    assert done.stdout.startswith("Nothing to do: 4 recompiles, each expected or a one-off.\n")
    assert "export" not in done.stdout


def test_a_rewrite_is_said_with_an_example() -> None:
    """Where no mark helps, the code is shown."""
    done = suggest(log("42"))
    assert "no mark or flag helps" in done.stdout
    assert "compiled = torch.compile(model, backend=backend)" in done.stdout


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("sh", """export TORCH_COMPILE_UNBACKED_SOURCES="L['x']:0"\n"""),
        ("fish", """set -gx TORCH_COMPILE_UNBACKED_SOURCES "L['x']:0"\n"""),
        ("powershell", """$env:TORCH_COMPILE_UNBACKED_SOURCES = 'L[''x'']:0'\n"""),
        ("env", """TORCH_COMPILE_UNBACKED_SOURCES="L['x']:0"\n"""),
    ],
)
def test_shells_get_lines_alone(form: str, line: str) -> None:
    """Standard output can be evaluated as it is."""
    done = suggest(log("50"), "--format", form)
    assert (done.stdout, done.stderr, done.returncode) == (line, "", 0)


def test_a_shell_gets_the_first_prescription_that_variables_express() -> None:
    """What they leave out of a chosen one is said on standard error."""
    assert suggest(log("51"), "--format", "sh").stderr == ""
    chosen = suggest(log("51"), "--format", "sh", "--id", "strongest")
    assert "which sizes are equal" in chosen.stderr


def test_another_torch_gets_its_own_dialect() -> None:
    """Before 2.13 the list takes no dimension."""
    done = suggest(log("50"), "--target-torch", "2.11", "--format", "sh")
    assert done.stdout == """export TORCH_COMPILE_UNBACKED_SOURCES="L['x']"\n"""
    assert "all dimensions of L['x']" in done.stderr


def test_the_yaml_form_is_a_prescription_file(tmp_path: Path) -> None:
    """It is written where asked."""
    file = tmp_path / "fix.yaml"
    done = suggest(log("51"), "--id", "strongest", "--format", "yaml", "--output", str(file))
    assert (done.returncode, done.stdout) == (0, "")
    assert "prescription_version: 1\n" in file.read_text("utf-8")


def test_markdown_quotes_lines_as_code() -> None:
    """Each block to paste is a block of code."""
    done = suggest(log("51"), "--format", "markdown")
    assert "```python\n# before each call of forward (case.py:20)\n" in done.stdout


def test_an_unknown_id_is_an_expected_error() -> None:
    """The ids that there are stand in the hint."""
    done = suggest(log("51"), "--id", "none")
    assert done.returncode == 3
    assert "strongest, environment, dynamic-only" in done.stderr


def test_variables_for_nothing_are_an_expected_error() -> None:
    """A rewrite cannot be exported."""
    done = suggest(log("42"), "--format", "sh")
    assert done.returncode == 3
    assert "nothing-to-prescribe" in done.stderr


def test_a_log_without_a_version_says_what_was_assumed(tmp_path: Path) -> None:
    """A text log names no torch."""
    prefix = "V0712 09:30:15.123000 77 torch/_dynamo/guards.py:2997] [0/1] [__recompiles] "
    lines = (
        "Recompiling function f in /home/user/a.py:3",
        "    triggered by the following guard failure(s):",
        "    - 0/0: tensor 'x' size mismatch at index 0. expected 8, actual 1",
    )
    (tmp_path / "torch.log").write_text("".join(f"{prefix}{line}\n" for line in lines))
    done = suggest("torch.log", "--format", "json", cwd=tmp_path)
    assert json.loads(done.stdout)["target_assumed"] is True


def test_a_version_that_is_none_is_refused() -> None:
    """With what to write instead."""
    done = suggest(log("51"), "--target-torch", "new")
    assert done.returncode == 3
    assert "is not a version of torch" in done.stderr
