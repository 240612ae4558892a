"""The report on what `verify` measured."""

import io
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console

from recompile_doctor.events.vocabulary import MarkKind
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.prescription.marks import Flag, Mark, Prescription
from recompile_doctor.reports.verify_report import (
    print_verification,
    verification_json,
    verification_markdown,
)
from recompile_doctor.reports.verify_words import headline
from recompile_doctor.verification.facts import RunFacts
from recompile_doctor.verification.pace import Pace
from recompile_doctor.verification.refine import without_promises
from recompile_doctor.verification.trial_run import Ending, Verification
from recompile_doctor.verification.verdict import Judgement, Verdict
from tests.reports import gates, verifications
from tests.reports.verifications import ALL, baseline, before, trial, verification
from tests.verification import runs
from tests.verification.runs import cause, graph_break, limit_hit

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = json.loads((DOCS / "verify.schema.json").read_text("utf-8"))


def shown(of: Verification, width: int = 80, *, encoding: str = "utf-8") -> str:
    """Return the report as it is written to a pipe."""
    stream = io.BytesIO()
    file = io.TextIOWrapper(stream, encoding=encoding, newline="\n")
    console = Console(file=file, width=width, highlight=False)
    print_verification(of, verifications.rendering(of), console, base=gates.PROJECT)
    file.flush()
    return stream.getvalue().decode(encoding)


def one_trial(facts: RunFacts, of: RunFacts | None = None, **changes: object) -> Verification:
    """Return a verify with one trial, kept when it is a proof."""
    base = baseline(of)
    only = trial(1, verifications.strongest(), facts, base, **changes)  # type: ignore[arg-type]
    return verification(base, only, best=only if only.is_proof else None)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("width", [80, 200])
def test_terminal(name: str, width: int, check_golden: Callable[[str, str], None]) -> None:
    check_golden(f"verify_{name}.{width}.txt", shown(ALL[name](), width))


@pytest.mark.parametrize("name", ALL)
def test_markdown(name: str, check_golden: Callable[[str, str], None]) -> None:
    of = ALL[name]()
    check_golden(f"verify_{name}.md", verification_markdown(of, verifications.rendering(of)))


@pytest.mark.parametrize("name", ALL)
def test_json(name: str, check_golden: Callable[[str, str], None]) -> None:
    """The JSON keeps its schema, and is the same as it was."""
    of = ALL[name]()
    text = verification_json(of, verifications.rendering(of))
    jsonschema.validate(json.loads(text), SCHEMA)
    check_golden(f"verify_{name}.json", re.sub(r'("tool_version": ")[^"]*', r"\1X", text))


@pytest.mark.parametrize("name", ALL)
def test_only_lines_to_paste_are_wider_than_the_terminal(name: str) -> None:
    wide = [line for line in shown(ALL[name]()).splitlines() if len(line) > 80]
    pasted = ("   export ", "      torch.", "   recompile-doctor ")
    assert all(line.startswith(pasted) for line in wide)


@pytest.mark.parametrize("name", ALL)
def test_nothing_from_outside_acts_on_the_terminal(name: str) -> None:
    assert all(each.isprintable() for each in shown(ALL[name]()).splitlines())


def test_a_plain_terminal_gets_what_it_can_show() -> None:
    """What else comes from the program is escaped."""
    of = replace(verifications.fixed(), notes=("gr\u00f6\u00dfe",))
    assert r"note: gr\xf6\xdfe" in shown(of, encoding="ascii")


def test_no_name_makes_a_line_of_code() -> None:
    """A line end in the name of a function would make code of what follows in the comment."""
    of = verifications.hostile()
    text = verification_markdown(of, verifications.rendering(of))
    assert not [each for each in text.splitlines() if each.startswith("::error")]


def test_a_prescription_has_the_same_schema_as_in_suggest() -> None:
    """What reads the one reads the other."""
    suggest = json.loads((DOCS / "suggest.schema.json").read_text("utf-8"))
    for name in ("prescription", "mark"):
        assert SCHEMA["$defs"][name] == suggest["$defs"][name]
    assert set(suggest["required"]) <= set(SCHEMA["required"])


def test_the_json_says_which_prescription_is_verified() -> None:
    """Only a trial that measured better has the status, and the best one stands on top."""
    of = verifications.fixed()
    report = json.loads(verification_json(of, verifications.rendering(of)))
    statuses = [each["prescription"]["status"] for each in report["trials"]]
    assert statuses == ["unverified", "verified", "unverified"]
    assert [each["id"] for each in report["prescriptions"]] == [report["best"]] == ["strongest+2"]
    assert report["trials"][0]["lessons"][0] == {
        "kind": "minimum",
        "places": [{"source": "L['x']", "dim": 0}, {"source": "L['n']", "dim": None}],
        "expression": "Eq(u0, 0)",
        "sentence": "Could not guard on data-dependent expression Eq(u0, 0)",
        "file": "/home/user/project/model.py",
        "line": 31,
    }


def test_the_json_of_a_failed_search_has_no_prescription() -> None:
    """So that no tool takes a refused one for a fix."""
    report = json.loads(verification_json(verifications.nothing(), None))
    assert (report["prescriptions"], report["best"], report["after"]) == ([], None, None)


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (
            one_trial(runs.run()),
            "Verified: 6 recompiles -> 0 with 5 marks (measured in 1 trial; outputs the same).",
        ),
        (
            one_trial(runs.run(), outputs=verifications.NOT_COMPARED),
            "Verified: 6 recompiles -> 0 with 5 marks (measured in 1 trial; outputs not compared).",
        ),
        (
            one_trial(runs.run(), outputs=verifications.CUT),
            "Verified: 6 recompiles -> 0 with 5 marks (measured in 1 trial; outputs unknown).",
        ),
        (
            one_trial(runs.run(cause(recompiles=(1,)), graphs=2), runs.run(graph_break())),
            "No prescription was verified: the trial measured worse.",
        ),
        (
            one_trial(
                runs.run(cause(recompiles=(1,))),
                runs.run(cause(recompiles=(1,)), graph_break(), limit_hit()),
            ),
            "Verified in part: 1 graph break -> 0, 1 recompile-limit hit -> 0 with 5 marks "
            "(measured in 1 trial; outputs the same).",
        ),
        (
            one_trial(before()),
            "No prescription was verified: the trial measured the same.",
        ),
        (
            verifications.nothing(),
            "No prescription was verified: every trial measured worse or the same, broke the "
            "program, changed the outputs or ran out of time.",
        ),
        (
            verifications.without_trials(),
            "No prescription was verified: there is nothing to try: no mark or setting can help.",
        ),
        (
            verification(baseline(runs.run())),
            "No prescription was verified: nothing recompiled, so there is nothing to try.",
        ),
        (
            verifications.varies(),
            "Verified: 4 to 6 recompiles -> 0 with 5 marks (measured in 1 trial; outputs unknown, "
            "the program varies).",
        ),
    ],
)
def test_the_first_line_says_what_was_shown(of: Verification, expected: str) -> None:
    assert headline(of) == expected
    assert " ".join(shown(of).split("\n\n")[0].split()) == expected


def test_a_function_that_is_compiled_again_is_the_gain() -> None:
    """No count fell, so that the reasons of the verdict say what is better."""
    of = one_trial(runs.run())
    best = replace(of.trials[0], judgement=Judgement(Verdict.IMPROVED, ("f is compiled",)))
    same = replace(of, baseline=baseline(runs.run()), trials=(best,), best=best)
    assert headline(same).startswith("Verified in part: f is compiled with 5 marks")


def test_what_was_measured_stands_before_the_variables_that_say_less() -> None:
    """Ties and bounds were measured as marks on arguments."""
    text = shown(verifications.fixed())
    alone = "Environment variables alone say less; no trial here measured that:"
    assert text.index("mark_unbacked(x, 0") < text.index(alone) < text.index("export ")
    assert text.index("not in the variables: which sizes are equal; bounds") > text.index(alone)


def with_plain_trial(facts: RunFacts) -> Verification:
    of = verifications.fixed()
    assert of.best is not None
    plain = replace(without_promises(of.best.prescription), id="plain")
    return replace(of, trials=(*of.trials, trial(4, plain, facts, of.baseline)))


def test_variables_that_a_trial_refused_are_not_printed() -> None:
    """The search tried them without the ties, and that was worse: nobody should paste them."""
    of = with_plain_trial(runs.run(cause(recompiles=range(1, 13)), graph_break()))
    text = shown(of)
    assert "Environment variables alone say less; trial 4 refused that.\n" in text
    assert "export" not in text
    assert "export" not in verification_markdown(of, verifications.rendering(of))


def test_variables_that_a_trial_measured_say_what_it_measured() -> None:
    """They may be enough for some."""
    of = with_plain_trial(runs.run(cause(recompiles=(1,))))
    assert "Environment variables alone say less; trial 4 measured 1 recompile:\n" in shown(of)


def test_what_variables_say_whole_stands_first() -> None:
    """They were what the trial set."""
    text = shown(verifications.improved())
    variables = text.index("As environment variables:")
    assert variables < text.index("Or as calls in the program:")
    assert "no call reaches: L['n']" in text


def test_settings_alone_need_no_patch() -> None:
    """`suggest --format patch` writes marks only."""
    flag = Flag("torch._dynamo.config.recompile_limit", 64)
    base = baseline()
    only = trial(1, Prescription("flags", "a higher limit", flags=(flag,)), runs.run(), base)
    text = shown(verification(base, only, best=only))
    assert "And at the start of the program:\n   torch._dynamo.config.recompile_limit = 64" in text
    assert "--format patch" not in text
    assert "with 1 setting (" in text


def test_the_command_can_be_pasted() -> None:
    """Its words are quoted for a shell."""
    lines = [each.strip() for each in shown(verifications.fixed()).splitlines()]
    (line,) = [each for each in lines if each.startswith("recompile-doctor run")]
    assert tuple(shlex.split(line)[5:]) == verifications.COMMAND


def test_a_trial_that_was_ended_counts_only_so_far() -> None:
    """It might have recompiled more often."""
    of = one_trial(
        before(7), ending=Ending.STOPPED_EARLY, stopped_because="ended early with 7 recompiles"
    )
    assert "at least 7 recompiles" in shown(of)
    report = json.loads(verification_json(of, None))
    assert report["trials"][0]["ending"] == "stopped-early"


def test_the_exit_code_of_a_run_that_we_ended_is_not_the_program_s() -> None:
    """It is that of our signal."""
    of = one_trial(
        before(7, exit_code=143), ending=Ending.TIMED_OUT, stopped_because="timed out after 9 s"
    )
    assert "exit code 143" not in shown(of)
    assert "exit code 143" in shown(one_trial(before(7, exit_code=143)))


@pytest.mark.parametrize(("calls", "says"), [(9, True), (10, False)])
def test_the_times_of_few_calls_are_not_made_much_of(calls: int, says: bool) -> None:
    text = " ".join(shown(one_trial(runs.run(), pace=Pace(0.01, 0.011, calls))).split())
    assert (
        f"mean of {calls} calls of the same sizes that compiled nothing; so few" in text
    ) is says


def test_a_trial_of_an_earlier_verify_is_told() -> None:
    assert "(from before)" in shown(one_trial(runs.run(), reused=True))
    assert "(from before)" not in shown(one_trial(runs.run()))


def test_no_number_is_made_up() -> None:
    """A time that was not measured is unknown or a dash, never zero."""
    facts = runs.run(seconds=None, graphs=None)
    of = one_trial(facts, before(seconds=None, exit_code=None))
    rows = {line[:20].strip(): line[20:].split() for line in shown(of).splitlines()[3:11]}
    assert rows["compile time"] == ["unknown", "unknown"]
    assert rows["time of a call"] == ["-", "-"]
    assert rows["exit code"][0] == "unknown"
    assert rows["graphs captured"][1] == "unknown"


def test_a_mark_that_only_a_list_reaches_stands_beside_the_calls() -> None:
    """The calls alone are less than what was measured."""
    frame = FrameKey("forward", "/home/user/project/model.py", 10)
    marks = (
        Mark("L['x']", 0, MarkKind.UNBACKED, minimum=1, frame=frame),
        Mark("L['n']", None, MarkKind.DYNAMIC, frame=frame),
    )
    base = baseline()
    only = trial(1, Prescription("strongest", "title", marks), runs.run(), base)
    text = shown(verification(base, only, best=only))
    assert (
        "With these variables beside the calls:\n"
        """   export TORCH_COMPILE_DYNAMIC_SOURCES="L['n']"\n"""
    ) in text


def test_a_long_report_fits_into_a_comment() -> None:
    """GitHub takes 65,536 characters; the trials come last and are what is left out."""
    of = verifications.fixed()
    many = tuple(replace(of.trials[0], number=n, reason="r" * 300) for n in range(300))
    text = verification_markdown(replace(of, trials=many), verifications.rendering(of))
    assert len(text) < 65_536
    assert text.endswith("**The report is cut here: GitHub takes no longer one.**\n")
    assert "mark_unbacked(x, 0" in text
