"""The report as JSON for other tools; docs/report.schema.json describes it."""

from typing import Any

import msgspec

from recompile_doctor.diagnosis.finding import Evidence, Finding, UserLocation
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.reports.document import (
    CallWeight,
    Document,
    FrameSummary,
    Summary,
    UnreadSummary,
)
from recompile_doctor.reports.source_lines import code_of
from recompile_doctor.reports.words import recompile_name

# 1: the first; ``calls`` of a finding came later, reports without it are read like null.
FORMAT_VERSION = 1

# Nanoseconds are noise, and sums of floats end in 0000000004.
_DIGITS = 6


def render_json(document: Document) -> str:
    """Return the report as indented JSON, the same for the same document; unknown is null."""
    encoded = msgspec.json.encode(valid_text(_report(document)))
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def _report(document: Document) -> dict[str, Any]:
    return {
        "format_version": FORMAT_VERSION,
        "tool_version": document.tool_version,
        "torch_version": document.torch_version,
        "source": document.source.value,
        "summary": _summary(document.summary),
        "frames": [_frame_summary(each) for each in document.frames],
        "findings": [_finding(each, document) for each in document.findings],
        "unread": _unread(document.unread),
        "notices": [
            {"kind": each.kind.value, "slug": each.slug, "text": each.text}
            for each in document.notices
        ],
        "next_commands": [
            {"command": each.command, "purpose": each.purpose} for each in document.next_commands
        ],
    }


def _summary(summary: Summary) -> dict[str, Any]:
    return {
        "ranks": summary.ranks,
        "frames": summary.frames,
        "compilations": summary.compilations,
        "recompiles": summary.recompiles,
        "graphs_captured": summary.graphs_captured,
        "graph_breaks": summary.graph_breaks,
        "graph_break_times": summary.graph_break_times,
        "recompile_limit_hits": summary.recompile_limit_hits,
        "retries": summary.retries,
        "compile_seconds": _seconds(summary.compile_seconds),
        "recompile_seconds": _seconds(summary.recompile_seconds),
        "run_seconds": _seconds(summary.run_seconds),
        "logging_seconds": _seconds(summary.logging_seconds),
    }


def _frame(frame: FrameKey) -> dict[str, Any]:
    return {"function": frame.function, "file": frame.file, "line": frame.line}


def _frame_summary(frame: FrameSummary) -> dict[str, Any]:
    return _frame(frame.frame) | {
        "compilations": frame.compilations,
        "recompiles": frame.recompiles,
        "graphs_captured": frame.graphs_captured,
        "graph_breaks": frame.graph_breaks,
        "compile_seconds": _seconds(frame.compile_seconds),
        "entries": [
            {
                "compile_id": entry.compile_id,
                "rank": entry.rank,
                "seconds": _seconds(entry.seconds),
                "inputs": dict(entry.inputs),
            }
            for entry in frame.entries
        ],
    }


def _finding(finding: Finding, document: Document) -> dict[str, Any]:
    location = finding.location
    return {
        "id": finding.id,
        "rule": finding.rule,
        "title": finding.title,
        "severity": finding.severity.value,
        "confidence": finding.confidence.value,
        "disposition": finding.disposition.value,
        "frame": _frame(finding.frame),
        "source": finding.source,
        "dim": finding.dim,
        "values": list(finding.values),
        "recompiles": [recompile_name(each, document) for each in finding.recompiles],
        "graph_breaks": finding.graph_breaks,
        "break_times": finding.break_times,
        "seconds": _seconds(finding.seconds),
        "user_location": None if location is None else _location(location),
        "location_role": None if location is None else location.role.name.lower().replace("_", "-"),
        "evidence": [_evidence(each) for each in finding.evidence],
        "message": finding.message,
        "why": finding.why,
        "together_with": finding.together_with,
        "hints": list(finding.hints),
        "calls": _weight(document.weights.get(finding.id)),
    }


def _weight(weight: CallWeight | None) -> dict[str, Any] | None:
    if weight is None:
        return None
    return {
        "with_value": weight.calls_with_value,
        "of": weight.calls,
        "value": weight.value,
    }


def _location(location: UserLocation) -> dict[str, Any]:
    frame = location.frame
    return {
        "file": frame.file,
        "line": frame.line,
        "function": frame.function,
        "code": code_of(frame),
    }


def _evidence(evidence: Evidence) -> dict[str, Any]:
    position = evidence.position
    return {"file": position.file, "line": position.line, "text": evidence.text}


def _unread(unread: UnreadSummary) -> dict[str, Any]:
    return {
        "records": unread.records,
        "bytes": unread.size,
        "examples": [
            {
                "file": each.position.file,
                "line": each.position.line,
                "why": each.why,
                "text": each.text,
            }
            for each in unread.examples
        ],
    }


def _seconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, _DIGITS)


def valid_text(value: Any) -> Any:
    """Return ``value`` with bytes that were no text (lone surrogates) written as escapes."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode("utf-8")
        case dict():
            return {valid_text(key): valid_text(each) for key, each in value.items()}
        case list():
            return [valid_text(each) for each in value]
        case _:
            return value
