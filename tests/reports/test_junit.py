"""JUnit XML: one test case for each check."""

from xml.etree import ElementTree

import pytest

from recompile_doctor.reports.junit import gate_junit
from tests.reports import gates


@pytest.mark.parametrize("name", gates.ALL)
def test_it_is_xml_and_its_counts_are_right(name: str) -> None:
    result = gates.ALL[name]()
    suites = ElementTree.fromstring(gate_junit(result).encode())
    (suite,) = suites
    cases = suite.findall("testcase")
    failures = [each for each in cases if each.find("failure") is not None]
    assert suites.tag == "testsuites"
    for each in (suites, suite):
        assert (each.get("tests"), each.get("failures")) == (str(len(cases)), str(len(failures)))
    assert bool(failures) is not result.passed
    assert len({each.get("name") for each in cases}) == len(cases)


def test_a_failure_says_what_was_passed_and_who_is_to_blame() -> None:
    suite = ElementTree.fromstring(gate_junit(gates.failed(), base=gates.PROJECT).encode())[0]
    (failure,) = suite.findall("testcase/failure")
    assert failure.get("type") == "budget-exceeded"
    assert failure.get("message") == "3 recompiles, at most 1 allowed (budget.yaml:2)"
    assert "L['x'] dim 0" in str(failure.text)
    assert "model.py:12" in str(failure.text)


def test_text_from_a_log_stays_text() -> None:
    text = gate_junit(gates.hostile())
    assert "\x1b" not in text
    assert "<script>" not in text
