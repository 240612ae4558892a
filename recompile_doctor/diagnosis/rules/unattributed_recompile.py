"""A recompile whose reason no rule explains, shown in torch's words."""

from recompile_doctor.diagnosis.attribution import Cause
from recompile_doctor.diagnosis.locate import call_location, definition
from recompile_doctor.diagnosis.rule import Claim, Examination, RecompileRule
from recompile_doctor.model.reason import GuardFailure

_UNKNOWN = "no rule knows this reason; it is shown in torch's words"
_EMPTY = (
    "every guard passed when torch looked for the reason; up to 2.9 it says no more, also when "
    "only the backend object differs"
)


class UnattributedRecompile(RecompileRule):
    """A recompile whose reason no other rule claims.

    ## What it finds

    Recompiles whose reason has a form that no rule knows, or none at all. They
    are shown in torch's own words and counted like others.

    ## Why it recompiles

    Unknown: that is what this finding says. Known kinds are failed look-ups (an
    attribute that is not there any more), guards that torch could not run, and up
    to 2.9 an empty reason when only the backend object differed.

    ## Evidence

    ```
    getattr failed on source settings
    ```

    ## What to do

    Read torch's words beside the frame, the sizes and the call. For an attribute
    that is only there at times, as in the example, always set it:

    - With a plain default the reason changes: 1 recompile stays, now for another
      float value (torch 2.13, 2.15) (see float-value-change). With tensors as
      values: 1 -> 0 (torch 2.8, 2.11, 2.13, 2.15).

    If a reason comes up often it deserves a rule: CONTRIBUTING.md tells how to
    add one.

    ## Example

    ```python
    Settings(gain=torch.tensor(1.5))  # before: Settings()
    ```

    ## When it is wrong

    It claims nothing, so it is wrong only in that a rule is missing.
    """

    id = "unattributed-recompile"
    title = "a recompile that no rule explains"

    def claim(self, failure: GuardFailure, cause: Cause, examination: Examination) -> Claim | None:
        """Claim the first failed guard of a recompile that nothing else has claimed."""
        if failure in cause.joint or failure is not cause.chosen.failures[0]:
            return None
        if cause.recompile.key in examination.explained:
            return None
        text = failure.text.strip()
        return Claim(
            source=None if failure.source is None else str(failure.source),
            dim=None,
            message=f"torch says: {text}" if text else "torch gives no reason for this recompile",
            why=_UNKNOWN if text else _EMPTY,
            location=call_location(cause.recompile) or definition(cause.recompile.frame),
        )
