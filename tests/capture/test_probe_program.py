"""The probe leaves the program what is the program's; several behaviours to each program."""

import json
from pathlib import Path

import pytest

from recompile_doctor.bundle import bundle_root, create_bundle
from tests.capture.test_probe import python
from tests.capture.test_probe_calls import PRELUDE, _start, run

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


# All that the program shows is the same without us.
OWN_CLASSES = (
    PRELUDE
    + """
import dataclasses, torch._dynamo
calls = sys.modules.get("recompile_doctor_probe.calls")
hashes = []
class Meta(type):
    def __hash__(self):
        hashes.append(1)
        return type.__hash__(self)
    def __eq__(self, other):
        hashes.append(2)
        return self is other
class Option(metaclass=Meta):
    pass
option = Option()
f = comp(lambda x, option: (x + 1, option))
f(x, option), f(x, option)
hashes.clear()
for _ in range(3):
    f(x, option)
print("hashes", hashes)

@dataclasses.dataclass(frozen=True)
class Refused(Exception):
    code: int
    def __getattribute__(self, name):
        raise KeyError(name)
@torch._dynamo.disable
def refuse():
    raise Refused(3)
def shown(function, *args):
    traceback = None
    try:
        function(*args)
    except BaseException:
        kind, _, traceback = sys.exc_info()
        print(kind.__name__)
    while traceback is not None:
        code = traceback.tb_frame.f_code
        print("   ", code.co_name, code.co_filename)
        traceback = traceback.tb_next
@comp
def g(x):
    torch._dynamo.graph_break()
    refuse()
shown(g, x)
shown(g, x)

# While torch compiles, where no call is observed.
def backend(graph, inputs):
    shown(g, x)
    return graph.forward
print(torch.compile(lambda x: x * 3, backend=backend)(x).sum())

# And where one could not be observed.
if calls:
    def fail(*args, **kwargs):
        raise RuntimeError("injected")
    calls.Watch._account = fail
shown(g, x)
shown(g, x)
"""
)


def test_classes_of_the_program_are_not_asked(tmp_path: Path) -> None:
    """A metaclass is not called in a call, an exception not touched, and no frame of ours shown."""
    plain = _start(tmp_path, OWN_CLASSES, None)
    probed = run(tmp_path, OWN_CLASSES, fingerprints=True)
    assert plain.stdout.count("Refused") == 5
    assert probed.stdout == plain.stdout.splitlines()
    assert (probed.exit_code, probed.stderr) == (plain.returncode, plain.stderr) == (0, "")
    assert "could not be observed any more" in probed.notes
    assert probed.function("g")["raised_calls"] == 2
    assert probed.calls["unwatched"] == probed.outputs[-1]["unwatched"] == 1


ALARMS = (
    PRELUDE
    + """
import signal
class Late(TimeoutError, RuntimeError):
    pass
def on_alarm(number, frame):
    raise Late("late")
signal.signal(signal.SIGALRM, on_alarm)
made = []
def backend(graph, inputs):
    def run(*args):
        made.append(1)
        return graph.forward(*args)
    return run
f = torch.compile(lambda x: x + 1, backend=backend)
f(x)
watch = sys.modules["recompile_doctor_probe.calls"].Watch
cells = [each.cell_contents for each in f.__closure__]
(process,) = (each._process for each in cells if isinstance(each, watch))
for place in (
    "arguments.Keys._add", "outputs.Outputs.before_call",
    "calls.Watch._account", "fingerprint.Fingerprints._numbers", "outputs.Outputs._put",
    "own_file.OwnFile.write", "calls._Process.write",
):
    module, owner, name = place.split(".")
    owner = getattr(sys.modules["recompile_doctor_probe." + module], owner)
    real = getattr(owner, name)
    process.next_write = 0.0 if name == "write" else 1e12
    def once(*args, real=real, owner=owner, name=name, **kwargs):
        setattr(owner, name, real)
        signal.raise_signal(signal.SIGALRM)
        return real(*args, **kwargs)
    setattr(owner, name, once)
    made.clear()
    try:
        f(x)
        print(place, "lost")
    except Late as error:
        print(place, error, len(made))
    made.clear()
    f(x)
    assert len(made) == 1
f(x)
"""
)


def test_an_alarm_reaches_the_program(tmp_path: Path) -> None:
    """What a signal handler raises in our code passes, and the function stays observed."""
    ran = run(tmp_path, ALARMS, fingerprints=True)
    assert (ran.exit_code, ran.stderr, ran.notes) == (0, "", "")
    assert ran.stdout == [
        "arguments.Keys._add late 0",
        "outputs.Outputs.before_call late 0",
        "calls.Watch._account late 1",
        "fingerprint.Fingerprints._numbers late 1",
        "outputs.Outputs._put late 1",
        "own_file.OwnFile.write late 1",
        "calls._Process.write late 1",
    ]
    (called,) = ran.calls["functions"]
    parts = [called[each] for each in ("compiled_calls", "raised_calls", "steady_calls")]
    assert ran.calls["unwatched"] == 0
    assert "unwatched" not in ran.outputs[-1]
    assert parts == [1, 1, called["calls"] - 2 - 1]


LIMIT = (
    PRELUDE
    + """
import torch._dynamo
sys.modules["recompile_doctor_probe.calls"]._MOST_FUNCTIONS = 2
for number in range(5):
    comp(lambda x: x + 1)(x)
"""
)


def test_functions_beyond_the_limit_are_counted(tmp_path: Path) -> None:
    """Both files say how many were not watched."""
    ran = run(tmp_path, LIMIT, fingerprints=True)
    assert len(ran.calls["functions"]) == 2
    assert ran.calls["unwatched"] == 3
    assert ran.outputs[-1] == {"end": True, "calls": 2, "skipped": 0, "unwatched": 3}
