"""A run through a launcher: one that passes words and environment, and one that passes neither."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from recompile_doctor.bundle import Bundle, bundle_root, create_bundle, open_bundle
from recompile_doctor.capture.elsewhere import SCRIPT_NAME
from recompile_doctor.capture.launch import Streams
from recompile_doctor.capture.record import Recording, record
from recompile_doctor.errors import DoctorError

# As ssh: its words make one line, which a shell reads far from here, in an environment of its own.
FAKE_SSH = """\
#!/bin/sh
shift  # the host's name
cd /
exec env -i HOME=/ PATH="$PATH" {there} sh -c "$*"
"""
JOINS = "joins its words"
SPLITS = ("env", "srun")

# Says what it was started with, and whether the probe's finder is in place.
PROGRAM = """
import json, os, sys
names = [type(each).__name__ for each in sys.meta_path]
print(json.dumps({
    "words": sys.argv[1:], "cwd": os.getcwd(), "environment": dict(os.environ),
    "path": sys.path, "probed": "_WaitForTorch" in names,
}), file=open(os.environ.get("SEEN", "seen.json"), "w"))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a folder that is no easy one; the bundles are in another, whose path is plain."""
    folder = tmp_path / 'it\'s a "project"'
    folder.mkdir()
    (folder / "my program.py").write_text(PROGRAM)
    return folder


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return create_bundle(bundle_root(tmp_path), "run")


@pytest.fixture
def launcher(tmp_path: Path) -> Callable[..., tuple[str, ...]]:
    """Return what makes a launcher of a kind, in front of an environment that is set there."""

    def make(kind: str, **there: str) -> tuple[str, ...]:
        words = tuple(f"{name}={value}" for name, value in there.items())
        if kind == "env":
            return ("env", *words)
        if kind == "srun":
            return ("env", *words, "sh", "-c", 'exec "$@"', "--")
        path = tmp_path / "ssh"
        path.write_text(FAKE_SSH.format(there=" ".join(words)))
        path.chmod(0o755)
        return (str(path), "gpu-host")

    return make


def start(
    bundle: Bundle,
    project: Path,
    launcher: tuple[str, ...],
    *words: str,
    base: Mapping[str, str] | None = None,
    **options: Any,
) -> Recording:
    command = [sys.executable, "my program.py", *words]
    base = os.environ if base is None else base
    return record(bundle, command, base=base, cwd=project, launcher=launcher, **options)


def seen(project: Path) -> Any:
    return json.loads((project / "seen.json").read_text())


@pytest.mark.parametrize("kind", [JOINS, *SPLITS])
def test_words_folder_and_variables_arrive(
    kind: str, bundle: Bundle, project: Path, launcher: Callable[..., tuple[str, ...]]
) -> None:
    """Whatever stands in them: spaces, quotes, line breaks, what a shell would replace."""
    words = ("a b", "it's", '"$HOME"', "`id`", "two\nlines", "", "*", "-n", "\\", "ü\udcff")
    value = "first\nsecond 'x' \"y\" $HOME `id` \\"
    overrides = {"TORCH_COMPILE_UNBACKED_SOURCES": value}
    done = start(bundle, project, launcher(kind), *words, overrides=overrides)
    assert done.outcome.exit_code == 0
    there = seen(project)
    assert there["words"] == list(words)
    assert there["cwd"] == str(project)
    assert there["environment"]["TORCH_COMPILE_UNBACKED_SOURCES"] == value
    assert there["environment"]["TORCH_TRACE"] == str(bundle.trace_directory)
    assert there["environment"]["TORCHINDUCTOR_CACHE_DIR"].startswith(str(bundle.path))
    assert there["environment"]["TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO"] == "0"
    assert there["probed"]


@pytest.mark.parametrize("kind", [JOINS, *SPLITS])
def test_the_probe_comes_from_the_bundle(
    kind: str, bundle: Bundle, project: Path, launcher: Callable[..., tuple[str, ...]]
) -> None:
    """Nothing of the tool has to be installed there; what is in PYTHONPATH there stays in it."""
    start(bundle, project, launcher(kind, PYTHONPATH="/theirs:/more"))
    site = bundle.path / "launch" / "recompile_doctor" / "capture" / "probe" / "site"
    there = seen(project)
    assert there["environment"]["PYTHONPATH"] == f"{site}:/theirs:/more"
    assert there["environment"]["PYTHONPATH"] != bundle.manifest.environment["PYTHONPATH"]
    assert bundle.manifest.environment["PYTHONPATH"] == str(site)
    assert "/theirs" in there["path"]
    assert (site / "sitecustomize.py").is_file()
    assert (site.parent / "__init__.py").is_file()


def test_an_unset_pythonpath_gets_no_empty_entry(
    bundle: Bundle, project: Path, launcher: Callable[..., tuple[str, ...]]
) -> None:
    """An empty entry would put the current folder on Python's path."""
    start(bundle, project, launcher(JOINS))
    site = bundle.path / "launch" / "recompile_doctor" / "capture" / "probe" / "site"
    assert seen(project)["environment"]["PYTHONPATH"] == str(site)


@pytest.mark.parametrize("kind", [JOINS, *SPLITS])
def test_the_log_settings_there_stay_in_force(
    kind: str, bundle: Bundle, project: Path, launcher: Callable[..., tuple[str, ...]]
) -> None:
    """What is set there is what the program sees, once the probe has taken back what is ours."""
    start(bundle, project, launcher(kind, TORCH_LOGS="+inductor"))
    environment = seen(project)["environment"]
    assert environment["TORCH_LOGS"] == "+inductor"
    assert "TORCH_LOGS_OUT" not in environment
    assert "RECOMPILE_DOCTOR_SET_TORCH_LOGS" not in environment


@pytest.mark.parametrize("kind", [JOINS, *SPLITS])
def test_log_settings_of_ours_are_taken_back(
    kind: str, bundle: Bundle, project: Path, launcher: Callable[..., tuple[str, ...]]
) -> None:
    """Where nothing is set, the program sees nothing either; an outer run's notes do not matter."""
    base = {name: value for name, value in os.environ.items() if not name.startswith("TORCH_LOGS")}
    base["RECOMPILE_DOCTOR_USER_TORCH_LOGS"] = "of another run"
    start(bundle, project, launcher(kind), base=base)
    environment = seen(project)["environment"]
    assert not {"TORCH_LOGS", "TORCH_LOGS_OUT"} & set(environment)
    assert environment["RECOMPILE_DOCTOR_LOGS"] == "dynamic,recompiles_verbose,graph_breaks"


@pytest.mark.parametrize("kind", [JOINS, *SPLITS])
def test_a_process_without_the_probe_logs_by_itself(
    kind: str, bundle: Bundle, project: Path, launcher: Callable[..., tuple[str, ...]]
) -> None:
    """``python -I`` takes no PYTHONPATH: there the variables stay, as in a run here."""
    command = [sys.executable, "-I", "my program.py"]
    record(bundle, command, base=os.environ, cwd=project, launcher=launcher(kind))
    there = seen(project)
    assert not there["probed"]
    assert there["environment"]["TORCH_LOGS"] == "dynamic,recompiles_verbose,graph_breaks"
    assert there["environment"]["TORCH_LOGS_OUT"] == str(bundle.log_directory / "torch.log")


@pytest.mark.parametrize("kind", [JOINS, *SPLITS])
def test_a_trace_and_remote_caches_there_give_way(
    kind: str, bundle: Bundle, project: Path, launcher: Callable[..., tuple[str, ...]]
) -> None:
    """A trace in a folder of that machine could not be read; a remote cache makes a run warm."""
    remote = "TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE"
    start(bundle, project, launcher(kind, TORCH_DTRACE="/there", **{remote: "1"}))
    environment = seen(project)["environment"]
    assert environment["TORCH_TRACE"] == str(bundle.trace_directory)
    assert "TORCH_DTRACE" not in environment
    assert environment[remote] == "0"
    assert "TORCHINDUCTOR_AUTOGRAD_REMOTE_CACHE" not in environment


def test_caches_there_are_left_where_they_are_used(
    bundle: Bundle, project: Path, launcher: Callable[..., tuple[str, ...]]
) -> None:
    """With ``use_caches`` the settings there stay."""
    remote = "TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE"
    start(bundle, project, launcher("env", **{remote: "1"}), use_caches=True)
    assert seen(project)["environment"][remote] == "1"


def test_a_run_without_the_probe_leaves_the_path_alone(
    bundle: Bundle, project: Path, launcher: Callable[..., tuple[str, ...]]
) -> None:
    """No copy is made, and torch is to log by itself."""
    start(bundle, project, launcher(JOINS, PYTHONPATH="/theirs"), probe=False)
    there = seen(project)
    assert there["environment"]["PYTHONPATH"] == "/theirs"
    assert not there["probed"]
    assert there["environment"]["TORCH_LOGS_OUT"] == str(bundle.log_directory / "torch.log")
    assert not (bundle.path / "launch").exists()


def test_the_manifest_describes_the_program(
    bundle: Bundle, project: Path, launcher: Callable[..., tuple[str, ...]]
) -> None:
    """The command is the user's, which a rerun needs; the launcher is not part of it."""
    start(bundle, project, launcher(JOINS), "--epochs", "1")
    manifest = open_bundle(bundle.path).manifest
    assert manifest.command == (sys.executable, "my program.py", "--epochs", "1")
    assert (manifest.cwd, manifest.complete) == (str(project), True)


def test_gpus_of_this_machine_are_not_the_runs(
    bundle: Bundle,
    project: Path,
    launcher: Callable[..., tuple[str, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A program that left no word on its devices ran on devices that are not known."""
    monkeypatch.setattr("recompile_doctor.capture.record.nvidia_gpu_names", lambda: ("ours",))
    start(bundle, project, launcher(JOINS))
    assert bundle.manifest.devices == ()


def test_the_launcher_is_not_probed(
    bundle: Bundle, project: Path, launcher: Callable[..., tuple[str, ...]]
) -> None:
    """It runs as the user would run it, also when it is a Python program."""
    code = "import os, sys; sys.exit('RECOMPILE_DOCTOR_BUNDLE' in os.environ)"
    done = start(bundle, project, (sys.executable, "-c", code))
    assert done.outcome.exit_code == 0


@pytest.mark.parametrize("kind", [JOINS, *SPLITS])
def test_the_exit_code_comes_back(
    kind: str, bundle: Bundle, project: Path, launcher: Callable[..., tuple[str, ...]]
) -> None:
    """As the launcher hands it on."""
    (project / "my program.py").write_text("raise SystemExit(7)")
    done = start(bundle, project, launcher(kind))
    assert (done.outcome.exit_code, bundle.manifest.exit_code) == (7, 7)


def test_a_folder_that_is_not_there_is_a_failure(
    bundle: Bundle, tmp_path: Path, project: Path, launcher: Callable[..., tuple[str, ...]]
) -> None:
    """The program does not run somewhere else instead, and the shell says why."""
    remove = f'rm -r "{tmp_path}/it\'s a \\"project\\""; exec "$@"'
    with (tmp_path / "err").open("wb") as errors, (tmp_path / "out").open("wb") as output:
        done = start(bundle, project, ("sh", "-c", remove, "--"), streams=Streams(output, errors))
    assert done.outcome.exit_code == 125
    assert "my program" not in (tmp_path / "err").read_text()
    assert "project" in (tmp_path / "err").read_text()


@pytest.mark.parametrize("name", ["a b", "it's", "a:b", "~", "é", "$x"])
def test_a_path_that_a_shell_would_change_is_refused(
    name: str, tmp_path: Path, project: Path
) -> None:
    """Nothing is started, and no bundle is left."""
    bundle = create_bundle(tmp_path / name, "run")
    with pytest.raises(DoctorError) as caught:
        start(bundle, project, ("env",))
    assert caught.value.slug == "path-not-portable"
    assert not bundle.path.exists()
    assert not (project / "seen.json").exists()


def test_a_launcher_needs_a_program(bundle: Bundle, project: Path) -> None:
    """As a run without a launcher; an empty command would end well."""
    with pytest.raises(DoctorError) as caught:
        record(bundle, [], base=os.environ, cwd=project, launcher=("env",))
    assert caught.value.slug == "no-program"


def test_the_script_can_be_run_again_by_hand(
    bundle: Bundle, project: Path, launcher: Callable[..., tuple[str, ...]]
) -> None:
    """To see what a trial saw; nothing ends that run."""
    start(bundle, project, launcher(JOINS))
    (project / "seen.json").unlink()
    subprocess.run(["sh", str(bundle.path / SCRIPT_NAME)], check=True)
    assert seen(project)["probed"]


# Leaves its child alone when it is ended, as ssh and docker do.
DETACHING = """\
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], start_new_session=True)
sys.exit(child.wait())
"""

WAITING = """
import os, signal, sys, time
{at_start}
with open("pid.tmp", "w") as file:
    file.write(str(os.getpid()))
os.rename("pid.tmp", "pid")
time.sleep(60)
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ends_within(pid: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.1)
    return not is_alive(pid)


def test_a_program_is_ended_that_its_launcher_left_behind(
    bundle: Bundle, project: Path, tmp_path: Path
) -> None:
    """A trial that was ended early would else go on beside the next, on the same GPU."""
    (project / "my program.py").write_text(WAITING.format(at_start=""))
    launcher = (sys.executable, "-c", DETACHING)

    def stop(recompiles: int, compilations: int, seconds: float) -> str | None:
        return "enough" if (project / "pid").exists() else None

    with (tmp_path / "err").open("wb") as errors, (tmp_path / "out").open("wb") as output:
        done = start(bundle, project, launcher, stop=stop, streams=Streams(output, errors))
    assert done.outcome.stopped_because == "enough"
    pid = int((project / "pid").read_text())
    try:
        assert ends_within(pid, 8)
    finally:
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


def test_a_program_that_does_not_want_to_end_is_killed(
    bundle: Bundle, project: Path, tmp_path: Path
) -> None:
    """After the ten seconds that a program here has, too."""
    ignore = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    (project / "my program.py").write_text(WAITING.format(at_start=ignore))
    launcher = (sys.executable, "-c", DETACHING)

    def stop(recompiles: int, compilations: int, seconds: float) -> str | None:
        return "enough" if (project / "pid").exists() else None

    with (tmp_path / "err").open("wb") as errors, (tmp_path / "out").open("wb") as output:
        start(bundle, project, launcher, stop=stop, streams=Streams(output, errors))
    pid = int((project / "pid").read_text())
    assert not ends_within(pid, 5)
    assert ends_within(pid, 12)


def test_the_program_has_no_child_that_it_does_not_know(
    bundle: Bundle, project: Path, launcher: Callable[..., tuple[str, ...]]
) -> None:
    """One that waits for any child to end must not wait for what watches over it."""
    (project / "my program.py").write_text(
        "import os, sys\ntry:\n    os.wait()\nexcept ChildProcessError:\n    sys.exit(3)\n"
    )
    done = start(bundle, project, launcher(JOINS), timeout=20)
    assert (done.outcome.exit_code, done.outcome.timed_out) == (3, False)


TORCH_PROGRAM = """
import torch

@torch.compile(backend="eager")
def f(x):
    y = x * 2
    torch._dynamo.graph_break()
    return y + 1

for n in (3, 5, 1):
    f(torch.ones(n))
print("done")
"""


@pytest.mark.torch
def test_what_torch_logs_elsewhere_arrives(
    bundle: Bundle, project: Path, tmp_path: Path, launcher: Callable[..., tuple[str, ...]]
) -> None:
    """Trace, logs and the probe's files are in the bundle, and the program's output is its own."""
    (project / "my program.py").write_text(TORCH_PROGRAM)
    progress: list[tuple[int, int]] = []
    with (tmp_path / "err").open("wb") as errors, (tmp_path / "out").open("wb") as output:
        done = start(
            bundle,
            project,
            launcher(JOINS),
            streams=Streams(output, errors),
            on_progress=lambda recompiles, compilations, _: progress.append(
                (recompiles, compilations)
            ),
        )
    assert done.outcome.exit_code == 0
    assert (tmp_path / "out").read_text() == "done\n"
    assert (tmp_path / "err").read_text() == ""
    (trace,) = bundle.trace_files()
    assert trace.read_text().count('"recompile_reasons"') == 4
    (log,) = bundle.log_files()
    assert "triggered by the following guard failure" in log.read_text()
    assert len(bundle.probe_files()) == 1
    assert bundle.failure_files() == ()
    assert bundle.manifest.torch_version is not None
    assert progress
