"""Which cached entry is the cause of a recompile, and what failed together with it."""

import pytest

from recompile_doctor.diagnosis.attribution import find_causes
from recompile_doctor.diagnosis.diagnose import diagnose
from recompile_doctor.diagnosis.finding import Confidence
from recompile_doctor.events.vocabulary import LogKind
from tests.diagnosis.handmade import ZERO_ONE_NOTE, Maker

X = "L['x'].size()[0]"


def chosen(maker: Maker) -> str:
    """Return the id of the entry that the last recompile is put down to."""
    return str(find_causes(maker.run())[-1].chosen.reported.entry)


def rules_and_sources(maker: Maker) -> list[tuple[str, str | None]]:
    """Return rule and source of all findings."""
    return [(each.rule, each.source) for each in diagnose(maker.run()).findings]


def test_the_first_bullet_can_be_unrelated() -> None:
    """An entry whose sizes all fit is the cause, although torch lists it last.

    Pieces of a split: an empty piece again, at another place in its storage.
    """
    maker = Maker()
    x = "L['tokens']"
    maker.compile("0/0", sizes={x: (4, 8)})
    maker.compile(
        "0/1",
        failed={"0/0": "tensor 'L['tokens']' size mismatch at index 0. expected 4, actual 7"},
        sizes={x: (7, 8)},
        symbols={"L['tokens'].size()[0]": 7},
    )
    maker.compile(
        "0/2",
        failed={"0/1": "2 <= L['tokens'].size()[0]  # f(t)  # a.py:3 in f"},
        sizes={x: (0, 8)},
        symbols={"L['tokens'].storage_offset()": 32},
    )
    maker.compile(
        "0/3",
        failed={
            "0/1": "2 <= L['tokens'].size()[0]  # f(t)  # a.py:3 in f",
            "0/0": "tensor 'L['tokens']' size mismatch at index 0. expected 4, actual 0",
            "0/2": "2 <= L['tokens'].storage_offset()  # f(t)  # a.py:3 in f",
        },
        sizes={x: (0, 8)},
    )
    assert chosen(maker) == "0/2"
    offsets = [
        each for each in rules_and_sources(maker) if each[1] == "L['tokens'].storage_offset()"
    ]
    assert offsets == [("zero-one-specialization", "L['tokens'].storage_offset()")]


@pytest.mark.parametrize(
    "other",
    [
        "GLOBAL_STATE changed: grad_mode ",
        "tensor 'L['x']' dtype mismatch. expected Float, actual Double",
        "L['mode'] == 'train'  # if mode:  # a.py:3 in f",
        "tensor 'L['x']' rank mismatch. expected 2, actual 1",
    ],
)
def test_an_entry_of_another_variant_is_further_away(other: str) -> None:
    """Such a guard stands before those on sizes and hides them."""
    maker = Maker()
    maker.compile("0/0", sizes={"L['x']": (8,)})
    maker.compile("0/1", failed={"0/0": other}, sizes={"L['x']": (8,)})
    size = "tensor 'L['x']' size mismatch at index 0. expected 8, actual 1"
    maker.compile("0/2", failed={"0/1": other, "0/0": size}, sizes={"L['x']": (1,)})
    assert chosen(maker) == "0/0"


def test_a_dynamic_entry_stands_before_a_constant_one() -> None:
    """What was compiled as a constant was never meant to be another size."""
    maker = Maker()
    static = "tensor 'L['x']' size mismatch at index 0. expected {}, actual {}"
    maker.compile("0/0", sizes={"L['x']": (8,)})
    maker.compile(
        "0/1", failed={"0/0": static.format(8, 16)}, sizes={"L['x']": (16,)}, symbols={X: 16}
    )
    maker.compile(
        "0/2",
        failed={
            "0/1": f"2 <= {X}  # x + 1  # a.py:3 in f {ZERO_ONE_NOTE}",
            "0/0": static.format(8, 1),
        },
        sizes={"L['x']": (1,)},
    )
    maker.compile(
        "0/3",
        failed={
            "0/2": static.format(1, 0),
            "0/0": static.format(8, 0),
            "0/1": f"2 <= {X}  # x + 1  # a.py:3 in f {ZERO_ONE_NOTE}",
        },
        sizes={"L['x']": (0,)},
    )
    assert chosen(maker) == "0/1"


def test_of_constant_entries_the_newest_counts_on_a_tie() -> None:
    """With dynamic=False each entry is as good as the other."""
    maker = Maker()
    static = "tensor 'L['x']' size mismatch at index 0. expected {}, actual {}"
    maker.compile("0/0", sizes={"L['x']": (8,)})
    maker.compile("0/1", failed={"0/0": static.format(8, 16)}, sizes={"L['x']": (16,)})
    maker.compile(
        "0/2",
        failed={"0/0": static.format(8, 4), "0/1": static.format(16, 4)},
        sizes={"L['x']": (4,)},
    )
    assert chosen(maker) == "0/1"


def test_of_dynamic_entries_the_one_with_fewest_failures_counts() -> None:
    """The verbose log names all failed guards of an entry."""
    maker = Maker()
    y = "L['y'].size()[0]"
    small = f"{y} <= 32  # if m > 32:  # a.py:4 in f"
    maker.compile("0/0", symbols={X: 8, y: 8})
    maker.compile(
        "0/1", failed={"0/0": f"{X} <= 64  # if n > 64:  # a.py:3 in f"}, symbols={X: 100, y: 8}
    )
    maker.compile(
        "0/2",
        failed={
            "0/1": f"65 <= {X}  # if n > 64:  # a.py:3 in f; {small}",
            "0/0": small,
        },
        symbols={X: 9, y: 40},
    )
    assert chosen(maker) == "0/0"


def test_a_size_that_changed_in_the_same_call_is_inferred() -> None:
    """Torch stops at the first size; the trace has the others, and no second is counted twice."""
    maker = Maker()
    maker.compile("0/0", sizes={"L['x']": (8, 3), "L['y']": (8,)}, seconds=2.0)
    maker.compile(
        "0/1",
        failed={"0/0": "tensor 'L['x']' size mismatch at index 0. expected 8, actual 16"},
        sizes={"L['x']": (16, 3), "L['y']": (16,)},
        symbols={X: 16, "L['y'].size()[0]": 16},
        seconds=3.0,
    )
    first, second = sorted(diagnose(maker.run()).findings, key=lambda each: str(each.source))
    assert (first.source, first.confidence) == ("L['x']", Confidence.OBSERVED)
    assert (second.source, second.confidence) == ("L['y']", Confidence.INFERRED)
    assert (first.seconds, second.seconds) == (3.0, None)
    assert second.together_with == first.id
    assert second.leading == ()
    assert [str(each.key) for each in second.recompiles] == ["0/1"]


def test_a_text_log_tells_nothing_of_other_sizes() -> None:
    """What is not in the log is not inferred."""
    maker = Maker(LogKind.TEXT)
    maker.compile("0/0")
    maker.compile(
        "0/1",
        failed={"0/0": "tensor 'L['x']' size mismatch at index 0. expected 8, actual 16"},
        symbols={X: 16, "L['y'].size()[0]": 16},
    )
    (cause,) = find_causes(maker.run())
    assert cause.joint == ()
    assert rules_and_sources(maker) == [("unmarked-dynamic-dim", "L['x']")]


def test_a_recompile_whose_entry_is_not_in_the_log_still_has_a_cause() -> None:
    """The log may begin in the middle of a run."""
    maker = Maker()
    maker.compile(
        "0/5", failed={"0/4": "tensor 'L['x']' stride mismatch at index 0. expected 4, actual 1"}
    )
    (cause,) = find_causes(maker.run())
    assert cause.chosen.entry is None
    assert rules_and_sources(maker) == [("stride-change", "L['x']")]
