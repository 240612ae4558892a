"""``run`` with real torch programs: what the program prints stays, what torch logs is captured."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from recompile_doctor.bundle import Bundle, bundle_root, find_bundle
from recompile_doctor.capture.snapshot import Snapshot, read_snapshots

pytestmark = pytest.mark.torch

# Two recompiles, a graph break in each, and torch's warning about the recompile limit.
PROGRAM = """
import logging, logging.config, os, sys, torch
{at_start}
torch._dynamo.config.recompile_limit = 2

@torch.compile(backend="eager")
def f(x):
    y = x * 2
    torch._dynamo.graph_break()
    return y + 1

print(os.environ.get("TORCH_LOGS"), os.environ.get("TORCH_LOGS_OUT"), file=sys.stderr)
f(torch.ones(3))
{after_first}
for n in (5, 1, 0):
    f(torch.ones(n))
"""


def run(
    project: Path, script: str, *, doctor: tuple[str, ...] | None, **environment: str
) -> subprocess.CompletedProcess[str]:
    (project / "program.py").write_text(script)
    command = [sys.executable, "program.py"]
    if doctor is not None:
        command = [sys.executable, "-m", "recompile_doctor", "run", *doctor, "--", *command]
    return subprocess.run(
        command,
        cwd=project,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def without_times(text: str) -> str:
    """Return the text without what differs between any two runs: time and pid of log lines."""
    return re.sub(r"(?m)^([VIWEC])\d{4} [\d:.]+ \d+ ", r"\1 ", text)


def captured(project: Path, name: str = "a") -> Bundle:
    return find_bundle(bundle_root(project), name)


def count(paths: tuple[Path, ...], text: str) -> int:
    return sum(path.read_text(encoding="utf-8").count(text) for path in paths)


def complete_snapshots(bundle: Bundle) -> list[Snapshot]:
    snapshots = read_snapshots(bundle)
    return [each for each in snapshots if isinstance(each, Snapshot) and each.complete]


@pytest.mark.parametrize(
    ("at_start", "environment"),
    [
        ("", {}),
        ("", {"TORCH_LOGS": "graph_breaks", "TORCH_LOGS_OUT": "mine.log"}),
        ("torch._logging.set_logs(graph_breaks=True)", {}),
        (
            "for name in ('torch', 'torch._dynamo', 'torch.fx.experimental.symbolic_shapes'):\n"
            "    logging.getLogger(name).addHandler(logging.StreamHandler())",
            {},
        ),
    ],
    ids=["warning only", "TORCH_LOGS", "set_logs", "handlers of the program"],
)
def test_stderr_is_what_it_was_and_the_bundle_has_everything(
    tmp_path: Path, at_start: str, environment: dict[str, str]
) -> None:
    """Warnings and what the user asked for are on stderr, and none of our lines."""
    script = PROGRAM.format(at_start=at_start, after_first="")
    outputs = []
    logs = []
    for doctor in (None, ("--name", "a")):
        result = run(tmp_path, script, doctor=doctor, **environment)
        assert result.returncode == 0, result.stderr
        outputs.append(without_times(result.stderr))
        mine = tmp_path / "mine.log"
        logs.append(without_times(mine.read_text()) if mine.exists() else "")
        mine.unlink(missing_ok=True)
    assert outputs[1] == outputs[0]
    assert logs[1] == logs[0]
    assert "recompile_limit" in outputs[0]

    bundle = captured(tmp_path)
    assert count(bundle.trace_files(), '"recompile_reasons"') >= 2
    assert count(bundle.log_files(), "[__recompiles_verbose] Recompiling function f") >= 1
    assert count(bundle.log_files(), "[__graph_breaks] Graph break") >= 1
    assert count(bundle.log_files(), "create_symbol") >= 1
    (snapshot,) = complete_snapshots(bundle)
    assert snapshot.recompiles >= 2
    assert (snapshot.logging.text, snapshot.logging.trace) == ((), ())
    assert bundle.manifest.torch_version == snapshot.torch_version


def test_without_the_probe_torch_logs_by_itself(tmp_path: Path) -> None:
    """``--no-probe`` captures the same logs, at the price of lines on stderr."""
    script = PROGRAM.format(at_start="", after_first="")
    result = run(tmp_path, script, doctor=("--name", "a", "--no-probe"))
    bundle = captured(tmp_path)
    assert [path.name for path in bundle.log_files()] == ["torch.log"]
    assert count(bundle.log_files(), "Recompiling function f") >= 1
    assert "Recompiling function f" in result.stderr
    assert bundle.probe_files() == ()


@pytest.mark.parametrize(
    ("silence", "words"),
    [
        ("logging.disable(logging.CRITICAL)", "logging.disable(50)"),
        (
            "logging.config.dictConfig({'version': 1, 'disable_existing_loggers': True})",
            "disabled",
        ),
    ],
)
def test_a_program_that_silences_logging_is_noticed_and_its_trace_goes_on(
    tmp_path: Path, silence: str, words: str
) -> None:
    """The text log ends where the program silenced it; the trace does not, and we are told."""
    run(tmp_path, PROGRAM.format(at_start="", after_first=silence), doctor=("--name", "a"))
    bundle = captured(tmp_path)
    (snapshot,) = complete_snapshots(bundle)
    assert words in "".join(snapshot.logging.text)
    assert snapshot.logging.trace == ()
    assert count(bundle.log_files(), "Recompiling function") == 0
    assert len(bundle.trace_files()) == 1
    assert count(bundle.trace_files(), '"recompile_reasons"') == snapshot.recompiles >= 2


def test_a_program_that_takes_the_handlers_away_is_noticed(tmp_path: Path) -> None:
    """Where the trace cannot be kept, the counters tell that something is missing."""
    silence = "logging.getLogger('torch.__trace').handlers.clear()"
    run(tmp_path, PROGRAM.format(at_start="", after_first=silence), doctor=("--name", "a"))
    bundle = captured(tmp_path)
    (snapshot,) = complete_snapshots(bundle)
    assert "torch.__trace" in "".join(snapshot.logging.trace)
    assert count(bundle.trace_files(), '"recompile_reasons"') == 0
    assert snapshot.recompiles >= 2


def test_each_rank_of_torchrun_has_its_own_files(tmp_path: Path) -> None:
    """Two ranks give two traces, two text logs and two snapshots that name their rank."""
    (tmp_path / "ranks.py").write_text(
        """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
f = torch.compile(lambda x: x * 2, backend="eager")
for n in (3, 4 + dist.get_rank(), 1):
    f(torch.ones(n))
dist.destroy_process_group()
"""
    )
    doctor = [sys.executable, "-m", "recompile_doctor", "run", "--name", "a", "--"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    result = subprocess.run(
        [*doctor, *torchrun, "--nproc-per-node", "2", "ranks.py"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    bundle = captured(tmp_path)
    assert len(bundle.trace_files()) == 2
    ranks = [each for each in complete_snapshots(bundle) if each.rank]
    assert sorted(each.rank["RANK"] for each in ranks) == ["0", "1"]
    assert all(each.recompiles == 2 for each in ranks)
    for each in ranks:
        log = bundle.log_directory / f"{each.pid}.log"
        assert "Recompiling function" in log.read_text(encoding="utf-8")


def test_processes_of_multiprocessing_are_followed(tmp_path: Path) -> None:
    """A forked and a spawned child each leave a snapshot, with their own compilations only."""
    (tmp_path / "children.py").write_text(
        """
import multiprocessing, torch

def work(sizes):
    f = torch.compile(lambda x: x + 1, backend="eager")
    for n in sizes:
        f(torch.ones(n))

def idle():
    pass

if __name__ == "__main__":
    work([3])
    for method, target, arguments in [
        ("fork", work, ([3, 4],)), ("fork", idle, ()), ("spawn", work, ([3, 4, 1],))
    ]:
        child = multiprocessing.get_context(method).Process(target=target, args=arguments)
        child.start()
        child.join()
        print(child.exitcode)
"""
    )
    result = subprocess.run(
        [sys.executable, "-m", "recompile_doctor", "run", "--name", "a", "children.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout.splitlines()[:3] == ["0", "0", "0"], result.stderr
    snapshots = complete_snapshots(captured(tmp_path))
    assert sorted(len(each.compilations) for each in snapshots) == [1, 1, 3]
    (forked,) = [each for each in snapshots if each.forked_from is not None]
    assert [each.compile_id for each in forked.compilations] == ["0/1"]  # 0/0 is the parent's


def test_a_process_that_is_killed_still_says_which_torch_it_had(tmp_path: Path) -> None:
    """After SIGKILL the trace, the text log and the torch version are there."""
    killed = "import signal; f(torch.ones(5)); os.kill(os.getpid(), signal.SIGKILL)"
    script = PROGRAM.format(at_start="", after_first=killed)
    (tmp_path / "killed.py").write_text(script)
    result = subprocess.run(
        [sys.executable, "-m", "recompile_doctor", "run", "--name", "a", "killed.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 137
    bundle = captured(tmp_path)
    assert count(bundle.trace_files(), '"recompile_reasons"') >= 1
    assert count(bundle.log_files(), "Recompiling function f") == 1
    (path,) = bundle.probe_files()
    assert json.loads(path.read_text())["complete"] is False
    assert bundle.manifest.torch_version
    assert bundle.manifest.cut_short_reason == "killed by SIGKILL"
