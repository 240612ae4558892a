"""What is measured of a case (truth.yaml), compared with what a JSON report says of it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_RESUME = re.compile(r"torch_dynamo_resume_in_(?P<function>.*)_at_\d+\Z")
_STRIDE = re.compile(r"(?P<source>.*)\.stride\(\)\[(?P<dim>\d+)\]\Z")
# These causes show only when the guards that hide them are fixed: truth.yaml says so.
HIDDEN = ("hidden until", "hidden behind")


@dataclass(frozen=True)
class Verdict:
    """How a report of a case compares with its truth: what differs, in words."""

    case: str
    totals: Mapping[str, Any]
    differences: tuple[str, ...] = ()
    hidden: tuple[str, ...] = field(default=())


def read_truth(folder: Path) -> dict[str, Any]:
    """Return the truth of the case in ``folder``."""
    truth: dict[str, Any] = yaml.safe_load((folder / "truth.yaml").read_text(encoding="utf-8"))
    return truth


def compare(case: str, truth: Mapping[str, Any], report: Mapping[str, Any]) -> Verdict:
    """Return how the JSON report of a case's baseline compares with its truth."""
    summary = report["summary"]
    totals = {
        "recompiles": summary["recompiles"],
        "ids": len(_ids_above_zero(report)),
        "graph_breaks": summary["graph_break_times"],
        "places": summary["graph_breaks"],
        "limit": summary["recompile_limit_hits"] > 0,
        "graphs": summary["graphs_captured"],
    }
    differences = [*_totals(truth["baseline"], totals)]
    hidden = []
    for cause in truth["causes"]:
        if any(_matches(cause, finding) for finding in report["findings"]):
            continue
        words = f"{_rules(cause)} of {cause['source']} dim {cause.get('dim')} in {cause['frame']}"
        note = f"{cause.get('guard', '')} {cause.get('note', '')}"
        (hidden if any(word in note for word in HIDDEN) else differences).append(words)
    return Verdict(case, totals, tuple(differences), tuple(hidden))


def _totals(baseline: Mapping[str, Any], totals: Mapping[str, Any]) -> Iterator[str]:
    wanted = {
        "recompiles": baseline["recompiles"],
        "graph_breaks": baseline["graph_breaks"],
        "limit": baseline["hit_recompile_limit"],
        "graphs": baseline.get("graphs_captured"),
    }
    for name, want in wanted.items():
        got = totals[name]
        if name == "recompiles" and totals["ids"] == want:
            continue  # truth.yaml counts the ids above 0: retries after errors are among them
        if want is not None and got != want:
            yield f"{name}: {got}, truth {want}"


def _ids_above_zero(report: Mapping[str, Any]) -> set[tuple[str, int | None]]:
    entries = (entry for frame in report["frames"] for entry in frame["entries"])
    return {
        (entry["compile_id"], entry["rank"])
        for entry in entries
        if not entry["compile_id"].endswith("/0")
    }


def _rules(cause: Mapping[str, Any]) -> list[str]:
    rule = cause["rule"]
    return [rule] if isinstance(rule, str) else list(rule)


def _matches(cause: Mapping[str, Any], finding: Mapping[str, Any]) -> bool:
    resume = _RESUME.match(cause["frame"])
    function = resume["function"] if resume else cause["frame"]
    if finding["rule"] not in _rules(cause) or finding["frame"]["function"] != function:
        return False
    return _same_source(cause["source"], cause.get("dim"), finding)


def _same_source(source: str, dim: int | None, finding: Mapping[str, Any]) -> bool:
    stride = _STRIDE.match(source)
    if stride:
        source, dim = stride["source"], int(stride["dim"])
    found = finding["source"]
    if found is None:
        # A break has no source; truth.yaml quotes the code. A backend has no source either.
        code = (finding["user_location"] or {}).get("code") or finding["message"]
        return source in code or source == "backend"
    if "..." in source:
        start, _, end = source.partition("...")
        return found.startswith(start) and found.endswith(end.removeprefix("]")[-5:])
    return found in source.split(", ") and finding["dim"] == dim
