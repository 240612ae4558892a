"""The child's environment: torch's logging on, caches cold, and the probe in place."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from recompile_doctor.bundle import Bundle

LOGGING = ("dynamic", "recompiles_verbose", "graph_breaks")

# Names in TORCH_LOGS that set the level of the loggers of ``dynamic`` too.
_ABOVE_DYNAMIC = frozenset({"all", "torch", "dynamo", "export"})

# Caches outside of the machine: one that the user turned on would make this run a warm one.
REMOTE_CACHES = (
    "TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE",
    "TORCHINDUCTOR_AUTOGRAD_REMOTE_CACHE",
    "TORCHINDUCTOR_AUTOTUNE_REMOTE_CACHE",
    "TORCHINDUCTOR_BUNDLED_AUTOTUNE_REMOTE_CACHE",
)

_PROBE_SITE = Path(__file__).parent / "probe" / "site"
_TORCH_TEXT_LOG = "torch.log"


def child_environment(
    base: Mapping[str, str],
    bundle: Bundle,
    *,
    use_caches: bool,
    probe: bool,
    fingerprints: bool = False,
) -> dict[str, str]:
    """Return ``base`` with what a captured run needs added; what the user set stays in force.

    TORCH_LOGS and TORCH_LOGS_OUT are set for a process that the probe cannot enter (``python -I``);
    elsewhere the probe takes them back before torch sees them, and logs by itself. A TORCH_TRACE
    or TORCH_DTRACE of the user stays as it is: ``user_trace_directory`` says where to collect from.
    With ``fingerprints`` the probe also records what compiled functions return.
    """
    child = dict(base)
    if user_trace_directory(base, Path()) is None:
        child["TORCH_TRACE"] = str(bundle.trace_directory)
    child["TORCH_LOGS"] = merged_torch_logs(base.get("TORCH_LOGS"))
    if "TORCH_LOGS_OUT" not in base:
        child["TORCH_LOGS_OUT"] = str(bundle.log_directory / _TORCH_TEXT_LOG)
    if probe and os.pathsep not in str(_PROBE_SITE):
        _add_probe(child, base, bundle)
        if fingerprints:
            child["RECOMPILE_DOCTOR_FINGERPRINTS"] = "1"
    if not use_caches:
        _isolate(child, base, bundle)
    return child


def environment_changes(base: Mapping[str, str], child: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of ``child`` that ``base`` lacks or has with another value."""
    return {name: value for name, value in child.items() if base.get(name) != value}


def user_trace_directory(base: Mapping[str, str], cwd: Path) -> Path | None:
    """Return the folder where the user's own setting sends the trace, or None when there is none.

    TORCH_DTRACE wins over TORCH_TRACE, as in torch.
    """
    text = base.get("TORCH_DTRACE") or base.get("TORCH_TRACE")
    return cwd / text if text else None


def merged_torch_logs(theirs: str | None) -> str:
    """Return the TORCH_LOGS that has the user's settings first and ours for what they leave open.

    A name that the user set keeps the user's level (``-dynamic`` stays off, ``+dynamic`` verbose),
    and ``dynamic`` is left out where it would lower the level that ``+dynamo`` or ``+all`` gave.
    A value that torch will refuse or answer with its help is left alone, so that torch's own
    message is the one that the user expects.
    """
    names = re.sub(r"\s+", "", theirs or "")
    if not names:
        return ",".join(LOGGING)
    settings = names.split(",")
    if {"help", "+help", ""} & set(settings):
        return theirs or ""
    taken = {setting.lstrip("+-") for setting in settings}
    if any(setting[0] == "+" and setting[1:] in _ABOVE_DYNAMIC for setting in settings):
        taken.add("dynamic")
    return ",".join([*settings, *(name for name in LOGGING if name not in taken)])


def torch_logged_by_itself(bundle: Bundle) -> bool:
    """Say whether a process logged without the probe, so that stderr carries torch's log lines."""
    return (bundle.log_directory / _TORCH_TEXT_LOG).exists()


def _add_probe(child: dict[str, str], base: Mapping[str, str], bundle: Bundle) -> None:
    child["RECOMPILE_DOCTOR_BUNDLE"] = str(bundle.path)
    child["RECOMPILE_DOCTOR_LOGS"] = ",".join(LOGGING)
    for name in ("TORCH_LOGS", "TORCH_LOGS_OUT"):
        # What was set and what it was before, for the probe to take it back. A process started
        # by the program may find a third value there: that one is the program's, and stays.
        child[f"RECOMPILE_DOCTOR_SET_{name}"] = child[name]
        child.pop(f"RECOMPILE_DOCTOR_USER_{name}", None)
        if name in base:
            child[f"RECOMPILE_DOCTOR_USER_{name}"] = base[name]
    path = base.get("PYTHONPATH")
    child["PYTHONPATH"] = f"{_PROBE_SITE}{os.pathsep}{path}" if path else str(_PROBE_SITE)


def _isolate(child: dict[str, str], base: Mapping[str, str], bundle: Bundle) -> None:
    child["TORCHINDUCTOR_CACHE_DIR"] = str(bundle.cache_directory / "inductor")
    child["TRITON_CACHE_DIR"] = str(bundle.cache_directory / "triton")
    # Not by removing TORCH_COMPILE_JOB_ID: the id may mean something to the user's program.
    child["TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO"] = "0"
    child["TORCH_DYNAMO_AUTOMATIC_DYNAMIC_REMOTE_PGO"] = "0"
    for name in REMOTE_CACHES:
        if name in base:
            child[name] = "0"
