"""``verify`` with real torch: what works is kept, what is wrong is refused, nothing is repeated."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from recompile_doctor.prescription.verified import read_shown

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs" / "verify.schema.json").read_text("utf-8"))
TOOL = [sys.executable, "-m", "recompile_doctor"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}


def tool(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TOOL, *arguments], cwd=cwd, capture_output=True, text=True, check=False, env=ENVIRONMENT
    )


def captured(folder: Path, program: str | Path) -> None:
    """Capture a program under the name `it`, from a copy of it."""
    if isinstance(program, Path):
        shutil.copy(program, folder / "program.py")
    else:
        (folder / "program.py").write_text(program)
    done = tool("run", "--quiet", "--name", "it", "program.py", cwd=folder)
    assert done.returncode == 0, done.stderr


def verified(folder: Path, *options: str, status: int = 0) -> dict[str, Any]:
    done = tool("verify", "it", "--format", "json", *options, cwd=folder)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    jsonschema.validate(found, SCHEMA)
    return found


def trials(folder: Path) -> dict[str, int]:
    """Return when the manifest of each rerun was written."""
    root = folder / ".recompile-doctor" / "it" / "trials"
    return {
        path.parent.name: path.stat().st_mtime_ns
        for path in sorted(root.glob("*/manifest.yaml"))
        if not path.parent.is_symlink()
    }


def prescription(folder: Path, **environment: str) -> str:
    lines = ["prescription_version: 1", "id: tried", "environment:"]
    lines += [f"  {name}: {json.dumps(value)}" for name, value in environment.items()]
    (folder / "p.yaml").write_text("\n".join(lines) + "\n")
    return "p.yaml"


def test_what_works_is_kept_said_and_not_tried_again(tmp_path: Path) -> None:
    captured(tmp_path, ROOT / "fixtures" / "programs" / "zero-one-specialization" / "program.py")
    before = (tmp_path / "program.py").stat()
    found = verified(tmp_path)
    assert found["before"]["recompiles"] == 3
    assert found["after"]["recompiles"] == 0
    best = next(each for each in found["trials"] if each["id"] == found["best"])
    assert (best["verdict"], best["outputs"]) == ("fixed", "same")
    assert found["prescriptions"][0]["status"] == "verified"
    assert (tmp_path / "program.py").stat().st_mtime_ns == before.st_mtime_ns

    suggested = json.loads(tool("suggest", "--format", "json", cwd=tmp_path).stdout)
    first = suggested["prescriptions"][0]
    assert first["status"] == "verified"
    assert first["measured"]["recompiles_after"] == 0
    assert first["measured"]["outputs"] == "same"

    runs = trials(tmp_path)
    again = verified(tmp_path)
    assert trials(tmp_path) == runs
    assert all(each["reused"] for each in again["trials"])
    assert again["best"] == found["best"]


def test_a_graph_that_is_wrong_for_one_row_is_refused(tmp_path: Path) -> None:
    captured(tmp_path, ROOT / "fixtures" / "verify-programs" / "wrong-for-one" / "program.py")
    found = verified(tmp_path)
    unbacked = [
        each
        for each in found["trials"]
        if any(mark["kind"] == "unbacked" for mark in each["prescription"]["marks"])
    ]
    assert unbacked
    for each in unbacked:
        assert each["verdict"] == "broke the program"
        assert each["outputs"] == "different"
        assert each["recompiles"] == 0
    assert found["best"] not in [each["id"] for each in unbacked]
    for each in found["prescriptions"]:
        assert all(mark["kind"] != "unbacked" for mark in each["marks"])

    suggested = json.loads(tool("suggest", "--format", "json", cwd=tmp_path).stdout)
    assert [each["verdict"] for each in suggested["refused"]] == ["broke the program"]
    assert all(
        mark["kind"] != "unbacked" for each in suggested["prescriptions"] for mark in each["marks"]
    )


HIDING = """
import torch
from torch.fx.experimental.symbolic_shapes import guard_or_false

class Result:
    def __init__(self, value):
        self.value = value

class Model(torch.nn.Module):
    def forward(self, x):
        value = torch.tanh(x * 2)
        if guard_or_false(x.shape[0] == 1):
            value = value[0] * 10
        LEAVE

torch.manual_seed(0)
model = Model()
compiled = torch.compile(model, backend="eager")
for n in (4, 1, 7, 1, 3):
    compiled(torch.randn(n, 5))
"""


@pytest.mark.parametrize(
    ("leave", "words"),
    [
        ("self.cache = value", "attribute self.cache has shape (1, 5), before (5,)"),
        ("return Result(value)", "output .value has shape (1, 5), before (5,)"),
    ],
)
def test_a_result_that_is_no_tensor_does_not_hide_a_wrong_graph(
    tmp_path: Path, leave: str, words: str
) -> None:
    """Kept on the module, or within an object of a class that torch does not know."""
    captured(tmp_path, HIDING.replace("LEAVE", leave))
    found = verified(tmp_path, "--max-trials", "1", "--baseline-runs", "1")
    (trial,) = found["trials"]
    assert (trial["verdict"], trial["outputs"]) == ("broke the program", "different")
    assert words in trial["outputs_reason"]
    assert found["best"] is None


VARYING = """
import torch

@torch.compile(backend="eager")
def score(items):
    return items * 2

torch.seed()
for n in (8, 12, 1, 8, 0):
    print(score(torch.rand(n, 3)).sum())
"""


def test_a_program_that_varies_leaves_the_outputs_unknown(tmp_path: Path) -> None:
    captured(tmp_path, VARYING)
    found = verified(tmp_path)
    assert found["baseline"]["varies"] is not None
    assert found["after"]["recompiles"] == 0
    best = next(each for each in found["trials"] if each["id"] == found["best"])
    assert best["outputs"] == "unknown"
    assert "varies" in best["outputs_reason"]


STEADY = VARYING.replace("torch.seed()", "torch.manual_seed(0)")
SWALLOWING = """
import torch

@torch.compile(backend="eager")
def halves(items):
    if items.shape[0] % 2:
        return items[:-1] / 2
    return items / 2

total = 0.0
for n in (8, 12, 1, 9, 7):
    try:
        total += float(halves(torch.ones(n, 3)).sum())
    except Exception:
        pass
print("done")
"""


@pytest.mark.parametrize(
    ("program", "lists", "verdict"),
    [
        pytest.param(STEADY, "items:0", "unchanged", id="a bare name hits nothing"),
        pytest.param(STEADY, "L['items", "broke the program", id="no valid pattern"),
        pytest.param(SWALLOWING, "L['items']:0", "broke the program", id="errors are swallowed"),
    ],
)
def test_a_prescription_that_does_not_help_is_refused(
    tmp_path: Path, program: str, lists: str, verdict: str
) -> None:
    captured(tmp_path, program)
    file = prescription(tmp_path, TORCH_COMPILE_UNBACKED_SOURCES=lists)
    found = verified(tmp_path, "--prescription", file, "--baseline-runs", "1", status=1)
    assert found["best"] is None
    assert [each["verdict"] for each in found["trials"]] == [verdict]
    assert found["prescriptions"] == []


def test_a_killed_verify_repeats_no_finished_trial(tmp_path: Path) -> None:
    captured(tmp_path, VARYING)
    started = subprocess.Popen(
        [*TOOL, "verify", "it"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    root = tmp_path / ".recompile-doctor" / "it" / "trials"
    for _ in range(1200):
        if (root / "01-strongest" / "running.json").exists():
            break
        time.sleep(0.05)
    started.send_signal(signal.SIGKILL)
    started.wait()
    done = {path.parent.name for path in root.glob("*/trial.json")}
    assert {"baseline-1", "baseline-2"} <= done
    runs = {name: when for name, when in trials(tmp_path).items() if name in done}
    found = verified(tmp_path)
    assert found["after"]["recompiles"] == 0
    assert {name: when for name, when in trials(tmp_path).items() if name in done} == runs


def test_the_attention_block_is_fixed_and_so_is_its_patch(tmp_path: Path) -> None:
    """6 recompiles to 0 in 6 trials or fewer; the patch that suggest prints then does the same."""
    captured(tmp_path, ROOT / "fixtures" / "cases" / "51_attention_block" / "case.py")
    found = verified(tmp_path)
    assert found["before"]["recompiles"] == 6
    assert found["after"]["recompiles"] == 0
    assert found["after"]["graph_breaks"] == 0
    assert len(found["trials"]) <= 6
    proof = read_shown(tmp_path / ".recompile-doctor" / "it").proof
    assert proof is not None

    patched = verified(tmp_path, "--patch")
    assert [each["verdict"] for each in patched["trials"]] == ["fixed"]
    assert [each["outputs"] for each in patched["trials"]] == ["same"]

    patch = tool("suggest", "it", "--format", "patch", cwd=tmp_path).stdout
    (tmp_path / "fix.diff").write_text(patch)
    subprocess.run(["git", "apply", "fix.diff"], cwd=tmp_path, check=True)
    tool("run", "--quiet", "--name", "after", "program.py", cwd=tmp_path)
    analysis = tmp_path / ".recompile-doctor" / "after" / "analysis.json"
    assert json.loads(analysis.read_text("utf-8"))["summary"]["recompiles"] == 0
