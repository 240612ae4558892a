"""A dict came with other keys, or a set with other members."""

from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import KeysMismatch


class ContainerKeysChange(PlainRule[KeysMismatch]):
    """A dict came with other keys, or a set with other members."""

    id = "container-keys-change"
    title = "a dict had other keys"
    failure_type = KeysMismatch
    why = "torch looks the keys up while tracing: they are part of the graph"

    def message(self, failure: KeysMismatch) -> str:
        """Return what torch says of the keys."""
        return f"the keys of {failure.source} are not those that the graph is for"
