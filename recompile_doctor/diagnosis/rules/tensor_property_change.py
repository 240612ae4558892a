"""A tensor came with another dtype, device, requires_grad, layout, class or dispatch keys."""

from recompile_doctor.diagnosis.finding import Disposition
from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import TensorPropertyMismatch


class TensorPropertyChange(PlainRule[TensorPropertyMismatch]):
    """A tensor came with another dtype, device, layout, class or need of gradients.

    ## What it finds

    An argument whose dtype, device, need of gradients, layout or class is not the
    compiled one.

    ## Why it recompiles

    Kernels, the type of the result, and whether there is a backward graph depend
    on these properties.

    ## Evidence

    ```
    tensor 'field' dtype mismatch. expected Float, actual Double
    tensor 'field' requires_grad mismatch. expected requires_grad=0
    ```

    ## What to do

    Such recompiles are mostly what the program asks for, and are counted apart as
    expected. Where they are an accident (a `numpy` array of doubles, a tensor
    left on another device, an input that wants gradients only because a test made
    it so), convert it before the call.

    - Measured with the example: one dtype for all calls takes 2 recompiles to 1,
      and `.detach()` in addition to 0 (torch 2.13, 2.15). Detached inputs get no
      gradients.

    ## Example

    ```python
    energy(field.to(torch.float32))  # one dtype
    energy(field.detach().to(torch.float32))  # and no gradients for the input
    ```

    ## When it is wrong

    Mixed precision, training and inference in one process, and tests over several
    dtypes need these graphs. It is a fault when the number of graphs keeps
    growing, which properties alone cannot do.
    """

    id = "tensor-property-change"
    title = "a property of a tensor changed (dtype, device, requires_grad, ...)"
    failure_type = TensorPropertyMismatch
    why = (
        "torch's kernels, and whether gradients are needed, depend on these properties, so "
        "each combination has a graph of its own"
    )
    standing = Disposition.EXPECTED

    def message(self, failure: TensorPropertyMismatch) -> str:
        """Return which property changed, and how."""
        change = "changed"
        if failure.expected is not None and failure.actual is not None:
            change = f"was {failure.expected} and then {failure.actual}"
        return f"the {failure.property.value} of {failure.source} {change}"

    def values(self, failure: TensorPropertyMismatch) -> tuple[str, ...]:
        """Return the old and the new property."""
        return tuple(each for each in (failure.expected, failure.actual) if each is not None)
