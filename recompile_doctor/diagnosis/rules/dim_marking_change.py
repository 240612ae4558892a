"""A tensor came with a dynamic or unbacked mark in some calls and without in others."""

from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import MarkingMismatch


class DimMarkingChange(PlainRule[MarkingMismatch]):
    """A tensor came with a dynamic or unbacked mark in some calls and without in others."""

    id = "dim-marking-change"
    title = "the same tensor is sometimes marked and sometimes not"
    failure_type = MarkingMismatch
    why = (
        "the marks on a tensor are guarded: a graph made without the mark does not serve a "
        "marked tensor"
    )

    def message(self, failure: MarkingMismatch) -> str:
        """Return what torch says of the mark."""
        return failure.detail
