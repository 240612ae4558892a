"""The same function was compiled with another backend object."""

from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.model.reason import BackendMismatch


class BackendChange(PlainRule[BackendMismatch]):
    """The same function was compiled with another backend object."""

    id = "backend-change"
    title = "the function is compiled with several backend objects"
    failure_type = BackendMismatch
    why = (
        "a cached graph belongs to the backend that made it; a backend made anew for each "
        "call never finds it"
    )

    def message(self, failure: BackendMismatch) -> str:
        """Return the two backends in torch's words."""
        if failure.cached is None or failure.new is None:
            return "the graph was compiled by another backend object than this call asks for"
        return f"the graph was compiled by {failure.cached}, this call asks for {failure.new}"
