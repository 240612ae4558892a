"""The form of an advice text."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AdviceText:
    """What to rewrite and why, and a program that shows the rewritten form.

    ``{subject}`` in the text stands for the source of the finding. ``example`` runs as it is and
    makes torch compile ``graphs`` graphs, which a test checks.
    """

    text: str
    example: str = ""
    graphs: int = 1
