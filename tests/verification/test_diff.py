"""Two runs compared: what is matched, and what is said to have become of it."""

from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recompile_doctor.diagnosis.finding import Disposition, Finding
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.pipeline import examine, run_facts
from recompile_doctor.reports.json_report import render_json
from recompile_doctor.reports.report_reader import read_report
from recompile_doctor.reports.run_facts import facts_of
from recompile_doctor.verification.diff import Change, compare, match_frames
from recompile_doctor.verification.facts import RunFacts
from recompile_doctor.verification.verdict import Verdict, judge
from tests.verification import runs
from tests.verification.runs import cause, frame, function, graph_break, limit_hit

STORED = sorted(
    path for each in runs.SCENARIOS.iterdir() for path in (each / "trace", each / "dynamic.log.gz")
)


@pytest.mark.parametrize("path", STORED, ids=lambda path: f"{path.parent.name}-{path.name[:5]}")
def test_a_run_does_not_differ_from_itself_nor_from_its_json_report(path: Path) -> None:
    document = examine(path).document
    facts = facts_of(document)
    report = read_report(render_json(document).encode(), facts.subject)
    assert report is not None
    for other in (facts, facts_of(report)):
        assert compare(facts, other).is_empty
        assert compare(other, facts).is_empty
        assert judge(compare(facts, other)).verdict in (Verdict.UNCHANGED, Verdict.UNKNOWN)


names = st.sampled_from(["forward", "<lambda>", "step"])
files = st.sampled_from([None, "/a/model.py", "/b/model.py", "/a/train.py"])
keys = st.builds(FrameKey, names, files, st.integers(1, 4) | st.none())
causes = st.builds(
    cause,
    st.sampled_from(["zero-one-specialization", "rank-change", "rank-divergence"]),
    st.lists(st.integers(1, 4), max_size=3),
    of=keys,
    source=st.sampled_from([None, "L['x']"]),
    disposition=st.sampled_from(Disposition),
)
breaks = st.builds(graph_break, st.sampled_from([None, "print(x)"]), of=keys)
hits = st.builds(limit_hit, of=keys)
any_run = st.lists(causes | breaks | hits, max_size=6).map(lambda found: runs.run(*found))


@settings(deadline=None)
@given(any_run)
def test_no_run_differs_from_itself(facts: RunFacts) -> None:
    difference = compare(facts, facts)
    assert difference.is_empty
    assert judge(difference).verdict is Verdict.UNCHANGED


@settings(deadline=None)
@given(any_run, any_run)
def test_each_function_and_cause_is_told_of_once(before: RunFacts, after: RunFacts) -> None:
    """Nothing is dropped and nothing is matched twice."""
    difference = compare(before, after)
    for diffs, old, new in (
        (difference.frames, before.frames, after.frames),
        (difference.findings, before.findings, after.findings),
    ):
        assert sorted(id(each.before) for each in diffs if each.before) == sorted(map(id, old))
        assert sorted(id(each.after) for each in diffs if each.after) == sorted(map(id, new))


@settings(deadline=None)
@given(any_run, any_run)
def test_what_was_fixed_is_new_the_other_way_round(before: RunFacts, after: RunFacts) -> None:
    forwards = [each.change for each in compare(before, after).findings]
    backwards = [each.change for each in compare(after, before).findings]
    lost = forwards.count(Change.FIXED) + forwards.count(Change.GONE)
    assert lost == backwards.count(Change.NEW)


def matched(before: list[FrameKey], after: list[FrameKey]) -> list[tuple[object, object]]:
    pairs = match_frames([function(each) for each in before], [function(each) for each in after])
    return [(old and old.frame, new and new.frame) for old, new in pairs]


def test_a_function_whose_lines_moved_is_the_same() -> None:
    assert matched([frame(line=10)], [frame(line=99)]) == [(frame(line=10), frame(line=99))]


def test_a_file_that_moved_is_the_same_when_its_name_is() -> None:
    moved = frame(file="/home/user/project/nets/model.py")
    assert matched([frame()], [moved]) == [(frame(), moved)]


def test_of_two_files_of_one_name_the_folder_decides() -> None:
    here = [frame(file="/ci/a/net.py"), frame(file="/ci/b/net.py")]
    there = [frame(file="/home/b/net.py"), frame(file="/home/a/net.py")]
    assert matched(here, there) == [(here[0], there[1]), (here[1], there[0])]


def test_lambdas_are_matched_in_the_order_in_which_they_stand() -> None:
    """The second of the first run has the line of the first one in the second run."""
    old = [frame("<lambda>", line=10), frame("<lambda>", line=20)]
    new = [frame("<lambda>", line=20), frame("<lambda>", line=30)]
    assert matched(old, new) == list(zip(old, new, strict=True))


def test_where_one_lambda_was_added_the_lines_decide() -> None:
    old = [frame("<lambda>", line=20)]
    new = [frame("<lambda>", line=10), frame("<lambda>", line=20)]
    assert matched(old, new) == [(old[0], new[1]), (None, new[0])]


def test_a_file_that_was_renamed_is_the_same_by_its_functions() -> None:
    new = frame(file="/home/user/project/fixed.py")
    assert matched([frame()], [new]) == [(frame(), new)]


def test_a_function_that_moved_between_files_that_stay_is_another_one() -> None:
    old = [frame("f", "/p/a.py"), frame("g", "/p/a.py")]
    new = [frame("f", "/p/a.py"), frame("g", "/p/b.py")]
    assert matched(old, new) == [(old[0], new[0]), (old[1], None), (None, new[1])]


def test_another_function_is_not_the_same() -> None:
    assert matched([frame("f")], [frame("g")]) == [(frame("f"), None), (None, frame("g"))]


def changes(before: Finding, after: Finding | None) -> list[Change]:
    found = () if after is None else (after,)
    difference = compare(
        runs.run(before, frames=[function()]), runs.run(*found, frames=[function()])
    )
    return [each.change for each in difference.findings]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (cause(recompiles=(1, 2)), None, [Change.FIXED]),
        (cause(recompiles=(1, 2)), cause(recompiles=(1,)), [Change.IMPROVED]),
        (cause(recompiles=(1, 2)), cause(recompiles=(3, 4)), [Change.UNCHANGED]),
        (cause(recompiles=(1,)), cause(recompiles=(1, 2)), [Change.WORSE]),
        (cause(dim=0), cause(dim=1), [Change.FIXED, Change.NEW]),
        (cause(), cause("rank-change"), [Change.FIXED, Change.NEW]),
        (cause(), cause(of=frame(line=80)), [Change.UNCHANGED]),
        (cause(), cause(disposition=Disposition.ONE_OFF), [Change.IMPROVED]),
        (cause(disposition=Disposition.EXPECTED), cause(), [Change.WORSE]),
        (graph_break("a(x)"), graph_break("b(x)"), [Change.FIXED, Change.NEW]),
    ],
)
def test_what_became_of_a_cause(
    before: Finding, after: Finding | None, expected: list[Change]
) -> None:
    assert changes(before, after) == expected


def test_a_cause_in_a_function_that_is_gone_is_not_fixed() -> None:
    difference = compare(runs.run(cause()), runs.run(cause(of=frame("other"))))
    assert [each.change for each in difference.findings] == [Change.GONE, Change.NEW]


def test_compile_times_compare_only_when_both_runs_were_cold() -> None:
    warm = runs.run(caches="as the user set them")
    unknown = runs.run(caches=None)
    assert compare(runs.run(), runs.run()).times_differ_because is None
    assert "cold" in str(compare(runs.run(), warm).times_differ_because)
    assert "not known" in str(compare(unknown, runs.run()).times_differ_because)


def test_different_torch_releases_are_said() -> None:
    notes = compare(runs.run(), runs.run(torch_version="2.15.0")).notes
    assert notes == ("the torch releases differ: 2.13.0 before, 2.15.0 after",)


def test_a_report_on_standard_input_is_read_as_a_log_is() -> None:
    log = (runs.SCENARIOS / "zero_one" / "dynamic.log.gz").read_bytes()
    assert run_facts(BytesIO(log)).totals.recompiles == 3


def test_unknown_counts_stay_unknown() -> None:
    text = run_facts(runs.SCENARIOS / "zero_one" / "dynamic.log.gz")
    assert text.totals.compile_seconds is None
