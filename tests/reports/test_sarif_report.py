"""SARIF: as the standard says, one primary location, and fingerprints that lines do not move."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from recompile_doctor.diagnosis.finding import LocationRole, UserLocation
from recompile_doctor.events.vocabulary import StackFrame
from recompile_doctor.reports.sarif_report import FINGERPRINT, gate_sarif, render_sarif
from tests.reports import documents, gates
from tests.verification import runs
from tests.verification.runs import cause

SCHEMA: dict[str, Any] = json.loads(
    (Path(__file__).parent / "schemas" / "sarif-subset.json").read_text("utf-8")
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
PROJECT = gates.PROJECT


def check(text: str) -> dict[str, Any]:
    """Return the run of a log that is as the standard says."""
    log = json.loads(text)
    VALIDATOR.validate(log)
    run: dict[str, Any] = log["runs"][0]
    rules = [each["id"] for each in run["tool"]["driver"]["rules"]]
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
    assert len(set(rules)) == len(rules)
    return run


@pytest.mark.parametrize("name", documents.ALL)
def test_reports_are_as_the_standard_says(name: str) -> None:
    document = documents.ALL[name]()
    run = check(render_sarif(document, base=PROJECT))
    assert len(run["results"]) == len(document.findings)


@pytest.mark.parametrize("name", gates.ALL)
def test_gates_are_as_the_standard_says(name: str) -> None:
    check(gate_sarif(gates.ALL[name](), base=PROJECT))


def test_what_fails_the_gate_is_an_error_and_what_is_allowed_is_suppressed() -> None:
    results = check(gate_sarif(gates.failed(), base=PROJECT))["results"]
    assert [(each["ruleId"], each["level"]) for each in results] == [
        ("zero-one-specialization", "error"),
        ("rank-change", "error"),
        ("stride-change", "note"),
        ("graph-break", "note"),
    ]
    assert results[2]["suppressions"] == [
        {"kind": "external", "justification": "the cache is transposed on purpose"}
    ]
    assert "3 recompiles, at most 1 allowed (budget.yaml:2)" in results[0]["message"]["text"]


def test_a_run_that_proves_nothing_is_an_error_without_a_location() -> None:
    run = check(gate_sarif(gates.implausible()))
    (result,) = run["results"]
    assert (result["ruleId"], result["locations"]) == ("run-not-plausible", [])
    assert run["invocations"][0]["executionSuccessful"] is False


def test_files_of_the_repository_are_relative_to_its_root() -> None:
    (first, *_) = check(gate_sarif(gates.failed(), base=PROJECT))["results"]
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "model.py", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 12}


def test_other_files_have_a_whole_address() -> None:
    (first, *_) = check(gate_sarif(gates.failed(), base=Path("/elsewhere")))["results"]
    artifact = first["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact == {"uri": "file:///home/user/project/model.py"}


def test_lines_that_have_to_do_with_a_finding_are_related_locations() -> None:
    related = UserLocation(StackFrame(runs.FILE, 30, "main"), LocationRole.CALL)
    facts = runs.run(replace(cause(), related=(related,)))
    (result,) = check(gate_sarif(gates.result(facts), base=PROJECT))["results"]
    assert len(result["locations"]) == 1
    (other,) = result["relatedLocations"]
    assert other["message"]["text"] == "the compiled function is called here"
    assert other["physicalLocation"]["region"]["startLine"] == 30


def test_fingerprints_stay_when_lines_move() -> None:
    def fingerprint(line: int) -> str:
        place = UserLocation(StackFrame(runs.FILE, line, "f"), LocationRole.BREAK)
        finding = replace(runs.graph_break(), location=place, frame=runs.frame(line=line))
        (result,) = check(gate_sarif(gates.result(runs.run(finding))))["results"]
        text: str = result["partialFingerprints"][FINGERPRINT]
        return text

    assert fingerprint(10) == fingerprint(99)


def test_findings_have_fingerprints_of_their_own() -> None:
    results = check(gate_sarif(gates.failed()))["results"]
    prints = {each["partialFingerprints"][FINGERPRINT] for each in results}
    assert len(prints) == len(results)


def test_rules_are_explained_by_their_pages() -> None:
    rules = check(gate_sarif(gates.failed()))["tool"]["driver"]["rules"]
    assert "## What it finds" in rules[0]["help"]["markdown"]
