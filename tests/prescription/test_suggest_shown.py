"""``suggest`` after ``verify``: what was measured comes first, what was refused is left out."""

import json
from dataclasses import replace
from functools import cache
from io import StringIO
from pathlib import Path

from rich.console import Console

from recompile_doctor.events.vocabulary import MarkKind
from recompile_doctor.pipeline import Examined, examine, suggest
from recompile_doctor.prescription.marks import Mark, Prescription, Status
from recompile_doctor.prescription.prescription_file import content_of, trial_of
from recompile_doctor.prescription.verified import Shown, ShownInBundle
from recompile_doctor.reports.suggest_report import (
    SuggestDocument,
    print_suggestions,
    suggestions_json,
)

LOGS = Path(__file__).parents[2] / "fixtures" / "case-logs"


@cache
def case(name: str) -> Examined:
    return examine(LOGS / name)


def plain(name: str) -> SuggestDocument:
    return suggest(case(name))


def shown(document: SuggestDocument, number: int, *, proof: bool = True) -> Shown:
    """Return a run of a suggested prescription."""
    prescription = document.renderings[number].prescription
    trial = trial_of(prescription, document.features, document.sources)
    verdict = "fixed" if proof else "worse"
    return Shown(
        prescription, content_of(trial), proof, verdict, "same", 6, 0, "" if proof else "it"
    )


def text(document: SuggestDocument) -> str:
    out = StringIO()
    print_suggestions(document, Console(file=out, width=100, no_color=True, highlight=False))
    return out.getvalue()


def test_the_verified_prescription_is_measured_and_first() -> None:
    before = plain("51_attention_block")
    proof = shown(before, 2)
    name = proof.prescription.id
    after = suggest(case("51_attention_block"), shown=ShownInBundle("2.13.0", name, (proof,)))
    first = after.renderings[0].prescription
    assert first.id == name
    assert first.status is Status.VERIFIED
    assert "recompiles 6 -> 0, measured, verified, outputs the same" in text(after)
    assert "the verified first" in text(after)
    assert "Nothing of this is verified" not in text(after)


def test_what_was_refused_is_left_out_with_the_reason() -> None:
    before = plain("51_attention_block")
    refused = shown(before, 0, proof=False)
    after = suggest(case("51_attention_block"), shown=ShownInBundle("2.13.0", None, (refused,)))
    names = [each.prescription.id for each in after.renderings]
    assert refused.prescription.id not in names
    assert "strongest: worse: it" in text(after)
    found = json.loads(suggestions_json(after))
    assert [each["id"] for each in found["refused"]] == ["strongest"]


def test_advice_stays_when_all_else_was_refused() -> None:
    name = "20_item_branch"
    before = plain(name)
    assert [each.prescription.id for each in before.renderings] == ["code"]
    name = "21_detection_variable_boxes"
    before = plain(name)
    runs = tuple(shown(before, number, proof=False) for number in range(len(before.renderings)))
    after = suggest(case(name), shown=ShownInBundle("2.13.0", None, runs))
    assert [each.prescription.id for each in after.renderings] == ["code"]
    assert after.advice
    assert "reruns refused what could be suggested" in text(after)


def test_a_refused_patch_is_not_offered() -> None:
    before = plain("51_attention_block")
    proof = shown(before, 0)
    patch = replace(proof, proof=False, verdict="worse", why="more graph breaks")
    name = proof.prescription.id
    kept = ShownInBundle("2.13.0", name, (proof,), (patch,))
    after = suggest(case("51_attention_block"), shown=kept)
    assert "Its patch was refused (worse: more graph breaks)" in " ".join(text(after).split())
    assert "git apply" not in text(after)


def test_variables_that_were_measured_do_not_speak_for_the_patch() -> None:
    before = plain("24_unbacked_hits_user_branch")
    proof = shown(before, 0)
    kept = ShownInBundle("2.13.0", proof.prescription.id, (proof,))
    after = suggest(case("24_unbacked_hits_user_branch"), shown=kept)
    assert "`verify --patch` measures the patch" in text(after)


def test_functions_that_ask_for_different_kinds_are_not_said_in_a_list() -> None:
    """A list knows no functions: one of the two would get the other's kind."""
    document = plain("24_unbacked_hits_user_branch")
    (mark,) = document.renderings[0].prescription.marks
    assert mark.frame is not None
    other = replace(mark.frame, function="other")
    both = Prescription(
        "both", "", (mark, Mark(mark.source, mark.dim, MarkKind.UNBACKED, frame=other))
    )
    trial = trial_of(both, document.features)
    assert len(trial.marks) == 2
    assert not trial.environment
    one = trial_of(replace(both, marks=(mark,)), document.features)
    assert not one.marks
