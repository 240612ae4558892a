"""Workflow commands of GitHub Actions: annotations beside the lines of a pull request.

https://docs.github.com/actions/reference/workflow-commands
"""

from collections.abc import Iterator
from pathlib import Path

from recompile_doctor.config import Place
from recompile_doctor.diagnosis.finding import Disposition, Finding, Severity
from recompile_doctor.reports import words
from recompile_doctor.reports.document import Document
from recompile_doctor.reports.gate_report import about, headline, location, subject
from recompile_doctor.verification.gate import GateResult
from recompile_doctor.verification.violation import Violation

_LONGEST = 2000
_TITLE = "recompile-doctor"
_MOST_FINDINGS = 10


def gate_commands(result: GateResult, *, base: Path | None = None) -> str:
    """Return one annotation for each violation and each warning, and a last line for people."""
    lines = [line for each in result.violations for line in _violation(each, result, base)]
    lines += [_command("warning", _TITLE, each, None, base) for each in result.warnings]
    return "\n".join([*lines, words.visible(headline(result))]) + "\n"


def document_commands(document: Document, *, base: Path | None = None) -> str:
    """Return one annotation for each finding that asks for something, and for each notice."""
    lines = [
        _command(each.kind.value.replace("note", "notice"), _TITLE, each.text, None, base)
        for each in words.ranked_notices(document)
    ]
    for finding in document.findings:
        if finding.disposition is Disposition.FIXABLE and finding.together_with is None:
            level = "error" if finding.severity is Severity.HIGH else "warning"
            text = f"{subject(finding)}. {finding.message}"
            lines.append(_command(level, finding.rule, text, location(finding), base))
    return "\n".join([*lines, words.visible(words.headline(document))]) + "\n"


def _violation(violation: Violation, result: GateResult, base: Path | None) -> Iterator[str]:
    """Yield an annotation for each finding to blame, or one where the budget says so."""
    title = f"{_TITLE}: {violation.kind.value}"
    if not violation.findings:
        yield _command("error", title, violation.message, violation.place, base)
    for finding in violation.findings[:_MOST_FINDINGS]:
        text = f"{violation.message}. {_sentence(finding, result)}"
        yield _command("error", title, text, location(finding) or violation.place, base)


def _sentence(finding: Finding, result: GateResult) -> str:
    explained = about(finding, result)
    where = f" in {finding.frame}" + (f" ({explained})" if explained else "")
    return f"{subject(finding)}{where}. {finding.message}"


def _command(level: str, title: str, text: str, place: Place | None, base: Path | None) -> str:
    options = [] if place is None else _place(place, base)
    options.append(f"title={_property(title)}")
    return f"::{level} {','.join(options)}::{_data(words.shortened(text, _LONGEST))}"


def _place(place: Place, base: Path | None) -> list[str]:
    file = words.file_and_line(str(place.file), None, base)
    return [f"file={_property(file)}", f"line={place.line}"]


def _data(text: str) -> str:
    """Return text that cannot end a command: a line end would let a log begin one of its own."""
    return words.visible(text.replace("\n", " ")).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
