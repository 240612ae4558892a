"""Reads a JSON report back: one written by ``json_report``, here or on another machine."""

import re
from typing import Any, Literal

import msgspec

from recompile_doctor.diagnosis.finding import (
    Confidence,
    Disposition,
    Evidence,
    Finding,
    LocationRole,
    RecompileRef,
    Severity,
    UserLocation,
)
from recompile_doctor.errors import DoctorError
from recompile_doctor.events.vocabulary import Position, StackFrame
from recompile_doctor.ids import parse_compile_id
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.model.run import CompileKey
from recompile_doctor.reports.document import (
    CallWeight,
    Document,
    FrameSummary,
    Notice,
    SourceKind,
    Summary,
    UnreadSummary,
)
from recompile_doctor.reports.json_report import FORMAT_VERSION


class _FrameSummary(msgspec.Struct, frozen=True):
    function: str | None
    file: str | None
    line: int | None
    compilations: int
    recompiles: int
    graphs_captured: int | None
    graph_breaks: int
    compile_seconds: float | None

    def value(self) -> FrameSummary:
        return FrameSummary(
            FrameKey(self.function, self.file, self.line),
            compilations=self.compilations,
            recompiles=self.recompiles,
            graphs_captured=self.graphs_captured,
            graph_breaks=self.graph_breaks,
            compile_seconds=self.compile_seconds,
            entries=(),
        )


class _Place(msgspec.Struct, frozen=True):
    file: str
    line: int


class _Location(_Place, frozen=True):
    function: str
    code: str | None


class _Evidence(_Place, frozen=True):
    text: str


class _Calls(msgspec.Struct, frozen=True):
    with_value: int
    of: int
    value: str


class _Finding(msgspec.Struct, frozen=True):
    id: str
    rule: str
    title: str
    severity: Severity
    confidence: Confidence
    disposition: Disposition
    frame: FrameKey
    source: str | None
    dim: int | None
    values: tuple[str, ...]
    recompiles: tuple[str, ...]
    graph_breaks: int
    break_times: int
    seconds: float | None
    user_location: _Location | None
    location_role: Literal["asked", "first-use", "break", "call", "definition"] | None
    evidence: tuple[_Evidence, ...]
    message: str
    why: str
    together_with: str | None
    hints: tuple[str, ...]
    calls: _Calls | None = None  # reports of before it was there have none

    def value(self) -> Finding:
        return Finding(
            rule=self.rule,
            title=self.title,
            frame=self.frame,
            source=self.source,
            dim=self.dim,
            message=self.message,
            why=self.why,
            evidence=tuple(Evidence(Position(e.file, e.line), e.text) for e in self.evidence),
            confidence=self.confidence,
            disposition=self.disposition,
            severity=self.severity,
            values=self.values,
            recompiles=tuple(_recompile(each) for each in self.recompiles),
            graph_breaks=self.graph_breaks,
            break_times=self.break_times,
            seconds=self.seconds,
            location=self._location(),
            together_with=self.together_with,
            hints=self.hints,
        )

    def _location(self) -> UserLocation | None:
        place = self.user_location
        if place is None or self.location_role is None:
            return None
        role = LocationRole[self.location_role.upper().replace("-", "_")]
        return UserLocation(StackFrame(place.file, place.line, place.function, place.code), role)


class _Unread(msgspec.Struct, frozen=True):
    records: int
    bytes: int


class _Report(msgspec.Struct, frozen=True):
    """The part of a report that is compared; other keys are left alone."""

    tool_version: str
    torch_version: str | None
    source: SourceKind
    summary: Summary
    frames: tuple[_FrameSummary, ...]
    findings: tuple[_Finding, ...]
    unread: _Unread
    notices: tuple[Notice, ...]

    def value(self, subject: str) -> Document:
        return Document(
            tool_version=self.tool_version,
            torch_version=self.torch_version,
            source=self.source,
            subject=subject,
            summary=self.summary,
            frames=tuple(each.value() for each in self.frames),
            findings=tuple(each.value() for each in self.findings),
            unread=UnreadSummary(self.unread.records, self.unread.bytes, ()),
            notices=self.notices,
            weights={
                each.id: CallWeight(each.calls.with_value, each.calls.of, each.calls.value)
                for each in self.findings
                if each.calls is not None
            },
        )


def read_report(content: bytes, subject: str) -> Document | None:
    """Return the document of a JSON report, or None when ``content`` is not one.

    What a report leaves out (entries, related lines, which finding leads) is empty. Raises
    DoctorError when it is a report that this version cannot read.
    """
    try:
        raw: Any = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not (isinstance(raw, dict) and {"format_version", "summary"} <= raw.keys()):
        return None
    version = raw["format_version"]
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise DoctorError(
            f"{subject} is a report of a newer recompile-doctor (format {version}).",
            slug="report-unreadable",
            hint=f"Upgrade recompile-doctor; this one reads formats up to {FORMAT_VERSION}.",
        )
    try:
        if type(version) is not int:
            raise ValueError("its format_version is no number")
        report = msgspec.convert(raw, _Report)
        _check_sums(report)
        return report.value(subject)
    except ValueError as error:
        raise DoctorError(
            f"{subject} is not a whole report: {error}.",
            slug="report-unreadable",
            hint="Make it again with `recompile-doctor analyze --format json`.",
        ) from error


def _check_sums(report: _Report) -> None:
    """Raise ValueError when the totals are not those of the functions, or below zero.

    A gate reads the totals: a report that was edited or cut must not pass it.
    """
    summary = report.summary
    counts = [frame.recompiles for frame in report.frames]
    if sum(counts) != summary.recompiles:
        raise ValueError("the recompiles of its functions do not add up to its total")
    counts += [
        summary.compilations,
        summary.graph_breaks,
        summary.recompile_limit_hits,
        summary.graphs_captured or 0,
    ]
    if min(counts) < 0:
        raise ValueError("it has a count below zero")


_RECOMPILE = re.compile(
    r"(?:rank(?P<rank>\d+):|pid(?P<process>[^:]+):)?(?:reset(?P<epoch>\d+):)?(?P<id>.+)"
)


def _recompile(name: str) -> RecompileRef:
    match = _RECOMPILE.fullmatch(name)
    compile_id = parse_compile_id(match["id"]) if match else None
    if match is None or compile_id is None:
        raise ValueError(f"{name!r} is not a recompile")
    rank = None if match["rank"] is None else int(match["rank"])
    process = match["process"] or (f"rank{rank}" if rank is not None else "")
    return RecompileRef(CompileKey(process, int(match["epoch"] or 0), compile_id), rank, None)
