"""A string, bool, None or enum changed."""

from recompile_doctor.diagnosis.value_rule import ValueRule, is_module_attribute
from recompile_doctor.model.expression import FloatLiteral, IntLiteral
from recompile_doctor.model.reason import ValueMismatch


class ConstantValueChange(ValueRule):
    """A string, bool, None or enum changed.

    ## What it finds

    An argument or member that is neither a tensor nor a number, with another
    value than the compiled one.

    ## Why it recompiles

    Such a value decides what the program does next, so it is a constant of the
    graph. Nothing makes it dynamic.

    ## Evidence

    ```
    how == 'sum'                      # if how == "sum":  # program.py:8 in reduce
    ```

    ## What to do

    Count the values. A handful (a mode, a flag) is a handful of graphs, and
    right. Where there are many, keep the value out of the compiled function, or
    hand in only what the function needs of it:

    - The part that does not depend on it compiled alone, the choice made outside:
      2 recompiles -> 0, with one graph in place of three (torch 2.13, 2.15). Less
      is compiled then.
    - A label of which only the beginning counts, replaced by a bool: see
      recompile-limit-hit.

    ## Example

    ```python
    def reduce(losses, how):  # not compiled any more
        losses = weigh(losses)  # compiled
        if how == "sum":
            return losses.sum()
        ...
    ```

    ## When it is wrong

    `training=True` and `False`, three reductions, two norms: each is a graph that
    the program needs. The finding is worth attention when the values are names,
    paths, or the text of a request.
    """

    id = "constant-value-change"
    title = "a constant (str, bool, None, enum) changed"
    why = "such a value decides what the program does, so each one has a graph of its own"

    def accepts(self, failure: ValueMismatch) -> bool:
        """Take the values of this kind."""
        is_number = isinstance(failure.expected, IntLiteral | FloatLiteral)
        return not is_number and not is_module_attribute(failure)
