"""The calls that the probe saw, read back."""

import json
from pathlib import Path

import pytest

from recompile_doctor.bundle import Bundle, bundle_root, create_bundle
from recompile_doctor.capture.calls import (
    Calls,
    FunctionKey,
    IntArgument,
    OtherArgument,
    TensorArgument,
    read_calls,
)
from recompile_doctor.capture.snapshot import read_snapshots
from tests.capture.calls_files import function, process, row, write_calls

FILE = "/home/user/project/train.py"
KEY = FunctionKey("forward", "Net.forward", FILE, 12)


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return create_bundle(bundle_root(tmp_path), "run")


def net(*rows: dict[str, object], **changes: object) -> dict[str, object]:
    return function("forward", FILE, 12, rows, qualname="Net.forward", **changes)


def test_calls_are_read_with_their_arguments(bundle: Bundle) -> None:
    """Each kind of argument is told from the others; unknown keys are passed over."""
    one = row({"L['x']": (8, 16), "L['n']": 3, "L['flag']": True}, calls=5, compiled=1, first=2)
    one["arguments"].append({"source": "L['o']", "type": "train.Options"})
    write_calls(
        bundle,
        process([net(one, raised_calls=1, later=1)], rank={"RANK": "1"}, unwatched=3, later=2),
    )
    (seen,) = read_calls(bundle).processes
    assert (seen.pid, seen.complete, seen.rank) == (7, True, {"RANK": "1"})
    assert seen.unwatched == 3
    (called,) = seen.functions
    assert called.key == KEY
    (first,) = called.rows
    assert (first.calls, first.compiled_calls, first.first_call) == (5, 1, 2)
    assert first.arguments == (
        TensorArgument("L['x']", "torch.float32", (8, 16), (16, 1), "cpu"),
        IntArgument("L['n']", 3),
        OtherArgument("L['flag']", value="True"),
        OtherArgument("L['o']", type="train.Options"),
    )


def test_calls_are_summed_over_processes(bundle: Bundle) -> None:
    """Total, raised and steady time; the median is that of the call in the middle."""

    def steady(calls: int, median: float) -> dict[str, object]:
        seconds = {"sum": calls * median, "min": median / 2, "max": median * 2, "median": median}
        return {"steady_calls": calls, "steady_seconds": seconds | {"samples": calls}}

    few = net(row({"L['x']": (4,)}, calls=3), raised_calls=1, **steady(2, 0.5))
    many = net(row({"L['x']": (4,)}, calls=10), **steady(10, 0.125))
    write_calls(bundle, process([few], pid=7))
    write_calls(bundle, process([many], pid=8))
    calls = read_calls(bundle)
    assert (calls.total, calls.raised) == (13, 1)
    time = calls.steady()[KEY]
    assert (time.calls, time.seconds, time.median) == (12, 2.25, 0.125)
    assert (time.shortest, time.longest, time.mean) == (0.0625, 1.0, 0.1875)
    assert time.clocks == {"wall"}


def test_a_function_that_never_ran_steadily_has_no_time(bundle: Bundle) -> None:
    """Nothing is divided by zero, and no zero stands for what is unknown."""
    write_calls(bundle, process([net(row({"L['x']": (4,)}, compiled=1))]))
    time = read_calls(bundle).steady()[KEY]
    assert (time.calls, time.mean, time.median, time.shortest) == (0, None, None, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"format": 2, "pid": 0, "complete": true}',
        json.dumps(process([net(calls=-1)])),
        json.dumps(process([net(row({"L['x']": (-4,)}))])),
        '{"format": 1, "pid": 0, "complete": true, "functions": ' + "[" * 100_000,
    ],
)
def test_a_damaged_file_is_left_out_and_named(bundle: Bundle, text: str) -> None:
    """The calls of the other processes count."""
    damaged = write_calls(bundle, text)
    write_calls(bundle, process([net(row({"L['x']": (4,)}))], pid=9))
    calls = read_calls(bundle)
    assert [each.pid for each in calls.processes] == [9]
    assert [each.path for each in calls.unread] == [damaged]
    assert calls.unread[0].reason


def test_an_int_of_any_length_is_read(bundle: Bundle) -> None:
    """Python's ints have no limit, and one of them must not cost the file."""
    write_calls(bundle, process([net(row({"L['n']": 2**80}))]))
    (called,) = read_calls(bundle).functions
    assert called.rows[0].arguments == (IntArgument("L['n']", 2**80),)


def test_calls_are_no_snapshot(bundle: Bundle) -> None:
    """Their files lie beside those of the processes, and are not taken for them."""
    write_calls(bundle, process([]))
    assert read_snapshots(bundle) == ()
    assert bundle.probe_files() == ()


def test_a_run_without_a_probe_has_no_calls(bundle: Bundle) -> None:
    """Nothing was seen, and nothing is wrong."""
    assert read_calls(bundle) == Calls()
