"""A JSON report read back: what it says is kept, and damage is one sentence."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recompile_doctor.errors import DoctorError
from recompile_doctor.reports.json_report import render_json
from recompile_doctor.reports.report_reader import read_report
from tests.reports import documents

REPORT = json.loads(render_json(documents.attention()))
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("name", documents.ALL)
def test_what_is_written_again_is_the_same(name: str) -> None:
    """But for what a report of a report does not have: entries, examples, next commands."""
    document = documents.ALL[name]()
    text = render_json(document)
    again = read_report(text.encode(), document.subject)
    assert again is not None
    first, second = json.loads(text), json.loads(render_json(again))
    for each in (first, second):
        del each["next_commands"], each["unread"]["examples"]
        for frame in each["frames"]:
            frame["entries"] = []
        for finding in each["findings"]:
            finding["recompiles"] = len(finding["recompiles"])
    assert first == second


def test_a_report_from_before_there_were_calls_is_read() -> None:
    """The key came later; without it nothing is known of the calls."""
    report = json.loads(render_json(documents.last_batch()))
    for each in report["findings"]:
        del each["calls"]
    again = read_report(json.dumps(report).encode(), "x")
    assert again is not None
    assert not again.weights


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"3", b"\xff", b"[" * 100_000])
def test_other_content_is_no_report(content: bytes) -> None:
    assert read_report(content, "x") is None


@settings(deadline=None)
@given(st.sampled_from(sorted(REPORT)), anything)
def test_damage_is_one_sentence(key: str, value: object) -> None:
    try:
        read_report(json.dumps({**REPORT, key: value}).encode(), "x")
    except DoctorError as error:
        assert error.slug == "report-unreadable"


@settings(deadline=None)
@given(st.sampled_from(sorted(REPORT["findings"][0])), anything)
def test_damage_in_a_finding_is_one_sentence(key: str, value: object) -> None:
    finding = {**REPORT["findings"][0], key: value}
    try:
        read_report(json.dumps({**REPORT, "findings": [finding]}).encode(), "x")
    except DoctorError as error:
        assert error.slug == "report-unreadable"


def test_ranks_and_resets_are_kept_apart() -> None:
    document = documents.ALL["two_ranks"]()
    again = read_report(render_json(document).encode(), "x")
    assert again is not None
    keys = {ref.key for each in again.findings for ref in each.recompiles}
    known = {ref.key for each in document.findings for ref in each.recompiles}
    assert len(keys) == len(known)
    assert again.summary == document.summary


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("recompiles", -5),
        ("recompiles", 0),
        ("graph_breaks", -1),
        ("recompile_limit_hits", -1),
        ("compilations", -3),
    ],
)
def test_a_report_whose_totals_cannot_be_is_refused(key: str, value: int) -> None:
    """A gate reads the totals: a report that was edited must not pass it."""
    report = json.loads(render_json(documents.attention()))
    report["summary"][key] = value
    with pytest.raises(DoctorError, match="not a whole report"):
        read_report(json.dumps(report).encode(), "report.json")
