"""The next candidate after a trial: what the stored logs of failed trials ask for."""

from dataclasses import replace
from functools import cache
from pathlib import Path

from recompile_doctor.diagnosis.diagnose import Diagnosis
from recompile_doctor.events.vocabulary import MarkKind
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.pipeline import examine
from recompile_doctor.prescription.marks import Flag, Mark, Prescription
from recompile_doctor.prescription.observed import ObservedFrame, Place, observe
from recompile_doctor.prescription.suggest import suggest
from recompile_doctor.torch_compat import features_of
from recompile_doctor.verification.lessons import Lesson, LessonKind, lessons_of
from recompile_doctor.verification.refine import (
    Candidate,
    merged,
    refined,
    spared,
    without,
    without_promises,
)

FIXTURES = Path(__file__).parents[2] / "fixtures"
TORCH = features_of("2.13")


@cache
def frames_of(case: str) -> tuple[ObservedFrame, ...]:
    """Return the calls of a case as it is."""
    return observe(examine(FIXTURES / "case-logs" / case).diagnosis.run)


@cache
def failed(case: str) -> Diagnosis:
    return examine(FIXTURES / "verify-logs" / case).diagnosis


def unbacked(frame: ObservedFrame, *places: tuple[str, int]) -> Prescription:
    marks = tuple(Mark(name, dim, MarkKind.UNBACKED, frame=frame.key) for name, dim in places)
    return Prescription("naive", "all unbacked", marks)


def kinds(candidate: Candidate | None) -> dict[str, str]:
    assert candidate is not None
    return {
        f"{mark.source}:{mark.dim}": " ".join(
            str(each)
            for each in (mark.kind.value, mark.shape_group, mark.minimum)
            if each is not None
        )
        for mark in candidate.prescription.marks
    }


ATTENTION = (("L['x']", 0), ("L['x']", 1), ("L['mask']", 0), ("L['mask']", 2), ("L['mask']", 3))


def test_sizes_that_torch_compares_are_tied_where_all_calls_had_them_equal() -> None:
    frames = frames_of("51_attention_block")
    prescription = unbacked(frames[0], *ATTENTION)
    lessons = lessons_of(failed("51_unbacked_list").run)
    candidate = refined(prescription, lessons, frames, TORCH)
    found = kinds(candidate)
    assert found["L['x']:1"] == found["L['mask']:2"]
    assert found["L['x']:1"].startswith("unbacked ")
    assert candidate is not None
    assert "tie " in candidate.reason
    assert "Eq(u3, u1) at case.py:23" in candidate.reason


def test_a_bound_answers_whether_a_size_is_zero_for_its_whole_group() -> None:
    frames = frames_of("51_attention_block")
    prescription = unbacked(frames[0], *ATTENTION)
    grouped = replace(
        prescription,
        marks=tuple(
            replace(mark, shape_group="b" if mark.dim == 0 else "t") for mark in prescription.marks
        ),
    )
    asked = Lesson(LessonKind.MINIMUM, (Place("L['x']", 1),), frames[0].key, "Eq(u1, 0)", "")
    found = kinds(refined(grouped, [asked], frames, TORCH))
    assert found == {
        "L['x']:0": "unbacked b",
        "L['x']:1": "unbacked t 1",
        "L['mask']:0": "unbacked b",
        "L['mask']:2": "unbacked t 1",
        "L['mask']:3": "unbacked t 1",
    }


def test_no_bound_is_promised_where_a_call_had_zero() -> None:
    frames = frames_of("51_attention_block")
    prescription = unbacked(frames[0], *ATTENTION)
    asked = Lesson(LessonKind.MINIMUM, (Place("L['x']", 0),), frames[0].key, "Eq(u0, 0)", "")
    candidate = refined(prescription, [asked], frames, TORCH)
    found = kinds(candidate)
    assert found["L['x']:0"] == found["L['mask']:0"] == "dynamic"
    assert found["L['x']:1"] == "unbacked"
    assert candidate is not None
    assert "size 0 occurs" in candidate.reason


def test_an_older_torch_gets_no_bound_and_no_group() -> None:
    frames = frames_of("51_attention_block")
    prescription = unbacked(frames[0], *ATTENTION)
    lessons = lessons_of(failed("51_unbacked_list").run)
    found = kinds(refined(prescription, lessons, frames, features_of("2.8")))
    assert found["L['x']:1"] == found["L['mask']:2"] == found["L['mask']:3"] == "dynamic"


def test_what_the_program_branches_on_becomes_dynamic() -> None:
    frames = frames_of("24_unbacked_hits_user_branch")
    prescription = unbacked(frames[0], ("L['x']", 0))
    lessons = lessons_of(failed("24_unbacked_hits_user_branch").run)
    assert kinds(refined(prescription, lessons, frames, TORCH)) == {"L['x']:0": "dynamic"}


def test_a_crash_at_a_remainder_leaves_the_size_dynamic() -> None:
    frames = frames_of("25_pad_to_multiple")
    prescription = unbacked(frames[0], ("L['x']", 0))
    lessons = lessons_of(failed("25_pad_to_multiple").run)
    assert kinds(refined(prescription, lessons, frames, TORCH)) == {"L['x']:0": "dynamic"}


def test_a_dimension_that_is_one_to_broadcast_loses_its_mark() -> None:
    frames = frames_of("27_attention_mask_len_one")
    places = [(name, dim) for name in ("L['x']", "L['ctx']", "L['keep']") for dim in (0, 1)]
    prescription = unbacked(frames[0], *places)
    lessons = lessons_of(failed("27_attention_mask_len_one").run)
    own = [each for each in lessons if each.kind is LessonKind.OWN_GUARD]
    candidate = refined(prescription, own, frames, TORCH)
    found = kinds(candidate)
    assert "L['keep']:0" not in found
    assert found["L['x']:0"] == "unbacked"


def test_a_promise_that_did_not_hold_is_taken_back() -> None:
    frames = frames_of("51_attention_block")
    prescription = unbacked(frames[0], *ATTENTION)
    promised = replace(
        prescription,
        marks=tuple(replace(mark, shape_group="t", minimum=1) for mark in prescription.marks),
    )
    said = Lesson(LessonKind.ASSERTION, (Place("L['mask']", 3),), frames[0].key, "Eq(u1, u4)", "")
    found = kinds(refined(promised, [said], frames, TORCH))
    assert found["L['mask']:3"] == "unbacked"
    assert found["L['x']:1"] == "unbacked t 1"


def test_a_lesson_that_is_about_no_mark_changes_nothing() -> None:
    frames = frames_of("51_attention_block")
    prescription = unbacked(frames[0], *ATTENTION)
    other = Lesson(LessonKind.UNDECIDED, (), frames[0].key, "Ne(u9, 0)", "")
    assert refined(prescription, [other], frames, TORCH) is None
    assert refined(prescription, [], frames, TORCH) is None


def test_a_tie_that_did_not_help_is_not_tied_again() -> None:
    frames = frames_of("51_attention_block")
    prescription = unbacked(frames[0], *ATTENTION)
    lessons = lessons_of(failed("51_unbacked_list").run)
    once = refined(prescription, lessons, frames, TORCH)
    assert once is not None
    twice = refined(once.prescription, lessons, frames, TORCH)
    assert twice is not None
    assert twice.prescription != once.prescription
    assert kinds(twice)["L['x']:1"] == "dynamic"


def test_marks_of_another_prescription_are_added_and_win() -> None:
    one = FrameKey("f", "/home/user/f.py", 1)
    first = Prescription("a", "", (Mark("L['x']", 0, MarkKind.DYNAMIC, frame=one),))
    second = Prescription(
        "b",
        "",
        (
            Mark("L['x']", 0, MarkKind.UNBACKED, frame=one),
            Mark("L['y']", 1, MarkKind.DYNAMIC, frame=one),
        ),
        (Flag("torch._dynamo.config.capture_scalar_outputs", True),),
    )
    both = merged(first, second)
    assert both.id == "a"
    assert both.marks == second.marks
    assert both.flags == second.flags


def test_a_group_of_one_is_no_group() -> None:
    marks = tuple(Mark("L['x']", dim, MarkKind.UNBACKED, shape_group="t") for dim in (0, 1))
    left = without(Prescription("a", "", marks), [marks[0]])
    assert left.marks == (Mark("L['x']", 1, MarkKind.UNBACKED),)


def test_without_promises_only_kinds_are_left() -> None:
    mark = Mark("L['x']", 0, MarkKind.UNBACKED, "t", minimum=1, maximum=8, hint=4)
    plain = without_promises(Prescription("a", "", (mark,)))
    assert plain.marks == (Mark("L['x']", 0, MarkKind.UNBACKED),)


F, G = FrameKey("f", "/home/user/m.py", 1), FrameKey("g", "/home/user/m.py", 9)
TWO = Prescription(
    "two",
    "",
    (
        Mark("L['x']", 0, MarkKind.UNBACKED, minimum=1, frame=F),
        Mark("L['y']", 0, MarkKind.UNBACKED, frame=G),
    ),
)


def test_the_function_that_got_worse_gets_weaker_marks_and_then_none() -> None:
    first = spared(TWO, [FrameKey("f", "/home/user/m.py", 3)])
    assert kinds(first) == {"L['x']:0": "dynamic", "L['y']:0": "unbacked"}
    assert first is not None
    assert first.reason == "only dynamic in f, which got worse"
    second = spared(first.prescription, [F])
    assert kinds(second) == {"L['y']:0": "unbacked"}
    assert second is not None
    assert spared(second.prescription, [F]) is None
    third = spared(second.prescription, [G])
    assert third is not None
    assert spared(third.prescription, [G]) is None


def test_nobody_to_blame_leaves_nothing_to_try() -> None:
    assert spared(TWO, []) is None


def test_title_and_risks_follow_the_marks() -> None:
    """What promises nothing any more has no risk of a promise, and no title that names one."""
    frames = frames_of("51_attention_block")
    diagnosis = examine(FIXTURES / "case-logs" / "51_attention_block").diagnosis
    strongest = suggest(diagnosis, TORCH)[0]
    assert any(risk.startswith("sizes in one group") for risk in strongest.risks)
    plain = without_promises(strongest)
    assert plain.title == "unbacked dimensions"
    assert [risk.split()[0:3] for risk in plain.risks] == [["an", "unbacked", "size"]]
    lessons = lessons_of(failed("51_unbacked_list").run)
    tied = refined(plain, lessons, frames, TORCH)
    assert tied is not None
    assert tied.prescription.title == "unbacked dimensions, equal sizes tied together"
    assert any(risk.startswith("sizes in one group") for risk in tied.prescription.risks)
