"""Every input that a user may name."""

import gzip
import io
import os
import threading
from pathlib import Path
from typing import BinaryIO

import pytest
import zstandard

from recompile_doctor.errors import DoctorError
from recompile_doctor.events.stream import detect_kind, read_events
from recompile_doctor.events.vocabulary import (
    CompileStarted,
    DataDependentError,
    ForeignLines,
    GraphCaptured,
    IssueKind,
    LogKind,
    ParseIssue,
    ReadItem,
    RecompileReported,
)
from tests.events.text_samples import logged, recompile

TEXT = (logged("create_env") + recompile("0/0: x == 2")).encode()
RECORD = b"V1130 04:20:29.133000 2 torch/_dynamo/output_graph.py:1] "
RECORD += (
    b'{"dynamo_output_graph": {"sizes": {}}, "frame_id": 0, "frame_compile_id": 0, "attempt": 0, '
)
RECORD += b'"has_payload": "0"}\n\tclass GraphModule:\n\t\n'
TRACE_NAME = "dedicated_log_torch_trace_abc.log"


class Pipe(io.RawIOBase):
    """A stream that gives its bytes once, a few at a time."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._rest = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        data = self._rest.read(min(len(buffer), 7))
        buffer[: len(data)] = data
        return len(data)


class Broken(Pipe):
    """A stream whose end is an error, as of a bad disk."""

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        size = super().readinto(buffer)
        if not size:
            raise OSError(5, "Input/output error")
        return size


def read(*sources: Path | BinaryIO) -> list[ReadItem]:
    return [*read_events(sources)]


def kinds(items: list[ReadItem]) -> list[type]:
    return [type(item) for item in items if not isinstance(item, ParseIssue)]


def error_of(*sources: Path | BinaryIO) -> DoctorError:
    with pytest.raises(DoctorError) as raised:
        read(*sources)
    assert raised.value.message.endswith(".") and raised.value.hint
    return raised.value


def packings(data: bytes) -> list[bytes]:
    return [data, gzip.compress(data), zstandard.compress(data)]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (TEXT, LogKind.TEXT),
        (RECORD, LogKind.TRACE),
        (b"hello\n" + TEXT + RECORD, LogKind.TEXT),
        (b"hello\n" + RECORD + TEXT, LogKind.TRACE),
        (b"hello\n", None),
        (b"", None),
    ],
)
def test_the_first_line_of_torch_decides_the_kind(data: bytes, kind: LogKind | None) -> None:
    for packed in packings(data):
        assert detect_kind(packed) is kind


def test_a_file_of_either_kind_is_read_packed_or_not(tmp_path: Path) -> None:
    """Whatever its name."""
    for data, expected in ((TEXT, [CompileStarted, RecompileReported]), (RECORD, [GraphCaptured])):
        for packed in packings(data):
            (tmp_path / "log").write_bytes(packed)
            assert kinds(read(tmp_path / "log")) == expected


def test_a_stream_that_cannot_seek_is_read_packed_or_not() -> None:
    for packed in packings(TEXT):
        items = read(io.BufferedReader(Pipe(packed)))
        assert kinds(items) == [CompileStarted, RecompileReported]
        assert isinstance(items[0], CompileStarted) and items[0].origin.position.file == "-"


def test_a_named_pipe_is_read(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(TEXT,))
    writer.start()
    assert kinds(read(path)) == [CompileStarted, RecompileReported]
    writer.join()


@pytest.mark.parametrize("data", [TEXT + RECORD, RECORD + TEXT, RECORD + b"hello\n" + TEXT])
def test_both_kinds_mixed_in_one_input_are_read(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "log").write_bytes(data)
    for source in (tmp_path / "log", io.BufferedReader(Pipe(data))):
        items = read(source)
        assert {CompileStarted, RecompileReported, GraphCaptured} <= set(kinds(items))
        foreign = [item.lines for item in items if isinstance(item, ForeignLines)]
        assert foreign == [1] * data.count(b"hello")
        started = next(item for item in items if isinstance(item, CompileStarted))
        assert started.origin.position.line == data[: data.index(b"create_env")].count(b"\n") + 1


def test_several_sources_are_read_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(RECORD)
    (tmp_path / "b.log").write_bytes(logged("create_env").encode())
    assert kinds(read(tmp_path / "b.log", tmp_path / "a.log")) == [CompileStarted, GraphCaptured]


def test_a_folder_gives_all_of_its_logs(tmp_path: Path) -> None:
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / TRACE_NAME).write_bytes(RECORD)
    (tmp_path / "trace" / f"{TRACE_NAME}.gz").write_bytes(
        gzip.compress(RECORD.replace(b" 2 ", b" 3 "))
    )
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "1.log").write_bytes(TEXT)
    (tmp_path / "manifest.yaml").write_bytes(TEXT)
    (tmp_path / "notes.txt").write_bytes(b"not a log\n")
    (tmp_path / "empty.log").touch()
    items = read(tmp_path)
    assert kinds(items) == [CompileStarted, RecompileReported, GraphCaptured, GraphCaptured]


def test_standard_error_beside_torchs_own_file_is_one_log(tmp_path: Path) -> None:
    """With TORCH_LOGS_OUT torch writes to both; only one of them has what was raised."""
    error = b"UserError: Could not guard on data-dependent expression u0 > 3 (unhinted: u0 > 3).\n"
    (tmp_path / "dynamic.log").write_bytes(TEXT)
    (tmp_path / "stderr.log.gz").write_bytes(gzip.compress(b"hello\n" + TEXT + error))
    (tmp_path / "stderr-2.log").write_bytes(TEXT.replace(b"24523", b"24524"))
    found = kinds(read(tmp_path))
    assert found.count(CompileStarted) == 2
    assert DataDependentError in found


def test_links_that_lead_back_are_followed_once(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.log").write_bytes(TEXT)
    (tmp_path / "a" / "back").symlink_to(tmp_path)
    (tmp_path / "gone.log").symlink_to(tmp_path / "nowhere")
    assert kinds(read(tmp_path)) == [CompileStarted, RecompileReported]


def test_folders_are_searched_to_a_depth(tmp_path: Path) -> None:
    deep = tmp_path / "1/2/3/4/5"
    deep.mkdir(parents=True)
    (deep / "a.log").write_bytes(TEXT)
    assert error_of(tmp_path).slug == "not-a-log"
    (deep.parent / "a.log").write_bytes(TEXT)
    assert kinds(read(tmp_path)) == [CompileStarted, RecompileReported]


@pytest.mark.parametrize(
    ("data", "slug"),
    [
        (b"", "empty-input"),
        (gzip.compress(b"", mtime=0), "empty-input"),
        (b"hello\n", "not-a-log"),
        (bytes(range(256)) * 20, "not-a-log"),
        (gzip.compress(b"hello\n", mtime=0)[:-9], "not-a-log"),
        (b"DEBUG:torch._dynamo.guards.__recompiles:Recompiling function f\n", "text-log-format"),
    ],
)
def test_an_input_that_is_no_log_is_refused(tmp_path: Path, data: bytes, slug: str) -> None:
    (tmp_path / "log").write_bytes(data)
    assert error_of(tmp_path / "log").slug == slug
    error = error_of(io.BufferedReader(Pipe(data)))
    assert error.slug == slug and error.message.startswith("- ")


def test_the_basic_format_inside_of_a_log_is_output_of_the_program() -> None:
    data = b"DEBUG:torch._dynamo:x\n" + TEXT
    assert kinds(read(io.BytesIO(data)))[-1] is ForeignLines


def test_a_log_in_which_nothing_is_needed_is_a_log() -> None:
    data = logged("GUARDS:", "torch/_dynamo/guards.py:1", artifact="guards").encode()
    assert read(io.BytesIO(data)) == []


def test_a_log_with_nothing_but_a_raised_error_is_a_log() -> None:
    error = b"UserError: Could not guard on data-dependent expression u0 > 3 (unhinted: u0 > 3).\n"
    assert DataDependentError in kinds(read(io.BytesIO(b"hello\n" + error)))


def test_what_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path / "nul\0byte"):
        assert error_of(path).slug == "unreadable-input"


def test_a_stream_that_breaks_is_refused_and_a_file_that_breaks_is_read_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = io.BufferedReader(Broken(TEXT))
    assert error_of(broken).slug == "unreadable-input"
    path = tmp_path / "a.log"
    path.write_bytes(TEXT)
    monkeypatch.setattr(Path, "open", lambda self, mode, buffering: Broken(TEXT))
    items = read(path)
    assert kinds(items) == [CompileStarted, RecompileReported]
    assert [item.kind for item in items if isinstance(item, ParseIssue)] == [IssueKind.CUT_SHORT]
