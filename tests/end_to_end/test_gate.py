"""The gate on real runs: a change that recompiles fails it, the mended program passes.

The workflow of docs/ci.md is run step by step, as a runner of GitHub Actions does.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from recompile_doctor.config import parse_yaml
from recompile_doctor.reports.gate_report import MARKER
from recompile_doctor.verification.budget import read_budget

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
PROGRAM = """\
import torch


@torch.compile(backend="eager")
def step(x):
    return (x * 2).sum()


for size in (8, 16, 1, 4):
    batch = torch.ones(size, 4)
    step(batch)
"""
# What a person would change: the first dimension may be any size from 1.
MENDED = PROGRAM.replace(
    "    step(batch)", "    torch._dynamo.decorators.mark_unbacked(batch, 0)\n    step(batch)"
)
BUDGET = """\
# agreed on with the team
total:
  recompiles: 0
  graph_breaks: 3  # prints
"""


def doctor(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "recompile_doctor", *words],
        cwd=project,
        env={**os.environ, "PYTHONPATH": _python_path()},
        capture_output=True,
        text=True,
        check=False,
    )


def _python_path() -> str:
    return os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with one run before and one after the program was mended."""
    project = tmp_path_factory.mktemp("repository")
    (project / "recompile-budget.yaml").write_text(BUDGET)
    (project / "train.py").write_text(PROGRAM)
    before = doctor(project, "run", "--name", "before", "--check", "train.py")
    assert before.returncode == 1, before.stderr
    assert "The gate failed: 1 recompile, at most 0 allowed" in before.stdout
    (project / "train.py").write_text(MENDED)
    after = doctor(project, "run", "--name", "after", "--check", "train.py")
    assert after.returncode == 0, after.stdout + after.stderr
    assert "The gate holds: 0 recompiles" in after.stdout
    return project


@pytest.fixture
def budget(repository: Path) -> Path:
    """Return the path of the budget, with its content as it was agreed on."""
    path = repository / "recompile-budget.yaml"
    path.write_text(BUDGET)
    return path


def test_the_gate_fails_before_and_passes_after(repository: Path, budget: Path) -> None:
    before = doctor(repository, "check", "before", "--format", "json")
    assert before.returncode == 1
    (violation,) = json.loads(before.stdout)["violations"]
    assert violation["findings"] == ["zero-one-specialization/train.py:step/L['x']:0"]
    assert json.loads(before.stdout)["summary"]["recompiles_set_apart"] == 1
    assert doctor(repository, "check", "after").returncode == 0
    assert doctor(repository, "check").returncode == 0, "the latest run is the one after"


def test_diff_says_fixed_from_two_cold_runs(repository: Path) -> None:
    done = doctor(repository, "diff", "before", "after", "--format", "json")
    report = json.loads(done.stdout)
    assert report["verdict"] == "fixed"
    assert report["times_comparable"]
    assert [each["change"] for each in report["findings"]] == ["fixed", "fixed"]
    assert doctor(repository, "diff", "after", "before", "--fail-on", "worse").returncode == 1


def test_the_run_before_is_a_baseline_and_so_is_its_json_report(repository: Path) -> None:
    report = ".recompile-doctor/after/analysis.json"
    assert doctor(repository, "check", "after", "--baseline", "before").returncode == 0
    assert doctor(repository, "check", "after", "--baseline", report).returncode == 0
    failed = doctor(repository, "check", "before", "--baseline", report)
    assert failed.returncode == 1
    assert "new since the baseline" in failed.stdout


def test_the_ratchet_keeps_what_was_reached(repository: Path, budget: Path) -> None:
    budget.write_text(BUDGET.replace("recompiles: 0", "recompiles: 5"))
    assert doctor(repository, "check", "after", "--update-budget").returncode == 0
    tight = BUDGET.replace("graph_breaks: 3", "graph_breaks: 0")
    assert budget.read_text() == tight
    assert doctor(repository, "check", "before", "--update-budget").returncode == 1
    assert budget.read_text() == tight
    assert doctor(repository, "check", "before", "--update-budget", "--loosen").returncode == 0
    assert budget.read_text() == tight.replace("recompiles: 0", "recompiles: 1")


def test_an_allowance_holds_until_its_day(repository: Path, budget: Path) -> None:
    finding = "zero-one-specialization/train.py:step/L['x']:0"
    text = f'{BUDGET}allow:\n  - id: "{finding}"\n    reason: one batch a day\n    until: '

    def check(day: date) -> subprocess.CompletedProcess[str]:
        budget.write_text(f"{text}{day.isoformat()}\n")
        return doctor(repository, "check", "before")

    soon = check(date.today() + timedelta(days=7))
    assert soon.returncode == 0
    assert "warning" in soon.stdout
    over = check(date.today() - timedelta(days=2))
    assert over.returncode == 1
    assert "its reason was: one batch a day" in " ".join(over.stdout.split())


@dataclass(frozen=True)
class Step:
    """What a runner made of one step."""

    name: str
    status: int
    output: str
    summary: str


class Runner:
    """Runs the `run:` steps of a job in order, with bash, as a runner of GitHub Actions does.

    Steps that use an action are left out. `pip` and `gh` are replaced: what is under test is
    installed already, and there is no pull request; what `gh` was given is kept.
    """

    def __init__(self, project: Path, tools: Path) -> None:
        self._project = project
        self._tools = tools
        tools.mkdir()
        self._tool(
            "recompile-doctor", f'exec {shlex.quote(sys.executable)} -m recompile_doctor "$@"'
        )
        self._tool("pip", 'echo "pip $*"')
        self._tool("gh", f'printf "%s " "$@" > {shlex.quote(str(tools / "gh.log"))}')

    def _tool(self, name: str, line: str) -> None:
        path = self._tools / name
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def run(self, job: dict[str, Any]) -> list[Step]:
        """Return what became of the steps; after a failure only those with `always()` run."""
        done: list[Step] = []
        for number, step in enumerate(job["steps"]):
            failed = any(each.status for each in done)
            if "run" in step and (not failed or step.get("if") == "always()"):
                done.append(self._step(step, number))
        return done

    def _step(self, step: dict[str, Any], number: int) -> Step:
        script = self._tools / f"step-{number}.sh"
        script.write_text(step["run"])
        summary = self._tools / f"summary-{number}.md"
        summary.touch()
        environment = {
            **os.environ,
            "PATH": f"{self._tools}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": _python_path(),
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(self._project),
            "GITHUB_STEP_SUMMARY": str(summary),
            **{key: _evaluated(str(value)) for key, value in step.get("env", {}).items()},
        }
        done = subprocess.run(
            ["bash", "-e", str(script)],
            cwd=self._project,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Step(step["name"], done.returncode, done.stdout, summary.read_text("utf-8"))


def _evaluated(text: str) -> str:
    context = {"github.token": "token", "github.event.number": "42"}
    return re.sub(r"\$\{\{ (.+?) \}\}", lambda match: context[match[1]], text)


def _workflow() -> dict[str, Any]:
    page = (ROOT / "docs" / "ci.md").read_text("utf-8")
    text = next(
        each for each in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "jobs:" in each
    )
    job: dict[str, Any] = yaml.safe_load(text)["jobs"]["recompiles"]
    return job


def test_the_workflow_of_the_page_fails_a_change_that_recompiles(tmp_path: Path) -> None:
    """The job fails at the gate, and what the later steps write is there all the same."""
    project = tmp_path / "work"
    project.mkdir()
    (project / "train.py").write_text(PROGRAM)
    (project / "recompile-budget.yaml").write_text(BUDGET)
    steps = Runner(project, tmp_path / "tools").run(_workflow())
    assert [(each.name, each.status) for each in steps] == [
        ("Install", 0),
        ("Run the program", 0),
        ("Hold it against its budget", 1),
        ("Write the results for code scanning, the test report and the comment", 0),
        ("Comment on the pull request", 0),
    ]
    gate = steps[2]
    assert "::error file=train.py,line=" in gate.output
    assert gate.summary.startswith(MARKER)
    assert "1 recompile, at most 0 allowed" in gate.summary
    results = json.loads((project / "recompiles.sarif").read_text("utf-8"))["runs"][0]["results"]
    place = results[0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": "train.py", "uriBaseId": "%SRCROOT%"}
    suites = ElementTree.parse(project / "recompiles.xml").getroot()
    assert suites.get("failures") == "1"
    assert (project / "comment.md").read_text("utf-8").startswith(MARKER)
    log = (tmp_path / "tools" / "gh.log").read_text("utf-8")
    assert log.startswith("pr comment 42 --edit-last")


def test_the_budgets_of_the_page_can_be_read() -> None:
    page = (ROOT / "docs" / "ci.md").read_text("utf-8")
    budgets = [
        each for each in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "total:" in each
    ]
    assert budgets
    for text in budgets:
        assert read_budget(parse_yaml(text, Path("docs/ci.md"))).limits
