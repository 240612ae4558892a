"""A guard kept a weak reference to an object that died, and the cached graph with it."""

from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import DeadReference
from recompile_doctor.model.source import Applied


class ColdCacheEntry(PlainRule[DeadReference]):
    """A guard kept a weak reference to an object that died, and the cached graph with it."""

    id = "cold-cache-entry"
    title = "a cached graph died with an object that it was guarded on"
    failure_type = DeadReference
    why = (
        "torch remembers some objects and classes by weak reference; when one dies its graph "
        "is thrown away, and a call with a new one compiles again"
    )

    def place(self, failure: DeadReference) -> tuple[str | None, int | None]:
        """Return the source of the object, also where its class is what died."""
        source = failure.source
        if source is not None and isinstance(source.root, Applied) and not source.steps:
            source = source.parent()
        return (None if source is None else str(source)), None

    def message(self, failure: DeadReference) -> str:
        """Return what died, in torch's words."""
        return failure.detail
