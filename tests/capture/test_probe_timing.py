"""The probe's clocks, with a stand-in for a CUDA device."""

import sys
from types import ModuleType
from typing import Any

import pytest

from recompile_doctor.capture.probe.timing import CudaClock, Times, device_memory_peak


class Device(ModuleType):
    """A stand-in for torch.cuda: the device is behind until ``catch_up``."""

    def __init__(self) -> None:
        super().__init__("torch.cuda")
        self.now = 0.0
        self.done = 0
        self.made = 0
        self.capturing = False

    def is_initialized(self) -> bool:
        return True

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def current_stream(self, device: str) -> str:
        return device

    def device_count(self) -> int:
        return 2

    def max_memory_allocated(self, index: int) -> int:
        return 100 * index

    def Event(self, *, enable_timing: bool) -> "Event":
        assert enable_timing
        self.made += 1
        return Event(self)


class Event:
    def __init__(self, device: Device) -> None:
        self.device = device
        self.at = -1.0

    def record(self, stream: str) -> None:
        self.device.now += 1.0
        self.at = self.device.now

    def query(self) -> bool:
        return self.at <= self.device.done

    def elapsed_time(self, other: "Event") -> float:
        return other.at - self.at


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    made = Device()
    monkeypatch.setitem(sys.modules, "torch.cuda", made)
    return made


def call(clock: CudaClock, seconds: list[float]) -> None:
    pair = clock.start("cuda:0")
    clock.stop("cuda:0", pair, seconds.append)


def test_no_call_waits_for_the_device(device: Device) -> None:
    """What the device has not come to is read later; events are used again; some are given up."""
    clock = CudaClock()
    seconds: list[float] = []
    for _ in range(3000):
        call(clock, seconds)
    assert seconds == []
    device.done = 1 << 30
    clock.resolve()
    assert seconds == [0.001] * 1024
    made = device.made
    call(clock, seconds)
    clock.finish()
    assert len(seconds) == 1025
    assert device.made == made


def test_a_hung_device_is_not_waited_for(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end the times that are missing are left out."""
    monkeypatch.setattr("recompile_doctor.capture.probe.timing._PATIENCE", 0.05)
    clock = CudaClock()
    seconds: list[float] = []
    call(clock, seconds)
    clock.finish()
    assert seconds == []


def test_nothing_is_recorded_while_a_graph_is_captured(device: Device) -> None:
    """An event would become a part of the graph."""
    clock = CudaClock()
    device.capturing = True
    assert clock.start("cuda:0") is None
    device.capturing = False
    pair: Any = clock.start("cuda:0")
    device.capturing = True
    seconds: list[float] = []
    clock.stop("cuda:0", pair, seconds.append)
    clock.resolve()
    assert (device.now, seconds) == (1.0, [])


def test_the_peak_is_told_of_devices_that_were_used(device: Device) -> None:
    """One of which nothing was allocated is left out."""
    assert device_memory_peak() == {"cuda:1": 100}


def test_a_long_run_keeps_an_even_sample() -> None:
    """Memory is bounded, and the median is near."""
    times = Times()
    for number in range(100_000):
        times.add(float(number))
    summary = times.summary()
    assert summary["samples"] < 1024
    assert summary["median"] == pytest.approx(50_000, rel=0.01)
    assert (summary["min"], summary["max"], times.count) == (0.0, 99_999.0, 100_000)
    assert Times().summary()["median"] is None
