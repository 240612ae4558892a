"""Runs each case, suggests, applies what was suggested, and prints what is left.

    python tests/end_to_end/suggest_table.py [--cases FOLDER] [--python PYTHON] [--all] [NAME...]

Per case: the baseline; the prescription that matches the best fix of its truth.yaml most closely
(with --all every prescription), applied with `run --prescription`; recompiles, graph breaks, and
whether the CHECK lines stay the same. Without names the cases are taken whose best fix is marks,
variables or settings, and no rewrite.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.truth import read_truth  # noqa: E402

TOLERANCE = 1e-3
TOOL = [sys.executable, "-m", "recompile_doctor"]
LISTS = {
    "TORCH_COMPILE_UNBACKED_SOURCES": "unbacked",
    "TORCH_COMPILE_DYNAMIC_SOURCES": "dynamic",
}
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?|nan|inf")


@dataclass(frozen=True)
class Measured:
    """What one run of a case gave."""

    recompiles: int
    breaks: int
    graphs: int | None
    limit: bool
    checks: list[str]
    exit_code: int


def run_case(
    folder: Path, python: str, where: Path, name: str, prescription: Path | None = None
) -> Measured:
    """Run a case, and return what the report and the program's output say."""
    report = where / f"{name}.json"
    command = [
        *TOOL, "run", "--quiet", "--python", python, "--name", name,
        "--format", "json", "--output", str(report),
    ]  # fmt: skip
    if prescription is not None:
        command += ["--prescription", str(prescription)]
    done = subprocess.run(
        [*command, str(folder / "case.py")],
        cwd=where,
        capture_output=True,
        text=True,
    )
    if not report.exists():
        raise RuntimeError(f"no report (exit {done.returncode}): {done.stderr[-2000:]}")
    summary = json.loads(report.read_text("utf-8"))["summary"]
    checks = [line for line in done.stdout.splitlines() if line.startswith("CHECK")]
    return Measured(
        summary["recompiles"],
        summary["graph_break_times"],
        summary["graphs_captured"],
        summary["recompile_limit_hits"] > 0,
        checks,
        done.returncode,
    )


def suggestions(where: Path, name: str) -> list[dict[str, Any]]:
    """Return the prescriptions for a bundle that change something."""
    command = [*TOOL, "suggest", name, "--format", "json"]
    done = subprocess.run(command, cwd=where, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout)["prescriptions"]
    return [each for each in found if each["marks"] or each["config"]]


def wanted(fix: Mapping[str, Any]) -> Iterator[tuple[str, str, int | None]]:
    """Yield kind, pattern and dimension of each entry of a best fix; settings as kind ``flag``."""
    for name, value in fix.get("env", {}).items():
        if name not in LISTS:
            yield "flag", name, None
            continue
        for entry in str(value).split(","):
            match = re.match(r"^(.+):(\d+)$", entry)
            yield (
                LISTS[name],
                match[1] if match else entry,
                int(match[2]) if match else None,
            )


def covers(prescription: Mapping[str, Any], kind: str, pattern: str, dim: int | None) -> bool:
    """Return whether a prescription has what one entry of a best fix asks for."""
    if kind == "flag":
        return pattern in prescription["environment"]
    both = kind == "dynamic"  # in both lists: a parameter, which we call unbacked
    return any(
        (each["kind"] == kind or both)
        and (pattern == each["source"] or re.match(pattern, each["source"]))
        and dim in (None, each["dim"])
        for each in prescription["marks"]
    )


def closest(found: list[dict[str, Any]], fix: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the prescription closest to a best fix, and whether it has all of it."""
    entries = list(wanted(fix))

    def score(prescription: dict[str, Any]) -> tuple[int, int]:
        hit = sum(covers(prescription, *entry) for entry in entries)
        flags = len(prescription["config"])
        return hit, -abs(flags - sum(entry[0] == "flag" for entry in entries))

    best = max(found, key=score)
    return best, score(best)[0] == len(entries)


def same(one: list[str], other: list[str]) -> bool:
    """Return whether two outputs have the same CHECK lines, within a tolerance for numbers."""
    if len(one) != len(other):
        return False
    return all(map(_same_line, sorted(one), sorted(other)))


def _same_line(one: str, other: str) -> bool:
    if NUMBER.sub("N", one) != NUMBER.sub("N", other):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    return all(a == b or abs(float(a) - float(b)) <= TOLERANCE * max(1, abs(float(a)))
               for a, b in pairs)  # fmt: skip


def rows(folder: Path, python: str, where: Path, *, every: bool) -> Iterator[str]:
    """Yield the lines of the table for one case."""
    truth = read_truth(folder)
    fix = truth["best_fix"]
    before = run_case(folder, python, where, folder.name)
    found = suggestions(where, folder.name)
    limit = "+limit" if before.limit else ""
    start = f"| {folder.name} | {before.recompiles}{limit} | {fix['recompiles_after']} "
    if not found:
        yield f"{start}| none | | | | | |"
        return
    chosen, whole = closest(found, fix)
    for number, prescription in enumerate(found if every else [chosen]):
        file = where / f"{folder.name}-{number}.yaml"
        command = [*TOOL, "suggest", folder.name, "--id", prescription["id"], "--format", "yaml"]
        subprocess.run([*command, "--output", str(file)], cwd=where, check=True)
        after = run_case(folder, python, where, f"{folder.name}-{number}", file)
        is_chosen = prescription["id"] == chosen["id"]
        marks = ("yes" if whole else "in part") if is_chosen else ""
        estimated = prescription["estimated_recompiles_after"]
        yield (
            f"{start}| {prescription['id']} | {marks} | {estimated} "
            f"| {after.recompiles}{'+limit' if after.limit else ''} "
            f"| {before.breaks} -> {after.breaks} | {before.graphs} -> {after.graphs} "
            f"| {'same' if same(before.checks, after.checks) else 'DIFFERENT'}"
            f"{'' if after.exit_code == before.exit_code else f', exit {after.exit_code}'} |"
        )


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="cases that begin so")
    parser.add_argument("--cases", type=Path, default=ROOT / "fixtures" / "cases")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--all", action="store_true", help="run every prescription")
    options = parser.parse_args()
    print("| case | before | best fix | prescription | has its marks | estimated | after | breaks "
          "| graphs | outputs |")  # fmt: skip
    print("|---" * 10 + "|")
    with tempfile.TemporaryDirectory() as where:
        for folder in sorted(options.cases.resolve().glob("[0-9]*")):
            kind = read_truth(folder)["best_fix"]["kind"]
            if options.names:
                if not any(folder.name.startswith(each) for each in options.names):
                    continue
            elif kind in ("code_change", "none"):
                continue
            try:
                for row in rows(folder, options.python, Path(where), every=options.all):
                    print(row, flush=True)
            except (RuntimeError, subprocess.CalledProcessError) as error:
                print(f"| {folder.name} | failed: {error} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
