"""The estimate of recompiles left, against what was measured of real programs."""

from functools import cache
from pathlib import Path

import pytest

from recompile_doctor.diagnosis.diagnose import Diagnosis
from recompile_doctor.events.vocabulary import MarkKind
from recompile_doctor.pipeline import examine
from recompile_doctor.prescription.marks import Mark
from recompile_doctor.prescription.observed import observe
from recompile_doctor.prescription.replay import estimated_recompiles

LOGS = Path(__file__).parents[2] / "fixtures" / "case-logs"
CASES = sorted(path.name for path in LOGS.iterdir())


@cache
def diagnosis_of(case: str) -> Diagnosis:
    folder = next(path for path in LOGS.iterdir() if path.name.startswith(case))
    return examine(folder).diagnosis


@pytest.mark.parametrize("case", CASES)
def test_without_marks_the_replay_gives_the_baseline(case: str) -> None:
    """Every recompile of the log is one in the replay too.

    In 43 three threads race, and torch compiled one call at the same time as another: the call
    that met the limit would have been served in an orderly run.
    """
    run = diagnosis_of(case).run
    difference = estimated_recompiles(observe(run), ()) - len(run.recompiles)
    assert difference == (1 if case.startswith("43") else 0)


def marks(kind: MarkKind, *places: str) -> tuple[Mark, ...]:
    made = []
    for place in places:
        source, separator, dim = place.rpartition(":")
        made.append(Mark(source if separator else place, int(dim) if separator else None, kind))
    return tuple(made)


U, D = MarkKind.UNBACKED, MarkKind.DYNAMIC
# Measured on torch 2.13 in real processes: truth.yaml of each case.
MEASURED = (
    ("01", marks(U, "L['inputs']:0", "L['labels']:0"), 1),
    ("01", marks(U, "L['inputs']:0"), 3),
    ("01", marks(D, "L['inputs']:0", "L['labels']:0"), 3),
    ("03", marks(U, "L['tokens']:0"), 0),
    ("03", marks(D, "L['tokens']:0"), 3),
    ("04", marks(U, "L['ids']['clicks']:0", "L['ids']['likes']:0", "L['ids']['shares']:0"), 0),
    ("05", marks(D, "L['queries']:0", "L['keys']:0", "L['bias']:0"), 0),
    ("09", marks(D, "L['self'].calls"), 0),
    ("12", marks(D, "L['args'][0]:0"), 3),
    ("19", marks(D, "L['img']:2", "L['img']:3"), 0),
    ("19", marks(D, "L['img']:2"), 6),
    ("24", marks(D, "L['x']:0"), 3),
    ("25", marks(D, "L['x']:0"), 2),
    ("28", marks(U, "L['___stack0']:0"), 0),
    ("30", marks(U, "L['x']:0"), 0),
    ("36", marks(U, "L['x']:0", "L['x']:2", "L['x']:3", "L['t']:0"), 0),
    ("36", marks(D, "L['x']:0", "L['x']:2", "L['x']:3", "L['t']:0"), 4),
    ("40", marks(U, "L['q']:0", "L['k']:0", "L['v']:0"), 3),
    ("45", marks(U, "L['ids']:0"), 0),
    ("50", marks(U, "L['x']:0"), 0),
    (
        "51",
        marks(D, "L['x']:0", "L['x']:1", "L['mask']:0", "L['mask']:2", "L['mask']:3"),
        4,
    ),
)


@pytest.mark.parametrize(("case", "given", "left"), MEASURED)
def test_the_estimate_is_what_was_measured(case: str, given: tuple[Mark, ...], left: int) -> None:
    """Marks that help, help less, or not at all."""
    diagnosis = diagnosis_of(case)
    assert estimated_recompiles(observe(diagnosis.run), given) == left
