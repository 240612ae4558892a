"""Runs each case plainly and under the probe, and prints where the two differ.

    python tests/end_to_end/probe_transparency_table.py [--python PYTHON] [FOLDER...]

Plainly is with TORCH_TRACE alone; under the probe is `recompile-doctor run` with fingerprints on.
Compared are standard output, exit status, and in the trace what torch compiled: the functions in
order, the graphs, the reasons of recompiles, the graph breaks. A case is a folder with case.py, or
a folder of such folders, or a script.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
KINDS = ("dynamo_start", "dynamo_output_graph", "recompile_reasons", "dynamo_graph_break_reason")


@dataclass(frozen=True)
class Observed:
    """One run of a case."""

    stdout: str
    exit_code: int
    started: tuple[str, ...]  # functions that torch began to compile, in order
    records: Counter[str]
    calls: int = 0
    notes: str = ""


def run_plainly(script: Path, python: str, where: Path) -> Observed:
    """Run a script with TORCH_TRACE and nothing else of ours."""
    trace = where / "trace"
    return _run([python, str(script)], where, trace, {"TORCH_TRACE": str(trace)})


def run_under_probe(script: Path, python: str, where: Path) -> Observed:
    """Run a script under the tool, with fingerprints."""
    command = [
        sys.executable, "-m", "recompile_doctor", "run", "--quiet", "--name", "run",
        "--format", "json", "--output", str(where / "report.json"), "--python", python,
    ]  # fmt: skip
    bundle = where / ".recompile-doctor" / "run"
    seen = _run(
        [*command, str(script)],
        where,
        bundle / "trace",
        {"RECOMPILE_DOCTOR_FINGERPRINTS": "1", "PYTHONPATH": str(ROOT)},
    )
    calls = 0
    for path in (bundle / "probe").glob("*.calls.json"):
        functions = json.loads(path.read_text("utf-8"))["functions"]
        calls += sum(each["calls"] for each in functions)
    notes = "".join(path.read_text("utf-8") for path in (bundle / "probe").glob("*.failure.txt"))
    return Observed(seen.stdout, seen.exit_code, seen.started, seen.records, calls, notes)


def _run(command: list[str], where: Path, trace: Path, variables: dict[str, str]) -> Observed:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # The same isolation for both: a warm cache or state of an earlier run would differ.
    environment["TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO"] = "0"
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(where / "cache")
    done = subprocess.run(
        command,
        cwd=where,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    started = []
    records: Counter[str] = Counter()
    for path in sorted(trace.glob("*.log")):
        for kind, function in _records(path):
            records[kind] += 1
            if kind == "dynamo_start":
                started.append(function)
    return Observed(done.stdout, done.returncode, tuple(started), records)


def _records(path: Path) -> Iterator[tuple[str, str]]:
    for line in path.read_text("utf-8", "replace").splitlines():
        _, bracket, text = line.partition("] {")
        if not bracket:
            continue
        try:
            content = json.loads("{" + text)
        except ValueError:
            continue
        kind = next((each for each in KINDS if each in content), None)
        if content.get("artifact", {}).get("name") in KINDS:
            kind = content["artifact"]["name"]
        if kind is not None:
            stack = content["dynamo_start"].get("stack") if kind == "dynamo_start" else None
            yield kind, f"{stack[-1]['name']}:{stack[-1]['line']}" if stack else ""


def differences(plain: Observed, probed: Observed) -> list[str]:
    """Return what differs between two runs, in words."""
    found = []
    if plain.stdout != probed.stdout:
        found.append("stdout")
    if plain.exit_code != probed.exit_code:
        found.append(f"exit {plain.exit_code} -> {probed.exit_code}")
    if plain.started != probed.started:
        found.append("functions compiled")
    found += [
        f"{kind} {plain.records[kind]} -> {probed.records[kind]}"
        for kind in KINDS
        if plain.records[kind] != probed.records[kind]
    ]
    if probed.notes:
        found.append("notes: " + probed.notes.splitlines()[0])
    return found


def scripts(given: list[Path]) -> Iterator[Path]:
    """Yield the scripts that folders and files stand for."""
    for path in given:
        if path.is_file():
            yield path
        elif (path / "case.py").is_file():
            yield path / "case.py"
        else:
            yield from sorted(path.glob("*/case.py"))


def main() -> int:
    """Print the table; the exit status is the number of cases that differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("given", nargs="*", type=Path, default=[ROOT / "fixtures" / "cases"])
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    print("| case | compiles | recompiles | graph breaks | calls | differences |")
    print("|---" * 6 + "|")
    differing = 0
    for script in scripts([path.resolve() for path in options.given]):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            plain = run_plainly(script, options.python, Path(one))
            probed = run_under_probe(script, options.python, Path(other))
        found = differences(plain, probed)
        differing += bool(found)
        name = script.parent.name if script.name == "case.py" else script.name
        print(
            f"| {name} | {plain.records['dynamo_start']} | {plain.records['recompile_reasons']} "
            f"| {plain.records['dynamo_graph_break_reason']} | {probed.calls} "
            f"| {'; '.join(found) or 'none'} |",
            flush=True,
        )
    return differing


if __name__ == "__main__":
    sys.exit(main())
