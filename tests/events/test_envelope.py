"""The log prefix: real lines of several releases, and lines that torch did not write."""

import pytest

from recompile_doctor.events.envelope import split_prefix
from recompile_doctor.ids import CompileId

PLAIN = "V1130 04:33:47.867000 27528 torch/_dynamo/guards.py:2791] [0/1] [__recompiles]  - 0/0: x"


def test_a_line_is_split_into_its_parts() -> None:
    """Every part of a prefix is read, and the message keeps its indentation."""
    split = split_prefix(PLAIN)
    assert split is not None
    prefix, message = split
    assert message == " - 0/0: x"
    assert prefix.level == "V"
    assert prefix.process == "27528"
    assert (prefix.path, prefix.line) == ("torch/_dynamo/guards.py", 2791)
    assert prefix.rank is None
    assert prefix.compile_id == CompileId(0, 1)
    assert prefix.artifact == "recompiles"


def test_a_rank_stands_in_front_without_a_space() -> None:
    """``[rank1]:`` is read as the rank."""
    split = split_prefix("[rank1]:" + PLAIN)
    assert split is not None
    assert split[0].rank == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[0/1_2]", CompileId(0, 1, attempt=2)),
        ("[!0]", CompileId(None, None, autograd_id=0)),
        ("[!3/0/1]", CompileId(0, 1, autograd_id=3)),
        ("[!3/0/1_1]", CompileId(0, 1, attempt=1, autograd_id=3)),
    ],
)
def test_every_form_of_a_compile_id_is_read(text: str, expected: CompileId) -> None:
    """Attempts, and compiled autograd since torch 2.7, have forms of their own."""
    line = f"I1130 04:33:47.867000 1 torch/fx/experimental/symbolic_shapes.py:1] {text} create_env"
    split = split_prefix(line)
    assert split is not None
    assert split[0].compile_id == expected
    assert split[1] == "create_env"


def test_a_line_outside_a_compile_has_no_id() -> None:
    """What merely looks like an id further on stays in the message."""
    split = split_prefix("W1130 04:33:47.867000 1 torch/a.py:1] hit [0/1] here")
    assert split is not None
    assert split[0].compile_id is None
    assert split[1] == "hit [0/1] here"


def test_a_blank_message_may_have_lost_its_space() -> None:
    """Editors strip the space behind the prefix of a blank line."""
    split = split_prefix("V1130 04:33:47.867000 1 torch/a.py:1] [0/1] [__graph_breaks]\n")
    assert split is not None
    assert split[1] == ""


def test_another_level_stands_in_full() -> None:
    """A level without a letter is named, and can end in digits."""
    split = split_prefix("Level 151130 04:33:47.867000 1 torch/a.py:1] x")
    assert split is not None
    assert split[0].level == "Level 15"


def test_times_differ_by_what_the_clock_says() -> None:
    """Days of different months are told apart, the year does not count."""
    first = split_prefix("V0228 23:59:59.500000 1 a.py:1] x")
    second = split_prefix("V0301 00:00:00.250000 1 a.py:1] x")
    assert first is not None and second is not None
    assert first[0].time is not None and second[0].time is not None
    assert second[0].time - first[0].time == pytest.approx(24 * 3600 + 0.75)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "hello",
        "DEBUG:torch._dynamo.guards:Recompiling function f",
        "V1130 04:33:47 27528 torch/_dynamo/guards.py:2791] no fraction",
        "V1130 04:33:47.867000 27528 torch/_dynamo/guards.py",
        "V1130 04:33:47.867000 " + "9" * 5000 + " a.py:1] x",
        "V1130 04:33:47.867000 1 a.py:" + "9" * 5000 + "] x",
    ],
)
def test_other_lines_have_no_prefix(line: str) -> None:
    """Lines of the program, of another log format and with absurd numbers are refused."""
    assert split_prefix(line) is None


def test_a_month_that_does_not_exist_has_no_time() -> None:
    """The rest of such a prefix is still good."""
    split = split_prefix("V9930 04:33:47.867000 1 a.py:1] x")
    assert split is not None
    assert split[0].time is None
