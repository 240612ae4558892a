"""Outputs of two runs: the same, different, or not to be told."""

import math
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from recompile_doctor.verification.equivalence import (
    OutputsCompared,
    Sameness,
    compare_outputs,
    judge_outputs,
)
from recompile_doctor.verification.tolerance import tolerance_for
from tests.verification.fingerprints import (
    Record,
    Recorded,
    bundle_of,
    calls_of,
    parameter,
    tensor,
    unreadable,
)

SAME, DIFFERENT, UNKNOWN = Sameness.SAME, Sameness.DIFFERENT, Sameness.UNKNOWN
PROPERTY = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

Run = Recorded | Sequence[Recorded]


def judged(*runs: Run) -> OutputsCompared:
    """Judge the last run by those before it."""
    with tempfile.TemporaryDirectory() as folder:
        bundles = [
            bundle_of(Path(folder, str(i)), *([run] if isinstance(run, Recorded) else run))
            for i, run in enumerate(runs)
        ]
        return judge_outputs(bundles[:-1], bundles[-1])


def compared(before: Run, after: Run) -> OutputsCompared:
    """Compare two runs."""
    return judged(before, after)


def normal(count: int, seed: int = 0) -> list[float]:
    random_numbers = random.Random(seed)
    return [random_numbers.gauss(0, 1) for _ in range(count)]


def test_the_same_outputs_are_the_same() -> None:
    """The result says how much was compared, and how closely."""
    run = Recorded().call(tensor([1.0]), tensor([3], "[1]", dtype="torch.int64")).end()
    assert compared(run, run) == OutputsCompared(
        SAME,
        "1 call gave the same outputs",
        1,
        (),
        "float32: rtol 0.0001, atol 1e-05; int64: exact",
    )


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (tensor([1.0], sizes=[]), tensor([1.0]), "the output has shape (1,), before ()"),
        (
            tensor([1.0], "['loss']"),
            tensor([1.0], "['loss']", dtype="torch.float64"),
            "output ['loss'] has dtype float64, before float32",
        ),
        (tensor([1.0]), tensor([1.0], device="cuda:0"), "the output is on cuda, before on cpu"),
        (tensor([1.0]), tensor([1.1]), "the output is 1.1, before 1"),
        (tensor([1.0, 2.0]), tensor([1.0, 3.0]), "the output is 3 at flat index 1, before 2"),
        (tensor([1.0, 2.0]), tensor([1.0, math.nan]), "the output has 1 NaN, before 0"),
        (tensor([math.inf]), tensor([-math.inf]), "the output has 0 inf, before 1"),
        (tensor([1.0], "[0]"), {"path": "[0]", "int": 1}, "output [0] is 1, before a tensor"),
        ({"path": "", "int": 1}, {"path": "", "int": 2}, "the output is 2, before 1"),
        (
            {"path": "", "value": "'a'"},
            {"path": "", "value": "'b'"},
            "the output is 'b', before 'a'",
        ),
        (
            tensor([True], dtype="torch.bool"),
            tensor([False], dtype="torch.bool"),
            "the output has the sum 0, before 1",
        ),
    ],
)
def test_a_difference_is_named(before: Record, after: Record, words: str) -> None:
    """Which function, which call, which value, and both sides of it."""
    result = compared(calls_of([0.0], before), calls_of([0.0], after))
    assert result.sameness is DIFFERENT
    assert result.reason == f"forward, call 2 of 2: {words}"
    assert result.differences == (result.reason,)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (tensor([1.0], device="cuda:0"), tensor([1.0], device="cuda:1")),
        (tensor([math.nan, 1.0]), tensor([math.nan, 1.0])),
        (tensor([math.nan, math.inf]), tensor([math.nan, math.inf])),
        (tensor([]), tensor([])),
        ({"path": "", "value": "0.30000001"}, {"path": "", "value": "0.3"}),
        (tensor([1e200], dtype="torch.float64"), tensor([1e200], dtype="torch.float64")),
    ],
)
def test_what_makes_no_difference(before: Record, after: Record) -> None:
    """The number of a device, NaN beside NaN, nothing at all, rounding."""
    assert compared(calls_of(before), calls_of(after)).sameness is SAME


def test_an_output_more_or_less_is_a_difference() -> None:
    """The places of the values in the result are compared."""
    one = calls_of(tensor([1.0], "[0]"))
    two = Recorded().call(tensor([1.0], "[0]"), tensor([1.0], "[1]")).end()
    assert compared(one, two).reason == "forward, call 1 of 1: output [1] was not there before"
    assert compared(two, one).reason == "forward, call 1 of 1: output [1] is not there any more"


def test_raising_is_compared_by_type() -> None:
    """The message of an exception often has sizes or addresses in it."""
    fine = calls_of([1.0])
    one, other = (Recorded().call(raised=f"ValueError: {each}").end() for each in "ab")
    third = Recorded().call(raised="IndexError: a").end()
    assert compared(one, other).sameness is SAME
    assert compared(fine, one).reason.endswith("it raises ValueError, before it returned")
    assert compared(one, fine).reason.endswith("it returns, before it raised ValueError")
    assert compared(one, third).reason.endswith("it raises IndexError, before it raised ValueError")


def test_an_argument_that_was_changed_in_place_is_compared() -> None:
    """So is its gradient, with ten times the tolerance, since gradients add up."""

    def run(value: float, grad: float | None) -> Recorded:
        leaf = tensor([value], "x", grad=None if grad is None else tensor([grad]))
        return Recorded().call(tensor([1.0]), arguments=[leaf]).end()

    assert compared(run(1.0, 1.0), run(1.0, 1.0005)).sameness is SAME
    assert "argument x is 2, before 1" in compared(run(1.0, 1.0), run(2.0, 1.0)).reason
    assert "the gradient of argument x is 3" in compared(run(1.0, 1.0), run(1.0, 3.0)).reason
    assert compared(run(1.0, 1.0), run(1.0, None)).sameness is DIFFERENT


def test_another_number_of_calls_is_a_difference() -> None:
    """Also a function that is called in one run only."""
    two, three = calls_of([1.0], [1.0]), calls_of([1.0], [1.0], [1.0])
    assert compared(two, three).reason == "forward is called 3 times, before 2 times"
    extra = Recorded().call(tensor([1.0])).call(tensor([1.0]), function="step").end()
    assert compared(calls_of([1.0]), extra).reason == "step is called once, before not at all"
    assert compared(extra, calls_of([1.0])).reason == "step is called not at all, before once"


def test_at_most_five_differences_are_listed_in_the_order_of_the_calls() -> None:
    """The first difference is the one to look at; those after it follow from it."""
    before, after = calls_of(*[[1.0]] * 9), calls_of([1.0], *[[2.0]] * 8)
    result = compared(before, after)
    assert [each.split(":")[0] for each in result.differences] == [
        f"forward, call {number} of 9" for number in (2, 3, 4, 5, 6)
    ]


def test_functions_are_matched_though_a_patch_moved_them() -> None:
    """Two functions of one name keep their order, even if one gets the line of the other."""

    def run(first: int, second: int, name: str = "model.py") -> Recorded:
        process = Recorded().call(tensor([2.0]), line=second, file=f"/a/{name}")
        return process.call(tensor([1.0]), line=first, file=f"/a/{name}").end()

    assert compared(run(10, 12), run(12, 14)).sameness is SAME
    assert compared(run(10, 12), run(12, 14, "model_patched.py")).sameness is SAME
    swapped = Recorded().call(tensor([1.0]), line=12).call(tensor([2.0]), line=10).end()
    result = compared(run(10, 12), swapped)
    assert result.reason.startswith("forward (model.py:12), call 1 of 1:")


def test_processes_are_matched_by_rank_else_by_their_start() -> None:
    """Process ids change, and ranks start in any order; a helper without calls is no process."""

    def run(*pids: int, first: float) -> list[Recorded]:
        ranks = [Recorded(pids[0], rank="0", started=first), Recorded(pids[1], rank="1")]
        helper = Recorded(99, started=0.0)
        return [each.call(tensor([i])).end() for i, each in enumerate(ranks)] + [helper]

    assert compared(run(5, 6, first=2.0), run(8, 7, first=0.5)).sameness is SAME
    alone = run(5, 6, first=2.0)[:1]
    assert compared(run(5, 6, first=2.0), alone).reason == "rank 1 recorded no calls, before 1"
    assert compared(alone, run(5, 6, first=2.0)).reason == "rank 1 recorded 1 call, before none"


def test_calls_of_several_threads_prove_nothing() -> None:
    """Which thread comes first is a matter of luck; how often all of them call is not."""

    def run(*values: float) -> Recorded:
        process = Recorded()
        for thread, value in enumerate(values):
            process.call(tensor([value]), thread=thread)
        return process.end()

    assert compared(run(1.0, 2.0), run(1.0, 2.0)).sameness is SAME
    assert "is called from 2 threads" in compared(run(1.0, 2.0), run(2.0, 1.0)).reason
    assert compared(run(1.0, 2.0), run(2.0, 1.0)).sameness is UNKNOWN
    assert compared(run(1.0, 2.0), run(1.0, 2.0, 3.0)).sameness is DIFFERENT
    one, other = Recorded().call(tensor([1.0]), thread=1), Recorded().call(tensor([1.0]), thread=0)
    assert compared(one.end(), other.end()).sameness is SAME


def test_calls_without_a_counterpart_are_not_passed_over() -> None:
    """Two threads that share six calls 3 and 3, then 4 and 2, are compared in five."""

    def run(*threads: int) -> Recorded:
        process = Recorded()
        for thread in threads:
            process.call(tensor([1.0]), thread=thread)
        return process.end()

    result = compared(run(0, 1, 0, 1, 0, 1), run(0, 1, 0, 1, 0, 0))
    assert result.sameness is UNKNOWN
    assert result.reason == "1 call without a counterpart in the other run"


def test_a_run_without_outputs_tells_nothing() -> None:
    """No file, or a file without calls."""
    for nothing in ([], Recorded().end()):
        result = compared(calls_of([1.0]), nothing)
        assert (result.sameness, result.reason) == (
            UNKNOWN,
            "no outputs were recorded in the run",
        )
    assert judge_outputs([], bundle_of(Path(tempfile.mkdtemp()))).sameness is UNKNOWN


def test_a_run_that_was_cut_short_is_compared_as_far_as_it_goes() -> None:
    """A difference in what there is counts; calls that are missing do not."""
    whole = calls_of([1.0], [2.0], [3.0])
    cut = Recorded().call(tensor([1.0])).call(tensor([2.0]))
    result = compared(whole, cut)
    assert (result.sameness, result.calls) == (UNKNOWN, 2)
    assert result.reason == "the run was cut short after 2 calls"
    assert compared(cut, whole).reason == "the run without changes was cut short after 2 calls"
    assert compared(whole, Recorded().call(tensor([9.0]))).sameness is DIFFERENT


def test_calls_beyond_the_limit_leave_it_open() -> None:
    """The last batch, whose size is another, may be among them."""
    run = Recorded().call(tensor([1.0]))
    result = compared(run.end(3), run)
    assert (result.sameness, result.reason) == (
        UNKNOWN,
        "of 4 calls, the last 3 were not recorded",
    )
    other = Recorded().call(tensor([1.0])).end(4)
    assert compared(run, other).reason == "5 calls were made, before 4"


def test_functions_that_were_not_watched_leave_it_open() -> None:
    """What they returned is unknown, and so is whether a function is called no more."""
    whole = Recorded().call(tensor([1.0])).call(tensor([1.0]), function="step").end()
    lacking = Recorded().call(tensor([1.0])).end(unwatched=1)
    result = compared(whole, lacking)
    assert (result.sameness, result.reason) == (
        UNKNOWN,
        "1 compiled function was not watched in the run",
    )
    two = Recorded().call(tensor([1.0])).end(unwatched=2)
    assert compared(two, two).reason.startswith(
        "2 compiled functions were not watched in the run without changes"
    )
    assert compared(two, Recorded().call(tensor([9.0])).end()).sameness is DIFFERENT


def test_values_that_cannot_be_read_leave_it_open() -> None:
    """Their shapes are compared all the same."""
    run = Recorded().call(tensor([1.0, 2.0], "[0]"), unreadable([2], "[1]")).end()
    result = compared(run, run)
    assert (result.sameness, result.reason) == (UNKNOWN, "values of 1 output cannot be read")
    assert compared(calls_of([1.0, 2.0]), calls_of(unreadable([2]))).sameness is UNKNOWN
    assert compared(calls_of([1.0, 2.0]), calls_of(unreadable([3]))).sameness is DIFFERENT
    odd = calls_of(tensor([1.0], dtype="torch.float4_e2m1fn_x2"))
    assert compared(odd, odd).sameness is UNKNOWN


def test_a_damaged_line_is_no_difference() -> None:
    """The call that stood in it is missing, and that is said."""
    whole = calls_of([1.0], [2.0])
    damaged = calls_of([1.0], [2.0])
    damaged.lines[3] = {"what": 1}
    result = compared(whole, damaged)
    assert result.sameness is UNKNOWN
    assert result.reason == "1 call without a counterpart in the other run"


def test_parameters_are_compared_by_module_and_name() -> None:
    """With their gradients, at ten times the tolerance; other modules are another matter."""

    def run(*parameters: Record) -> Recorded:
        return calls_of([1.0], [1.0]).parameters(*parameters)

    base = run(parameter("layer.weight", [1.0], [2.0]))
    near = run(parameter("layer.weight", [1.0005], [2.001]))
    assert compared(base, near).sameness is SAME
    assert compared(base, near).tolerance.endswith("10 times as much for parameters and gradients")
    far = compared(base, run(parameter("layer.weight", [1.0], [3.0])))
    assert far.reason == "gradient of Model.layer.weight is 3, before 2"
    none = compared(base, run(parameter("layer.weight", [1.0])))
    assert none.reason == "gradient of Model.layer.weight is not there any more"
    lost = compared(base, run(parameter("layer.bias", [1.0])))
    assert lost.differences == (
        "Model.layer.weight is not there any more",
        "Model.layer.bias was not there before",
    )
    assert compared(base, run()).sameness is SAME
    assert compared(base, run(parameter("layer.weight", [9.0], number=1))).sameness is SAME


def test_results_that_drift_apart_are_not_called_wrong() -> None:
    """Rounding grows from step to step of a training run; a wrong graph jumps."""
    steady = calls_of(*[[1.0]] * 12)
    growing = calls_of(*[[1.0 + 1e-6 * 2**step] for step in range(12)])
    result = compared(steady, growing)
    assert result.sameness is UNKNOWN
    assert result.reason.startswith("the results drift apart little by little")
    jumping = calls_of(*[[1.0 + 1e-6 * 2**step] for step in range(9)], [1.0], [1.0], [3.0])
    assert compared(steady, jumping).sameness is DIFFERENT
    hidden = normal(64)
    late = [*hidden[:-1], hidden[-1] + 5]
    slow, fast = calls_of(hidden, hidden), calls_of([x * 1.00005 for x in hidden], late)
    assert compared(slow, fast).sameness is DIFFERENT


def test_random_numbers_of_another_graph_are_no_wrong_result() -> None:
    """Dropout in a graph for all sizes drops other elements than in one for a single size."""
    before = Recorded().call(tensor([1.0])).call(tensor([2.0]), random=True)
    after = Recorded().call(tensor([1.0])).call(tensor([0.0]), random=True)
    found = compared(before.end(), after.end())
    assert found.sameness is UNKNOWN
    assert found.reason.startswith("compiled functions draw random numbers, and another graph")


def test_a_difference_before_any_random_number_is_one() -> None:
    before = Recorded().call(tensor([1.0])).call(tensor([2.0]), random=True)
    after = Recorded().call(tensor([5.0])).call(tensor([2.0]), random=True)
    assert compared(before.end(), after.end()).sameness is DIFFERENT


def test_another_shape_is_a_difference_though_numbers_are_random() -> None:
    before = Recorded().call(tensor([1.0], sizes=[]), random=True)
    after = Recorded().call(tensor([1.0]), random=True)
    assert compared(before.end(), after.end()).sameness is DIFFERENT


def test_what_follows_other_random_numbers_is_open() -> None:
    """The next batch may have another length, and the weights another value."""
    before = Recorded().call(tensor([1.0]), random=True).call(tensor([1.0, 2.0]))
    after = Recorded().call(tensor([0.5]), random=True).call(tensor([1.0]))
    assert compared(before.end(), after.end()).sameness is UNKNOWN


def test_random_numbers_that_are_the_same_leave_the_outputs_the_same() -> None:
    run = Recorded().call(tensor([1.0]), random=True).end()
    assert compared(run, run).sameness is SAME


def test_masked_elements_do_not_hide_the_others() -> None:
    """The mean square of logits that are masked with -1e9 says nothing of the rest."""
    values = [-1e9 if index % 2 else each for index, each in enumerate(normal(64))]
    wrong = list(values)
    wrong[10] += 1.0
    assert compared(calls_of(values), calls_of(wrong)).sameness is DIFFERENT


def test_an_element_left_by_cancellation_may_err_by_the_rounding_of_its_terms() -> None:
    """1e-7 beside elements of about 1000 is zero in float32."""
    values = [1000 * each for each in normal(64)]
    values[5] = 1e-7
    other = list(values)
    other[5] = -3e-3
    assert compared(calls_of(values), calls_of(other)).sameness is SAME


def test_a_result_is_no_more_precise_than_what_it_was_computed_from() -> None:
    """A float32 loss beside bfloat16 tensors; whole numbers stay exact."""

    def run(loss: float, step: int, dtype: str) -> Recorded:
        number = tensor([step], "[1]", dtype="torch.int64")
        weight = tensor([1.0], "weight", dtype=dtype)
        return Recorded().call(tensor([loss], "[0]"), number, arguments=[weight]).end()

    half = run(1.0958, 1, "torch.bfloat16")
    assert compared(half, run(1.09593, 1, "torch.bfloat16")).sameness is SAME
    assert compared(half, run(1.0958, 2, "torch.bfloat16")).sameness is DIFFERENT
    single = run(1.0958, 1, "torch.float32")
    assert compared(single, run(1.09593, 1, "torch.float32")).sameness is DIFFERENT


# Several baselines.


def test_a_program_that_varies_proves_nothing_by_its_values() -> None:
    """Its random numbers differ in each run."""
    result = judged(calls_of([1.0]), calls_of([2.0]), calls_of([3.0]))
    assert result.sameness is UNKNOWN
    assert result.reason == (
        "the program varies: two runs without changes differ "
        "(forward, call 1 of 1: the output is 2, before 1)"
    )


@pytest.mark.parametrize(
    "after",
    [
        calls_of([5.0], [1.0, 2.0]),
        calls_of([5.0], [math.nan]),
        calls_of([5.0], tensor([1.0], dtype="torch.float16")),
        calls_of([5.0]),
        Recorded().call(tensor([1.0])).call(raised="ValueError").end(),
    ],
)
def test_a_program_that_varies_is_different_in_what_no_random_number_changes(
    after: Recorded,
) -> None:
    """A shape, a NaN, a dtype, a missing call, an exception that no baseline has."""
    baselines = calls_of([1.0], [2.0]), calls_of([3.0], [4.0])
    assert judged(*baselines, after).sameness is DIFFERENT


def test_a_shape_that_varies_in_one_call_is_not_trusted_in_another() -> None:
    """Two runs may have as many boxes by chance; another function is judged by itself."""

    def run(*sizes: int, other: int = 1) -> Recorded:
        process = Recorded()
        for size in sizes:
            process.call(tensor([0.0] * size))
        return process.call(tensor([0.0] * other), function="step").end()

    baselines = run(3, 4), run(3, 5)
    assert judged(*baselines, run(6, 4)).sameness is UNKNOWN
    assert judged(*baselines, run(3, 4, other=2)).reason.startswith("step, call 1 of 1")


def test_where_the_functions_vary_nothing_is_trusted() -> None:
    """A program that takes another way each time has no calls to match."""
    one = Recorded().call(tensor([1.0])).call(tensor([1.0]), function="a").end()
    two = Recorded().call(tensor([1.0])).call(tensor([1.0]), function="b").end()
    assert judged(one, two, calls_of([1.0, 2.0])).sameness is UNKNOWN


def test_a_result_as_near_as_one_baseline_is_the_same() -> None:
    """Baselines that agree within the tolerance need not be at the same distance."""
    assert judged(calls_of([1.0]), calls_of([1.00008]), calls_of([1.00016])).sameness is SAME
    assert judged(calls_of([1.0]), calls_of([1.00008]), calls_of([1.0003])).sameness is DIFFERENT


# Properties.

FLOATS = st.floats(-1e30, 1e30) | st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40])
DTYPES = st.sampled_from(
    ["torch.float64", "torch.float32", "torch.float16", "torch.bfloat16", "torch.float8_e4m3fn"]
)
LEAVES = st.builds(
    lambda values, dtype: tensor(values, dtype=dtype), st.lists(FLOATS, max_size=100), DTYPES
) | st.builds(
    lambda values: tensor(values, dtype="torch.int64"),
    st.lists(st.integers(-(2**62), 2**62), max_size=100),
)


@given(st.lists(LEAVES, min_size=1, max_size=4))
@PROPERTY
def test_a_run_is_the_same_as_itself(leaves: list[Record]) -> None:
    """Whatever its numbers are."""
    run = calls_of(*leaves)
    assert compared(run, run).sameness is SAME


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=64), DTYPES, st.data())
@PROPERTY
def test_one_wrong_element_of_a_small_tensor_is_found(
    values: list[float], dtype: str, data: st.DataObject
) -> None:
    """Above the tolerance it is found, by half of the tolerance it may differ."""
    tolerance = tolerance_for(dtype)
    assert tolerance is not None
    index = data.draw(st.integers(0, len(values) - 1))
    # What is usual in the tensor is at most the root of its mean square.
    usual = math.sqrt(math.fsum(x * x for x in values) / len(values))
    small = 0.5 * (tolerance.atol + tolerance.rtol * abs(values[index]))
    large = tolerance.atol + tolerance.rtol * max(abs(values[index]), usual)
    for step, sameness in ((small, SAME), (3 * large, DIFFERENT)):
        other = list(values)
        other[index] += math.copysign(step, other[index])
        result = compared(
            calls_of(tensor(values, dtype=dtype)), calls_of(tensor(other, dtype=dtype))
        )
        assert result.sameness is sameness, result


@given(st.integers(0, 2**32), st.integers(200, 3000))
@PROPERTY
def test_elements_in_another_order_are_found_by_the_weighted_sum(seed: int, count: int) -> None:
    """Although no other number changes: neither sample, sum nor extremes."""
    values = normal(count, seed)
    sampled = {position * count // 64 for position in range(64)}
    free = [index for index in range(count) if index not in sampled]
    other = list(values)
    for index, source in zip(free, random.Random(seed).sample(free, len(free)), strict=True):
        other[index] = values[source]
    # Some orders happen to give nearly the same weighted sum.
    assume(abs(tensor(values)["weighted"] - tensor(other)["weighted"]) > 1e-3 * count)
    result = compared(calls_of(values), calls_of(other))
    assert result.sameness is DIFFERENT
    assert "weighted sum" in result.reason


@given(st.data())
@PROPERTY
def test_any_damage_to_a_file_gives_an_answer(data: st.DataObject) -> None:
    """And never that a run with fewer lines is different, for that alone."""
    whole = Recorded().call(tensor([1.0, math.nan])).call(tensor([2.0]), function="step", line=3)
    whole.parameters(parameter("weight", [1.0], [1.0])).end()
    text = whole.text().encode()
    cut = data.draw(st.integers(0, len(text)))
    end = min(len(text), cut + data.draw(st.integers(0, 30)))
    junk = data.draw(st.binary(max_size=10))
    with tempfile.TemporaryDirectory() as folder:
        before = bundle_of(Path(folder, "a"), whole)
        truncated = bundle_of(Path(folder, "b"), text[:cut])
        damaged = bundle_of(Path(folder, "c"), text[:cut] + junk + text[end:])
        assert compare_outputs(before, truncated).sameness is not DIFFERENT
        compare_outputs(before, damaged)
        compare_outputs(damaged, before)
        judge_outputs([before, damaged], truncated)


# Results that are not returned as tensors.

NOTHING = {"path": "", "value": "None"}


def opaque(kind: str = "m.Class", *, members: bool = False) -> Record:
    return {"path": "", "type": kind, **({"members": True} if members else {})}


def test_an_object_whose_content_is_unknown_leaves_it_open() -> None:
    """What it holds beside is compared; another type is a difference."""

    def run(*outputs: Record) -> Recorded:
        return Recorded().call(*outputs).call(*outputs).end()

    result = compared(run(opaque()), run(opaque()))
    assert (result.sameness, result.reason) == (
        UNKNOWN,
        "forward returns an object of m.Class, whose content is not compared",
    )
    one, two = run(opaque(), tensor([1.0], ".t")), run(opaque(), tensor([2.0], ".t"))
    assert compared(one, one).sameness is UNKNOWN
    assert compared(one, two).sameness is DIFFERENT
    assert compared(run(opaque()), run(opaque("m.Other"))).sameness is DIFFERENT


def test_an_object_whose_members_are_compared_is_known() -> None:
    run = Recorded().call(opaque(members=True), tensor([1.0], ".t")).end()
    other = Recorded().call(opaque(members=True), tensor([2.0], ".t")).end()
    assert compared(run, run).sameness is SAME
    assert compared(run, other).reason == "forward, call 1 of 1: output .t is 2, before 1"


def test_a_function_that_shows_nothing_of_its_work_leaves_it_open() -> None:
    """It may keep its result in a global list."""
    unchanged = [tensor([1.0], "L['x']"), tensor([1.0], "self.scale")]
    words = "returns no tensor: what it changes elsewhere is not compared"
    for outputs in ([NOTHING], [{"path": "", "value": "'done'"}], []):
        run = Recorded().call(*outputs, arguments=unchanged).end()
        result = compared(run, run)
        assert (result.sameness, result.reason) == (UNKNOWN, f"forward {words}")
    other = Recorded().call(tensor([1.0])).call(NOTHING, function="step").end()
    assert compared(other, other).reason == f"step {words}"


@pytest.mark.parametrize("path", ["L['x']", "self.cache"])
def test_what_a_call_changed_in_place_shows_its_work(path: str) -> None:
    """As a number does that it returns, and the parameters that a training step leaves."""

    def run(value: float) -> Recorded:
        changed = {**tensor([value], path), "changed": True}
        # A first call that leaves nothing is no reason to doubt the others.
        return Recorded().call(NOTHING).call(NOTHING, arguments=[changed]).end()

    noun = "attribute" if path.startswith("self.") else "argument"
    assert compared(run(1.0), run(1.0)).sameness is SAME
    result = compared(run(1.0), run(2.0))
    assert result.reason == f"forward, call 2 of 2: {noun} {path} is 2, before 1"


def test_a_step_that_returns_nothing_is_known_by_its_numbers_or_parameters() -> None:
    for value in ({"path": "", "int": 3}, {"path": "", "value": "True"}):
        run = Recorded().call(value).end()
        assert compared(run, run).sameness is SAME
    run = Recorded().call(NOTHING).parameters(parameter("weight", [1.0])).end()
    assert compared(run, run).sameness is SAME
    raising = Recorded().call(raised="ValueError: a").end()
    assert compared(raising, raising).sameness is SAME


def test_more_values_than_are_recorded_leave_it_open() -> None:
    run = Recorded().call(tensor([1.0])).end()
    run.lines[2]["cut"] = True
    result = compared(run, run)
    assert (result.sameness, result.reason) == (
        UNKNOWN,
        "forward gives more values than are compared",
    )
