"""The child's environment: merging with what the user set."""

import os
from pathlib import Path

import pytest

from recompile_doctor.bundle import Bundle
from recompile_doctor.capture.environment import (
    child_environment,
    environment_changes,
    merged_torch_logs,
    user_trace_directory,
)

OURS = "dynamic,recompiles_verbose,graph_breaks"
BUNDLE = Bundle(Path("/b/run"))


@pytest.mark.parametrize(
    ("theirs", "merged"),
    [
        (None, OURS),
        ("", OURS),
        ("  ", OURS),
        ("aot", f"aot,{OURS}"),
        ("+dynamic, aot", "+dynamic,aot,recompiles_verbose,graph_breaks"),
        ("dynamic", OURS),
        ("-dynamic", "-dynamic,recompiles_verbose,graph_breaks"),
        ("graph_breaks", "graph_breaks,dynamic,recompiles_verbose"),
        ("recompiles", f"recompiles,{OURS}"),
        ("+dynamo", "+dynamo,recompiles_verbose,graph_breaks"),
        ("+all", "+all,recompiles_verbose,graph_breaks"),
        ("dynamo", f"dynamo,{OURS}"),
        ("-dynamo", f"-dynamo,{OURS}"),
        ("my.module", f"my.module,{OURS}"),
        ("help", "help"),
        ("+help", "+help"),
        ("aot,", "aot,"),
    ],
)
def test_torch_logs_keeps_what_the_user_set(theirs: str | None, merged: str) -> None:
    """The user's settings stand first and unchanged; ours fill in what they leave open."""
    assert merged_torch_logs(theirs) == merged


def test_a_plain_environment_gets_logs_trace_and_cold_caches() -> None:
    """Without settings of the user everything goes into the bundle."""
    base = {"HOME": "/h"}
    child = child_environment(base, BUNDLE, use_caches=False, probe=False)
    assert environment_changes(base, child) == {
        "TORCH_TRACE": "/b/run/trace",
        "TORCH_LOGS": OURS,
        "TORCH_LOGS_OUT": "/b/run/logs/torch.log",
        "TORCHINDUCTOR_CACHE_DIR": "/b/run/cache/inductor",
        "TRITON_CACHE_DIR": "/b/run/cache/triton",
        "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO": "0",
        "TORCH_DYNAMO_AUTOMATIC_DYNAMIC_REMOTE_PGO": "0",
    }
    assert base == {"HOME": "/h"}


def test_use_caches_leaves_caches_and_pgo_alone() -> None:
    """With the user's caches no cache variable is touched."""
    base = {"TORCHINDUCTOR_CACHE_DIR": "/c", "TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE": "1"}
    changes = environment_changes(
        base, child_environment(base, BUNDLE, use_caches=True, probe=False)
    )
    assert changes.keys() == {"TORCH_TRACE", "TORCH_LOGS", "TORCH_LOGS_OUT"}


def test_cold_caches_win_over_the_users_and_the_job_id_stays() -> None:
    """A cold run turns off local and remote caches, but not the job id, which may be in use."""
    base = {
        "TORCHINDUCTOR_CACHE_DIR": "/c",
        "TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE": "1",
        "TORCH_COMPILE_JOB_ID": "job",
    }
    child = child_environment(base, BUNDLE, use_caches=False, probe=False)
    assert child["TORCHINDUCTOR_CACHE_DIR"] == "/b/run/cache/inductor"
    assert child["TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE"] == "0"
    assert child["TORCH_COMPILE_JOB_ID"] == "job"


def test_the_users_trace_and_log_file_stay() -> None:
    """Where the user already collects the logs, they go on going there."""
    base = {"TORCH_TRACE": "traces", "TORCH_LOGS_OUT": "out.log"}
    child = child_environment(base, BUNDLE, use_caches=False, probe=True)
    assert (child["TORCH_TRACE"], child["TORCH_LOGS_OUT"]) == ("traces", "out.log")
    assert user_trace_directory(base, Path("/w")) == Path("/w/traces")
    assert user_trace_directory({**base, "TORCH_DTRACE": "/d"}, Path("/w")) == Path("/d")
    assert user_trace_directory({"TORCH_TRACE": ""}, Path("/w")) is None


def test_the_probe_stands_first_in_pythonpath_and_knows_what_to_take_back() -> None:
    """The probe's folder comes before the user's, and the user's log settings are remembered."""
    base = {"PYTHONPATH": f"/a{os.pathsep}/b", "TORCH_LOGS": "aot"}
    child = child_environment(base, BUNDLE, use_caches=True, probe=True)
    first, *others = child["PYTHONPATH"].split(os.pathsep)
    assert (Path(first) / "sitecustomize.py").is_file()
    assert others == ["/a", "/b"]
    assert child["RECOMPILE_DOCTOR_BUNDLE"] == "/b/run"
    assert child["RECOMPILE_DOCTOR_SET_TORCH_LOGS"] == child["TORCH_LOGS"] == f"aot,{OURS}"
    assert child["RECOMPILE_DOCTOR_USER_TORCH_LOGS"] == "aot"
    assert "RECOMPILE_DOCTOR_USER_TORCH_LOGS_OUT" not in child


def test_fingerprints_are_taken_only_when_asked_for_and_with_the_probe() -> None:
    """The variable is set for the probe, and for nobody else."""
    name = "RECOMPILE_DOCTOR_FINGERPRINTS"
    for probe, fingerprints in ((True, True), (True, False), (False, True)):
        child = child_environment(
            {}, BUNDLE, use_caches=True, probe=probe, fingerprints=fingerprints
        )
        assert child.get(name) == ("1" if probe and fingerprints else None)
