"""Captures each case, verifies it, and prints what verify measured against the best fix known.

    python tests/end_to_end/verify_table.py [--cases FOLDER] [--python PYTHON] [--keep FOLDER]
                                            [NAME...] [--verify OPTION...]

Per case: recompiles of the program as it is; those under its best fix (truth.yaml), found by hand;
what verify kept, its recompiles and graph breaks as measured, whether the outputs are the same, and
how many trials it took. The last lines say where verify ends above a best fix that needs no change
of the code, and the median of the trials. Without names all cases are taken.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.truth import read_truth  # noqa: E402

TOOL = [sys.executable, "-m", "recompile_doctor"]
CODE = ("code_change", "none")


@dataclass(frozen=True)
class Row:
    """What verify did with one case."""

    case: str
    kind: str
    before: str
    best_fix: int
    kept: str
    after: int
    breaks: str
    outputs: str
    trials: int
    seconds: float
    short: bool

    def __str__(self) -> str:
        name = self.case.partition("_")
        fix = f"{self.best_fix} ({self.kind})" if self.kind in CODE else str(self.best_fix)
        return (
            f"| {name[0]} {name[2]} | {self.before} | {fix} | {self.kept} | {self.after} "
            f"| {self.breaks} | {self.outputs} | {self.trials} |"
        )


def verified(folder: Path, python: str, where: Path, options: list[str]) -> dict[str, Any]:
    """Capture a case and verify it; return verify's JSON."""
    name = folder.name
    run = [*TOOL, "run", "--quiet", "--python", python, "--name", name, "--format", "json"]
    captured = subprocess.run(
        [*run, "--output", str(where / f"{name}.run.json"), str(folder / "case.py")],
        cwd=where,
        capture_output=True,
        text=True,
    )
    report = where / f"{name}.json"
    done = subprocess.run(
        [*TOOL, "verify", name, "--format", "json", "--output", str(report), *options],
        cwd=where,
        capture_output=True,
        text=True,
    )
    if done.returncode or not report.exists():
        said = (done.stderr or captured.stderr)[-2000:]
        raise RuntimeError(f"verify ended with {done.returncode}: {said}")
    found: dict[str, Any] = json.loads(report.read_text("utf-8"))
    return found


def row(folder: Path, python: str, where: Path, options: list[str]) -> Row:
    """Return the line of the table for one case."""
    fix = read_truth(folder)["best_fix"]
    found = verified(folder, python, where, options)
    before, after = found["before"], found["after"] or found["before"]
    counts = found["baseline"]["recompiles"]
    start = str(counts[0]) if len(set(counts)) == 1 else f"{min(counts)} to {max(counts)}"
    best = next((each for each in found["trials"] if each["id"] == found["best"]), None)
    wanted = int(fix["recompiles_after"])
    return Row(
        folder.name,
        fix["kind"],
        start + ("+limit" if before["recompile_limit_hits"] else ""),
        wanted,
        found["best"] or "nothing",
        after["recompiles"],
        f"{before['graph_breaks']} -> {after['graph_breaks']}",
        "" if best is None else best["outputs"],
        len(found["trials"]),
        sum(each["seconds"] or 0 for each in found["trials"]),
        short=fix["kind"] not in CODE and after["recompiles"] > wanted,
    )


def rows(arguments: argparse.Namespace, where: Path) -> Iterator[Row]:
    """Yield the lines of all cases asked for, and print each as it comes."""
    for folder in sorted(arguments.cases.resolve().glob("[0-9]*")):
        if arguments.names and not any(map(folder.name.startswith, arguments.names)):
            continue
        try:
            made = row(folder, arguments.python, where, arguments.verify)
        except RuntimeError as error:
            print(f"| {folder.name} | failed: {error} |", flush=True)
            continue
        print(made, flush=True)
        yield made


def main() -> int:
    """Print the table; return 1 when a case ends above its best fix."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="cases that begin so")
    parser.add_argument("--cases", type=Path, default=ROOT / "fixtures" / "cases")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--keep", type=Path, help="folder for the bundles, instead of none")
    parser.add_argument("--verify", nargs="*", default=[], help="options for verify")
    arguments = parser.parse_args()
    print("| case | before | best fix | verify keeps | after | breaks | outputs | trials |")
    print("|---|---:|---:|---|---:|---|---|---:|")
    with tempfile.TemporaryDirectory() as temporary:
        where = Path(temporary)
        if arguments.keep is not None:
            where = arguments.keep.resolve()
            where.mkdir(parents=True, exist_ok=True)
        made = list(rows(arguments, where))
    tried = [each.trials for each in made if each.trials]
    if tried:
        print(f"\nTrials: median {statistics.median(tried)}, at most {max(tried)}.")
    short = [each.case for each in made if each.short]
    print(f"Above the best fix: {', '.join(short) or 'none'}.")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
