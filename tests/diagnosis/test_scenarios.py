"""Whole scenarios on ten releases: the same findings from each log, but for what torch changed."""

from pathlib import Path

import pytest

from tests.diagnosis.logs import (
    FIXTURES,
    LOGS,
    PROGRAMS,
    SCENARIOS,
    differences,
    differing,
    expected_of_scenarios,
    stored_scenarios,
)

RELEASES = sorted(path.name for path in (FIXTURES / "scenarios").iterdir() if path.is_dir())


@pytest.mark.parametrize("name", SCENARIOS)
def test_all_releases_and_all_logs_give_the_same_findings(name: str) -> None:
    """The first failed guard decides: it is the one that every log names."""
    answer = expected_of_scenarios()[name]
    wrong: list[str] = []
    for stored in stored_scenarios(name):
        wrong += differing(stored, "scenario", answer, "leads")
    assert not wrong, "\n".join(wrong)


def test_every_release_has_every_scenario() -> None:
    """Ten releases, and the same scenarios for each."""
    assert len(RELEASES) == 10
    assert sorted(expected_of_scenarios()) == SCENARIOS
    for release in RELEASES:
        folders = (FIXTURES / "scenarios" / release).iterdir()
        assert sorted(path.name for path in folders) == SCENARIOS


def test_every_difference_names_logs_that_exist_and_says_why() -> None:
    """An entry that fits nothing would hide a fault."""
    for each in differences():
        assert each["why"].strip().endswith(".")
        assert set(each["logs"]) <= set(LOGS)
        assert each.get("program") in [None, *PROGRAMS]
        assert each.get("scenario") in [None, *SCENARIOS]
        assert ("program" in each) != ("scenario" in each)
        assert set(each.get("releases", RELEASES)) <= set(RELEASES)


def test_the_stored_logs_name_no_real_machine() -> None:
    """All paths of users in a manifest are those of the made-up user."""
    for manifest in Path(FIXTURES / "scenarios").glob("*/*/manifest.yaml"):
        text = manifest.read_text(encoding="utf-8")
        assert "/root" not in text and "/work" not in text
        assert text.count("/home/") == text.count("/home/user")
