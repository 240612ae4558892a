"""The gate's report for people and for bots."""

import json
from collections.abc import Callable
from io import StringIO

import pytest
from rich.console import Console

from recompile_doctor.reports.gate_report import MARKER, gate_json, gate_markdown, print_gate
from recompile_doctor.verification.gate import GateResult
from tests.reports import gates


def shown(result: GateResult, width: int) -> str:
    text = StringIO()
    console = Console(file=text, width=width, no_color=True, highlight=False)
    print_gate(result, console, base=gates.PROJECT)
    return text.getvalue()


@pytest.mark.parametrize("name", gates.ALL)
@pytest.mark.parametrize("width", [80, 200])
def test_terminal(name: str, width: int, check_golden: Callable[[str, str], None]) -> None:
    check_golden(f"gate_{name}.{width}.txt", shown(gates.ALL[name](), width))


@pytest.mark.parametrize("name", gates.ALL)
def test_no_line_is_wider_than_the_terminal(name: str) -> None:
    """But for the one that is there to be copied."""
    lines = shown(gates.ALL[name](), 80).splitlines()
    assert all(len(line) <= 80 for line in lines if not line.startswith("  allow:"))


@pytest.mark.parametrize("name", gates.ALL)
def test_markdown(name: str, check_golden: Callable[[str, str], None]) -> None:
    check_golden(f"gate_{name}.md", gate_markdown(gates.ALL[name](), base=gates.PROJECT))


@pytest.mark.parametrize("name", gates.ALL)
def test_a_bot_finds_its_comment_by_the_first_line(name: str) -> None:
    text = gate_markdown(gates.ALL[name]())
    assert text.splitlines()[0] == MARKER
    assert "<script>" not in text


@pytest.mark.parametrize("name", gates.ALL)
def test_json(name: str, check_golden: Callable[[str, str], None]) -> None:
    result = gates.ALL[name]()
    text = gate_json(result)
    assert json.loads(text)["passed"] is result.passed
    check_golden(f"gate_{name}.json", text)
