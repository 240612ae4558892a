"""The probe leaves the program what is the program's; several behaviours to each program."""

import json
from pathlib import Path

import pytest

from recompile_doctor.bundle import bundle_root, create_bundle
from tests.capture.test_probe import python

pytestmark = pytest.mark.torch

DAEMON = """
import atexit, os, sys
os.environ["TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO"] = "0"
files = []
@atexit.register
def at_the_very_end():
    for file in files:
        print("end", file=file, flush=True)
import torch
f = torch.compile(lambda x: x + 1, backend="eager")
f(torch.ones(2))
if FORK:
    child = os.fork()
    if child:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
def begin_files():
    # The standard streams and those of the program stay open, all else goes.
    os.closerange(3 + len(files), 256)
    first = len(files)
    files.extend(open(f"FOLDER/{number}", "w") for number in range(first, first + 40))
    assert [file.fileno() for file in files] == list(range(3, 3 + len(files)))
    for file in files[first:]:
        print("mine", file=file, flush=True)
begin_files()
f(torch.ones(3))
torch.compile(lambda x: x + 2, backend="eager")(torch.ones(4, 2))
f(torch.ones(4, 1))
begin_files()
"""


@pytest.mark.parametrize("fork", [False, True])
def test_a_daemon_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fork: bool
) -> None:
    """No line of ours gets into a file of its own, and none of ours is lost."""
    monkeypatch.setenv("RECOMPILE_DOCTOR_FINGERPRINTS", "1")
    bundle = create_bundle(bundle_root(tmp_path), "run")
    folder = tmp_path / "files"
    folder.mkdir()
    code = DAEMON.replace("FOLDER", str(folder)).replace("FORK", str(fork))
    result = python(bundle, code)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    for path in folder.iterdir():
        assert path.read_text() == "mine\nend\n"
    assert bundle.failure_files() == ()
    lines = [
        json.loads(line)
        for path in bundle.outputs_files()
        for line in path.read_text("utf-8").splitlines()
    ]
    assert sum("call" in each for each in lines) == 4
    assert lines[-1]["end"] is True
    logs = "".join(path.read_text("utf-8") for path in bundle.log_files())
    assert logs.count("Recompiling function <lambda>") == 2
    traces = "".join(path.read_text("utf-8") for path in bundle.trace_files())
    assert traces.count('{"dynamo_start"') == 4
    assert len(bundle.trace_files()) <= 1 + fork
