"""The budget: what is read, what is refused and where, and how its numbers are lowered."""

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recompile_doctor.config import parse_yaml
from recompile_doctor.errors import DoctorError
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.verification.budget import (
    Budget,
    Counting,
    Metric,
    Scope,
    first_budget,
    frame_matches,
    frame_pattern,
    read_budget,
    updated,
)

FILE = Path("budget.yaml")

WHOLE = """\
# agreed on in March
count: all
total:
  recompiles: 6      # was 12
  graph_breaks: 2
  compilations: 40
frames:
  "model.py:forward": {recompiles: 3}
  'train_*': {graph_breaks: 0, recompile_limit_hits: 1}
rules:
  zero-one-specialization: {recompiles: 0}
allow:
  - id: "stride-change/model.py:forward/L['x']"
    reason: the cache is transposed
    until: 2026-03-31
  - {rule: graph-break, frame: 'log_*', reason: 'prints, once an epoch'}
"""


def budget(text: str) -> Budget:
    return read_budget(parse_yaml(text, FILE))


def test_a_whole_budget() -> None:
    read = budget(WHOLE)
    assert read.count is Counting.ALL
    assert [(each.scope, each.name, each.metric, each.most) for each in read.limits] == [
        (Scope.TOTAL, "", Metric.RECOMPILES, 6),
        (Scope.TOTAL, "", Metric.GRAPH_BREAKS, 2),
        (Scope.TOTAL, "", Metric.COMPILATIONS, 40),
        (Scope.FRAMES, "model.py:forward", Metric.RECOMPILES, 3),
        (Scope.FRAMES, "train_*", Metric.GRAPH_BREAKS, 0),
        (Scope.FRAMES, "train_*", Metric.LIMIT_HITS, 1),
        (Scope.RULES, "zero-one-specialization", Metric.RECOMPILES, 0),
    ]
    assert [each.place.line for each in read.limits if each.place] == [4, 5, 6, 8, 9, 9, 11]
    assert read.allow[0].until == date(2026, 3, 31)
    assert read.allow[1].place.line == 16


def test_an_empty_file_is_a_budget_without_limits() -> None:
    """Only hits of the recompile limit fail then."""
    assert budget("# nothing yet\n") == Budget()
    (limit,) = Budget().limits_that_hold()
    assert (limit.metric, limit.most) == (Metric.LIMIT_HITS, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("total:\n  recompile: 1\n", "budget.yaml:2: there is no setting 'recompile' here."),
        ("\nlimits: {}\n", "budget.yaml:2: there is no setting 'limits' here."),
        ("total:\n  recompiles: -1\n", "budget.yaml:2: recompiles must be a whole number from 0."),
        ("total:\n  recompiles: yes\n", "budget.yaml:2: recompiles must be a whole number from 0."),
        ("total:\n  recompiles: 1.5\n", "budget.yaml:2: recompiles must be a whole number from 0."),
        ("total: 3\n", "budget.yaml:1: total must be a table, not a whole number."),
        ("total:\n", "budget.yaml:1: total must be a table, not empty."),
        ("- 1\n", "budget.yaml:1: the file must be a table of settings."),
        ("count: some\n", "budget.yaml:1: count is one of fixable, all."),
        ("rules:\n  zero-one: {recompiles: 1}\n", "budget.yaml:2: there is no rule 'zero-one'."),
        (
            "rules:\n  rank-change: {compilations: 1}\n",
            "budget.yaml:2: there is no setting 'compilations' here.",
        ),
        (
            "frames:\n  f:\n    recompile: 1\n",
            "budget.yaml:3: there is no setting 'recompile' here.",
        ),
        ("allow:\n  a: 1\n", "budget.yaml:1: allow must be a list."),
        ("allow:\n\n  - rule: rank-change\n", "budget.yaml:3: an allowance needs a reason."),
        (
            "allow:\n  - {rule: rank-change, reason: ' '}\n",
            "budget.yaml:2: reason must be a text.",
        ),
        (
            "allow:\n  - reason: because\n",
            "budget.yaml:2: an allowance names either an id or a rule.",
        ),
        (
            "allow:\n  - rule: rank-change\n    reason: a\n    until: soon\n",
            "budget.yaml:4: until must be a date such as 2026-01-31.",
        ),
        (
            "allow:\n  - rule: rank-change\n    reason: a\n    untill: 2026-01-01\n",
            "budget.yaml:4: there is no setting 'untill' here.",
        ),
        (
            "total:\n  recompiles: 1\n  recompiles: 2\n",
            "budget.yaml:3: recompiles stands here twice.",
        ),
    ],
)
def test_mistakes_are_told_with_file_and_line(text: str, message: str) -> None:
    with pytest.raises(DoctorError) as caught:
        budget(text)
    assert caught.value.message == message
    assert caught.value.slug == "bad-setting"


@pytest.mark.parametrize(
    "text", ["total: [", "a: &x 1\nb: *x\n", "total: !!python/name:os 1", "\0"]
)
def test_text_that_is_no_plain_yaml_is_refused(text: str) -> None:
    with pytest.raises(DoctorError) as caught:
        budget(text)
    assert caught.value.slug == "settings-unreadable"


@settings(deadline=None)
@given(st.text())
def test_any_text_is_a_budget_or_one_sentence(text: str) -> None:
    try:
        budget(text)
    except DoctorError as error:
        assert error.message


@pytest.mark.parametrize(
    ("pattern", "function", "file", "expected"),
    [
        ("forward", "forward", "/p/model.py", True),
        ("forward", "forward", None, True),
        ("forward", "forward_train", "/p/model.py", False),
        ("forward*", "forward_train", "/p/model.py", True),
        ("model.py:forward", "forward", "/p/model.py", True),
        ("model.py:forward", "forward", "/p/my_model.py", False),
        ("nets/model.py:*", "forward", "/p/nets/model.py", True),
        ("other/model.py:*", "forward", "/p/nets/model.py", False),
        ("*.py:<lambda>", "<lambda>", "/p/model.py", True),
        ("model.py:forward", "forward", None, False),
    ],
)
def test_patterns_of_functions(
    pattern: str, function: str, file: str | None, expected: bool
) -> None:
    assert frame_matches(pattern, FrameKey(function, file, 1)) is expected


@settings(deadline=None)
@given(st.text(min_size=1), st.text(min_size=1).map(lambda name: name.replace("/", "_")))
def test_the_pattern_of_a_function_means_that_function(function: str, file: str) -> None:
    frame = FrameKey(function, f"/p/{file}.py", 3)
    assert ":" in function or frame_matches(frame_pattern(frame), frame)


def test_lower_numbers_are_written_and_all_else_stays() -> None:
    settings = parse_yaml(WHOLE, FILE)
    limits = read_budget(settings).limits
    present = {limits[0]: 0, limits[1]: 5, limits[3]: 3, limits[5]: 0}
    update = updated(settings, present, loosen=False)
    expected = WHOLE.replace("recompiles: 6 ", "recompiles: 0 ")
    assert update.text == expected.replace("recompile_limit_hits: 1", "recompile_limit_hits: 0")
    assert [(each.metric, number) for each, number in update.changes] == [
        (Metric.RECOMPILES, 0),
        (Metric.LIMIT_HITS, 0),
    ]


def test_numbers_are_raised_only_when_asked_to() -> None:
    settings = parse_yaml(WHOLE, FILE)
    present = {read_budget(settings).limits[1]: 25}
    assert updated(settings, present, loosen=False).text == WHOLE
    loose = updated(settings, present, loosen=True).text
    assert loose == WHOLE.replace("graph_breaks: 2", "graph_breaks: 25")


def test_a_number_that_is_more_than_a_number_is_not_replaced() -> None:
    settings = parse_yaml("total: {recompiles: &most 3}\n", FILE)
    present = {read_budget(settings).limits[0]: 1}
    with pytest.raises(DoctorError, match="cannot be replaced"):
        updated(settings, present, loosen=False)


numbers = st.lists(st.integers(0, 10**6), min_size=5, max_size=5)


@settings(deadline=None)
@given(numbers, numbers)
def test_a_ratchet_only_lowers(old: list[int], new: list[int]) -> None:
    keys = ["total: {recompiles: ", ", graph_breaks: ", "}\nframes: {f: {recompiles: "]
    keys += ["}, g: {recompiles: ", "}}  # all\nrules: {rank-change: {recompiles: "]
    text = "".join(f"{key}{number}" for key, number in zip(keys, old, strict=True)) + "}}\n"
    settings = parse_yaml(text, FILE)
    present = dict(zip(read_budget(settings).limits, new, strict=True))
    tight = budget(updated(settings, present, loosen=False).text)
    loose = budget(updated(settings, present, loosen=True).text)
    assert [each.most for each in tight.limits] == list(map(min, old, new))
    assert [each.most for each in loose.limits] == new


def test_a_first_budget_can_be_read() -> None:
    odd = frame_pattern(FrameKey('<lambda> "x": [*]', "/p/mo:del.py", 1))
    text = first_budget({Metric.RECOMPILES: 3}, {odd: {Metric.GRAPH_BREAKS: 1}})
    read = budget(text)
    assert [(each.name, each.most) for each in read.limits] == [("", 3), (odd, 1)]
