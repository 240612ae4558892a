"""The pages of the rules: complete, written from the code, and one for each program."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from recompile_doctor.diagnosis.all_rules import ALL_RULES, find_rule
from recompile_doctor.diagnosis.rule import Rule

ROOT = Path(__file__).parents[2]
IDS = sorted(rule.id for rule in ALL_RULES)
SECTIONS = [
    "What it finds",
    "Why it recompiles",
    "Evidence",
    "What to do",
    "Example",
    "When it is wrong",
]


def test_the_generated_pages_are_current() -> None:
    """Run python docs/generate.py when this fails."""
    command = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"not current:\n{result.stdout}{result.stderr}"


@pytest.mark.parametrize("folder", ["fixtures/programs", "fixtures/logs", "fixtures/golden"])
def test_each_rule_has_a_program_its_logs_and_its_answer(folder: str) -> None:
    """The folders have the names of the rules, and no others."""
    assert sorted(path.name for path in (ROOT / folder).iterdir()) == IDS


def test_each_rule_has_a_page_and_a_module_of_its_name() -> None:
    """One cause is one class is one file."""
    pages = sorted(path.stem for path in (ROOT / "docs" / "rules").glob("*.md"))
    assert pages == sorted([*IDS, "README"])
    for rule in ALL_RULES:
        assert rule.__module__.rpartition(".")[2] == rule.id.replace("-", "_")


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.id)
def test_a_page_begins_with_a_sentence_and_has_all_sections(rule: type[Rule]) -> None:
    """The sections stand in the order of the others, and none is empty."""
    summary, _, rest = rule.page().partition("\n")
    assert summary.endswith(".")
    assert summary[0].isupper()
    assert re.findall(r"^## (.*)$", rest, re.MULTILINE) == SECTIONS
    parts = re.split(r"^## .*$", rest, flags=re.MULTILINE)[1:]
    assert all(part.strip() for part in parts)
    assert rest.count("```") % 2 == 0


@pytest.mark.parametrize("rule", ALL_RULES, ids=lambda rule: rule.id)
def test_a_page_says_for_which_torch_each_figure_was_measured(rule: type[Rule]) -> None:
    """A paragraph that gives counts before and after names releases."""
    for part in re.split(r"\n\s*\n|\n(?=- )", rule.page()):
        paragraph = " ".join(part.split())
        if re.search(r"\b\d+ (?:\w+ ){0,4}-> (?:no|\d)", paragraph):
            assert "(torch 2." in paragraph or "2.8 and 2.11" in paragraph, paragraph


def test_a_rule_is_found_by_its_id() -> None:
    """And an unknown id finds none."""
    assert find_rule("range-guard") is not None
    assert find_rule("range") is None


def test_the_rule_that_explains_the_rest_is_asked_last() -> None:
    """It claims what no other rule has."""
    assert ALL_RULES[-1].id == "unattributed-recompile"
    assert len(set(IDS)) == len(IDS)
