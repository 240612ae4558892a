"""What a program printed in two runs."""

from pathlib import Path

import pytest

from recompile_doctor.verification.equivalence import OutputsCompared, Sameness
from recompile_doctor.verification.printed import compare_text, judge_text

SAME, DIFFERENT, UNKNOWN = Sameness.SAME, Sameness.DIFFERENT, Sameness.UNKNOWN


def judged(folder: Path, *texts: str | bytes) -> OutputsCompared:
    """Judge the last text by those before it."""
    paths = [folder / str(number) for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return judge_text(paths[:-1], paths[-1])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("loss 0.12345\n", "loss 0.12346\n"),
        ("loss 0.1234\n", "loss 0.1235\n"),
        ("1.2345e-07", "1.2346e-07"),
        ("tensor([-1.00004, 2.])", "tensor([-1.00001, 2.])"),
        ("took 1.23456s", "took 1.23457s"),
        ("a\r\nb\r\n", "a\nb"),
        (b"\xff\x00", b"\xff\x00"),
        ("0.0000", "-0.0000"),
    ],
)
def test_rounding_is_no_difference(tmp_path: Path, before: str, after: str) -> None:
    """Neither a part in ten thousand, nor the last of four places or more."""
    assert judged(tmp_path, before, after).sameness is SAME


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("loss 0.1234", "loss 0.1236"),
        ("accuracy 0.5", "accuracy 0.6"),
        ("token 12345678", "token 12345679"),
        ("loss 0.5", "Loss 0.5"),
        ("loss 0.5", "loss nan"),
        ("1e999", "2e999"),
        ("0.0", "1.0"),
        ("v1.20", "v1.2"),
        ("1" * 5000 + ".0", "2" * 5000 + ".0"),
        ("a", "a\nb"),
        ("a\nb", "a"),
    ],
)
def test_anything_else_is_a_difference(tmp_path: Path, before: str, after: str) -> None:
    """Whole numbers and words are compared verbatim."""
    assert judged(tmp_path, before, after).sameness is DIFFERENT


def test_the_first_lines_that_differ_are_named(tmp_path: Path) -> None:
    """With their numbers, and both sides, cut where they are long."""
    result = judged(tmp_path, "a\nb 1.5\nc\n", "a\nb 2.5\n" + "x" * 100 + "\nd\n")
    assert result.reason == "line 2 is 'b 2.5', before 'b 1.5'"
    assert result.differences[1:] == (
        f"line 3 is '{'x' * 57}...', before 'c'",
        "4 lines printed, before 3",
    )
    assert result.calls == 3


def test_lines_that_vary_by_themselves_are_counted(tmp_path: Path) -> None:
    """A time differs in each run; what stands beside it is still compared."""
    first, second = "at 10:30\nloss 1.5\n", "at 10:31\nloss 1.5\n"
    result = judged(tmp_path, first, second, "at 10:32\nloss 1.5\n")
    assert result.sameness is SAME
    assert result.reason == "1 line printed the same; 1 line varies by itself"
    assert judged(tmp_path, first, second, "at 10:32\nloss 2.5\n").sameness is DIFFERENT
    assert judged(tmp_path, "1:1", "1:2", "1:3").reason == "every line varies by itself"


def test_where_the_number_of_lines_varies_nothing_is_known(tmp_path: Path) -> None:
    """Then no line has a counterpart."""
    result = judged(tmp_path, "a\n", "a\nb\n", "c\n")
    assert result.sameness is UNKNOWN
    assert result.reason == "the program varies: runs without changes print 1 and 2 lines"


def test_nothing_printed_or_nothing_kept_is_unknown(tmp_path: Path) -> None:
    """Silence is no agreement."""
    assert judged(tmp_path, "", "").reason == "the program printed nothing"
    assert compare_text(tmp_path / "none", tmp_path / "0").sameness is UNKNOWN
    assert judge_text([], tmp_path / "0").sameness is UNKNOWN
