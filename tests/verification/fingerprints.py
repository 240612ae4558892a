"""Writes the fingerprints of a run as the probe does, from plain Python lists."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recompile_doctor.bundle import Bundle, bundle_root, create_bundle

Value = float | int | bool
Record = dict[str, Any]


def tensor(
    values: Sequence[Value],
    path: str = "",
    *,
    dtype: str = "torch.float32",
    sizes: Sequence[int] | None = None,
    device: str = "cpu",
    grad: Record | None = None,
) -> Record:
    """Return the leaf of a tensor with these elements, in logical order."""
    count = len(values)
    finite = [(index, float(x)) for index, x in enumerate(values) if math.isfinite(x)]
    numbers = [x for _, x in finite]
    size = min(count, 64)
    leaf: Record = {
        "path": path,
        "dtype": dtype,
        "sizes": [count] if sizes is None else list(sizes),
        "device": device,
        "numel": count,
        "nan": sum(math.isnan(x) for x in values),
        "posinf": sum(x == math.inf for x in values),
        "neginf": sum(x == -math.inf for x in values),
        "sum": _json(math.fsum(numbers)) if finite else None,
        "abs": _json(math.fsum(map(abs, numbers))) if finite else None,
        "square": _json(sum(x * x for x in numbers)) if finite else None,
        "weighted": _json(sum(x * _weight(index) for index, x in finite)) if finite else None,
        "min": min(numbers, default=None),
        "max": max(numbers, default=None),
        "sample": [_json(float(values[i * count // size])) for i in range(size)],
    }
    if "int" in dtype or "bool" in dtype:
        leaf["exact"] = sum(int(x) for x in values) % 2**63
    if grad is not None:
        leaf["grad"] = grad
    return leaf


def unreadable(sizes: Sequence[int], path: str = "", dtype: str = "torch.float32") -> Record:
    """Return the leaf of a tensor whose values cannot be read."""
    leaf = {"path": path, "dtype": dtype, "sizes": list(sizes), "device": "cpu"}
    return {**leaf, "values": "unknown", "why": "it is fake"}


def parameter(
    name: str, values: Sequence[Value], grad: Sequence[Value] | None = None, number: int = 0
) -> Record:
    return {
        "module": "Model",
        "number": number,
        "name": name,
        "value": tensor(values),
        "grad": None if grad is None else tensor(grad),
    }


class Recorded:
    """The file of one process, line by line."""

    def __init__(self, pid: int = 1, *, rank: str | None = None, started: float = 1.0) -> None:
        self.pid = pid
        self.functions: dict[tuple[str, str, int], int] = {}
        self.counts: Counter[tuple[int, int]] = Counter()
        self.lines: list[Any] = [
            {
                "format": 1,
                "pid": pid,
                "rank": {} if rank is None else {"RANK": rank},
                "started": started,
            }
        ]

    def call(
        self,
        *outputs: Record,
        function: str = "forward",
        line: int = 12,
        file: str = "/home/user/model.py",
        arguments: Sequence[Record] = (),
        raised: str | None = None,
        thread: int = 0,
        random: bool = False,
    ) -> "Recorded":
        number = self.functions.setdefault((function, file, line), len(self.functions))
        if not any(self.counts[number, each] for each in range(10)):
            self.lines.append({"function": number, "name": function, "file": file, "line": line})
        self.lines.append(
            {
                "call": self.counts[number, thread],
                "function": number,
                "thread": thread,
                "compiled": False,
                "random": random,
                "raised": raised,
                "outputs": list(outputs),
                "arguments": list(arguments),
            }
        )
        self.counts[number, thread] += 1
        return self

    def parameters(self, *parameters: Record) -> "Recorded":
        self.lines.append({"parameters": list(parameters)})
        return self

    def end(self, skipped: int = 0, unwatched: int = 0) -> "Recorded":
        calls = self.counts.total()
        more = {"unwatched": unwatched} if unwatched else {}
        self.lines.append({"end": True, "calls": calls, "skipped": skipped, **more})
        return self

    def text(self) -> str:
        return "".join(json.dumps(line, allow_nan=False) + "\n" for line in self.lines)


def bundle_of(folder: Path, *processes: Recorded | bytes) -> Bundle:
    """Return a new bundle with the files of these processes, or with these bytes."""
    bundle = create_bundle(bundle_root(folder), "run")
    for number, each in enumerate(processes):
        data = each if isinstance(each, bytes) else each.text().encode()
        name = f"{number if isinstance(each, bytes) else each.pid}.outputs.jsonl"
        (bundle.probe_directory / name).write_bytes(data)
    return bundle


def calls_of(*outputs: Record | Sequence[Value]) -> Recorded:
    """Return a process that calls one function, which gives these outputs, one a call."""
    recorded = Recorded()
    for each in outputs:
        recorded.call(each if isinstance(each, dict) else tensor(each))
    return recorded.end()


def _json(number: float) -> float | str:
    if math.isnan(number):
        return "nan"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return number


def _weight(index: int) -> float:
    return 1 + ((index * 2654435761) % 2**32) / 2**32
