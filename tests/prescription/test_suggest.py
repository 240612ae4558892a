"""Which prescriptions the stored logs of real programs give."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from recompile_doctor.capture.calls import CalledFunction
from recompile_doctor.diagnosis.diagnose import Diagnosis, diagnose
from recompile_doctor.events.vocabulary import MarkKind
from recompile_doctor.pipeline import examine
from recompile_doctor.prescription.advice import ADVICE, BROADCAST
from recompile_doctor.prescription.marks import Mark, Prescription
from recompile_doctor.prescription.suggest import suggest
from recompile_doctor.torch_compat import features_of
from tests.diagnosis.handmade import Maker
from tests.prescription.called import Values, called

LOGS = Path(__file__).parents[2] / "fixtures" / "case-logs"
TORCH = features_of("2.13")


@cache
def diagnosis_of(case: str) -> Diagnosis:
    folder = next(path for path in LOGS.iterdir() if path.name.startswith(case))
    return examine(folder).diagnosis


def prescribed(case: str, torch: str = "2.13", *, bounds: bool = False) -> dict[str, Prescription]:
    found = suggest(diagnosis_of(case), features_of(torch), bounds=bounds)
    return {each.id: each for each in found}


def kinds(prescription: Prescription) -> dict[str, str]:
    return {short(mark): mark.kind.value for mark in prescription.marks}


def short(mark: Mark) -> str:
    return mark.source if mark.dim is None else f"{mark.source}:{mark.dim}"


# The first prescription, and how many recompiles it is said to leave.
FIRST = (
    ("01", "strongest", 1),
    ("03", "strongest", 0),
    ("04", "strongest", 0),
    ("05", "dynamic-only", 0),
    ("06", "strongest", 0),
    ("09", "dynamic-only", 0),
    ("12", "dynamic-only", 3),
    ("19", "dynamic-only", 0),
    ("20", "code", None),
    ("21", "flags", 0),
    ("23", "code", None),
    ("24", "dynamic-only", 3),
    ("27", "strongest", 3),
    ("28", "strongest", 0),
    ("30", "strongest", 0),
    ("36", "strongest", 0),
    ("39", "flags-and-marks", 0),
    ("42", "code", None),
    ("45", "strongest", 0),
    ("50", "strongest", 0),
    ("51", "strongest", 0),
)


@pytest.mark.parametrize(("case", "name", "left"), FIRST)
def test_the_most_plausible_prescription_stands_first(
    case: str, name: str, left: int | None
) -> None:
    """The order and the estimate for each case."""
    first = next(iter(prescribed(case).values()))
    assert (first.id, first.estimated_recompiles_after) == (name, left)


@pytest.mark.parametrize("case", ["07", "13", "40"])
def test_what_is_expected_or_happened_once_gets_no_prescription(case: str) -> None:
    """Grad mode, dtypes and aliasing are what the program is; a float became dynamic."""
    assert prescribed(case) == {}


def test_equal_sizes_are_tied_and_a_bound_is_promised_where_0_was_never_seen() -> None:
    """Case 51: an empty batch was seen, an empty sequence was not."""
    marks = {short(each): each for each in prescribed("51")["strongest"].marks}
    batch, length = marks["L['x']:0"], marks["L['x']:1"]
    assert (marks["L['mask']:0"].shape_group, batch.minimum) == (batch.shape_group, None)
    for name in ("L['mask']:2", "L['mask']:3"):
        assert (marks[name].shape_group, marks[name].minimum) == (length.shape_group, 1)
    assert length.shape_group != batch.shape_group
    assert {each.maximum for each in marks.values()} == {None}
    assert length.hint == 9


def test_bounds_are_promised_when_asked_for() -> None:
    """The largest size seen is a promise that a user has to want."""
    marks = {short(each): each for each in prescribed("51", bounds=True)["strongest"].marks}
    assert (marks["L['x']:1"].minimum, marks["L['x']:1"].maximum) == (1, 17)
    assert (marks["L['x']:0"].minimum, marks["L['x']:0"].maximum) == (None, 4)


@pytest.mark.parametrize(
    ("torch", "group", "bound", "hint"),
    [("2.9", False, False, False), ("2.10", False, False, True), ("2.11", True, False, True)],
)
def test_nothing_is_suggested_that_the_torch_lacks(
    torch: str, group: bool, bound: bool, hint: bool
) -> None:
    """Groups, bounds and hints came one release after the other."""
    marks = [mark for each in prescribed("51", torch).values() for mark in each.marks]
    assert any(each.shape_group is not None for each in marks) is group
    assert any(each.minimum is not None for each in marks) is bound
    assert any(each.hint is not None for each in marks) is hint


def test_all_dimensions_of_a_function_that_vary_are_marked_together() -> None:
    """Case 01: torch never names the labels, and marking the inputs alone changes nothing."""
    assert kinds(prescribed("01")["environment"]) == {
        "L['inputs']:0": "unbacked",
        "L['labels']:0": "unbacked",
    }


def test_a_dimension_that_broadcasts_gets_no_mark() -> None:
    """Case 27: unbacked it would end the program."""
    found = prescribed("27")
    assert "L['keep']:0" not in kinds(found["strongest"])
    assert "L['keep']:1" in kinds(found["strongest"])
    assert any("broadcast" in each.text for each in found["strongest"].advice)


@pytest.mark.parametrize("case", ["24", "25"])
def test_a_size_that_the_program_branches_on_stays_dynamic(case: str) -> None:
    """Unbacked, the branch would be a graph break or an error; an operation's check is none."""
    found = prescribed(case)
    assert "strongest" not in found
    assert set(kinds(found["dynamic-only"]).values()) == {"dynamic"}
    assert any("branched on" in risk for risk in found["dynamic-only"].risks)
    assert prescribed("36")["strongest"].marks


def test_ints_are_marked_by_their_own_name() -> None:
    """A counter of a module, and an int that is equal to an unbacked size."""
    assert kinds(prescribed("09")["dynamic-only"]) == {"L['self'].calls": "dynamic"}
    assert kinds(prescribed("39")["flags-and-marks"])["L['num_nodes']"] == "unbacked"


def test_a_parameter_is_marked_where_it_is_at_fault() -> None:
    """Case 06, with the int that only automatic dynamic named; not where modules share code."""
    assert "L['layer']._parameters['weight']:1" in kinds(prescribed("06")["strongest"])
    assert "L['layer'].in_features" in kinds(prescribed("06")["strongest"])
    assert not any("_parameters" in name for name in kinds(prescribed("39")["strongest"]))


def a_parameter_of(*widths: int) -> Diagnosis:
    maker = Maker()
    source = "L['layer']._parameters['weight']"
    for number, width in enumerate(widths):
        failed = (
            f"tensor 'layer._parameters['weight']' size mismatch at index 0. "
            f"expected {widths[number - 1]}, actual {width}. Guard failed on a parameter, consider "
            "using torch._dynamo.config.force_parameter_static_shapes = False to allow dynamism on "
            "parameters."
        )
        maker.compile(
            f"0/{number}",
            failed={f"0/{number - 1}": failed} if number else {},
            sizes={source: (width,), "L['x']": (width,)},
        )
    return diagnose(maker.run())


@pytest.mark.parametrize(
    ("widths", "kind"), [((4, 7, 9), MarkKind.DYNAMIC), ((4, 1, 7), MarkKind.UNBACKED)]
)
def test_a_parameter_is_unbacked_only_where_it_is_0_or_1(
    widths: tuple[int, ...], kind: MarkKind
) -> None:
    """Unbacked it needs both lists, and settings without a variable on 2.15."""
    diagnosis = a_parameter_of(*widths)
    for torch in ("2.13", "2.15"):
        first = suggest(diagnosis, features_of(torch))[0]
        marks = {mark.source: mark.kind for mark in first.marks}
        assert marks["L['layer']._parameters['weight']"] is kind
        needed = torch == "2.15" and kind is MarkKind.UNBACKED
        assert len(first.flags) == (2 if needed else 0)


def test_captured_breaks_take_their_resume_functions_with_them() -> None:
    """Case 39: without the breaks only the outer function is left to mark."""
    marks = prescribed("39")["flags-and-marks"].marks
    assert {each.frame.function for each in marks if each.frame} == {"forward"}
    assert {each.frame.line for each in marks if each.frame} == {23}
    assert prescribed("39")["flags"].estimated_recompiles_after == 5


def test_findings_are_explained_by_their_ids() -> None:
    """Every id is that of a finding, and none is expected."""
    for case in ("01", "21", "39", "51"):
        ids = {each.id for each in diagnosis_of(case).findings}
        for each in prescribed(case).values():
            assert set(each.explains) <= ids
            assert each.explains or each.id == "code"
            assert not any("global-state" in name for name in each.explains)


def test_a_lone_warm_up_is_nothing_to_do() -> None:
    """A recompile that happened once and will not grow asks for no mark."""
    maker = Maker()
    maker.compile("0/0", sizes={"L['x']": (8,)})
    maker.compile(
        "0/1",
        failed={"0/0": "tensor 'x' size mismatch at index 0. expected 8, actual 16"},
        sizes={"L['x']": (16,)},
        symbols={"L['x'].size()[0]": 16},
    )
    assert suggest(diagnose(maker.run()), TORCH) == ()


def test_an_empty_run_is_nothing_to_do() -> None:
    """No compile, no prescription."""
    assert suggest(diagnose(Maker().run()), TORCH) == ()


def test_no_prescription_has_marks_that_change_nothing() -> None:
    """Every kind of mark is one of the three, and none stands twice for one function."""
    for folder in LOGS.iterdir():
        for each in suggest(diagnosis_of(folder.name), TORCH):
            keys = [(mark.source, mark.dim, mark.frame) for mark in each.marks]
            assert len(keys) == len(set(keys))
            assert all(isinstance(mark.kind, MarkKind) for mark in each.marks)


EXAMPLES = {name: text for name, text in {**ADVICE, "broadcast": BROADCAST}.items() if text.example}
RUN_EXAMPLES = """
import json, sys
import torch, torch._dynamo
made = {}
for name, example in json.load(sys.stdin).items():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch._dynamo.config.capture_scalar_outputs = False
    path = f"{sys.argv[1]}/{name}.py"
    open(path, "w").write(example)
    exec(compile(example, path, "exec"), {"__name__": name})
    made[name] = torch._dynamo.utils.counters["stats"]["unique_graphs"]
print(json.dumps(made))
"""


@pytest.mark.torch
def test_the_examples_run_and_compile_as_often_as_they_say(tmp_path: Path) -> None:
    """Each example is a program, and shows the cure."""
    done = subprocess.run(
        [sys.executable, "-c", RUN_EXAMPLES, str(tmp_path)],
        input=json.dumps({name: text.example for name, text in EXAMPLES.items()}),
        capture_output=True,
        text=True,
        check=True,
    )
    made = json.loads(done.stdout.splitlines()[-1])
    assert made == {name: text.graphs for name, text in EXAMPLES.items()}


def test_what_a_captured_break_hid_is_marked_on_the_function_itself() -> None:
    """A size that only the code after .item() looks at still varies once the break is captured."""
    folder = LOGS.parent / "prescription-logs" / "item_then_slice"
    first, *others = suggest(examine(folder).diagnosis, TORCH)
    assert (first.id, first.estimated_recompiles_after) == ("flags-and-marks", 0)
    assert [short(mark) for mark in first.marks] == ["L['x']:0"]
    alone = next(each for each in others if each.id == "flags")
    assert alone.estimated_recompiles_after == 2


# With the calls that the probe saw

ATTENTION = ((4, 16), (4, 17), (2, 9), (1, 9), (1, 1), (3, 1), (0, 5), (8, 32), (1, 30))
BLOCK = "/home/user/cases/51_attention_block/case.py"


def attention(*more: Values) -> CalledFunction:
    """Return the nine calls of the program, of which seven compiled, and more."""
    rows = [{"L['x']": (b, t, 32), "L['mask']": (b, 1, t, t)} for b, t in ATTENTION]
    return called("forward", *((each, 1) for each in (*rows, *more)), file=BLOCK, line=20)


def marks_of_attention(*more: Values, bounds: bool = False) -> dict[str, Mark]:
    found = suggest(
        diagnosis_of("51"), features_of("2.13"), bounds=bounds, called=[attention(*more)]
    )
    strongest = next(each for each in found if each.id == "strongest")
    return {short(mark): mark for mark in strongest.marks}


def test_groups_that_all_calls_keep_are_kept() -> None:
    """The same marks as from the log alone; the risk says how many calls stand behind them."""
    alone = {short(mark): mark for mark in prescribed("51")["strongest"].marks}
    assert {each: mark.shape_group for each, mark in marks_of_attention().items()} == {
        each: mark.shape_group for each, mark in alone.items()
    }
    found = suggest(diagnosis_of("51"), features_of("2.13"), called=[attention()])
    assert any("equal in all 9 calls that were observed" in risk for risk in found[0].risks)
    assert any(
        "every call that the log has" in risk for risk in prescribed("51")["strongest"].risks
    )


def test_a_served_call_takes_a_mark_out_of_its_group() -> None:
    """A mask of one row broadcasts over the length; only that dimension leaves the group."""
    marks = marks_of_attention({"L['x']": (6, 20, 32), "L['mask']": (6, 1, 7, 20)})
    assert marks["L['mask']:2"].shape_group is None
    assert marks["L['x']:1"].shape_group == marks["L['mask']:3"].shape_group == "x_1"
    assert marks["L['x']:0"].shape_group == marks["L['mask']:0"].shape_group == "x_0"


def test_bounds_and_hints_come_from_all_calls() -> None:
    """Lengths 32 and 30 were served by a graph that was there; the log does not have them."""
    assert prescribed("51", bounds=True)["strongest"].marks[1].maximum == 17
    served = {"L['x']": (2, 30, 32), "L['mask']": (2, 1, 30, 30)}
    marks = marks_of_attention(served, served, bounds=True)
    assert (marks["L['x']:1"].minimum, marks["L['x']:1"].maximum) == (1, 32)
    assert marks["L['x']:0"].maximum == 8
    assert marks["L['x']:1"].hint == 30


def test_a_size_0_that_was_only_served_forbids_to_promise_1() -> None:
    """The log has 1 and no 0 for the lengths."""
    assert marks_of_attention()["L['x']:1"].minimum == 1
    marks = marks_of_attention({"L['x']": (2, 0, 32), "L['mask']": (2, 1, 0, 0)})
    assert marks["L['x']:1"].minimum is None


def test_calls_that_entries_served_change_no_estimate() -> None:
    """The replay is of what torch compiled."""
    alone = {each.id: each.estimated_recompiles_after for each in prescribed("51").values()}
    more = suggest(diagnosis_of("51"), features_of("2.13"), called=[attention()])
    assert {each.id: each.estimated_recompiles_after for each in more} == alone
