"""A dict came with other keys, or a set with other members."""

from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import KeysMismatch


class ContainerKeysChange(PlainRule[KeysMismatch]):
    """A dict came with other keys, or a set with other members.

    ## What it finds

    A dict argument or member whose keys, or the order of its keys, are not the
    compiled ones; a set with other members.

    ## Why it recompiles

    Torch looks keys up while tracing, so which ones there are, and in which
    order, is part of the graph.

    ## Evidence

    ```
    list(dict.keys(features))[1] == 'height'   # for value in features.values():
        # program.py:9 in total
    ```

    ## What to do

    Always pass the same keys in the same order, with zeros (or another neutral
    value) for what a batch does not have; or, where names do not matter, pass the
    values alone.

    - Measured with the example: 1 recompile -> 0 with a fixed set of keys, and
      with a tuple of the values (torch 2.13, 2.15).

    ## Example

    ```python
    features = {name: torch.zeros(4) for name in all_names}  # the cure
    features |= {name: torch.full((4,), 2.0) for name in names}
    total(features)
    ```

    ## When it is wrong

    Two or three kinds of batch are two or three graphs. Keys that are ids of
    users or requests have no bound: those must not reach a compiled function.
    """

    id = "container-keys-change"
    title = "a dict had other keys"
    failure_type = KeysMismatch
    why = "torch looks the keys up while tracing: they are part of the graph"

    def message(self, failure: KeysMismatch) -> str:
        """Return what torch says of the keys."""
        return f"the keys of {failure.source} are not those that the graph is for"
