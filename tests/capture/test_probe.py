"""The probe in Python processes without torch: it makes way, and its failures stay its own.

A stand-in package named ``torch`` serves where the hook must fire; the real one is in
tests/end_to_end.
"""

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import TextIO

import pytest

from recompile_doctor.bundle import Bundle, bundle_root, create_bundle
from recompile_doctor.capture.environment import child_environment
from recompile_doctor.capture.probe.torch_logs import quiet_trace


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return create_bundle(bundle_root(tmp_path), "run")


def python(
    bundle: Bundle, code: str, path: Path | None = None, *options: str, **base: str
) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path is not None:
        base["PYTHONPATH"] = str(path)
    child = child_environment({**environment, **base}, bundle, use_caches=True, probe=True)
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        env=child,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_program_sees_its_own_settings(bundle: Bundle) -> None:
    """TORCH_LOGS is the user's again, and the probe's folder is on no path."""
    code = """
import os, sys
print(os.environ.get("TORCH_LOGS"), os.environ.get("TORCH_LOGS_OUT"))
print([entry for entry in sys.path if "probe" in entry])
"""
    assert python(bundle, code).stdout.splitlines() == ["None None", "[]"]
    result = python(bundle, code, TORCH_LOGS="aot", TORCH_LOGS_OUT="x")
    assert result.stdout.splitlines() == ["aot x", "[]"]


def test_a_value_that_the_program_sets_reaches_its_children(bundle: Bundle) -> None:
    """Only our own value is taken back, in a child of the program too."""
    code = """
import os, subprocess, sys
os.environ["TORCH_LOGS"] = "guards"
subprocess.run([sys.executable, "-c", "import os; print(os.environ['TORCH_LOGS'])"])
"""
    assert python(bundle, code).stdout.strip() == "guards"


def test_an_isolated_python_runs_without_the_probe(bundle: Bundle) -> None:
    """``python -I`` ignores PYTHONPATH: the probe is absent and TORCH_LOGS does the work."""
    result = python(bundle, "import os; print(os.environ['TORCH_LOGS'])", None, "-I")
    assert result.stdout.strip() == "dynamic,recompiles_verbose,graph_breaks"


def test_the_next_sitecustomize_runs(bundle: Bundle, tmp_path: Path) -> None:
    """A sitecustomize of the user runs, and is the one that ``import`` finds."""
    (tmp_path / "sitecustomize.py").write_text("WHO = 'user'\nprint('user site')\n")
    result = python(bundle, "import sitecustomize; print(sitecustomize.WHO)", tmp_path)
    assert (result.stdout, result.stderr) == ("user site\nuser\n", "")


def test_a_failing_sitecustomize_fails_as_without_us(bundle: Bundle, tmp_path: Path) -> None:
    """Python's own words about the user's sitecustomize are the same, and the program runs."""
    (tmp_path / "sitecustomize.py").write_text("import no_such_module\n")
    without = subprocess.run(
        [sys.executable, "-c", "print(1)"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    result = python(bundle, "print(1)", tmp_path)
    assert (result.stdout, result.stderr) == (without.stdout, without.stderr)


def test_a_failing_probe_leaves_the_program_unharmed(bundle: Bundle, tmp_path: Path) -> None:
    """A torch whose logging the probe does not know works, and a note says what happened."""
    logging = tmp_path / "torch" / "_logging"
    logging.mkdir(parents=True)
    (tmp_path / "torch" / "__init__.py").write_text("from . import _logging\n")
    (logging / "__init__.py").write_text("from ._internal import VALUE\n")
    (logging / "_internal.py").write_text("VALUE = 7\n")
    result = python(bundle, "import torch; print(torch._logging.VALUE)", tmp_path)
    assert (result.stdout, result.stderr, result.returncode) == ("7\n", "", 0)
    (note,) = bundle.probe_directory.glob("*.failure.txt")
    assert "the probe could not start" in note.read_text()


def test_a_bundle_that_is_gone_leaves_the_program_unharmed(bundle: Bundle, tmp_path: Path) -> None:
    """Where nothing can be written, nothing is said."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("import torch._logging._internal\n")
    gone = Bundle(tmp_path / "gone")
    result = python(gone, "import torch", tmp_path)
    assert "No module named 'torch._logging'" in result.stderr
    assert python(gone, "print(1)", tmp_path).stdout == "1\n"


def test_nothing_heavy_is_imported_at_start(bundle: Bundle) -> None:
    """A Python that does not import torch gets the hook and no other module from us."""
    code = "import sys; print(*sys.modules)"
    plain = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    added = set(python(bundle, code).stdout.split()) - set(plain.stdout.split())
    assert added <= {"sitecustomize", "__future__"}


class TraceHandler(logging.StreamHandler[TextIO]):
    """Fails as torch's does: one way where the file cannot be made, another where it is full."""

    def __init__(self, folder: Path, *, full: bool) -> None:
        super().__init__()
        self.root_dir = str(folder)
        self.full = full

    def emit(self, record: logging.LogRecord) -> None:
        if not self.full:
            raise FileNotFoundError(self.root_dir)
        with Path("/dev/full").open("w") as self.stream:
            super().emit(record)


@pytest.mark.parametrize("full", [True, False])
def test_a_trace_of_ours_fails_silently(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], full: bool
) -> None:
    """The program is told nothing, and the bundle once."""
    monkeypatch.setenv("RECOMPILE_DOCTOR_BUNDLE", str(bundle.path))
    notes: list[str] = []
    handler = TraceHandler(bundle.trace_directory, full=full)
    for _ in range(2):  # torch sets up its logging more than once
        quiet_trace(handler, notes.append)
    for _ in range(3):
        handler.handle(logging.makeLogRecord({"msg": "x"}))
    assert notes == ["the trace could not be written"]
    assert capfd.readouterr().err == ""


def test_a_trace_of_the_user_fails_as_ever(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Who set TORCH_TRACE wants to hear that it does not work."""
    monkeypatch.setenv("RECOMPILE_DOCTOR_BUNDLE", str(bundle.path))
    handler = TraceHandler(tmp_path, full=False)
    quiet_trace(handler, pytest.fail)
    with pytest.raises(FileNotFoundError):
        handler.handle(logging.makeLogRecord({"msg": "x"}))


@pytest.mark.torch
def test_a_trace_that_cannot_be_written_is_silent_to_the_end(bundle: Bundle) -> None:
    """With real torch, also when Python closes the file; the text log fails beside it."""
    code = """
import resource
import torch
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
for size in range(2, 12):
    torch._dynamo.reset()
    torch.compile(lambda x: x.sin() + x.shape[0], backend="eager")(torch.ones(size))
print("done")
"""
    result = python(bundle, code)
    assert (result.stdout, result.stderr, result.returncode) == ("done\n", "", 0)
    (note,) = bundle.failure_files()
    assert "the trace could not be written" in note.read_text()
