"""Stored logs as runs, and what is expected of them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from recompile_doctor.diagnosis.diagnose import Diagnosis, diagnose
from recompile_doctor.diagnosis.finding import Confidence, Finding
from recompile_doctor.events.stream import read_events
from recompile_doctor.model.build import build_run
from recompile_doctor.model.run import Run

FIXTURES = Path(__file__).parents[2] / "fixtures"
PROGRAMS = sorted(path.name for path in (FIXTURES / "programs").iterdir())
SCENARIOS = sorted(path.name for path in (FIXTURES / "scenarios" / "2.13.0").iterdir())
# The name of a way to read a folder of logs, and the files that it takes. The trace comes first.
LOGS = {
    "trace": ("trace",),
    "dynamic": ("dynamic.log.gz",),
    "verbose": ("verbose.log.gz",),
    "both": ("trace", "dynamic.log.gz"),
}
TOTALS = ("recompiles", "graph_break_places", "recompile_limit_hits", "graphs_captured")


@dataclass(frozen=True)
class Stored:
    """The logs of one run, and one way to read them."""

    program: str
    release: str
    log: str
    folder: Path

    def run(self) -> Run:
        """Return the run that these logs tell of."""
        return read_run(*(self.folder / name for name in LOGS[self.log]))

    def __str__(self) -> str:
        return f"{self.program}, torch {self.release}, {self.log}"


def read_run(*paths: Path) -> Run:
    """Return the run that files and folders of logs tell of."""
    return build_run(read_events(paths))


def stored_programs(rule: str) -> Iterator[Stored]:
    """Yield the logs of a rule's program, on each release and read in each way."""
    for folder in sorted((FIXTURES / "logs" / rule).iterdir()):
        for log in ("trace", "dynamic", "both"):
            yield Stored(rule, folder.name.removeprefix("torch-"), log, folder)


def stored_scenarios(name: str) -> Iterator[Stored]:
    """Yield the logs of a scenario, on each release and read in each way."""
    for folder in sorted((FIXTURES / "scenarios").glob(f"*/{name}")):
        for log in LOGS:
            yield Stored(name, folder.parent.name, log, folder)


def all_stored() -> Iterator[Stored]:
    """Yield all stored logs, each read in each way."""
    for rule in PROGRAMS:
        yield from stored_programs(rule)
    for name in SCENARIOS:
        yield from stored_scenarios(name)


def expected_of_program(stored: Stored) -> dict[str, Any]:
    """Return the right answer for a rule's program, before differences."""
    path = FIXTURES / "golden" / stored.program / "expected.yaml"
    answer: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {**answer, **(answer.get("per_release") or {}).get(stored.release, {})}


@cache
def expected_of_scenarios() -> dict[str, Any]:
    """Return what each scenario shows, before differences."""
    path = FIXTURES / "scenarios" / "expected.yaml"
    answers: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return answers


@cache
def differences() -> tuple[dict[str, Any], ...]:
    """Return the table of what torch itself makes different."""
    text = (FIXTURES / "differences.yaml").read_text(encoding="utf-8")
    return tuple(yaml.safe_load(text))


def difference_of(stored: Stored, kind: str) -> dict[str, Any]:
    """Return what differs for these logs; ``kind`` is program or scenario."""
    found = [
        each
        for each in differences()
        if each.get(kind) == stored.program
        and stored.log in each["logs"]
        and _concerns(each, stored.release)
    ]
    assert len(found) <= 1, f"two entries for {stored}"
    return found[0] if found else {}


def _concerns(difference: Mapping[str, Any], release: str) -> bool:
    if "releases" in difference:
        return release in difference["releases"]
    return "since" not in difference or numbers(release) >= numbers(difference["since"])


def numbers(release: str) -> tuple[int, ...]:
    """Return a release as numbers, which sort."""
    return tuple(int(part) for part in release.split("."))


Row = tuple[object, ...]


def expected_rows(
    answer: Mapping[str, Any], difference: Mapping[str, Any], key: str
) -> Counter[Row]:
    """Return the findings that are right; ``key`` names the recompiles that are compared."""

    def rows(findings: list[dict[str, Any]]) -> Counter[Row]:
        return Counter(
            (
                each["rule"],
                each["frame"],
                each["source"],
                each["dim"],
                tuple(each[key]),
                each.get("graph_breaks", 0),
            )
            for each in findings
        )

    missing = rows(difference.get("missing", []))
    base = rows(answer["findings"])
    assert missing <= base, f"what is missing is not expected: {missing - base}"
    return base - missing + rows(difference.get("extra", []))


def expected_totals(answer: Mapping[str, Any], difference: Mapping[str, Any]) -> dict[str, int]:
    """Return the totals that are right."""
    return {name: {**answer, **difference}[name] for name in TOTALS if name in answer}


def found_rows(diagnosis: Diagnosis, key: str) -> Counter[Row]:
    """Return what torch named; what was concluded beside it is not compared."""
    observed = [each for each in diagnosis.findings if each.confidence is Confidence.OBSERVED]
    return Counter(
        (
            each.rule,
            each.frame.function,
            each.source,
            each.dim,
            tuple(str(one) for one in _compiles(each, key)),
            each.graph_breaks,
        )
        for each in observed
    )


def _compiles(finding: Finding, key: str) -> Iterator[object]:
    if key == "leads":
        yield from finding.leading
    else:
        yield from (each.key for each in finding.recompiles)


def found_totals(run: Run, diagnosis: Diagnosis) -> dict[str, int]:
    """Return the totals of a run, with graphs only where a log can tell."""
    totals = {
        "recompiles": len(run.recompiles),
        "graph_break_places": sum(not each.fatal for each in diagnosis.breaks.places()),
        "recompile_limit_hits": len(run.limit_hits),
    }
    if run.has_trace:
        totals["graphs_captured"] = sum(each.graphs or 0 for each in run.compilations)
    return totals


def differing(stored: Stored, kind: str, answer: Mapping[str, Any], key: str) -> list[str]:
    """Return what the findings and totals of these logs have wrong, in words."""
    run = stored.run()
    diagnosis = diagnose(run)
    difference = difference_of(stored, kind)
    right, found = expected_rows(answer, difference, key), found_rows(diagnosis, key)
    wrong = [f"{stored}: not found: {row}" for row in right - found]
    wrong += [f"{stored}: not expected: {row}" for row in found - right]
    totals = found_totals(run, diagnosis)
    wrong += [
        f"{stored}: {totals[name]} {name}, not {number}"
        for name, number in expected_totals(answer, difference).items()
        if name in totals and totals[name] != number
    ]
    if run.unread.records:
        wrong.append(f"{stored}: not understood: {run.unread.examples}")
    return wrong + [f"{stored}: {each}" for each in unsound(run, diagnosis)]


def unsound(run: Run, diagnosis: Diagnosis) -> Iterator[str]:
    """Yield what may not be so in any diagnosis, in words."""
    ids = Counter(each.id for each in diagnosis.findings)
    yield from (f"{times} findings are called {one}" for one, times in ids.items() if times > 1)
    leads = Counter(key for each in diagnosis.findings for key in each.leading)
    for recompile in run.recompiles:
        if leads[recompile.key] != 1:
            yield f"{leads[recompile.key]} findings lead recompile {recompile.key}"
    unknown = set(leads) - {each.key for each in run.recompiles}
    yield from (f"{key} is led and no recompile" for key in unknown)
    measured = sum(each.seconds or 0.0 for each in run.recompiles)
    counted = sum(each.seconds or 0.0 for each in diagnosis.findings)
    if abs(measured - counted) > 1e-6:
        yield f"findings count {counted} of {measured} seconds"
    for each in diagnosis.findings:
        if each.together_with is not None and each.together_with not in ids:
            yield f"{each.id} is together with {each.together_with}, which is not there"
        if not all(one.text and one.position.line > 0 for one in each.evidence):
            yield f"{each.id} has evidence without words or place"
