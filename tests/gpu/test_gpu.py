"""What only a CUDA device can show: its memory, its clock, CUDA graphs, and results that agree.

``tests/gpu_check.sh`` runs these on a machine that has one.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recompile_doctor.bundle import Bundle, bundle_root, create_bundle
from recompile_doctor.capture.launch import Streams
from recompile_doctor.capture.record import record
from recompile_doctor.capture.snapshot import Snapshot, read_snapshots

pytestmark = [pytest.mark.gpu, pytest.mark.torch]

ROOT = Path(__file__).parents[2]
TIMEOUT = 180


def capture(project: Path, name: str, program: str, **overrides: str) -> tuple[Bundle, Any]:
    """Run a program that prints one line of JSON; return its bundle and that line."""
    (project / "program.py").write_text(program)
    bundle = create_bundle(bundle_root(project), name, exact=True)
    output, errors = project / f"{name}.out", project / f"{name}.err"
    with output.open("wb") as stdout, errors.open("wb") as stderr:
        done = record(
            bundle,
            [sys.executable, "program.py"],
            base=os.environ,
            cwd=project,
            overrides=overrides,
            timeout=TIMEOUT,
            streams=Streams(stdout, stderr),
        )
    assert done.outcome.exit_code == 0, errors.read_text()
    assert [path.read_text() for path in bundle.failure_files()] == []
    return bundle, json.loads(output.read_text())


def tool(project: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "recompile_doctor", *words],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def calls_of(bundle: Bundle) -> Any:
    """Return what the probe noted of the calls, in the one process that compiled something."""
    (path,) = bundle.probe_directory.glob("*.calls.json")
    return json.loads(path.read_text())


def outputs_of(bundle: Bundle) -> list[Any]:
    (path,) = bundle.probe_directory.glob("*.outputs.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


MEMORY = """
import json, torch

@torch.compile
def f(x):
    return x * 2 + 1

x = torch.ones(64 << 20, device="cuda")  # 256 MiB
for _ in range(3):
    f(x)
torch.cuda.synchronize()
print(json.dumps({
    "name": torch.cuda.get_device_name(0),
    "devices": torch.cuda.device_count(),
    "peak": torch.cuda.max_memory_allocated(),
}))
"""


def test_the_manifest_names_the_device_and_its_peak_of_memory(tmp_path: Path) -> None:
    """At least what the program itself saw at its end, and not the whole device."""
    bundle, saw = capture(tmp_path, "memory", MEMORY)
    assert bundle.manifest.devices[0] == saw["name"]
    assert bundle.manifest.device_memory_peak is not None
    peak = bundle.manifest.device_memory_peak["cuda:0"]
    assert saw["peak"] >= 512 << 20
    assert saw["peak"] <= peak <= 2 * saw["peak"]


TRAINING = """
import json, torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8)).cuda()
compiled = torch.compile(model, dynamic=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = None
for batch in (4, 16, 7, 1, 2000):
    optimizer.zero_grad()
    loss = compiled(torch.randn(batch, 32, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
print(json.dumps(loss.item()))
"""


def without_times(lines: list[Any]) -> list[Any]:
    return [
        {name: value for name, value in line.items() if name not in ("pid", "started")}
        for line in lines
    ]


def assert_close(one: Any, other: Any, where: str = "") -> None:
    """Compare JSON values; numbers to 1e-6, which is far below what another graph changes."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for name, value in one.items():
            assert_close(value, other[name], f"{where}.{name}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for number, value in enumerate(one):
            assert_close(value, other[number], f"{where}[{number}]")
    elif isinstance(one, float):
        assert other == pytest.approx(one, rel=1e-6, abs=1e-9), where
    else:
        assert one == other, where


def test_two_runs_of_one_program_have_the_same_fingerprints(tmp_path: Path) -> None:
    """Outputs, parameters and gradients, read on the device; and they do not change the run."""
    switch = {"RECOMPILE_DOCTOR_FINGERPRINTS": "1"}
    first, loss = capture(tmp_path, "first", TRAINING, **switch)
    second, again = capture(tmp_path, "second", TRAINING, **switch)
    _, unwatched = capture(tmp_path, "unwatched", TRAINING)
    assert loss == pytest.approx(again, rel=1e-6)
    assert loss == pytest.approx(unwatched, rel=1e-6)
    lines = without_times(outputs_of(first))
    assert_close(lines, without_times(outputs_of(second)))

    outputs = [leaf for line in lines if "call" in line for leaf in line["outputs"]]
    assert [leaf["sizes"] for leaf in outputs] == [[n, 8] for n in (4, 16, 7, 1, 2000)]
    assert {leaf["device"] for leaf in outputs} == {"cuda:0"}
    assert all(leaf["nan"] == 0 and leaf["abs"] > 0 for leaf in outputs)
    assert [len(leaf["sample"]) for leaf in outputs] == [32, 64, 56, 8, 64]
    parameters = [each for line in lines for each in line.get("parameters", ())]
    assert len({each["name"] for each in parameters}) == 4
    assert all(each["grad"] is not None and each["grad"]["abs"] > 0 for each in parameters)


def test_fingerprints_tell_results_apart(tmp_path: Path) -> None:
    """A change that is small, but not rounding, is seen."""
    switch = {"RECOMPILE_DOCTOR_FINGERPRINTS": "1"}
    first, _ = capture(tmp_path, "first", TRAINING, **switch)
    other, _ = capture(tmp_path, "other", TRAINING.replace("lr=0.1", "lr=0.1001"), **switch)
    with pytest.raises(AssertionError):
        assert_close(without_times(outputs_of(first)), without_times(outputs_of(other)))


# The calls only start work on the device: their wall time is far below what the work takes.
STEADY = """
import json, time, torch

@torch.compile
def f(x, y):
    return (x @ y).relu()

x = torch.randn(4096, 4096, device="cuda", dtype=torch.float64)
f(x, x)
torch.cuda.synchronize()
started = time.perf_counter()
for _ in range(40):
    f(x, x)
submitted = time.perf_counter() - started
torch.cuda.synchronize()
print(json.dumps({"submitted": submitted / 40, "took": (time.perf_counter() - started) / 40}))
"""


def test_steady_calls_are_timed_on_the_device(tmp_path: Path) -> None:
    """By CUDA events: the wall clock of a call sees only how long it takes to submit the work."""
    bundle, saw = capture(tmp_path, "steady", STEADY)
    (function,) = calls_of(bundle)["functions"]
    assert function["clock"] == "cuda-events"
    assert (function["calls"], function["compiled_calls"], function["steady_calls"]) == (41, 1, 40)
    median = function["steady_seconds"]["median"]
    assert 0.5 * saw["took"] < median < 2 * saw["took"]
    (row,) = function["rows"]
    assert [each["device"] for each in row["arguments"]] == ["cuda:0", "cuda:0"]


RECORDED = """
import json, torch

@torch.compile(mode="reduce-overhead", dynamic=True)
def f(x):
    return (x * 2).relu() + 1

sizes = list(range(4, 16))
for _ in range(3):  # a new size is warmed up, then recorded, then replayed
    for size in sizes:
        torch.compiler.cudagraph_mark_step_begin()
        f(torch.ones(size, 64, device="cuda"))
torch.cuda.synchronize()
print(json.dumps(len(sizes)))
"""


def test_cuda_graphs_recorded_for_many_sizes_are_counted(tmp_path: Path) -> None:
    """No recompile shows them: torch's warning and its own counter do."""
    bundle, sizes = capture(tmp_path, "recorded", RECORDED)
    (snapshot,) = read_snapshots(bundle)
    assert isinstance(snapshot, Snapshot)
    inductor = snapshot.counters["inductor"]
    assert inductor["cudagraph_recorded_non_static_inputs"] >= sizes
    assert inductor.get("cudagraph_skips", 0) == 0

    report = json.loads(tool(tmp_path, "analyze", "recorded", "--format", "json"))
    assert report["summary"]["recompiles"] == 0
    (finding,) = [each for each in report["findings"] if each["rule"] == "cudagraph-rerecord"]
    assert finding["values"] == ["9"]  # torch warns once, at the first size above its limit


def test_the_probe_does_not_disturb_cuda_graphs(tmp_path: Path) -> None:
    """As many are recorded without its fingerprints as with them: none is read while it records."""
    switch = {"RECOMPILE_DOCTOR_FINGERPRINTS": "1"}
    bundles = (
        capture(tmp_path, "plain", RECORDED)[0],
        capture(tmp_path, "watched", RECORDED, **switch)[0],
    )
    counted = []
    for bundle in bundles:
        (snapshot,) = read_snapshots(bundle)
        assert isinstance(snapshot, Snapshot)
        inductor = snapshot.counters["inductor"]
        counted.append({name: n for name, n in inductor.items() if name.startswith("cudagraph")})
    assert counted[0] and counted[0] == counted[1]
    calls = [line for line in outputs_of(bundles[1]) if "call" in line]
    assert len(calls) == 36
    # x * 2, relu, + 1 of ones: 3 everywhere, whatever graph was replayed.
    assert {leaf["sum"] / leaf["numel"] for line in calls for leaf in line["outputs"]} == {3.0}


ZERO_ONE = """
import json, torch

@torch.compile
def score(items, weights):
    return torch.tanh((items - items.mean()) @ weights)

torch.manual_seed(0)
weights = torch.linspace(-1.0, 1.0, 5, device="cuda")
results = []
for count in (12, 20, 1, 31, 0, 1):
    results.append(score(torch.randn(count, 5, device="cuda"), weights).tolist())
print(json.dumps(results))
"""


def test_sizes_of_0_and_1_are_fixed_by_their_prescription(tmp_path: Path) -> None:
    """With inductor on the device: no recompile is left, and the results are the same."""
    _, before = capture(tmp_path, "before", ZERO_ONE)
    report = json.loads(tool(tmp_path, "analyze", "before", "--format", "json"))
    assert report["summary"]["recompiles"] == 3
    assert "zero-one-specialization" in {each["rule"] for each in report["findings"]}

    fix = tmp_path / "fix.yaml"
    words = ("--id", "strongest", "--format", "yaml", "--output", str(fix))
    tool(tmp_path, "suggest", "before", *words)
    printed = tool(
        tmp_path,
        *("run", "--quiet", "--name", "after", "--prescription", str(fix), "program.py"),
    )
    after = json.loads(printed.splitlines()[0])
    report = json.loads(tool(tmp_path, "analyze", "after", "--format", "json"))
    assert (report["summary"]["recompiles"], report["summary"]["graphs_captured"]) == (0, 1)
    assert [len(each) for each in after] == [len(each) for each in before]
    for one, other in zip(before, after, strict=True):
        assert other == pytest.approx(one, rel=1e-4, abs=1e-5)
