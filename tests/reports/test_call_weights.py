"""How many calls had the value that a finding is about."""

from recompile_doctor.capture.calls import CalledFunction
from recompile_doctor.diagnosis.diagnose import diagnose
from recompile_doctor.reports.call_weights import call_weights
from recompile_doctor.reports.document import CallWeight
from tests.diagnosis.handmade import Maker
from tests.diagnosis.logs import FIXTURES, read_run
from tests.prescription.called import called

# What the program of case 01 calls, in two epochs and an evaluation.
LAST_BATCH = called(
    "loss_fn",
    *(
        ({"L['inputs']": (size, 6), "L['labels']": (size,)}, n)
        for size, n in ((8, 10), (1, 3), (20, 2))
    ),
    file="/home/user/cases/01_last_batch_one/case.py",
    line=12,
)


def weights(case: str, *functions: CalledFunction) -> dict[str, CallWeight]:
    return call_weights(diagnose(read_run(FIXTURES / "case-logs" / case / "trace")), functions)


def test_the_calls_with_size_1_are_counted() -> None:
    """A real program: three of its fifteen batches have one sample."""
    found = weights("01_last_batch_one", LAST_BATCH)
    assert found
    assert all(each.startswith("zero-one-specialization/") for each in found)
    assert set(found.values()) == {CallWeight(3, 15, "1")}


def test_sizes_0_and_1_count_together() -> None:
    """torch treats both as constants for one reason."""
    maker = Maker()
    maker.compile("0/0", sizes={"L['x']": (8,)})
    failed = "tensor 'x' size mismatch at index 0. expected {}, actual {}"
    maker.compile("0/1", failed={"0/0": failed.format(8, 1)}, sizes={"L['x']": (1,)})
    maker.compile("0/2", failed={"0/1": failed.format(1, 0)}, sizes={"L['x']": (0,)})
    rows = (({"L['x']": (size,)}, calls) for size, calls in ((8, 400), (1, 9), (0, 3)))
    found = call_weights(diagnose(maker.run()), [called("forward", *rows)])
    assert set(found.values()) == {CallWeight(12, 412, "0 or 1")}


def test_there_is_no_weight_where_the_calls_are_not_known() -> None:
    """No calls at all, calls of something else, and calls of which none has the size."""
    other = called("loss_fn", ({"L['inputs']": (1, 6)}, 1), file="/elsewhere.py", line=12)
    general = called(
        "loss_fn", ({"L['inputs']": (8, 6)}, 1), file=LAST_BATCH.key.file, line=LAST_BATCH.key.line
    )
    for functions in ((), (other,), (general,)):
        assert weights("01_last_batch_one", *functions) == {}


def test_a_resume_function_has_no_weight() -> None:
    """The name of an argument may stand for another tensor after the graph break."""
    maker = Maker()
    resume = "torch_dynamo_resume_in_forward_at_5"
    maker.compile("0/0", sizes={"L['x']": (8,)})
    maker.compile("1/0", sizes={"L['x']": (8,)}, function=resume)
    failed = {"1/0": "tensor 'x' size mismatch at index 0. expected 8, actual 1"}
    maker.compile("1/1", failed=failed, sizes={"L['x']": (1,)}, function=resume)
    diagnosis = diagnose(maker.run())
    assert [each.rule for each in diagnosis.findings if each.source == "L['x']"] == [
        "zero-one-specialization"
    ]
    assert call_weights(diagnosis, [called("forward", ({"L['x']": (1,)}, 1))]) == {}
