"""An int argument, member or stack value changed."""

from recompile_doctor.diagnosis.attribution import Cause
from recompile_doctor.diagnosis.value_rule import NumberRule, is_float, is_module_attribute
from recompile_doctor.model.expression import IntLiteral
from recompile_doctor.model.reason import ShapeGuardFailure, ValueMismatch
from recompile_doctor.model.source import Source


class IntValueChange(NumberRule):
    """An int argument, member or stack value changed.

    ## What it finds

    An int that torch compiled as a constant, or a guard on an int that the
    program's control flow made.

    ## Why it recompiles

    An int argument is a constant of the first graph. After its first change torch
    makes it a symbol, like a size, unless the program needs the number: a loop
    over `range(n)`, an index into a list, a comparison. Then each value keeps its
    own graph. 0 and 1 are compiled apart.

    ## Evidence

    ```
    steps == 2                        # for _ in range(steps):  # program.py:11 in
        refine
    steps == 5  # for _ in range(steps):  # program.py:11 in refine (... in
        evaluate_expr)
    ```

    The second form is that of a symbol that the program pinned.

    ## What to do

    - An int that only takes part in arithmetic:
      `TORCH_COMPILE_DYNAMIC_SOURCES="L['steps']"` (2.7 and later). It is then no
      constant from the first call on, and 0 and 1 are not apart either: `guess *
      steps` with 2, 5, 1, 3, 0 went from 1 recompile to 0 (torch 2.13, 2.15).
    - An int that drives a loop: move the loop out of the compiled function: 2 ->
      0 (torch 2.8, 2.11, 2.13, 2.15). The list does not help there: 2 -> 2 (torch
      2.13, 2.15).

    ## Example

    ```python
    # before: def refine(guess, steps), compiled, with the loop in it
    # after: one step is compiled
    def refine(guess, steps):
        for _ in range(steps):
            guess = refine_once(guess)
        return guess
    ```

    ## When it is wrong

    An int of two or three values (a mode, a number of heads) is a constant that
    helps the compiler. A loop that is compiled as a whole may run faster than one
    that is compiled step by step: measure it.
    """

    id = "int-value-change"
    title = "an int that torch compiled as a constant changed"
    why = (
        "torch compiles an int as a constant first; an argument becomes a symbol after it "
        "changed once, an attribute does not"
    )

    branch = "the program branches on the int, or loops over it; the graph holds one way"

    def accepts(self, failure: ValueMismatch) -> bool:
        """Take the values of this kind."""
        return isinstance(failure.expected, IntLiteral) and not is_module_attribute(failure)

    def is_kind(self, source: Source, failure: ShapeGuardFailure, cause: Cause) -> bool:
        """Return whether the symbol stands for an int."""
        return not is_float(source, failure, cause)
