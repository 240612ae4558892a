"""What the probe's watch over compiled functions adds to a program of fast calls.

    python benchmarks/probe_overhead.py [--rounds 7] [--calls 10000] [--python PATH]

The same program in turn with the probe as it is and with a probe that does not watch; both log. A
row for the whole process, and one for the microseconds of a call as the program sees it.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from measure import run_once

_ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(_ROOT))

from recompile_doctor.bundle import bundle_root, create_bundle  # noqa: E402
from recompile_doctor.capture.environment import child_environment  # noqa: E402

_PROGRAM = """
import sys, time, torch
count = int(sys.argv[1])
@torch.compile(backend="eager")
def f(x, y, scale=2):
    return x * scale + y
x, y = torch.ones(4, 8), torch.ones(4, 8)
f(x, y)
started = time.perf_counter()
for _ in range(count):
    f(x, y)
took = time.perf_counter() - started
with open(sys.argv[2], "a") as file:
    print(took / count * 1e6, file=file)
"""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--python", default=sys.executable, help="interpreter with torch")
    arguments = parser.parse_args()
    names = ("no watch", "watch", "watch and fingerprints")
    walls: dict[str, list[float]] = {name: [] for name in names}
    files: dict[str, Path] = {}
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        program = where / "program.py"
        program.write_text(_PROGRAM)
        blind = _blind_probe(where)
        for number in range(arguments.rounds):
            for name in names:
                files[name] = where / f"{names.index(name)}.txt"
                bundle = create_bundle(bundle_root(where), f"run-{names.index(name)}-{number}")
                child = child_environment(
                    os.environ, bundle, use_caches=False, probe=True,
                    fingerprints=name.endswith("fingerprints"),
                )  # fmt: skip
                if name == "no watch":
                    site, _, rest = child["PYTHONPATH"].partition(os.pathsep)
                    child["PYTHONPATH"] = os.pathsep.join([str(blind / Path(site).name), rest])
                command = [arguments.python, str(program), str(arguments.calls), str(files[name])]
                walls[name].append(run_once(command, cwd=where, env=child).wall)
        calls = {name: [float(line) for line in files[name].read_text().split()] for name in names}
    print(_table(walls, calls))  # noqa: T201 - a script's result


def _blind_probe(where: Path) -> Path:
    """Return a copy of the probe whose watch never begins."""
    copy = where / "probe"
    shutil.copytree(_ROOT / "recompile_doctor" / "capture" / "probe", copy)
    path = copy / "calls.py"
    text = path.read_text()
    shorter = text.replace("    if not is_compile_worker():\n", "    if False:\n", 1)
    if shorter == text:
        raise SystemExit("the probe is not as this script expects it")
    path.write_text(shorter)
    return copy


def _table(walls: dict[str, list[float]], calls: dict[str, list[float]]) -> str:
    lines = ["| program | wall s | ratio | us a call | us added |", "|---|---|---|---|---|"]
    base = statistics.median(walls["no watch"])
    fast = statistics.median(calls["no watch"])
    for name, seconds in walls.items():
        wall, each = statistics.median(seconds), statistics.median(calls[name])
        lines.append(
            f"| {name} | {wall:.2f} ({min(seconds):.2f}-{max(seconds):.2f}) | {wall / base:.3f} "
            f"| {each:.1f} ({min(calls[name]):.1f}-{max(calls[name]):.1f}) | {each - fast:.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
