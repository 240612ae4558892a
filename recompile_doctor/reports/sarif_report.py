"""Findings as SARIF 2.1.0, for code scanning.

One result for each finding, with one primary location; lines that have to do with it are related
locations. Fingerprints hold no line numbers, so a finding stays the same when lines move.
"""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

import msgspec

from recompile_doctor.config import Place
from recompile_doctor.diagnosis.all_rules import find_rule
from recompile_doctor.diagnosis.finding import Disposition, Finding, Severity, UserLocation
from recompile_doctor.reports import words
from recompile_doctor.reports.document import Document, NoticeKind
from recompile_doctor.reports.gate_report import location, subject
from recompile_doctor.reports.json_report import valid_text
from recompile_doctor.verification.gate import GateResult
from recompile_doctor.verification.violation import Kind, Violation
from recompile_doctor.version import VERSION

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
FINGERPRINT = "recompileDoctorFinding/v1"
_ROOT = "%SRCROOT%"
_KINDS = {
    Kind.NOT_PLAUSIBLE: "The run proves nothing, so its counts cannot be held against a budget.",
    Kind.OVER_BUDGET: "The run spends more than its budget allows.",
    Kind.LIMIT_HIT: "torch stopped compiling a function; its calls run eagerly and unseen.",
    Kind.EXPIRED: "An allowance in the budget has ended.",
    Kind.WORSE: "The run is worse than the one it is compared with.",
}


def render_sarif(document: Document, *, base: Path | None = None) -> str:
    """Return the findings of a report; paths under ``base`` become relative to the root."""
    results = [
        _result(each, _level(each), [f"{subject(each)}. {each.message}"], base)
        for each in document.findings
    ]
    notices = [(each.kind.value, each.slug, each.text) for each in document.notices]
    warned = any(each.kind is NoticeKind.WARNING for each in document.notices)
    return _log(results, notices, successful=not warned)


def gate_sarif(result: GateResult, *, base: Path | None = None) -> str:
    """Return what the gate says: an error for each finding to blame, a note for all others.

    What is allowed is a suppressed result with the reason.
    """
    blamed: dict[int, list[Violation]] = {}
    for violation in result.violations:
        for finding in violation.findings:
            blamed.setdefault(id(finding), []).append(violation)
    reasons = {id(finding): allowance.reason for finding, allowance in result.allowed}
    results = []
    for finding in result.facts.findings:
        violations = blamed.get(id(finding), [])
        texts = [*(each.message for each in violations), f"{subject(finding)}. {finding.message}"]
        one = _result(finding, "error" if violations else "note", texts, base)
        if id(finding) in reasons:
            one["suppressions"] = [{"kind": "external", "justification": reasons[id(finding)]}]
        results.append(one)
    results += [_lone(each, base) for each in result.violations if not each.findings]
    warnings = [("warning", "gate-warning", each) for each in result.warnings]
    return _log(results, warnings, successful=result.is_plausible)


def _level(finding: Finding) -> str:
    if finding.disposition is not Disposition.FIXABLE or finding.severity is Severity.INFO:
        return "note"
    return "error" if finding.severity is Severity.HIGH else "warning"


def _result(finding: Finding, level: str, texts: list[str], base: Path | None) -> dict[str, Any]:
    place = location(finding)
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "level": level,
        "message": {"text": "\n".join(texts)},
        "locations": [] if place is None else [_location(place, base, str(finding.frame))],
        "partialFingerprints": {FINGERPRINT: _fingerprint(finding.id)},
        "properties": {
            "id": finding.id,
            "confidence": finding.confidence.value,
            "disposition": finding.disposition.value,
            "severity": finding.severity.value,
            "recompiles": len(finding.recompiles),
            "graphBreaks": finding.graph_breaks,
        },
    }
    if finding.related:
        result["relatedLocations"] = [
            _related(number, each, base) for number, each in enumerate(finding.related)
        ]
    return result


def _related(number: int, related: UserLocation, base: Path | None) -> dict[str, Any]:
    place = Place(Path(related.frame.file), related.frame.line)
    return {
        "id": number,
        "message": {"text": related.role.value},
        **_location(place, base, related.frame.function),
    }


def _lone(violation: Violation, base: Path | None) -> dict[str, Any]:
    """Return the result of a violation that no finding explains; it points to the budget."""
    frame = violation.frame
    place = violation.place
    if frame is not None and frame.file is not None:
        place = Place(Path(frame.file), frame.line or 1)
    names = (violation.kind.value, "" if frame is None else f"{frame.function}")
    return {
        "ruleId": violation.kind.value,
        "level": "error",
        "message": {"text": violation.message},
        "locations": [] if place is None else [_location(place, base, None)],
        "partialFingerprints": {FINGERPRINT: _fingerprint("/".join(names))},
    }


def _location(place: Place, base: Path | None, function: str | None) -> dict[str, Any]:
    location: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": _artifact(str(place.file), base),
            "region": {"startLine": max(place.line, 1)},
        }
    }
    if function:
        location["logicalLocations"] = [{"fullyQualifiedName": function, "kind": "function"}]
    return location


def _artifact(file: str, base: Path | None) -> dict[str, str]:
    """Return where a file is: relative to the root of the sources, or as a whole address."""
    path = words.file_and_line(file, None, base)
    if PurePath(path).is_absolute():
        return {"uri": f"file://{_quoted(PurePath(path).as_posix())}"}
    return {"uri": _quoted(PurePath(path).as_posix()), "uriBaseId": _ROOT}


def _quoted(path: str) -> str:
    return quote(path.encode("utf-8", "backslashreplace"))


_LINE = re.compile(r"/line \d+\Z")


def _fingerprint(id_: str) -> str:
    text = _LINE.sub("/line", id_).encode("utf-8", "backslashreplace")
    return hashlib.sha256(text).hexdigest()[:32]


def _log(
    results: list[dict[str, Any]], notices: Iterable[tuple[str, str, str]], *, successful: bool
) -> str:
    rules = list(dict.fromkeys(each["ruleId"] for each in results))
    for each in results:
        each["ruleIndex"] = rules.index(each["ruleId"])
    notifications = [
        {"level": level, "descriptor": {"id": slug}, "message": {"text": text}}
        for level, slug, text in notices
    ]
    run = {
        "tool": {
            "driver": {
                "name": "recompile-doctor",
                "version": VERSION,
                "rules": [_rule(each) for each in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {
            _ROOT: {"description": {"text": "The root of the checked-out sources."}}
        },
        "invocations": [
            {"executionSuccessful": successful, "toolExecutionNotifications": notifications}
        ],
        "results": results,
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(valid_text(log)), indent=2).decode() + "\n"


def _rule(id_: str) -> dict[str, Any]:
    rule = find_rule(id_)
    if rule is None:
        text = next((text for kind, text in _KINDS.items() if kind.value == id_), id_)
        return {"id": id_, "shortDescription": {"text": text}}
    page = rule.page()
    return {
        "id": id_,
        "shortDescription": {"text": rule.title},
        "help": {"text": page or rule.title, "markdown": page or rule.title},
        "properties": {"tags": ["torch.compile"]},
    }
