"""What is known of the sizes of each function: what varies, is equal, or broadcasts."""

from recompile_doctor.prescription.observed import INT, Place, observe
from tests.diagnosis.handmade import Maker
from tests.prescription.called import called


def static(source: str, dim: int, was: int, now: int) -> str:
    name = source[3:-2]
    return f"tensor '{name}' size mismatch at index {dim}. expected {was}, actual {now}"


def calls(*sizes: dict[str, tuple[int, ...]]) -> Maker:
    """Return a log of calls that were all compiled, each failing the entry before."""
    maker = Maker()
    for number, each in enumerate(sizes):
        failed = {}
        if number:
            failed = {
                f"0/{number - 1}": "tensor 'x' size mismatch at index 0. expected 0, actual 0"
            }
        maker.compile(f"0/{number}", failed=failed, sizes=each)
    return maker


def test_what_varies_and_what_is_equal_in_all_calls() -> None:
    """Equal columns with two values or more are one group; a constant is nothing."""
    maker = calls(
        {"L['x']": (4, 16), "L['mask']": (4, 1, 16, 16)},
        {"L['x']": (2, 9), "L['mask']": (2, 1, 9, 9)},
        {"L['x']": (0, 5), "L['mask']": (0, 1, 5, 5)},
    )
    (frame,) = observe(maker.run())
    assert Place("L['mask']", 1) not in frame.varying
    assert frame.values(Place("L['x']", 0)) == (4, 2, 0)
    assert [tuple(map(str, group)) for group in frame.groups] == [
        ("L['x']:0", "L['mask']:0"),
        ("L['x']:1", "L['mask']:2", "L['mask']:3"),
    ]
    assert frame.broadcast == frozenset()


def test_a_dimension_that_is_1_where_its_like_is_larger_broadcasts() -> None:
    """It is a suspect; the dimension that it is 1 against is none."""
    maker = calls(
        {"L['x']": (4,), "L['keep']": (4,)},
        {"L['x']": (5,), "L['keep']": (1,)},
        {"L['x']": (1,), "L['keep']": (1,)},
    )
    (frame,) = observe(maker.run())
    assert frame.broadcast == {Place("L['keep']", 0)}


def test_independent_sizes_that_touch_1_do_not_broadcast() -> None:
    """Without a call in which both are equal and larger than 1 there is no suspicion."""
    maker = calls(
        {"L['x']": (4,), "L['y']": (7,)},
        {"L['x']": (5,), "L['y']": (1,)},
        {"L['x']": (1,), "L['y']": (1,)},
    )
    (frame,) = observe(maker.run())
    assert frame.broadcast == frozenset()


def test_reasons_fill_in_what_a_text_log_does_not_describe() -> None:
    """The expected value belongs to the entry that failed, the actual one to the call."""
    maker = Maker()
    maker.compile("0/0")
    maker.compile("0/1", failed={"0/0": static("L['x']", 0, 8, 1)})
    maker.compile(
        "0/2",
        failed={"0/1": static("L['x']", 0, 1, 20), "0/0": "n == 3"},
        symbols={"L['n']": 4},
    )
    (frame,) = observe(maker.run())
    assert frame.values(Place("L['x']", 0)) == (8, 1, 20)
    assert frame.values(Place("L['n']", INT)) == (3, 4)


def test_the_base_of_a_view_and_a_float_are_no_inputs() -> None:
    """Neither can be named by a mark."""
    maker = calls({"L['x']": (4,), "___as_tensor(L['lr'])": ()}, {"L['x']": (5,)})
    maker.compile("0/2", failed={"0/1": static("L['x']", 0, 5, 6)},
                  symbols={"L['x']._base.size()[0]": 9, "L['t'].item()": 3})  # fmt: skip
    (frame,) = observe(maker.run())
    assert {place.source for place in frame.columns} == {"L['x']"}


def test_the_typical_size_is_the_most_frequent_general_one() -> None:
    """0 and 1 are no hints."""
    maker = calls(*({"L['x']": (size,)} for size in (1, 7, 1, 7, 3, 1)))
    (frame,) = observe(maker.run())
    assert frame.typical(Place("L['x']", 0)) == 7


# With the calls that the probe saw

TIED = (
    {"L['x']": (4, 16), "L['mask']": (4, 16), "L['bias']": (4,)},
    {"L['x']": (2, 9), "L['mask']": (2, 9), "L['bias']": (2,)},
    {"L['x']": (7, 5), "L['mask']": (7, 5), "L['bias']": (7,)},
)


def test_a_call_that_an_entry_served_takes_a_member_out_of_a_group() -> None:
    """Only what differed leaves; what was equal in all calls stays together."""
    served = {"L['x']": (6, 8), "L['mask']": (6, 8), "L['bias']": (3,)}
    (frame,) = observe(calls(*TIED).run(), [called("forward", *((each, 1) for each in TIED))])
    assert [tuple(map(str, group)) for group in frame.groups] == [
        ("L['x']:0", "L['mask']:0", "L['bias']:0"),
        ("L['x']:1", "L['mask']:1"),
    ]
    rows = [*((each, 1) for each in TIED), (served, 1)]
    (frame,) = observe(calls(*TIED).run(), [called("forward", *rows)])
    assert [tuple(map(str, group)) for group in frame.groups] == [
        ("L['x']:0", "L['mask']:0"),
        ("L['x']:1", "L['mask']:1"),
    ]


def test_a_group_of_two_that_differed_once_is_none() -> None:
    """Neither is it a reason to treat the one like the other."""
    served = {"L['x']": (6, 8), "L['mask']": (6, 3), "L['bias']": (6,)}
    (frame,) = observe(calls(*TIED).run(), [called("forward", (served, 1))])
    assert [len(group) for group in frame.groups] == [3]
    assert not frame.always_equal(Place("L['x']", 1), Place("L['mask']", 1))
    assert frame.always_equal(Place("L['x']", 0), Place("L['mask']", 0))


def test_an_argument_that_a_call_does_not_have_refutes_nothing() -> None:
    """It was None there, say; what is not known does not differ."""
    (frame,) = observe(calls(*TIED).run(), [called("forward", ({"L['x']": (6, 8)}, 1))])
    assert [len(group) for group in frame.groups] == [3, 2]


def test_sizes_are_weighed_by_all_calls() -> None:
    """How often each came, over all callables; the typical size is the most frequent one."""
    maker = calls({"L['x']": (8,)}, {"L['x']": (9,)}, {"L['x']": (1,)})
    seen = [
        called("forward", ({"L['x']": (8,)}, 1), ({"L['x']": (33,)}, 40)),
        called("forward", ({"L['x']": (1,)}, 90), ({"L['x']": (33,)}, 2), ({"L['n']": 3}, 1)),
    ]
    (frame,) = observe(maker.run(), seen)
    place = Place("L['x']", 0)
    assert frame.weights(place) == {8: 1, 33: 42, 1: 90}
    assert frame.weights(Place("L['n']", INT)) == {3: 1}
    assert frame.seen(place) == {8, 9, 1, 33}
    assert frame.typical(place) == 33
    assert frame.observed_calls == 134
    assert frame.values(place) == (8, 9, 1)


def test_a_size_that_differed_without_a_1_is_not_there_to_broadcast() -> None:
    """The compiled calls alone look as if it were."""
    maker = calls(
        {"L['x']": (4,), "L['keep']": (4,)},
        {"L['x']": (5,), "L['keep']": (1,)},
    )
    (frame,) = observe(maker.run())
    assert frame.broadcast == {Place("L['keep']", 0)}
    (frame,) = observe(maker.run(), [called("forward", ({"L['x']": (5,), "L['keep']": (3,)}, 1))])
    assert frame.broadcast == frozenset()


def test_calls_of_another_function_count_for_nothing() -> None:
    """Name, file and first line have to be the same."""
    for other in (called("backward", ({"L['x']": (1,)}, 1)), called("forward", line=4)):
        (frame,) = observe(calls(*TIED).run(), [other])
        assert frame.rows == ()


def test_a_resume_function_has_no_observed_calls() -> None:
    """Its local variables need not be the arguments any more."""
    maker = calls(*TIED)
    maker.compile("1/0", sizes={"L['x']": (4,)}, function="torch_dynamo_resume_in_forward_at_5")
    first, resumed = observe(maker.run(), [called("forward", ({"L['x']": (6, 8)}, 1))])
    assert first.rows and not resumed.rows
