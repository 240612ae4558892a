"""Torch had to decide an expression of an unbacked symbol (u0), which has no value."""

from recompile_doctor.diagnosis.break_rule import BreakRule
from recompile_doctor.diagnosis.breaks import BreakMeaning


class DataDependentGuard(BreakRule):
    """Torch had to decide an expression of an unbacked symbol (u0), whose value it does not "
    "have."""

    id = "data-dependent-guard"
    title = "torch cannot decide an expression that depends on data"
    meaning = BreakMeaning.GUARD
    why = (
        "the size or number comes from data or from an unbacked dimension; torch may not "
        "guard on it, and nothing in the program says which way it goes"
    )
