"""The report on two runs."""

import json
from collections.abc import Callable
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from recompile_doctor.diagnosis.finding import Disposition
from recompile_doctor.reports.diff_report import diff_json, diff_markdown, headline, print_diff
from recompile_doctor.verification.diff import Change, Difference, compare
from recompile_doctor.verification.facts import COLD, RunFacts
from recompile_doctor.verification.verdict import judge
from tests.reports import gates
from tests.verification import runs
from tests.verification.runs import cause, frame, function, graph_break, limit_hit


def fixed() -> tuple[RunFacts, RunFacts]:
    before = runs.run(
        cause(recompiles=range(1, 7)),
        frames=[function(recompiles=6, graphs=7), function(frame("loss"))],
        seconds=97.0,
    )
    left = cause("unmarked-dynamic-dim", disposition=Disposition.ONE_OFF)
    after = runs.run(left, frames=[function(recompiles=1), function(frame("loss"))], seconds=23.0)
    return before, after


def worse() -> tuple[RunFacts, RunFacts]:
    before = runs.run(cause(recompiles=(1, 2)), seconds=None)
    other = frame("step", "/home/user/project/train.py", 4)
    after = runs.run(
        graph_break(),
        limit_hit(of=other),
        cause("int-value-change", range(1, 9), of=other, source="L['n']", dim=None, frame_id=1),
        seconds=None,
        torch_version="2.15.0",
    )
    return before, after


def gone() -> tuple[RunFacts, RunFacts]:
    before, _ = fixed()
    return replace(before, caches="as the user set them"), replace(
        runs.run(frames=[function(graphs=0)]), exit_code=3, caches=COLD
    )


def hostile() -> tuple[RunFacts, RunFacts]:
    found = replace(cause(), source=gates.HOSTILE, title=gates.HOSTILE)
    return runs.run(), replace(runs.run(found), subject=gates.HOSTILE)


ALL = {"fixed": fixed, "worse": worse, "gone": gone, "hostile": hostile}


def difference(name: str) -> Difference:
    return compare(*ALL[name]())


def shown(diff: Difference, width: int) -> str:
    text = StringIO()
    console = Console(file=text, width=width, no_color=True, highlight=False)
    print_diff(diff, judge(diff), console, base=gates.PROJECT)
    return text.getvalue()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("width", [80, 200])
def test_terminal(name: str, width: int, check_golden: Callable[[str, str], None]) -> None:
    check_golden(f"diff_{name}.{width}.txt", shown(difference(name), width))


@pytest.mark.parametrize("name", ALL)
def test_no_line_is_wider_than_the_terminal(name: str) -> None:
    assert all(len(line) <= 80 for line in shown(difference(name), 80).splitlines())


@pytest.mark.parametrize("name", ALL)
def test_markdown(name: str, check_golden: Callable[[str, str], None]) -> None:
    diff = difference(name)
    check_golden(f"diff_{name}.md", diff_markdown(diff, judge(diff)))


@pytest.mark.parametrize("name", ALL)
def test_json(name: str, check_golden: Callable[[str, str], None]) -> None:
    diff = difference(name)
    text = diff_json(diff, judge(diff))
    report = json.loads(text)
    assert report["format_version"] == 1
    words = {each.value for each in Change}
    assert {each["change"] for each in (*report["frames"], *report["findings"])} <= words
    check_golden(f"diff_{name}.json", text)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (
            runs.run(cause(recompiles=range(1, 7)), seconds=97.0),
            runs.run(seconds=23.0),
            "recompiles 6 -> 0, compile time 97.0 s -> 23.0 s",
        ),
        (
            runs.run(cause(), seconds=None),
            runs.run(seconds=2.0),
            "recompiles 1 -> 0, compile time unknown -> 2.0 s",
        ),
        (
            runs.run(caches=None),
            runs.run(graph_break()),
            "recompiles 0 -> 0, compile time 2.0 s -> 2.0 s (not comparable), graph breaks 0 -> 1",
        ),
        (
            runs.run(limit_hit(), seconds=None),
            runs.run(frames=[function(graphs=0)], seconds=None),
            "recompiles 0 -> 0, compile time unknown -> unknown, recompile-limit hits 1 -> 0, "
            "graphs captured 1 -> 0",
        ),
    ],
)
def test_the_first_line_says_what_changed(before: RunFacts, after: RunFacts, expected: str) -> None:
    assert headline(compare(before, after)) == expected
    assert shown(compare(before, after), 200).splitlines()[0].startswith(expected[:60])
