"""Pages by the real tlparse, on a real trace (torch 2.13, a size that goes 8, 16, 1, 0)."""

import gzip
import os
import stat
import sys
from pathlib import Path

import pytest
import zstandard

from recompile_doctor.errors import DoctorError
from recompile_doctor.reports import tlparse_pages
from recompile_doctor.reports.tlparse_pages import make_pages

COMPRESSED = Path(__file__).parent / "data" / "zero_one.log.gz"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "dedicated_log_torch_trace_6ioano7e.log"
    path.write_bytes(gzip.decompress(COMPRESSED.read_bytes()))
    return path


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file that is started in tlparse's place."""
    path = tmp_path / "bin" / "tlparse"
    path.parent.mkdir()
    monkeypatch.setattr(tlparse_pages, "_tlparse", lambda: str(path))
    return path


def script(path: Path, text: str) -> None:
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_one_trace_gives_its_pages(trace: Path, tmp_path: Path) -> None:
    page = make_pages([trace], tmp_path / "deep" / "pages")
    assert page == tmp_path / "deep" / "pages" / "index.html"
    assert "zero_one.py" in page.read_text("utf-8")
    assert [each.name for each in page.parent.parent.iterdir()] == ["pages"]


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_compressed_traces(compress: object, trace: Path, tmp_path: Path) -> None:
    assert callable(compress)
    trace.write_bytes(compress(trace.read_bytes()))
    assert "zero_one.py" in make_pages([trace], tmp_path / "pages").read_text("utf-8")


def test_a_trace_that_ends_within_a_character(trace: Path, tmp_path: Path) -> None:
    """As a killed run can leave it; tlparse alone takes valid UTF-8 only."""
    trace.write_bytes(trace.read_bytes()[:150_000] + "日".encode()[:2])
    assert "zero_one.py" in make_pages([trace], tmp_path / "pages").read_text("utf-8")


def test_ranks_get_a_common_first_page(trace: Path, tmp_path: Path) -> None:
    ranks = [tmp_path / f"dedicated_log_torch_trace_rank_{n}_x.log" for n in (0, 1)]
    for rank in ranks:
        rank.write_bytes(trace.read_bytes())
    page = make_pages(ranks, tmp_path / "pages")
    assert (page.parent / "rank_1" / "index.html").exists()
    assert "rank_1/index.html" in page.read_text("utf-8")
    assert make_pages(ranks, tmp_path / "pages").exists()


def test_processes_without_ranks_get_a_list(trace: Path, tmp_path: Path) -> None:
    other = tmp_path / "<b>.log"
    other.write_bytes(trace.read_bytes())
    page = make_pages([trace, other], tmp_path / "pages")
    assert (page.parent / "process_1" / "index.html").exists()
    assert "&lt;b&gt;.log" in page.read_text("utf-8")
    assert make_pages([trace, other], tmp_path / "pages").exists()


def test_older_pages_are_replaced(trace: Path, tmp_path: Path) -> None:
    stale = make_pages([trace], tmp_path / "pages").parent / "stale"
    stale.touch()
    make_pages([trace], tmp_path / "pages")
    assert not stale.exists()


def test_a_folder_with_anything_else_is_kept(trace: Path, tmp_path: Path) -> None:
    """The --overwrite of tlparse would delete it."""
    mine = tmp_path / "results" / "mine.txt"
    mine.parent.mkdir()
    mine.touch()
    with pytest.raises(DoctorError, match="does not hold pages"):
        make_pages([trace], mine.parent)
    assert mine.exists()


def test_a_missing_trace(tmp_path: Path) -> None:
    with pytest.raises(DoctorError) as caught:
        make_pages([tmp_path / "missing.log"], tmp_path / "pages")
    assert caught.value.slug == "tlparse-failed"
    assert not (tmp_path / "pages").exists()


def test_a_fifo_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.log")
    with pytest.raises(DoctorError, match="not a file"):
        make_pages([tmp_path / "fifo.log"], tmp_path / "pages")


def test_damaged_compression(tmp_path: Path) -> None:
    (tmp_path / "cut.log.gz").write_bytes(COMPRESSED.read_bytes()[:1000])
    with pytest.raises(DoctorError, match="cannot be read"):
        make_pages([tmp_path / "cut.log.gz"], tmp_path / "pages")


def test_no_trace(tmp_path: Path) -> None:
    with pytest.raises(DoctorError, match="no trace"):
        make_pages([], tmp_path / "pages")


def test_the_last_words_of_tlparse_are_handed_on(trace: Path, tmp_path: Path, fake: Path) -> None:
    script(fake, "print('Stats'); print('Error: it broke \\x1b[31m'); print('more'); exit(3)")
    with pytest.raises(DoctorError) as caught:
        make_pages([trace], tmp_path / "pages")
    assert caught.value.message == r"tlparse failed with status 3: Error: it broke \x1b[31m"


def test_success_without_pages_is_a_failure(trace: Path, tmp_path: Path, fake: Path) -> None:
    script(fake, "")
    with pytest.raises(DoctorError, match="it said nothing"):
        make_pages([trace], tmp_path / "pages")


def test_tlparse_that_hangs_is_stopped(trace: Path, tmp_path: Path, fake: Path) -> None:
    script(fake, "import time; time.sleep(60)")
    with pytest.raises(DoctorError, match=r"within 0\.5 seconds"):
        make_pages([trace], tmp_path / "pages", timeout=0.5)


def test_tlparse_that_cannot_start(trace: Path, tmp_path: Path, fake: Path) -> None:
    fake.write_text("no program")
    with pytest.raises(DoctorError, match="cannot be started"):
        make_pages([trace], tmp_path / "pages")
