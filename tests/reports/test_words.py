"""What the formats for people share."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recompile_doctor.reports import words
from tests.reports import documents


@given(st.text())
def test_visible_text_is_one_printable_line(text: str) -> None:
    shown = words.visible(text)
    assert shown.isprintable()
    assert words.visible(shown) == shown
    assert words.visible(text, ascii_only=True).isascii()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("L['x'].size()[0]", "L['x'].size()[0]"),
        ("größe 日本", "größe 日本"),
        ("a\tb", "a b"),
        ("a\nb\r", r"a\nb\r"),
        ("\x1b[31m", r"\x1b[31m"),
        ("\u202eabc\u200f", r"\u202eabc\u200f"),
        ("\udc80", r"\udc80"),
        ("[red]x[/red]", "[red]x[/red]"),
    ],
)
def test_visible(text: str, shown: str) -> None:
    assert words.visible(text) == shown


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ("", ""),
        ("8 16 1 0", "8 > 16 > 1 > 0"),
        ("8 8 8 1 8 8", "8 x3 > 1 > 8 x2"),
        (
            " ".join(map(str, range(20))),
            "0 > 1 > 2 > 3 > 4 > 5 > ... > 18 > 19 (20 values, 20 distinct)",
        ),
    ],
)
def test_values_are_shortened(values: str, shown: str) -> None:
    assert words.values_seen(tuple(values.split()), ">", "...") == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0 s"),
        (0.004, "under 0.01 s"),
        (0.316, "0.32 s"),
        (4.13, "4.1 s"),
        (127.4, "127 s"),
        (4000.0, "67 min"),
    ],
)
def test_seconds(seconds: float, shown: str) -> None:
    assert words.seconds_text(seconds) == shown


def test_recompiles_are_named_by_what_tells_them_apart() -> None:
    one_process = documents.attention()
    ref = documents.ref("0/2", rank=1)
    assert words.recompile_name(ref, one_process) == "0/2"
    assert words.recompile_name(ref, documents.two_ranks()) == "rank1:0/2"
    reset = replace(ref, key=documents.key("0/2", epoch=1))
    assert words.recompile_name(reset, one_process) == "reset1:0/2"


def test_processes_without_ranks_are_named_by_their_ids() -> None:
    whole = documents.attention()
    other = documents.ref("0/1", process="77")
    several = replace(whole, summary=replace(whole.summary, processes=2))
    assert words.recompile_name(other, several) == "pid77:0/1"


def test_dimensions_of_one_source_stand_together() -> None:
    folded = list(documents.attention().findings[2:5])
    assert words.places_together(folded) == ("L['mask'] dims 0, 2, 3",)
