"""The report for the terminal."""

import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from recompile_doctor.diagnosis.finding import LocationRole
from recompile_doctor.reports.document import Document, NextCommand, UnreadExample, UnreadSummary
from recompile_doctor.reports.terminal import print_terminal
from tests.reports import documents

BASE = Path(documents.PROJECT)


def show(document: Document, width: int = 80, *, encoding: str = "utf-8", **options: bool) -> str:
    """Return the report as it is written to a pipe."""
    stream = io.BytesIO()
    file = io.TextIOWrapper(stream, encoding=encoding, newline="\n")
    print_terminal(document, Console(file=file, width=width), base=BASE, **options)
    file.flush()
    return stream.getvalue().decode(encoding)


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("name", documents.ALL)
def test_golden(name: str, width: int, check_golden: Callable[[str, str], None]) -> None:
    check_golden(f"{name}.{width}.txt", show(documents.ALL[name](), width))


def test_golden_ascii(check_golden: Callable[[str, str], None]) -> None:
    check_golden("attention.ascii.txt", show(documents.attention(), encoding="ascii"))


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "cp1252"])
@pytest.mark.parametrize("name", documents.ALL)
def test_no_line_is_longer_than_the_terminal(name: str, encoding: str, width: int) -> None:
    """Only commands are, since they are there to be copied."""
    document = replace(documents.ALL[name](), next_commands=())
    for line in show(document, width, encoding=encoding).splitlines():
        assert cell_len(line) <= width
        assert line == line.rstrip()


def test_a_narrow_terminal_gets_the_narrowest_layout() -> None:
    assert show(documents.attention(), 10) == show(documents.attention(), 60)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=300), st.sampled_from(["utf-8", "ascii"]), st.sampled_from([60, 80]))
def test_any_text_of_a_log_shows_and_does_nothing(text: str, encoding: str, width: int) -> None:
    whole = documents.attention()
    finding = whole.findings[0]
    frame = replace(finding.frame, function=text, file=text)
    hostile = replace(
        finding,
        frame=frame,
        source=text,
        message=text,
        why=text,
        values=(text, text * 2),
        hints=(text,),
        location=documents.location(3, text, text, LocationRole.CALL, text),
        evidence=(documents.evidence(1, text, text),),
    )
    document = replace(
        whole,
        findings=(hostile, replace(hostile, rule="x", recompiles=(), graph_breaks=1)),
        frames=(replace(whole.frames[0], frame=frame, graphs_captured=0),),
        unread=UnreadSummary(1, 1, (UnreadExample(hostile.evidence[0].position, text, text),)),
        next_commands=(),
        torch_version=text,
        subject=text,
        pages=text,
    )
    lines = show(document, width, encoding=encoding).split("\n")
    assert all(line.isprintable() and cell_len(line) <= width for line in lines)


def test_a_terminal_gets_colours_and_no_color_takes_them_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def coloured() -> str:
        file = io.StringIO()
        print_terminal(documents.limit(), Console(file=file, width=80, force_terminal=True))
        return file.getvalue()

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[1;31m" in coloured()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search("\x1b\\[[0-9;]*3[0-7]m", coloured())


def test_commands_are_never_wrapped() -> None:
    command = "recompile-doctor verify --fail-on high --timeout 600 -- " + "python train.py " * 8
    document = replace(
        documents.attention(), next_commands=(NextCommand(command.strip(), "try it"),)
    )
    assert f"  {command.strip()}\n" in show(document)


def test_all_is_well_in_one_line() -> None:
    text = "No recompiles, no graph breaks: 3 functions compiled into 3 graphs in 2.1 s.\n"
    assert show(documents.well()) == text


def test_notices_stand_before_a_good_result() -> None:
    notices = documents.graph_net().notices
    lines = show(replace(documents.well(), notices=notices)).splitlines()
    assert lines[0].startswith("warning: the program was killed")
    assert lines[-1].startswith("No recompiles, no graph breaks")


def test_nothing_compiled_is_not_well() -> None:
    assert "Nothing was compiled." in show(documents.nothing())


def test_a_function_without_graphs_is_not_well() -> None:
    whole = documents.well()
    frames = (replace(whole.frames[0], graphs_captured=0), *whole.frames[1:])
    text = show(replace(whole, frames=frames))
    assert "encode (train.py:9) runs eagerly: 0 graphs captured" in text
    assert "0 graphs: this function runs eagerly" in text


def test_a_limit_hit_stands_before_what_costs_more() -> None:
    text = show(documents.limit())
    limit = text.index("1. from here on features runs eagerly")
    assert limit < text.index("2. a tensor dimension varies")


def test_inferred_findings_are_folded_under_theirs() -> None:
    text = show(documents.attention())
    assert text.count("a dimension is 0 or 1 in some calls") == 2
    assert "also changes: L['mask'] dims 2, 3 (inferred" in text


def test_an_inferred_finding_stands_alone_when_its_own_is_missing() -> None:
    whole = documents.attention()
    text = show(replace(whole, findings=whole.findings[2:3]))
    assert "1. a dimension is 0 or 1 in some calls" in text
    assert "L['mask'] dim 0: 4 → 2" in text


def test_a_first_use_is_said_not_to_be_to_blame() -> None:
    assert "case.py:22: first use of the value; the line is not to blame" in show(
        documents.attention()
    )


def test_unknown_times_are_never_zero() -> None:
    text = show(documents.text_only())
    assert "3 recompiles in 1 function, time unknown (text log)" in text
    assert "high · time unknown (text log)" in text
    assert "0 s" not in text


def test_the_ranks_of_recompiles_are_shown() -> None:
    assert "2 recompiles: rank1:0/2, rank1:0/3" in show(documents.two_ranks())


def test_source_lines_can_be_switched_off() -> None:
    text = show(documents.attention(), quote_source=False)
    assert "b, t, d = x.shape" not in text
    assert "case.py:22" in text


def test_long_tables_are_cut_but_not_what_runs_eagerly() -> None:
    text = show(documents.graph_net())
    assert "… and 9 more functions" in text
    assert "decode (net.py:99)             " in text


def test_how_many_calls_had_the_special_size_is_shown() -> None:
    text = show(documents.last_batch())
    assert "3 of 15 observed calls have size 1" in text
    assert "observed call" not in show(replace(documents.last_batch(), weights={}))
