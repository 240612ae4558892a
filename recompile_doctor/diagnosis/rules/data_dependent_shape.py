"""An operation's output shape depends on data (nonzero, masks, unique, repeat_interleave)."""

from recompile_doctor.diagnosis.break_rule import BreakRule
from recompile_doctor.diagnosis.breaks import BreakMeaning


class DataDependentShape(BreakRule):
    """An operation's output shape depends on data (nonzero, masks, unique, repeat_interleave)."""

    id = "data-dependent-shape"
    title = "an operation's output shape depends on data"
    meaning = BreakMeaning.SHAPE
    why = (
        "the number of elements is only known when the tensor has been computed, so torch "
        "ends the graph before the operation"
    )
