"""How long calls took: wall time, or on a CUDA device the time between two events."""

from __future__ import annotations

import sys
import time
from collections import deque
from typing import Any

_SAMPLES = 512
_MOST_PENDING = 1024
_POLL = 32  # pending pairs at which it is worth to ask whether the first ones are done
_PATIENCE = 2.0  # seconds to wait for the device when the process ends


class Times:
    """Sum, smallest, largest and an evenly thinned sample of durations, in bounded memory."""

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0.0
        self.min = float("inf")
        self.max = 0.0
        self._kept: list[float] = []
        self._step = 1  # each so-manieth is kept

    def add(self, seconds: float) -> None:
        """Take one duration into account."""
        self.sum += seconds
        if seconds < self.min:
            self.min = seconds
        if seconds > self.max:
            self.max = seconds
        if self.count % self._step == 0:
            self._kept.append(seconds)
            if len(self._kept) >= 2 * _SAMPLES:
                del self._kept[1::2]
                self._step *= 2
        self.count += 1

    def summary(self) -> dict[str, Any]:
        """Return the figures for the file; all are null where there was no call."""
        kept = sorted(self._kept)
        if not kept:
            return {"sum": 0.0, "min": None, "max": None, "median": None, "samples": 0}
        half = len(kept) // 2
        median = kept[half] if len(kept) % 2 else (kept[half - 1] + kept[half]) / 2
        return {
            "sum": self.sum,
            "min": self.min,
            "max": self.max,
            "median": median,
            "samples": len(kept),
        }


class CudaClock:
    """Pairs of events around calls, read when the device has come past them: no call waits."""

    def __init__(self) -> None:
        self._free: dict[str, list[Any]] = {}
        self._pending: deque[tuple[str, Any, Any, Any]] = deque()

    def start(self, device: str) -> Any:
        """Record the first event of a call, and return the pair; None where that is impossible."""
        cuda: Any = sys.modules.get("torch.cuda")
        if cuda is None or not cuda.is_initialized() or cuda.is_current_stream_capturing():
            return None  # an event recorded while a graph is captured has no time of its own
        free = self._free.setdefault(device, [])
        pair = free.pop() if free else _new_pair(cuda)
        pair[0].record(cuda.current_stream(device))
        return pair

    def stop(self, device: str, pair: Any, sink: Any) -> None:
        """Record the second event; ``sink(seconds)`` is called some time later.

        Where the device is too far behind, the oldest pair is given up.
        """
        cuda: Any = sys.modules["torch.cuda"]
        if cuda.is_current_stream_capturing():
            self.give_back(device, pair)
            return
        pair[1].record(cuda.current_stream(device))
        self._pending.append((device, pair[0], pair[1], sink))
        if len(self._pending) >= _POLL:
            self.resolve()
        if len(self._pending) > _MOST_PENDING:
            self._pending.popleft()

    def give_back(self, device: str, pair: Any) -> None:
        """Keep a pair that is not needed, for the next call."""
        self._free.setdefault(device, []).append(pair)

    def resolve(self) -> None:
        """Read the pairs that the device has come past."""
        while self._pending and self._pending[0][2].query():
            device, first, second, sink = self._pending.popleft()
            sink(first.elapsed_time(second) / 1e3)
            self.give_back(device, (first, second))

    def finish(self) -> None:
        """Read what is left, waiting a little for the device; a hung one is not waited for."""
        until = time.monotonic() + _PATIENCE
        while self._pending and time.monotonic() < until:
            self.resolve()
            if self._pending:
                time.sleep(0.001)
        self._pending.clear()


def _new_pair(cuda: Any) -> tuple[Any, Any]:
    return cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)


def device_memory_peak() -> dict[str, int]:
    """Return the most memory that torch had allocated on each CUDA device."""
    cuda: Any = sys.modules.get("torch.cuda")
    if cuda is None or not cuda.is_initialized():
        return {}
    peaks = {
        f"cuda:{index}": int(cuda.max_memory_allocated(index))
        for index in range(cuda.device_count())
    }
    return {device: peak for device, peak in peaks.items() if peak}
