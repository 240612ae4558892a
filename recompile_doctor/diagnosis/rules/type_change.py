"""A value had another type, or was None and then not."""

from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import TypeMismatch


class TypeChange(PlainRule[TypeMismatch]):
    """A value had another type, or was None and then not.

    ## What it finds

    An argument, member or local of another Python type than the compiled one.

    ## Why it recompiles

    What an operation does depends on the type, so each type has its own graph.

    ## Evidence

    ```
    ___check_type_id(sides, 140628413739840), type=<class 'list'> # return
        torch.cat([side.relu() for side in sides])  # program.py:8 in join (HINT:
        type list)
    ```

    ## What to do

    Convert before the call, so that the function always sees one type:

    - Measured with the example: `join(list(sides))`: 1 recompile -> 0 (torch
      2.13, 2.15).

    ## Example

    ```python
    for sides in ([left, right], (left, right), [left, right]):
        join(list(sides))  # the cure
    ```

    ## When it is wrong

    An argument that may be None asks for two graphs, and that is what it gets:
    nothing to do.
    """

    id = "type-change"
    title = "a value had another type"
    failure_type = TypeMismatch
    why = (
        "what the program does with a value depends on its type, so each type has a graph of "
        "its own"
    )

    def message(self, failure: TypeMismatch) -> str:
        """Return whose type changed."""
        return f"{failure.source} has another type than the graph was compiled for"
