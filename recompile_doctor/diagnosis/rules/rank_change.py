"""A tensor had another number of dimensions."""

from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import RankMismatch


class RankChange(PlainRule[RankMismatch]):
    """A tensor had another number of dimensions.

    ## What it finds

    An argument that comes with two dimensions in one call and with three in
    another.

    ## Why it recompiles

    The number of dimensions decides what every operation does, so it is part of
    the graph. No mark and no list makes it vary.

    ## Evidence

    ```
    tensor 'image' rank mismatch. expected 2, actual 3
    ```

    ## What to do

    Bring the tensor to one number of dimensions before the call, and mark the
    dimension that varies from then on:

    - `image.reshape(-1, image.shape[-1])` and `mark_dynamic(image, 0)`: 1
      recompile -> 0 (torch 2.8, 2.11, 2.13, 2.15).
    - The reshape alone: 1 -> 1, since the number of rows now varies (torch 2.13,
      2.15).
    - Adding a dimension of 1 (`image[None]`) is no cure: 1 -> 1, since a size of
      1 has a graph of its own (torch 2.13, 2.15) (see zero-one-specialization).

    ## Example

    ```python
    for shape in ((6, 8), (4, 6, 8), (6, 8), (4, 6, 8)):
        image = torch.ones(shape).cumsum(dim=-1).clone()
        image = image.reshape(-1, image.shape[-1])  # the cure
        torch._dynamo.mark_dynamic(image, 0)
        sharpness(image)
    ```

    ## When it is wrong

    A function that is meant for single items and for batches gets one graph for
    each. That is two, and not a growing number: leave it if you can afford two
    compiles.
    """

    id = "rank-change"
    title = "a tensor's number of dimensions changed"
    failure_type = RankMismatch
    why = "the number of dimensions is part of the graph: each one needs a graph of its own"

    def message(self, failure: RankMismatch) -> str:
        """Return the two numbers of dimensions."""
        return f"{failure.source} had {failure.expected} dimensions and then {failure.actual}"

    def values(self, failure: RankMismatch) -> tuple[str, ...]:
        """Return the two numbers of dimensions."""
        return (str(failure.expected), str(failure.actual))
