"""A Python number is taken out of a tensor (.item(), int(), float(), tolist())."""

from recompile_doctor.diagnosis.break_rule import BreakRule
from recompile_doctor.diagnosis.breaks import BreakMeaning


class DataDependentScalar(BreakRule):
    """A Python number is taken out of a tensor (.item(), int(), float(), tolist())."""

    id = "data-dependent-scalar"
    title = "a Python number is taken out of a tensor"
    meaning = BreakMeaning.SCALAR
    why = (
        "the number is only known when the tensor has been computed, so torch ends the graph, "
        "computes, and goes on in a resume function"
    )
