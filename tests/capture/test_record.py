"""A recorded run: the manifest before and after, and logs that the user collects already."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recompile_doctor.bundle import (
    NOT_ENDED,
    Bundle,
    Manifest,
    bundle_root,
    create_bundle,
    open_bundle,
)
from recompile_doctor.capture import record as recording
from recompile_doctor.capture.record import record
from recompile_doctor.errors import DoctorError


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return create_bundle(bundle_root(tmp_path), "run")


def test_the_manifest_is_there_while_the_program_runs(bundle: Bundle, tmp_path: Path) -> None:
    """The program finds a manifest that is not complete; at the end it is."""
    code = f"print(open({str(bundle.manifest_path)!r}).read(), file=open('seen', 'w'))"
    record(bundle, [sys.executable, "-c", code], base=os.environ, cwd=tmp_path)
    assert NOT_ENDED in (tmp_path / "seen").read_text()
    manifest = bundle.manifest
    assert (manifest.complete, manifest.cut_short_reason, manifest.exit_code) == (True, None, 0)
    assert manifest.command == (sys.executable, "-c", code)
    assert manifest.wall_seconds is not None


def test_a_tool_that_is_killed_leaves_a_bundle_that_can_be_read(tmp_path: Path) -> None:
    """SIGKILL of the tool loses only the end of the manifest."""
    code = f"""
import os, sys
from pathlib import Path
from recompile_doctor.bundle import bundle_root, create_bundle
from recompile_doctor.capture.record import record
cwd = Path({str(tmp_path)!r})
program = "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"
record(create_bundle(bundle_root(cwd), "run"), [sys.executable, "-c", program],
       base=os.environ, cwd=cwd)
"""
    tool = subprocess.run([sys.executable, "-c", code], check=False)
    assert tool.returncode == -signal.SIGKILL
    manifest = open_bundle(bundle_root(tmp_path) / "run").manifest
    assert (manifest.complete, manifest.cut_short_reason) == (False, NOT_ENDED)


def test_a_killed_program_is_cut_short(bundle: Bundle, tmp_path: Path) -> None:
    """What was written before the kill stays, and the manifest says what happened."""
    code = """
import os, pathlib, signal
pathlib.Path(os.environ["TORCH_TRACE"], "a.log").write_text("x")
os.kill(os.getpid(), signal.SIGKILL)
"""
    record(bundle, [sys.executable, "-c", code], base=os.environ, cwd=tmp_path)
    manifest = bundle.manifest
    assert (manifest.complete, manifest.exit_code, manifest.signal) == (False, 137, "SIGKILL")
    assert manifest.cut_short_reason == "killed by SIGKILL"
    assert [path.name for path in bundle.trace_files()] == ["a.log"]


def test_a_command_that_cannot_start_leaves_no_bundle(bundle: Bundle, tmp_path: Path) -> None:
    """A typing error does not fill the folder with empty runs."""
    with pytest.raises(DoctorError):
        record(bundle, ["no-such-program"], base=os.environ, cwd=tmp_path)
    assert not bundle.path.exists()


def test_a_disk_that_is_full_at_the_start_leaves_no_bundle(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is started, and no empty run stays behind."""

    def full(bundle: Bundle, manifest: Manifest) -> None:
        raise DoctorError("full", slug="bundle-not-writable")

    monkeypatch.setattr(recording, "write_manifest", full)
    with pytest.raises(DoctorError):
        record(bundle, ["touch", "ran"], base=os.environ, cwd=tmp_path)
    assert not bundle.path.exists()
    assert not (tmp_path / "ran").exists()


def test_caches_are_cold_and_removed(bundle: Bundle, tmp_path: Path) -> None:
    """The caches live in the bundle while the program runs, and not after."""
    code = """
import os, pathlib
folder = pathlib.Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
folder.mkdir(parents=True)
(folder / "kernel").write_text("x")
"""
    record(bundle, [sys.executable, "-c", code], base=os.environ, cwd=tmp_path)
    assert bundle.manifest.caches == "cold"
    assert not bundle.cache_directory.exists()


def test_the_users_own_collections_get_and_give(bundle: Bundle, tmp_path: Path) -> None:
    """What the run adds to the user's trace folder and log is copied, and stays there too."""
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "old.log").write_text("old")
    (tmp_path / "out.log").write_text("before\n")
    code = """
import os, pathlib
pathlib.Path(os.environ["TORCH_TRACE"], "new.log").write_text("new")
with open(os.environ["TORCH_LOGS_OUT"], "a") as file:
    file.write("during\\n")
"""
    base = {**os.environ, "TORCH_TRACE": "traces", "TORCH_LOGS_OUT": "out.log"}
    record(bundle, [sys.executable, "-c", code], base=base, cwd=tmp_path)
    assert [path.read_text() for path in bundle.trace_files()] == ["new"]
    assert [path.read_text() for path in bundle.log_files()] == ["during\n"]
    assert (tmp_path / "out.log").read_text() == "before\nduring\n"
    assert (tmp_path / "traces" / "new.log").exists()


def test_overrides_reach_the_program_and_the_manifest(bundle: Bundle, tmp_path: Path) -> None:
    """A prescription under trial is set for the child and written down."""
    code = "import os; raise SystemExit(os.environ['TORCH_COMPILE_UNBACKED_SOURCES'] != 'x:0')"
    done = record(
        bundle,
        [sys.executable, "-c", code],
        base=os.environ,
        cwd=tmp_path,
        overrides={"TORCH_COMPILE_UNBACKED_SOURCES": "x:0"},
        prescription="p.yaml",
    )
    assert done.outcome.exit_code == 0
    assert bundle.manifest.environment["TORCH_COMPILE_UNBACKED_SOURCES"] == "x:0"
    assert bundle.manifest.prescription == "p.yaml"


@pytest.fixture
def full_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the manifest be written once, at the start."""
    write = recording.write_manifest

    def write_once(bundle: Bundle, manifest: Manifest) -> None:
        if manifest.complete:
            assert not bundle.cache_directory.exists()  # that is the room there may be
            raise DoctorError("full", slug="bundle-not-writable")
        write(bundle, manifest)

    monkeypatch.setattr(recording, "write_manifest", write_once)


@pytest.mark.usefixtures("full_at_the_end")
def test_a_disk_that_is_full_at_the_end_costs_nothing(bundle: Bundle, tmp_path: Path) -> None:
    """The end is written over the manifest of the start, in the room that it has."""
    done = record(bundle, [sys.executable, "-c", ""], base=os.environ, cwd=tmp_path)
    assert done.problem is None
    assert Bundle(bundle.path).manifest == bundle.manifest
    assert bundle.manifest.complete


@pytest.mark.usefixtures("full_at_the_end")
def test_an_end_that_cannot_be_written_is_known_all_the_same(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report on the run says how it ended; only the manifest on disk does not."""
    monkeypatch.setattr(recording, "overwrite_manifest", lambda bundle, manifest: False)
    done = record(bundle, [sys.executable, "-c", ""], base=os.environ, cwd=tmp_path)
    assert (done.outcome.exit_code, done.problem is None) == (0, False)
    assert (bundle.manifest.complete, bundle.manifest.exit_code) == (True, 0)
    assert Bundle(bundle.path).manifest.cut_short_reason == NOT_ENDED


@pytest.mark.parametrize("text", ["", "the trace could not be written\nOSError: ...\n"])
def test_a_log_that_could_not_be_written_is_cut_short(
    bundle: Bundle, tmp_path: Path, text: str
) -> None:
    """The probe says so; on a full disk its note is empty."""
    (bundle.probe_directory / "7.failure.txt").write_text(text)
    record(bundle, [sys.executable, "-c", ""], base=os.environ, cwd=tmp_path)
    assert not bundle.manifest.complete
    assert bundle.manifest.cut_short_reason == "not all of torch's log could be written"


def test_the_most_memory_of_any_process_is_kept(bundle: Bundle, tmp_path: Path) -> None:
    """For each device; a file that cannot be read, or has no such thing, is passed over."""
    told = {
        "1": '{"pid": 1, "device_memory_peak": {"cuda:1": 5, "cuda:0": 70}, "functions": []}',
        "2": '{"pid": 2, "device_memory_peak": {"cuda:0": 90}}',
        "3": '{"pid": 3, "device_memory_peak": {}}',
        "4": '{"pid": 4}',
        "5": '{"device_memory_peak": {"cuda:0": "x"}}',
        "6": '{"device_memory_peak": {"cuda:0": 1',
        "7": '{"device_memory_peak": {"cuda:0": 9999999999999999999999}}',
    }
    for pid, text in told.items():
        (bundle.probe_directory / f"{pid}.calls.json").write_text(text)
    record(bundle, [sys.executable, "-c", ""], base=os.environ, cwd=tmp_path)
    assert open_bundle(bundle.path).manifest.device_memory_peak == {"cuda:0": 90, "cuda:1": 5}
    assert bundle.probe_files() == ()


def test_a_run_without_a_device_has_no_peak_of_memory(bundle: Bundle, tmp_path: Path) -> None:
    """Not known is not nothing."""
    (bundle.probe_directory / "1.calls.json").write_text('{"device_memory_peak": {}}')
    record(bundle, [sys.executable, "-c", ""], base=os.environ, cwd=tmp_path)
    assert open_bundle(bundle.path).manifest.device_memory_peak is None


def test_started_has_a_zone(bundle: Bundle, tmp_path: Path) -> None:
    """The start can be compared between machines."""
    record(bundle, [sys.executable, "-c", ""], base=os.environ, cwd=tmp_path)
    assert bundle.manifest.started[:4] == time.strftime("%Y")
    assert bundle.manifest.started[-6] in "+-"
