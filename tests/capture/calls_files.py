"""Writes files of calls as the probe does, for tests that start no program."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from recompile_doctor.bundle import Bundle

Value = int | bool | str | None | tuple[int, ...]


def arguments(values: Mapping[str, Value]) -> list[dict[str, Any]]:
    """Return the arguments of one call; a tuple is a tensor of that size."""
    return [_argument(source, value) for source, value in values.items()]


def _argument(source: str, value: Value) -> dict[str, Any]:
    if isinstance(value, tuple):
        strides = [1] * len(value)
        for dim in range(len(value) - 2, -1, -1):
            strides[dim] = strides[dim + 1] * max(value[dim + 1], 1)
        return {
            "source": source,
            "dtype": "torch.float32",
            "sizes": list(value),
            "strides": strides,
            "device": "cpu",
        }
    if isinstance(value, int) and not isinstance(value, bool):
        return {"source": source, "int": value}
    return {"source": source, "value": repr(value)}


def row(
    values: Mapping[str, Value], calls: int = 1, compiled: int = 0, first: int = 0
) -> dict[str, Any]:
    """Return calls with the same arguments."""
    return {
        "arguments": arguments(values),
        "calls": calls,
        "compiled_calls": compiled,
        "first_call": first,
        "steady_seconds": 0.001 * (calls - compiled),
    }


def function(
    name: str, file: str, line: int, rows: Iterable[Mapping[str, Any]], **changes: Any
) -> dict[str, Any]:
    """Return one compiled function with its calls; totals are those of its rows."""
    rows = [dict(each) for each in rows]
    calls = sum(each["calls"] for each in rows)
    compiled = sum(each["compiled_calls"] for each in rows)
    steady = calls - compiled
    return {
        "id": 0,
        "function": name,
        "qualname": name,
        "file": file,
        "line": line,
        "parameters": [],
        "varargs": None,
        "varkw": None,
        "kind": "function",
        "calls": calls,
        "compiled_calls": compiled,
        "raised_calls": 0,
        "first_seconds": 0.5,
        "compiling_seconds": 0.5 * compiled,
        "steady_calls": steady,
        "steady_seconds": {
            "sum": 0.001 * steady,
            "min": 0.001 if steady else None,
            "max": 0.001 if steady else None,
            "median": 0.001 if steady else None,
            "samples": steady,
        },
        "clock": "wall",
        "rows": rows,
        "rows_limit": 2000,
        "calls_without_row": 0,
    } | changes


def process(functions: Sequence[Mapping[str, Any]], pid: int = 7, **changes: Any) -> dict[str, Any]:
    """Return the content of one process's file."""
    return {
        "format": 1,
        "pid": pid,
        "complete": True,
        "rank": {},
        "started": 1_700_000_000.5,
        "device_memory_peak": {},
        "functions": [dict(each, id=number) for number, each in enumerate(functions)],
    } | changes


def write_calls(bundle: Bundle, content: Mapping[str, Any] | str) -> Path:
    """Write the file of one process into a bundle."""
    pid = 0 if isinstance(content, str) else content["pid"]
    path = bundle.probe_directory / f"{pid}.calls.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path
