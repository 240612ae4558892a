"""The fingerprints of outputs, read back."""

import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recompile_doctor.capture.outputs import (
    CallKey,
    ParameterKey,
    PlainLeaf,
    ProcessOutputs,
    TensorLeaf,
    read_outputs,
    read_process,
)
from tests.verification.fingerprints import Recorded, bundle_of, parameter, tensor, unreadable


def recorded() -> Recorded:
    """Return a process with every kind of record and leaf."""
    process = Recorded(7, rank="1", started=5.5)
    process.call(tensor([1.0, math.nan, -math.inf], "[0]"), {"path": "[1]", "int": 3})
    process.call(raised="ValueError: too long")
    process.call(
        unreadable([2, 3]),
        function="step",
        line=40,
        arguments=[tensor([1, 2], "x", dtype="torch.int64", grad=tensor([0.5]))],
        thread=2,
    )
    process.call({"path": "", "value": "True"}, function="step", line=40)
    process.call({"path": "", "type": "numpy.ndarray"}, function="step", line=40)
    return process.parameters(parameter("weight", [1.0], [2.0]), parameter("bias", [0.0])).end(
        4, unwatched=2
    )


def read_all(process: ProcessOutputs) -> list[object]:
    with process.open() as reader:
        calls: list[object] = [reader.call(key) for key in process.calls]
        return calls + list(reader.parameters().items())


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """Header, functions, calls in their order, and the end come back; numbers keep their values."""
    (process,) = read_outputs(bundle_of(tmp_path, recorded()))
    assert (process.rank, process.started) == ({"RANK": "1"}, 5.5)
    assert [each.name for each in process.functions.values()] == ["forward", "step"]
    assert list(process.calls) == [
        CallKey(0, 0, 0),
        CallKey(0, 0, 1),
        CallKey(1, 2, 0),
        CallKey(1, 0, 0),
        CallKey(1, 0, 1),
    ]
    assert (process.complete, process.skipped, process.unread) == (True, 4, 0)
    assert process.unwatched == 2
    with process.open() as reader:
        first, raised, step, flag, array = (reader.call(key) for key in process.calls)
        parameters = reader.parameters()
    assert first and raised and step and flag and array
    values, number = first.outputs
    assert isinstance(values, TensorLeaf) and values.numbers
    assert values.numbers.sample[0] == 1.0 and math.isnan(values.numbers.sample[1])
    assert (values.numbers.nan, values.numbers.neginf, values.numbers.max) == (1, 1, 1.0)
    assert number == PlainLeaf("[1]", "3")
    assert raised.raised_type == "ValueError"
    (unknown,) = step.outputs
    assert isinstance(unknown, TensorLeaf)
    assert (unknown.sizes, unknown.numbers, unknown.why) == ((2, 3), None, "it is fake")
    (argument,) = step.arguments
    assert isinstance(argument, TensorLeaf) and argument.numbers and argument.grad
    assert argument.numbers.exact == 3
    assert flag.outputs == (PlainLeaf("", "True"),)
    assert array.outputs == (PlainLeaf("", "a numpy.ndarray", opaque=True),)
    weight = parameters[ParameterKey("Model", 0, "weight")]
    bias = parameters[ParameterKey("Model", 0, "bias")]
    assert weight and weight.grad and bias and bias.grad is None


def test_processes_come_in_the_order_in_which_they_started(tmp_path: Path) -> None:
    """Process ids say nothing of that order."""
    bundle = bundle_of(tmp_path, Recorded(9, started=1.0), Recorded(2, started=2.0))
    assert [each.path.name[0] for each in read_outputs(bundle)] == ["9", "2"]


def test_a_cut_file_keeps_what_is_whole(tmp_path: Path) -> None:
    """A process that was killed has no last line, and perhaps half a line."""
    text = recorded().text()
    data = text[: text.index('"end"') + 3].encode()
    (process,) = read_outputs(bundle_of(tmp_path, data))
    assert not process.complete
    assert len(process.calls) == 5
    assert process.unread == 1


def test_a_tensor_without_all_its_numbers_is_unreadable(tmp_path: Path) -> None:
    """A sum that is missing is not taken for a sum that is equal."""
    leaf = tensor([1.0, 2.0])
    for name in ("sum", "weighted", "sample", "min", "numel"):
        process = Recorded().call({key: leaf[key] for key in leaf if key != name}).end()
        (read,) = read_outputs(bundle_of(tmp_path, process))
        with read.open() as reader:
            call = reader.call(CallKey(0, 0, 0))
        assert call
        (output,) = call.outputs
        assert isinstance(output, TensorLeaf)
        assert output.numbers is None, name


@pytest.mark.parametrize(
    "line",
    [
        '{"call": 0, "function": 9, "outputs": []}',
        '{"call": -1, "function": 0, "outputs": []}',
        '{"call": 0, "function": 0, "outputs": []}\n{"call": 0, "function": 0, "outputs": []}',
        '{"parameters": [{"module": 3}]}',
        '{"what": 1}',
        "[]",
        '{"pid": ' + "9" * 5000 + "}",
        "[" * 100_000,
    ],
)
def test_a_line_that_is_not_understood_is_counted(tmp_path: Path, line: str) -> None:
    """An unknown function, a call that comes twice, and any other nonsense are one line each."""
    data = '{"function": 0, "name": "f", "file": "a.py", "line": 1}\n' + line + "\n"
    (process,) = read_outputs(bundle_of(tmp_path, data.encode()))
    assert process.unread == 1


def test_a_file_that_is_gone_gives_nothing(tmp_path: Path) -> None:
    """A bundle may be removed while it is read."""
    assert read_process(tmp_path / "none").unread == 1
    bundle = bundle_of(tmp_path, recorded())
    (process,) = read_outputs(bundle)
    process.path.unlink()
    assert read_all(process) == [None] * 5


@given(st.data())
@settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_any_damage_gives_calls_or_a_count(tmp_path: Path, data: st.DataObject) -> None:
    """Bytes that are cut, overwritten or put in never raise."""
    text = recorded().text().encode()
    start = data.draw(st.integers(0, len(text)))
    end = min(len(text), start + data.draw(st.integers(0, 60)))
    junk = data.draw(
        st.sampled_from(
            (b"", b"\x00", b"\xff\xfe", b"\n", b'"', b"{", b"]", b"null", b"1e400", b"-1", b"NaN")
        )
        | st.sampled_from((b"9" * 5000, b"[" * 10_000, b'{"a":' * 10_000, b"\\ud800"))
        | st.binary(max_size=20)
    )
    path = tmp_path / "damaged"
    path.write_bytes(text[:start] + junk + text[end:])
    read_all(read_process(path))
