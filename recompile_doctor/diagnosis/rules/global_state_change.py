"""Grad mode, autocast, the default dtype or other global state changed between calls."""

from recompile_doctor.diagnosis.finding import Disposition
from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import GlobalStateMismatch


class GlobalStateChange(PlainRule[GlobalStateMismatch]):
    """Grad mode, autocast, the default dtype or another global state changed.

    ## What it finds

    A call under another global state than the compiled one: grad mode, inference
    mode, autocast, default dtype or device, deterministic algorithms, number of
    threads.

    ## Why it recompiles

    The graph depends on it: with gradients there is a backward graph, with
    autocast other dtypes.

    ## Evidence

    ```
    GLOBAL_STATE changed: grad_mode
    GLOBAL_STATE changed: grad_mode default_dtype
    ```

    Torch names all that differ from an entry, not only what changed last.

    ## What to do

    Mostly nothing: training and validation are two graphs, and counted apart as
    expected. Look whether state changes by accident: a thread count or a default
    dtype that a library sets, a `no_grad` in one caller only. Set such things
    once, before the first compiled call.

    - Measured with the example: without the change of the default dtype 2
      recompiles -> 1 (torch 2.13, 2.15); the one that stays is training and
      validation.

    ## Example

    ```python
    torch.set_default_dtype(torch.float64)  # once at the start, or not at all
    ```

    ## When it is wrong

    It is hardly ever wrong, and hardly ever a fault. The number of graphs is that
    of the states in use.
    """

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
