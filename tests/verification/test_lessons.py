"""What a failed trial teaches: read from stored logs of real runs under marks that fail."""

from pathlib import Path

import pytest

from recompile_doctor.events.stream import read_events
from recompile_doctor.model.build import build_run
from recompile_doctor.model.expression import iter_symbols, parse_expression
from recompile_doctor.model.run import Run
from recompile_doctor.pipeline import examine
from recompile_doctor.prescription.observed import Place, observe
from recompile_doctor.verification.lessons import (
    Lesson,
    LessonKind,
    assumptions_of,
    is_contradicted,
    lessons_of,
    what_answers,
)

LOGS = Path(__file__).parents[2] / "fixtures" / "verify-logs"


def run_of(case: str) -> Run:
    return build_run(read_events([LOGS / case]))


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ("Eq(u1, 0)", LessonKind.MINIMUM),
        ("Ne(u0*u1, 0)", LessonKind.MINIMUM),
        ("Eq(96*u0*u1, 0)", LessonKind.MINIMUM),
        ("Eq(u0, u3)", LessonKind.TIE),
        ("Ne(u0, u3)", LessonKind.TIE),
        ("u0 <= u1", LessonKind.TIE),
        ("Eq(u0//u1, 1)", LessonKind.TIE_AND_MINIMUM),
        ("Eq(u0, 1)", LessonKind.UNDECIDED),
        ("u0 < 4", LessonKind.UNDECIDED),
        ("Ne(PythonMod(-u0, 8), 0)", LessonKind.UNDECIDED),
        ("Eq(u0, 2*u1)", LessonKind.TIE_AND_MINIMUM),
        ("no expression at all (", LessonKind.UNDECIDED),
    ],
)
def test_what_answers_an_expression_is_found_by_trying_sizes(
    expression: str, answer: LessonKind
) -> None:
    """A bound answers what is the same for all sizes from 1 on, a tie what is for equal ones."""
    parsed = parse_expression(expression)
    names = tuple(dict.fromkeys(each.name for each in iter_symbols(parsed)))
    assert what_answers(parsed, names) is answer


def test_an_attention_that_compares_two_lengths_asks_for_a_tie() -> None:
    lessons = lessons_of(run_of("51_unbacked_list"))
    assert lessons[0].kind is LessonKind.TIE
    assert set(lessons[0].places) == {Place("L['mask']", 2), Place("L['x']", 1)}
    assert lessons[0].expression == "Eq(u3, u1)"
    assert lessons[0].sentence.startswith("Could not guard on data-dependent expression Eq(u3, u1)")
    line = lessons[0].line
    assert line is not None
    assert line.code is not None
    assert "scaled_dot_product_attention" in line.code


def test_a_batch_norm_branches_on_the_size_in_a_line_of_torch() -> None:
    lessons = lessons_of(run_of("12_train_eval_toggle"))
    assert {each.kind for each in lessons} >= {LessonKind.UNDECIDED}
    first = lessons[0]
    assert (first.places, first.expression) == ((Place("L['args'][0]", 0),), "Eq(u0, 1)")
    assert first.line is not None
    assert first.line.file.endswith("nn/modules/batchnorm.py")


def test_each_branch_of_the_program_is_a_lesson_of_its_own() -> None:
    lessons = lessons_of(run_of("24_unbacked_hits_user_branch"))
    assert [(each.kind, each.expression) for each in lessons] == [
        (LessonKind.MINIMUM, "Eq(u0, 0)"),
        (LessonKind.UNDECIDED, "u0 < 4"),
    ]
    assert lessons[1].frame is not None
    assert lessons[1].frame.function == "torch_dynamo_resume_in_pool_at_7"


def test_a_crash_at_a_remainder_is_undecided() -> None:
    lessons = lessons_of(run_of("25_pad_to_multiple"))
    assert [(each.kind, each.places) for each in lessons] == [
        (LessonKind.UNDECIDED, (Place("L['x']", 0),))
    ]


def test_a_guard_that_fails_at_once_names_the_dimensions_that_broadcast() -> None:
    lessons = lessons_of(run_of("27_attention_mask_len_one"))
    own = [each for each in lessons if each.kind is LessonKind.OWN_GUARD]
    assert own
    assert set(own[0].places) == {Place("L['keep']", 0), Place("L['x']", 0)}


def test_the_end_of_the_output_tells_what_no_record_does() -> None:
    text = (
        "AssertionError: Guard failed on the same frame it was created. This is a bug - please "
        "create an issue.Guard fail reason: 0/1: tensor 'keep' size mismatch at index 0. "
        "expected 1, actual 4\n"
    )
    lessons = lessons_of(run_of("24_unbacked_hits_user_branch"), text)
    assert lessons[-1].kind is LessonKind.OWN_GUARD
    assert lessons[-1].places == (Place("L['keep']", 0),)


def test_a_size_that_came_from_data_belongs_to_no_input() -> None:
    lessons = lessons_of(run_of("22_tolist_split_repeat_interleave"))
    assert lessons[0].places == ()
    assert lessons[0].kind is LessonKind.UNDECIDED


def test_a_runtime_assertion_names_the_promise_that_did_not_hold() -> None:
    text = "RuntimeError: Runtime assertion failed for expression Eq(u1, u3) on node 'eq_1'\n"
    lessons = lessons_of(run_of("51_unbacked_list"), text)
    assert lessons[-1].kind is LessonKind.ASSERTION
    assert lessons[-1].expression == "Eq(u1, u3)"


def test_assumptions_are_those_on_inputs_each_once() -> None:
    assumed = assumptions_of(run_of("51_unbacked_list"))
    assert all(each.kind is LessonKind.ASSUMED and each.places for each in assumed)
    keys = [(each.places, each.expression) for each in assumed]
    assert len(keys) == len(set(keys))
    assert ((Place("L['x']", 0),), "Eq(u0, 1)") in keys


def test_an_assumption_is_contradicted_by_a_call_for_which_it_is_not_so() -> None:
    """The block is called with a batch of 1 and of 0, and never with a length of 0."""
    frames = observe(examine(LOGS.parent / "case-logs" / "51_attention_block").diagnosis.run)
    broken = {
        (each.places, each.expression)
        for each in assumptions_of(run_of("51_unbacked_list"))
        if is_contradicted(each, frames)
    }
    assert ((Place("L['x']", 0),), "Eq(u0, 1)") in broken
    assert ((Place("L['x']", 0),), "Eq(u0, 0)") in broken
    assert ((Place("L['x']", 1),), "Eq(u1, 1)") in broken
    # No length is 0, so that to assume it is right.
    never = Lesson(LessonKind.ASSUMED, (Place("L['x']", 1),), None, "Eq(u1, 0)", "", None, False)
    assert not is_contradicted(never, frames)
