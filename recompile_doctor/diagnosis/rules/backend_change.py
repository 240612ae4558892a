"""The same function was compiled with another backend object."""

from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import BackendMismatch


class BackendChange(PlainRule[BackendMismatch]):
    """The same function was compiled with another backend object.

    ## What it finds

    A cached graph that fits but was made by another backend than the one that
    this call asks for.

    ## Why it recompiles

    A cached graph belongs to the backend that made it. Backends are compared as
    objects: one that is made anew for each call (a lambda, a closure, an
    instance) is another backend every time.

    ## Evidence

    ```
    BACKEND_MATCH failure: torch.compile detected different backend callables.
        Cached backend: _TorchCompileWrapper(compiler='eager', dynamic=None)
        (id=...). New backend: _TorchCompileWrapper(compiler='aot_eager',
        dynamic=None) (id=...). ...
    ```

    Torch 2.9 and earlier give no reason here; the recompile is then shown as
    unattributed.

    ## What to do

    Call `torch.compile` once, outside the loop, with one backend object, and keep
    the result.

    - Measured with the example: 1 recompile -> 0 (torch 2.8, 2.11, 2.13, 2.15).
    - A backend made by a function in each of 3 calls: 2 recompiles; the same
      backend defined once: 0 (torch 2.13, 2.15).

    ## Example

    ```python
    compiled = torch.compile(soft_clip, backend="eager")  # before: in the loop
    for _ in range(3):
        compiled(x)
    ```

    ## When it is wrong

    A program that compares backends on purpose, as the example does, needs one
    graph for each.
    """

    id = "backend-change"
    title = "the function is compiled with several backend objects"
    failure_type = BackendMismatch
    why = (
        "a cached graph belongs to the backend that made it; a backend made anew for each "
        "call never finds it"
    )

    def message(self, failure: BackendMismatch) -> str:
        """Return the two backends in torch's words."""
        if failure.cached is None or failure.new is None:
            return "the graph was compiled by another backend object than this call asks for"
        return f"the graph was compiled by {failure.cached}, this call asks for {failure.new}"
