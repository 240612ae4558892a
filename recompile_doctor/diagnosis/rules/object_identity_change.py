"""Another object (function, module, class) stood where torch guards on which one it is."""

from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import IdentityMismatch


class ObjectIdentityChange(PlainRule[IdentityMismatch]):
    """Another object (a function, a module, a class) stood in a guarded place.

    ## What it finds

    An argument, attribute or global that is not the same object as when the graph
    was made.

    ## Why it recompiles

    What a function or a class does is known only by which one it is, so torch
    guards on its identity.

    ## Evidence

    ```
    ___check_obj_id(activation, 140308983839568), type=<class
        'builtin_function_or_method'> # return activation(x * 2.0) + 1.0  #
        program.py:8 in layer
    ```

    ## What to do

    Make objects once and pass the same ones each time, or keep the object out of
    the compiled function.

    - Measured with the example: applying the activation outside gives 1 recompile
      -> 0, with one graph in place of two (torch 2.13, 2.15). Less is compiled
      then, and nothing is fused with it.
    - Not a cause any more: a new `lambda` of the same code, or a new
      `functools.partial` of the same function and constants, in every call does
      not recompile (measured: 0 recompiles in 3 calls (torch 2.13)). Torch guards
      on what is in them.

    ## Example

    ```python
    @torch.compile
    def scale(x):
        return x * 2.0


    def layer(x, activation):  # not compiled any more
        return activation(scale(x)) + 1.0
    ```

    ## When it is wrong

    Two activations are two graphs, and each is the better for it. It is a fault
    where objects are made in each call.
    """

    id = "object-identity-change"
    title = "another object was passed where torch guards on identity"
    failure_type = IdentityMismatch
    why = "torch cannot look into this object and so guards on which object it is"

    def message(self, failure: IdentityMismatch) -> str:
        """Return whose identity changed."""
        return f"{failure.source} is another object than the graph was compiled for"
