"""The graph breaks for a reason that is not data."""

from recompile_doctor.diagnosis.break_rule import BreakRule
from recompile_doctor.diagnosis.breaks import BreakMeaning


class GraphBreak(BreakRule):
    """The graph breaks for a reason that is not data."""

    id = "graph-break"
    title = "the graph breaks"
    meaning = BreakMeaning.OTHER
    why = (
        "torch does not trace this construct; it runs the code before it as one graph, the "
        "construct eagerly, and goes on in a resume function"
    )
