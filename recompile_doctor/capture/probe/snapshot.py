"""``probe/<pid>.json``: what torch itself counted in this process, written when it ends.

Logs can be silenced by the program, counters cannot: where the two differ, the report says so.
A first version is written when torch._dynamo is imported, with ``complete`` false, so that a
process that is killed still says which torch it had.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from .ending import Ending

FORMAT = 1
RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_RANK", "SLURM_PROCID")
_METRICS = (
    "compile_id",
    "co_name",
    "co_filename",
    "co_firstlineno",
    "recompile_reason",
    "entire_frame_compile_time_s",
    "fail_type",
)
# Levels at which nothing of ours passes any more.
_SILENT = logging.INFO


class _Process:
    """What is known of this process besides what torch knows; a fork starts anew."""

    def __init__(self) -> None:
        self.logs: Any = None
        self.note: Callable[[str], None] = lambda what: None
        self.parent: int | None = None  # pid of the process that this one was forked from
        self.since = 0.0  # what was compiled before is the parent's
        self.counted: dict[str, dict[str, int]] = {}  # the counters then


_process = _Process()


def install(logs: Any, *, note: Callable[[str], None]) -> None:
    """Write the snapshot when this process ends, or one that is forked from it."""
    _process.logs = logs
    _process.note = note
    Ending(_write_at_exit, _after_fork, note)


def write_early() -> None:
    """Write what is known when torch._dynamo is imported."""
    if not is_compile_worker():
        _write(_describe(complete=False))


def _write_at_exit() -> None:
    try:
        if "torch._dynamo.utils" in sys.modules and not is_compile_worker():
            content = _describe(complete=True)
            if _process.parent is None or content["counters"] or content["compilations"]:
                _write(content)
    except BaseException:  # noqa: BLE001 - also a Ctrl-C: the program has ended already
        _process.note("the snapshot could not be written")


def _after_fork() -> None:
    _process.parent = os.getppid()
    _process.since = time.time()
    _process.counted = _counters()


def is_compile_worker() -> bool:
    """Return whether this is one of Inductor's own processes, which run no code of the user."""
    return "torch._inductor.compile_worker.__main__" in sys.modules or any(
        "compile_worker" in argument for argument in sys.argv[:2]
    )


def _describe(*, complete: bool) -> dict[str, Any]:
    torch: Any = sys.modules["torch"]
    content: dict[str, Any] = {
        "format": FORMAT,
        "pid": os.getpid(),
        "parent_pid": os.getppid(),
        "forked_from": _process.parent,
        "complete": complete,
        "torch_version": str(torch.__version__),
        "python_version": ".".join(str(part) for part in sys.version_info[:3]),
        "argv0": sys.argv[0] if getattr(sys, "argv", None) else "",
        "rank": {name: os.environ[name] for name in RANK_VARIABLES if name in os.environ},
        "devices": [],
        "counters": {},
        "compilations": [],
        "compilations_limit": None,
        "logging": {"text": [], "trace": []},
    }
    if complete:
        content["devices"] = _devices()
        content["counters"] = _difference(_counters(), _process.counted)
        content["compilations"], content["compilations_limit"] = _compilations()
        content["logging"] = _silenced()
    return content


def _counters() -> dict[str, dict[str, int]]:
    utils = sys.modules.get("torch._dynamo.utils")
    counters = getattr(utils, "counters", None) or {}
    return {
        str(group): {str(name): int(count) for name, count in dict(counts).items()}
        for group, counts in dict(counters).items()
        if counts
    }


def _difference(
    now: dict[str, dict[str, int]], before: dict[str, dict[str, int]]
) -> dict[str, dict[str, int]]:
    result = {}
    for group, counts in now.items():
        earlier = before.get(group, {})
        changed = {
            name: count - earlier.get(name, 0)
            for name, count in counts.items()
            if count != earlier.get(name, 0)
        }
        if changed:
            result[group] = changed
    return result


def _compilations() -> tuple[list[dict[str, Any]], int | None]:
    utils: Any = sys.modules["torch._dynamo.utils"]
    if not hasattr(utils, "get_compilation_metrics"):
        return [], None
    kept = getattr(utils, "_compilation_metrics", None)
    compilations = [
        {name: _plain(getattr(metrics, name, None)) for name in _METRICS}
        for metrics in utils.get_compilation_metrics()
        if (getattr(metrics, "start_time", None) or _process.since) >= _process.since
    ]
    return compilations, getattr(kept, "maxlen", None)


def _plain(value: Any) -> bool | int | float | str | None:
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def _devices() -> list[str]:
    cuda: Any = sys.modules.get("torch.cuda")
    if cuda is None or not cuda.is_initialized():
        return []
    return [str(cuda.get_device_name(index)) for index in range(cuda.device_count())]


def _silenced() -> dict[str, list[str]]:
    """Return what hinders our lines now, as short sentences, for the text and for the trace."""
    internal: Any = sys.modules["torch._logging._internal"]
    text = []
    if logging.root.manager.disable >= _SILENT:
        text.append(f"logging.disable({logging.root.manager.disable}) was called")
    loggers = [
        logger
        for name, logger in list(logging.root.manager.loggerDict.items())
        if name.partition(".")[0] == "torch" and isinstance(logger, logging.Logger)
    ]
    trace_log = internal.trace_log
    disabled = [logger.name for logger in loggers if logger.disabled]
    if disabled:
        text.append(f"{len(disabled)} loggers of torch were disabled, e.g. {disabled[0]}")
    logs = _process.logs
    if logs.file not in logging.getLogger("torch._dynamo").handlers:
        text.append("the handlers of the logger torch._dynamo were removed")
    if any(logging.getLogger(name).level > ours for name, (ours, _) in logs.raised.items()):
        text.append("the level of torch's loggers was raised")
    trace = []
    if internal.LOG_TRACE_HANDLER not in trace_log.handlers:
        trace.append("the handlers of the logger torch.__trace were removed")
    if trace_log.disabled:
        trace.append("the logger torch.__trace was disabled")
    if not trace_log.isEnabledFor(logging.DEBUG):
        trace.append("the logger torch.__trace was turned down")
    return {"text": text, "trace": trace}


def _write(content: dict[str, Any]) -> None:
    folder = os.path.join(os.environ["RECOMPILE_DOCTOR_BUNDLE"], "probe")  # noqa: PTH118
    path = os.path.join(folder, f"{content['pid']}.json")  # noqa: PTH118
    temporary = path + ".tmp"
    with open(temporary, "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(content, file, indent=1)
    os.replace(temporary, path)  # noqa: PTH105
