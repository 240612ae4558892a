"""The report as JSON, and its schema."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from recompile_doctor.reports.json_report import FORMAT_VERSION, render_json
from tests.reports import documents

SCHEMA: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "docs" / "report.schema.json").read_text("utf-8")
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@pytest.mark.parametrize("name", documents.ALL)
def test_reports_are_as_the_schema_says(name: str) -> None:
    VALIDATOR.validate(json.loads(render_json(documents.ALL[name]())))


@pytest.mark.parametrize("name", ["last_batch", "text_only", "two_ranks"])
def test_golden(name: str, check_golden: Callable[[str, str], None]) -> None:
    check_golden(f"{name}.json", render_json(documents.ALL[name]()))


def test_the_schema_is_a_schema_of_this_format() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["properties"]["format_version"]["const"] == FORMAT_VERSION


def test_the_schema_lists_exactly_our_keys() -> None:
    """Each object forbids others and requires all of its own."""
    report = json.loads(render_json(documents.attention()))
    assert list(SCHEMA["properties"]) == list(report)
    described = {each["description"] for each in SCHEMA["properties"].values() if len(each) > 1}
    assert described
    objects = [each for each in _objects(SCHEMA) if "properties" in each]
    assert objects
    for each in objects:
        assert each["additionalProperties"] is False
        assert each["required"] == list(each["properties"])


def _objects(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, list):
        return [found for each in value for found in _objects(each)]
    if not isinstance(value, dict):
        return []
    own = [value] if value.get("type") == "object" else []
    return own + [found for each in value.values() for found in _objects(each)]


@pytest.mark.parametrize("key", ["extra", "subject"])
def test_the_schema_forbids_unknown_keys(key: str) -> None:
    report = json.loads(render_json(documents.attention()))
    assert not VALIDATOR.is_valid({**report, key: 1})
    del report["unread"]
    assert not VALIDATOR.is_valid(report)


def test_unknown_is_null() -> None:
    report = json.loads(render_json(documents.text_only()))
    assert report["torch_version"] is None
    assert report["summary"]["compile_seconds"] is None
    assert report["summary"]["graphs_captured"] is None
    assert report["frames"][0]["compile_seconds"] is None
    assert report["findings"][0]["seconds"] is None
    assert report["findings"][1]["user_location"] is None
    assert report["findings"][1]["location_role"] is None


def test_recompiles_of_ranks_are_told_apart() -> None:
    report = json.loads(render_json(documents.two_ranks()))
    assert report["findings"][0]["recompiles"] == ["rank1:0/2", "rank1:0/3"]


def test_bytes_that_are_no_text_are_escaped() -> None:
    report = json.loads(render_json(documents.hostile()))
    assert "\\udc80" in report["findings"][0]["message"]
    assert "\x1b" in report["findings"][0]["message"]


def test_the_same_document_gives_the_same_report() -> None:
    assert render_json(documents.attention()) == render_json(documents.attention())
    assert render_json(documents.attention()).endswith("}\n")


def test_the_weight_of_a_finding_is_null_where_calls_are_not_known() -> None:
    known, *others = json.loads(render_json(documents.last_batch()))["findings"]
    assert known["calls"] == {"with_value": 3, "of": 15, "value": "1"}
    assert [each["calls"] for each in others] == [None, None]
