"""The plugin with a real torch: cases.py, run once in one pytest process."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from recompile_doctor.pipeline import examine

pytestmark = pytest.mark.torch

HERE = Path(__file__).parent
CONFTEST = '''
import asyncio, inspect, json
import pytest

def pytest_configure(config):
    config.addinivalue_line("markers", "keeps_cache: what was compiled before stays")

@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Run an async test, as the plugins for it do."""
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        asyncio.run(pyfuncitem.obj())
        return True

def pytest_runtest_logreport(report):
    with open("reports.jsonl", "a") as file:
        file.write(json.dumps({
            "name": report.nodeid.partition("::")[2],
            "when": report.when,
            "outcome": report.outcome,
            "text": report.longreprtext,
            "sections": dict(report.sections),
        }) + "\\\\n")
'''.replace("\\\\n", "\\n")
SECTION = "Captured recompile budget call"


@dataclass(frozen=True)
class Outcome:
    outcome: str
    text: str
    section: str


@dataclass(frozen=True)
class Ran:
    folder: Path
    calls: dict[str, Outcome]
    output: str

    def text(self, name: str) -> str:
        """Return what a failed test says."""
        assert self.calls[name].outcome == "failed", self.output
        return self.calls[name].text


def run_pytest(folder: Path, *args: str) -> str:
    env = {
        **os.environ,
        "PYTHONPATH": str(HERE.parents[1]),
        "OMP_NUM_THREADS": "1",
        "TORCH_TRACE": str(folder / "user_trace"),
        "COLUMNS": "80",
    }
    env.pop("PYTEST_ADDOPTS", None)
    command = [sys.executable, "-m", "pytest", "-p", "recompile_doctor.pytest_plugin", *args]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("cases")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_cases.py").write_text((HERE / "cases.py").read_text("utf-8"), "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n")
    output = run_pytest(folder, "--strict-markers", "-p", "no:randomly")
    reports = [json.loads(line) for line in (folder / "reports.jsonl").read_text().splitlines()]
    for each in reports:
        assert each["when"] == "call" or each["outcome"] == "passed", each["text"]
    calls = {
        each["name"]: Outcome(each["outcome"], each["text"], each["sections"].get(SECTION, ""))
        for each in reports
        if each["when"] == "call"
    }
    return Ran(folder, calls, output)


@pytest.mark.parametrize(
    "name",
    [
        "test_first_compile_is_free",
        "test_within",
        "test_unlimited",
        "test_warm_up_is_not_fixable",
        "test_fixture_is_context",
        "test_reset_first",
        "test_reset",
        "TestMethods::test_sizes[same size]",
        "TestOld::test_within",
        "test_breaks_within",
        "test_limit_unlimited",
        "test_silent_and_nothing_compiled",
        "test_metrics_cleared",
        "test_logger_is_as_before",
    ],
)
def test_a_body_within_its_budget_passes(ran: Ran, name: str) -> None:
    """What fixtures compile, and a first compile, are no recompiles of the body."""
    assert ran.calls[name].outcome == "passed", ran.calls[name].text


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("test_over", "2 recompiles, at most 0 allowed"),
        ("test_fixture_explains", "1 recompile, at most 0 allowed"),
        ("test_blocks", "1 recompile, at most 0 allowed"),
        ("test_strangers", "1 recompile, at most 0 allowed"),
        ("TestMethods::test_sizes[\\xfcnlike/../sizes]", "1 recompile, at most 0 allowed"),
        ("TestOld::test_over", "1 recompile, at most 0 allowed"),
        ("test_thread", "1 recompile, at most 0 allowed"),
        ("test_async", "1 recompile, at most 0 allowed"),
        ("test_breaks", "1 graph break, at most 0 allowed"),
        ("test_limit", "1 recompile-limit hit, at most 0 allowed"),
        ("test_logging_disabled", "1 recompile, at most 0 allowed"),
        ("test_logs_set", "1 recompile, at most 0 allowed"),
        ("test_nothing_compiled", "0 graphs compiled, at least 1 wanted"),
    ],
)
def test_a_body_over_its_budget_fails(ran: Ran, name: str, sentence: str) -> None:
    """The failure says first what is over, by how much."""
    assert f"recompile budget: {sentence}" in ran.text(name)


def test_the_failure_tells_what_happened(ran: Ran) -> None:
    """The report of the body follows, and the trace that it was read from stays."""
    text = ran.text("test_over")
    assert "2 recompiles in 1 function" in text
    assert "L['x'] dim 0" in text
    assert "zero-one-specialization" in text
    assert "torch 2." in text
    assert "logging" not in text
    [trace] = ran.folder.glob(".pytest_cache/d/recompile-budget/test_cases.py-test_over-*.log")
    assert f"read from {trace.relative_to(ran.folder)}" in text
    assert examine(trace).document.summary.recompiles == 2


def test_a_block_that_is_over_shows_its_line(ran: Ran) -> None:
    """Of several blocks the failure shows the one that is over."""
    text = ran.text("test_blocks")
    assert ">       with recompile_budget(min_graphs=0):" in text
    assert "rank-change" in text


def test_what_fixtures_compiled_explains_a_recompile(ran: Ran) -> None:
    """The sizes that were compiled before the body are known, and count for nothing."""
    text = ran.text("test_fixture_explains")
    assert "4 → 1 → 7" in text
    assert "1 compilation ·" in text


def test_pytest_is_nobody_s_caller(ran: Ran) -> None:
    """torch can leave the test function out of its stack; pytest's own lines are not shown."""
    assert "_pytest" not in ran.text("test_limit")


def test_graphs_of_other_tests_are_told_apart(ran: Ran) -> None:
    """A recompile because of what was compiled before the test comes with the way out."""
    assert "with reset=True" in " ".join(ran.text("test_strangers").split())
    assert "with reset=True" not in ran.text("test_over")


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("test_block_raises", "KeyError: 'own failure'"),
        ("TestOld::test_own", "AssertionError: 1 != 2"),
        ("test_fails", "assert not 'own failure'"),
    ],
)
def test_a_failing_test_keeps_its_failure(ran: Ran, name: str, own: str) -> None:
    """The budget's result is a section beside it."""
    text = ran.text(name)
    assert own in text
    assert "recompile budget:" not in text
    assert ran.calls[name].section.startswith("recompile budget: 1 recompile, at most 0 allowed")


@pytest.mark.parametrize("name", ["test_skips", "test_expected_to_exceed"])
def test_skips_and_expected_failures_stay(ran: Ran, name: str) -> None:
    """A skip says nothing of the budget; a body over its budget can be the expected failure."""
    assert ran.calls[name].outcome == "skipped"
    assert not ran.calls[name].section


def test_silenced_logging_does_not_pass(ran: Ran) -> None:
    """What torch counted and its trace does not hold is said instead."""
    text = " ".join(ran.text("test_silenced").split())
    assert "silenced: torch compiled 2 times in here, 2 of them unseen" in text
    text = " ".join(ran.text("test_silent_to_the_end").split())
    assert "silenced (the logger torch.__trace is disabled): torch compiled 1 time" in text


def test_only_traces_of_failed_tests_stay(ran: Ran) -> None:
    """A body within its budget leaves nothing behind."""
    kept = [each.name for each in ran.folder.glob(".pytest_cache/d/recompile-budget/*")]
    assert any("test_over" in each for each in kept)
    assert not [each for each in kept if "within" in each or "test_reset" in each]


def test_the_user_s_own_trace_goes_on(ran: Ran) -> None:
    """TORCH_TRACE holds what it would without the plugin."""
    # Two files: torch begins another after test_silenced, since dictConfig closes all handlers.
    document = examine(ran.folder / "user_trace").document
    assert document.summary.compilations > 40  # also those of fixtures and without a budget
    assert not document.unread.records


def test_workers_hold_their_own_tests(tmp_path: Path) -> None:
    """With pytest-xdist each test is held to its budget in its worker."""
    pytest.importorskip("xdist")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(
        "import pytest, torch\n"
        "@pytest.mark.recompile_budget(min_graphs=1)\n"
        "@pytest.mark.parametrize('last', [4, 5])\n"
        "def test_it(last):\n"
        "    function = torch.compile(lambda x: x * 2, backend='eager')\n"
        "    for size in (4, last):\n"
        "        function(torch.ones(size))\n"
    )
    output = run_pytest(tmp_path, "-n", "2")
    assert "1 failed, 1 passed" in output, output
    assert "recompile budget: 1 recompile, at most 0 allowed" in output
    assert "L['x'] dim 0: 4 → 5" in output
