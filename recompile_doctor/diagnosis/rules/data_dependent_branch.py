"""An if, while or assert needs the value of a tensor."""

from recompile_doctor.diagnosis.break_rule import BreakRule
from recompile_doctor.diagnosis.breaks import BreakMeaning


class DataDependentBranch(BreakRule):
    """An if, while or assert needs the value of a tensor."""

    id = "data-dependent-branch"
    title = "the program branches on the value of a tensor"
    meaning = BreakMeaning.BRANCH
    why = (
        "which way to go is only known when the tensor has been computed; torch traces one "
        "way only, so the graph ends here"
    )
