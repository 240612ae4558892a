"""Workflow commands: annotations that a log cannot forge."""

import re

import pytest

from recompile_doctor.reports.github import document_commands, gate_commands
from tests.reports import documents, gates

COMMAND = re.compile(r"::(?P<level>error|warning|notice) (?P<options>[^:]*)::(?P<text>.+)")


def commands(text: str) -> list[re.Match[str]]:
    found = [COMMAND.fullmatch(line) for line in text.splitlines()[:-1]]
    return [each for each in found if each is not None]


def test_each_finding_to_blame_is_an_error_at_its_line() -> None:
    text = gate_commands(gates.failed(), base=gates.PROJECT)
    errors = [each for each in commands(text) if each["level"] == "error"]
    assert [each["options"] for each in errors] == [
        "file=model.py,line=12,title=recompile-doctor%3A budget-exceeded"
    ] * 2
    assert errors[0]["text"].startswith("3 recompiles, at most 1 allowed (budget.yaml:2). L['x']")


def test_warnings_are_warnings() -> None:
    warnings = [each["text"] for each in commands(gate_commands(gates.failed()))[2:]]
    assert warnings == [
        "budget.yaml:7: the allowance for stride-change ends in 5 days, on 2026-01-20",
        "budget.yaml:5: no function of this run is meant by forwrd",
    ]


def test_a_gate_that_holds_says_so_and_annotates_nothing() -> None:
    assert gate_commands(gates.passed()) == "The gate holds: 1 recompile, 0 graph breaks.\n"


@pytest.mark.parametrize("name", gates.ALL)
def test_every_line_is_one_command_or_the_last(name: str) -> None:
    text = gate_commands(gates.ALL[name]())
    assert len(commands(text)) == len(text.splitlines()) - 1
    assert not text.splitlines()[-1].startswith("::")


@pytest.mark.parametrize("name", documents.ALL)
def test_reports_are_commands_too(name: str) -> None:
    text = document_commands(documents.ALL[name](), base=gates.PROJECT)
    assert len(commands(text)) == len(text.splitlines()) - 1


def test_a_log_cannot_end_a_command_or_begin_one() -> None:
    (command,) = commands(gate_commands(gates.hostile()))
    assert "%250A" in command["text"]
    assert "\x1b" not in command["text"]
