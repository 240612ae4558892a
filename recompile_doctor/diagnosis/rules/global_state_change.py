"""Grad mode, autocast, the default dtype or other global state changed between calls."""

from recompile_doctor.diagnosis.finding import Disposition
from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import GlobalStateMismatch


class GlobalStateChange(PlainRule[GlobalStateMismatch]):
    """Grad mode, autocast, the default dtype or other global state changed between calls."""

    id = "global-state-change"
    title = "global state changed (grad mode, autocast, ...)"
    failure_type = GlobalStateMismatch
    why = (
        "the graph depends on this state, so training and evaluation, with and without "
        "autocast, have graphs of their own"
    )
    standing = Disposition.EXPECTED

    def message(self, failure: GlobalStateMismatch) -> str:
        """Return which state changed."""
        changed = ", ".join(failure.fields) or "global state"
        return f"{changed} changed between calls"

    def place(self, failure: GlobalStateMismatch) -> tuple[str | None, int | None]:
        """Return the state as the source, so that each kind of state is one finding."""
        return "GLOBAL_STATE", None

    def values(self, failure: GlobalStateMismatch) -> tuple[str, ...]:
        """Return the names of what changed."""
        return failure.fields
