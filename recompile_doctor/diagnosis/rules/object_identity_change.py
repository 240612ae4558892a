"""Another object (function, module, class) stood where torch guards on which one it is."""

from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import IdentityMismatch


class ObjectIdentityChange(PlainRule[IdentityMismatch]):
    """Another object (a function, a module, a class) stood where torch guards on which one "
    "it is."""

    id = "object-identity-change"
    title = "another object was passed where torch guards on identity"
    failure_type = IdentityMismatch
    why = "torch cannot look into this object and so guards on which object it is"

    def message(self, failure: IdentityMismatch) -> str:
        """Return whose identity changed."""
        return f"{failure.source} is another object than the graph was compiled for"
