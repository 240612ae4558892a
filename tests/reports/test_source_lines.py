"""Source lines of the user's program."""

import os
from pathlib import Path

import pytest

from recompile_doctor.events.vocabulary import StackFrame
from recompile_doctor.reports.source_lines import code_of, quoted_line


def write(folder: Path, content: bytes, name: str = "model.py") -> str:
    path = folder / name
    path.write_bytes(content)
    return str(path)


def test_a_line_is_quoted_without_its_indentation(tmp_path: Path) -> None:
    file = write(tmp_path, b"def f(x):\n    return x + 1\n")
    assert quoted_line(file, 2) == "return x + 1"


@pytest.mark.parametrize("line", [-1, 0, 3, 4, 10**9])
def test_lines_that_do_not_exist_are_not_quoted(tmp_path: Path, line: int) -> None:
    assert quoted_line(write(tmp_path, b"a = 1\nb = 2\n\n"), line) is None


@pytest.mark.parametrize(
    ("content", "quoted"),
    [
        ("# größe\n".encode(), "# größe"),
        ("\ufeff# größe\n".encode(), "# größe"),
        (b"# coding: latin-1\n", "# coding: latin-1"),
        (b"# not utf-8: \xe4\n", None),
        (b"# coding: nonsense\n", None),
        (b"a = 1\r\nb = 2\r\n", "a = 1"),
    ],
)
def test_encodings(tmp_path: Path, content: bytes, quoted: str | None) -> None:
    assert quoted_line(write(tmp_path, content), 1) == quoted


def test_the_encoding_that_a_file_declares(tmp_path: Path) -> None:
    file = write(tmp_path, "# coding: latin-1\nx = 'größe'\n".encode("latin-1"))
    assert quoted_line(file, 2) == "x = 'größe'"


def test_lines_are_counted_as_python_counts_them(tmp_path: Path) -> None:
    """A form feed or a Unicode line separator ends no line."""
    file = write(tmp_path, "a = 1\x0c\nb = '\u2028'\nc = 3\r\nd = 4\n".encode())
    assert [quoted_line(file, line) for line in (1, 3, 4)] == ["a = 1", "c = 3", "d = 4"]


def test_bytes_that_are_no_text_far_below_do_not_matter(tmp_path: Path) -> None:
    file = write(tmp_path, b"a = 1\nb = 2\n" + b"# \xe4\n")
    assert quoted_line(file, 2) == "b = 2"


def test_cut_and_relative_paths_are_not_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch writes ``project/model.py`` for some other folder's project."""
    (tmp_path / "project").mkdir()
    write(tmp_path / "project", b"a = 1\n")
    monkeypatch.chdir(tmp_path)
    assert quoted_line("project/model.py", 1) is None
    assert quoted_line("./project/model.py", 1) is None


@pytest.mark.parametrize(
    "file",
    ["", "\0.py", "/\0.py", "<eval_with_key>.3", "/" + "x" * 5000 + ".py", "/udc\udc80.py", "/"],
)
def test_odd_names_are_not_quoted(file: str) -> None:
    assert quoted_line(file, 1) is None


def test_files_that_are_no_python_are_not_opened(tmp_path: Path) -> None:
    """A log cannot have a secret quoted in a report."""
    assert quoted_line(write(tmp_path, b"secret\n", "id_rsa"), 1) is None


def test_special_files_do_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.py")
    (tmp_path / "folder.py").mkdir()
    assert quoted_line(str(tmp_path / "fifo.py"), 1) is None
    assert quoted_line(str(tmp_path / "folder.py"), 1) is None


def test_huge_files_are_not_read(tmp_path: Path) -> None:
    assert quoted_line(write(tmp_path, b"a = 1\n" * 1_000_000), 1) is None


def test_long_lines_are_cut(tmp_path: Path) -> None:
    assert len(quoted_line(write(tmp_path, b"a" * 10_000), 1) or "") == 400


def test_what_torch_logged_comes_before_the_file(tmp_path: Path) -> None:
    """The file may have been edited since."""
    file = write(tmp_path, b"edited = True\n")
    assert code_of(StackFrame(file, 1, "f", "  x = 1 ")) == "x = 1"
    assert code_of(StackFrame(file, 1, "f", None)) == "edited = True"
    assert code_of(StackFrame(file, 9, "f", "")) is None
