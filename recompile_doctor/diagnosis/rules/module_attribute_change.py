"""A Python attribute of an nn.Module changed between calls."""

from recompile_doctor.diagnosis.value_rule import ValueRule, is_module_attribute
from recompile_doctor.model.reason import ValueMismatch


class ModuleAttributeChange(ValueRule):
    """A Python attribute of an nn.Module changed between calls.

    ## What it finds

    A number or flag on a module (`self.calls`, `self.temperature`) that differs
    from the compiled one.

    ## Why it recompiles

    Torch takes plain attributes of a module for settings that stay, and compiles
    them as constants. A counter in `forward` then costs a compile in every call.
    Torch 2.6 and 2.7 made an int of a module a symbol after its first change; 2.8
    and later do not.

    ## Evidence

    ```
    self.calls == 2       # return x * (self.calls / 10)  # program.py:15 in
        forward (HINT: torch.compile considers integer attributes of the nn.Module
        to be static. If you are observing recompilation, you might want to make
        this integer dynamic using
        torch._dynamo.config.allow_unspec_int_on_nn_module = True, or convert this
        integer into a tensor.)
    ```

    The hint is there for ints, from 2.8 on.

    ## What to do

    - Ints: `TORCH_COMPILE_DYNAMIC_SOURCES="L['self'].calls"`: 3 recompiles -> 0
      (torch 2.8, 2.11, 2.13, 2.15).
    - Or make it a tensor, which also serves floats: 3 -> 0 (torch 2.8, 2.11,
      2.13, 2.15).

    ```python
    self.register_buffer("calls", torch.tensor(2))
    ```

    - Torch's own hint, `allow_unspec_int_on_nn_module = True`, leaves one: 3 -> 1
      (torch 2.8, 2.11, 2.13, 2.15).

    ## Example

    ```python
    for _ in range(4):
        compiled(x)
        warm_up.calls += 1  # a buffer: changed in place, no guard on the value
    ```

    ## When it is wrong

    A flag that is switched once, or `self.training` (train and evaluation have
    their own graphs), is no fault. Strings, bools and floats on a module are
    reached by no list.
    """

    id = "module-attribute-change"
    title = "an attribute of a module changed"
    why = (
        "torch compiles numbers and flags on a module as constants, also those that change "
        "with each call, such as counters"
    )

    def accepts(self, failure: ValueMismatch) -> bool:
        """Take the values of this kind."""
        return is_module_attribute(failure)
