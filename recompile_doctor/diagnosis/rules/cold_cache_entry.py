"""A guard kept a weak reference to an object that died, and the cached graph with it."""

from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import DeadReference
from recompile_doctor.model.source import Applied


class ColdCacheEntry(PlainRule[DeadReference]):
    """An object that a guard refers to died, and the cached graph with it.

    ## What it finds

    Cached graphs that torch threw away because an object, or its class, is gone.

    ## Why it recompiles

    Torch remembers some objects and classes by a weak reference. When one is
    collected, the graph that was guarded on it can never fit again and is
    dropped. A call with a new one compiles again.

    ## Evidence

    ```
    Cache line invalidated because type(L['policy']) got deallocated
    ```

    ## What to do

    Keep what torch guards on alive: define classes at the top of a module, not in
    a function; make modules and policies once.

    - Measured with the example: the class defined once, 2 recompiles -> 0 (torch
      2.8, 2.11, 2.13, 2.15).

    ## Example

    ```python
    class Policy:  # before: inside serve()
        pass


    def serve(signal):
        return attenuate(signal, Policy()).sum().item()
    ```

    ## When it is wrong

    A model that was replaced by a new one is compiled once for the new one; that
    is no fault.
    """

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
        """Return what died, by torch's name of it."""
        return f"{failure.detail} died, and with it the graph that was guarded on it"
