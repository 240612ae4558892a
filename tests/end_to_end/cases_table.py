"""Runs every case with `recompile-doctor run` and prints how the report compares with its truth.

    python tests/end_to_end/cases_table.py [--cases fixtures/cases] [--python PYTHON] [NAME...]

Each case runs in a process of its own, with the interpreter given (it needs torch 2.13, for which
the truth was measured). Counts of 43 vary from run to run: three threads race.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.truth import Verdict, compare, read_truth  # noqa: E402


def run_case(folder: Path, python: str, where: Path) -> Verdict:
    """Return how the report of a run of the case compares with its truth."""
    output = where / f"{folder.name}.json"
    command = [
        sys.executable, "-m", "recompile_doctor", "run", "--quiet", "--python", python,
        "--name", folder.name, "--format", "json", "--output", str(output),
        str(folder / "case.py"),
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=where, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    if not output.exists():
        return Verdict(folder.name, {}, (f"no report (exit {done.returncode}): {done.stderr}",))
    return compare(folder.name, read_truth(folder), json.loads(output.read_text("utf-8")))


def main() -> int:
    """Print the table; the exit status says whether all cases agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="cases that begin so; all by default")
    parser.add_argument("--cases", type=Path, default=ROOT / "fixtures" / "cases")
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    folders = [
        folder
        for folder in sorted(options.cases.resolve().glob("[0-9]*"))
        if not options.names or any(folder.name.startswith(each) for each in options.names)
    ]
    differing = 0
    print("| case | recompiles | graphs | breaks (times) | limit | differs from the truth |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as where:
        for folder in folders:
            verdict = run_case(folder, options.python, Path(where))
            differing += bool(verdict.differences)
            print(row(verdict), flush=True)
    return 1 if differing else 0


def row(verdict: Verdict) -> str:
    """Return the line of the table for one case."""
    totals = verdict.totals
    hidden = [f"not visible before a fix: {each}" for each in verdict.hidden]
    words = "; ".join([*verdict.differences, *hidden]) or "-"
    return (
        f"| {verdict.case} | {totals.get('recompiles')} | {totals.get('graphs')} "
        f"| {totals.get('places')} ({totals.get('graph_breaks')}) | {totals.get('limit')} "
        f"| {words} |"
    )


if __name__ == "__main__":
    sys.exit(main())
