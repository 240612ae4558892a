"""`diff` as a user types it."""

import json
from pathlib import Path

import pytest

from recompile_doctor.__main__ import main

SCENARIOS = Path(__file__).parents[2] / "fixtures" / "scenarios" / "2.13.0"
BEFORE = str(SCENARIOS / "zero_one" / "trace")
AFTER = str(SCENARIOS / "unbacked_env_dim" / "trace")


def test_the_first_line_says_what_changed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", BEFORE, AFTER]) == 0
    assert capsys.readouterr().out.startswith("recompiles 3 -> 0, compile time ")


def test_it_fails_on_worse_only_when_asked_to() -> None:
    assert main(["diff", AFTER, BEFORE]) == 0
    assert main(["diff", AFTER, BEFORE, "--fail-on", "worse"]) == 1
    assert main(["diff", BEFORE, AFTER, "--fail-on", "worse"]) == 0


@pytest.mark.parametrize("format_", ["terminal", "json", "markdown"])
def test_each_format_can_be_written_to_a_file(format_: str, tmp_path: Path) -> None:
    file = tmp_path / "diff"
    assert main(["diff", BEFORE, AFTER, "--format", format_, "--output", str(file)]) == 0
    assert "fixed" in file.read_text("utf-8")


def test_a_json_report_is_read_in_place_of_a_run(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Also one that begins with spaces, or that other tools have written anew."""
    report = tmp_path / "before.json"
    main(["analyze", BEFORE, "--format", "json", "--output", str(report)])
    report.write_text("\n" + json.dumps(json.loads(report.read_text("utf-8"))), "utf-8")
    capsysbinary.readouterr()
    assert main(["diff", str(report), BEFORE, "--format", "json"]) == 0
    result = json.loads(capsysbinary.readouterr().out)
    assert result["verdict"] == "unchanged"
    assert result["before"]["recompiles"] == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 99}, "is a report of a newer recompile-doctor (format 99)"),
        ({"findings": 3}, "is not a whole report"),
        ({"notices": None}, "is not a whole report"),
    ],
)
def test_a_report_that_cannot_be_read_is_an_error(
    change: dict[str, object],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = tmp_path / "before.json"
    main(["analyze", BEFORE, "--format", "json", "--output", str(report)])
    report.write_text(json.dumps({**json.loads(report.read_text("utf-8")), **change}), "utf-8")
    assert main(["diff", str(report), AFTER]) == 3
    assert message in capsys.readouterr().err


def test_a_run_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", "no-such-run", AFTER]) == 3
    assert "no-such-input" in capsys.readouterr().err
