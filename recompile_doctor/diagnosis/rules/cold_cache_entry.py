"""A guard kept a weak reference to an object that died, and the cached graph with it."""

from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import DeadReference


class ColdCacheEntry(PlainRule[DeadReference]):
    """A guard kept a weak reference to an object that died, and the cached graph with it."""

    id = "cold-cache-entry"
    title = "a cached graph died with an object that it was guarded on"
    failure_type = DeadReference
    why = (
        "torch remembers some objects and classes by weak reference; when one dies its graph "
        "is thrown away, and a call with a new one compiles again"
    )

    def message(self, failure: DeadReference) -> str:
        """Return what died, in torch's words."""
        return failure.detail
