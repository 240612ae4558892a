"""The program of each rule, on every stored release, from the trace, from the text, from both."""

import pytest

from tests.diagnosis.logs import PROGRAMS, differing, expected_of_program, stored_programs


@pytest.mark.parametrize("rule", PROGRAMS)
def test_each_log_gives_the_findings_that_a_person_wrote_down(rule: str) -> None:
    """All findings that torch names, and all totals, but for fixtures/differences.yaml."""
    wrong: list[str] = []
    for stored in stored_programs(rule):
        wrong += differing(stored, "program", expected_of_program(stored), "recompiles")
    assert not wrong, "\n".join(wrong)
