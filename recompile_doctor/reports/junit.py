"""The gate's report as JUnit XML: one test case for each check.

Written with the standard library: the format is three elements deep, and what a library would
not do, making text from a log fit for XML, is most of the work.
"""

from pathlib import Path
from xml.etree import ElementTree

from recompile_doctor.reports import words
from recompile_doctor.reports.gate_report import about, location, subject
from recompile_doctor.verification.gate import GateResult
from recompile_doctor.verification.violation import Check

_SUITE = "recompile-doctor"


def gate_junit(result: GateResult, *, base: Path | None = None) -> str:
    """Return the checks as test cases; paths under ``base`` are shown relative to it."""
    failures = sum(1 for each in result.checks if each.violations)
    counts = {"tests": str(len(result.checks)), "failures": str(failures), "errors": "0"}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": _SUITE, **counts, "skipped": "0"})
    for check in result.checks:
        suite.append(_case(check, result, base))
    if result.warnings:
        out = ElementTree.SubElement(suite, "system-out")
        out.text = "\n".join(f"warning: {words.visible(each)}" for each in result.warnings)
    ElementTree.indent(suites)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, "unicode") + "\n"
    )


def _case(check: Check, result: GateResult, base: Path | None) -> ElementTree.Element:
    name = words.visible(check.name)
    case = ElementTree.Element("testcase", {"classname": _SUITE, "name": name, "time": "0"})
    if check.violations:
        attributes = {
            "type": check.violations[0].kind.value,
            "message": words.visible(check.violations[0].message),
        }
        failure = ElementTree.SubElement(case, "failure", attributes)
        failure.text = "\n".join(words.visible(each) for each in _lines(check, result, base))
    return case


def _lines(check: Check, result: GateResult, base: Path | None) -> list[str]:
    lines = []
    for violation in check.violations:
        lines.append(violation.message)
        for finding in violation.findings:
            place = location(finding)
            where = "" if place is None else words.file_and_line(str(place.file), place.line, base)
            facts = (subject(finding), str(finding.frame), about(finding, result), where)
            lines.append(", ".join(filter(None, facts)))
    return lines
