"""``suggest`` and ``run --prescription`` with real torch: the marks take effect, unseen."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from recompile_doctor.bundle import bundle_root, find_bundle
from recompile_doctor.capture.applied import read_applied

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]

# Each way to compile, called with sizes that recompile: 4, 7, 1, 0, 3.
PROGRAM = """
import torch
from torch import nn

torch.manual_seed(0)

@torch.compile(backend="eager")
def decorated(x, *, scale):
    return x * scale

def plain(*tensors, **named):
    return tensors[0] + named["extra"]["it"]

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x, mask):
        return self.linear(x) * mask

class Other(Block):
    def forward(self, x, mask):
        return self.linear(x) + mask

class Holder:
    @torch.compile(backend="eager")
    def method(self, batch):
        return batch["x"] - 1

compiled_plain = torch.compile(plain, backend="eager")
module = torch.compile(Block(), backend="eager")
in_place = Other()
in_place.compile(backend="eager")
sequence = torch.compile(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), backend="eager")
holder = Holder()
for n in (4, 7, 1, 0, 3):
    x, y = torch.ones(n, 3), torch.ones(n, 3)
    for result in (
        decorated(x, scale=y),
        compiled_plain(torch.ones(n, 3), extra={"it": torch.ones(n, 3)}),
        module(torch.ones(n, 3), mask=torch.ones(n, 3)),
        in_place(torch.ones(n, 3), torch.ones(n, 3)),
        holder.method({"x": torch.ones(n, 3)}),
        sequence(torch.ones(n, 3)),
    ):
        print("CHECK", tuple(result.shape), f"{result.sum().item():.4f}")
"""


def doctor(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "recompile_doctor", *words],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def run(project: Path, name: str, *options: str) -> tuple[dict[str, int], list[str]]:
    """Return the summary of a run of the program, and what it printed."""
    report = project / f"{name}.json"
    done = doctor(
        project, "run", "--quiet", "--name", name, "--format", "json", "--output", str(report),
        *options, "program.py",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary: dict[str, int] = json.loads(report.read_text())["summary"]
    return summary, done.stdout.splitlines()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "program.py").write_text(PROGRAM)
    return folder


@pytest.fixture(scope="module")
def before(project: Path) -> tuple[dict[str, int], list[str]]:
    return run(project, "before")


def test_every_way_to_compile_is_reached(
    project: Path, before: tuple[dict[str, int], list[str]]
) -> None:
    """The suggested marks leave nothing to recompile, and the output is the same."""
    assert before[0]["recompiles"] > 10
    file = project / "fix.yaml"
    done = doctor(
        project, "suggest", "before", "--id", "strongest", "--format", "yaml", "--output", str(file)
    )
    assert done.returncode == 0, done.stderr
    after, printed = run(project, "after", "--prescription", str(file))
    assert (after["recompiles"], after["graph_breaks"]) == (0, 0)
    assert printed == before[1]
    bundle = find_bundle(bundle_root(project), "after")
    applied = read_applied(bundle)
    assert applied.marks
    assert applied.without_effect == ()
    assert {each.function for each in applied.marks} == {
        "decorated",
        "plain",
        "forward",
        "method",
        "inner",  # torch's own, around a module of torch
    }
    assert bundle.manifest.prescription is not None
    assert str(file) in bundle.manifest.prescription


def test_a_prescription_by_hand_sets_marks_variables_and_settings(project: Path) -> None:
    """What it names wrongly is said in the report."""
    file = project / "hand.yaml"
    file.write_text(
        """
prescription_version: 1
marks:
  - {source: "L['x']", dim: 0, kind: dynamic, frame: {function: decorated}}
  - {source: "L['nothing']", dim: 0, kind: dynamic, frame: {function: decorated}}
environment:
  TORCH_COMPILE_UNBACKED_SOURCES: "L['batch']['x']:0"
config:
  torch._dynamo.config.recompile_limit: 2
"""
    )
    summary, _ = run(project, "hand", "--prescription", str(file))
    assert summary["recompile_limit_hits"] > 0
    report = json.loads((project / "hand.json").read_text())
    (notice,) = [each for each in report["notices"] if each["slug"] == "mark-without-effect"]
    assert "L['nothing']" in notice["text"]
    methods = [each for each in report["frames"] if each["function"] == "method"]
    assert [each["recompiles"] for each in methods] == [0]


def test_a_prescription_is_checked_before_anything_starts(project: Path) -> None:
    """The program does not run for a file that cannot be read."""
    (project / "bad.yaml").write_text("prescription_version: 1\nmark: []\n")
    done = doctor(project, "run", "--prescription", "bad.yaml", "program.py")
    assert done.returncode == 3
    assert "bad.yaml:2: 'mark' is not known here" in done.stderr
    assert "CHECK" not in done.stdout
