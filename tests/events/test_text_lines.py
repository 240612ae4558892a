import pytest

from recompile_doctor.events.text_lines import LogLine, LogLines

LINE = "V1130 04:20:29.133000 24523 torch/_dynamo/guards.py:57] [0/1] [__recompiles] text"


def lines_of(*chunks: bytes) -> list[LogLine]:
    return [*LogLines(chunks)]


@pytest.mark.parametrize(
    "lead",
    [
        "",
        "2026-01-01T00:00:00.0000000Z ",
        "2026-01-01T00:00:00.000000Z 00O ",
        "[2026-01-01T00:00:00.000Z] ",
        "trainer-1  | ",
        "[default0]:",
        "    ",
        "Jan 01 00:00:00 host python[12]: ",
        "run.log:12:",
        "progress 50%|#####     |\r",
        "\r 50%|#####     | 1/2 [00:00<00:00,  1.2it/s]",
        "loss=0.25",
        "\x1b[31m",
        "\x1b]8;;http://x\x07",
    ],
)
def test_what_stands_in_front_of_the_prefix_is_cut_off(lead: str) -> None:
    for line in (LINE, f"[rank1]:{LINE}"):
        (read,) = lines_of(f"{lead}{line}\n".encode())
        assert (read.text, read.is_torch) == (line, True)


@pytest.mark.parametrize("quote", ['"', "'", "`", "\\"])
def test_a_quoted_prefix_is_a_text_about_a_log(quote: str) -> None:
    """A traceback that shows the code ``print("V1130 ...`` is not torch's."""
    for line in (LINE, f"[rank1]:{LINE}"):
        (read,) = lines_of(f"    print(f{quote}{line}{quote})\n".encode())
        assert not read.is_torch


def test_a_prefix_inside_of_a_message_does_not_begin_a_line() -> None:
    (read,) = lines_of(f"{LINE} {LINE}\n".encode())
    assert read.text == f"{LINE} {LINE}"


def test_a_torn_line_gives_the_line_that_follows_in_it() -> None:
    (read,) = lines_of(f"V1130 04:20:29.133000 2 torch/_dyn[rank1]:{LINE}\n".encode())
    assert read.text == f"[rank1]:{LINE}"


def test_a_path_may_have_spaces() -> None:
    line = LINE.replace("torch/_dynamo", "/home/my user/torch/_dynamo")
    (read,) = lines_of(f"{line}\n".encode())
    assert read.text == line


def test_only_a_line_feed_ends_a_line() -> None:
    text = f"{LINE} a\u2028b\x0bc\x85d\re"
    (read,) = lines_of(f"{text}\r\n".encode())
    assert (read.text, read.size) == (text, len(text.encode()) + 1)


def test_lines_are_counted_over_chunks() -> None:
    read = lines_of(b"a\n\nb", b"c\n", f"{LINE}\n".encode())
    assert [(line.number, line.text) for line in read] == [(1, "a"), (3, "bc"), (4, LINE)]


def test_a_last_line_without_line_break_is_cut() -> None:
    for data, is_cut in ((b"a\n", False), (b"a\nb", True), (b"", False)):
        lines = LogLines([data])
        assert len([*lines]) == bool(data) + is_cut
        assert lines.is_cut is is_cut


def test_bytes_that_are_no_text_are_replaced_and_told() -> None:
    (read,) = lines_of(f"{LINE} ".encode() + b"\xff\n")
    assert read.text == f"{LINE} \ufffd"
    assert not read.is_clean


def test_utf_16_with_its_mark_is_converted() -> None:
    """PowerShell writes redirected output so."""
    for coding in ("utf-16-le", "utf-16-be"):
        data = f"\ufeffstart\r\n{LINE}\r\n".encode(coding)
        read = lines_of(data[:7], data[7:100], data[100:])
        assert [line.text for line in read][1] == LINE


def test_of_a_giant_line_begin_and_end_are_kept() -> None:
    """A progress bar can redraw for hours without a line break; then torch logs."""
    read = lines_of(*[b"\r 50%|####" * 100_000] * 10, f"{LINE}\n".encode())
    assert [line.text for line in read] == [LINE]
