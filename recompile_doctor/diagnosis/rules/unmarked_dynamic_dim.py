"""Sizes that change, compiled as constants at first."""

from recompile_doctor.diagnosis.attribution import Cause, parse_size, symbolic_dims
from recompile_doctor.diagnosis.finding import Disposition
from recompile_doctor.diagnosis.locate import call_location, definition, size_location
from recompile_doctor.diagnosis.rule import Claim, Examination, RecompileRule
from recompile_doctor.diagnosis.sizes import SizeMeaning, size_change
from recompile_doctor.model.reason import AttributeMissing, GuardFailure, SizeMismatch
from recompile_doctor.model.source import SizeSource, parse_source

_WHY = (
    "torch compiles the first size as a constant; when another one comes it compiles once more "
    "and treats the dimension as dynamic from then on, unless that is switched off"
)


class UnmarkedDynamicDim(RecompileRule):
    """A dimension varies between sizes of 2 and more, and is not marked dynamic."""

    id = "unmarked-dynamic-dim"
    title = "a dimension varies and is not marked dynamic"

    def claim(self, failure: GuardFailure, cause: Cause, examination: Examination) -> Claim | None:
        """Claim size mismatches between sizes of 2 and more, and those of a view's base."""
        if isinstance(failure, AttributeMissing):
            return self._view_base(failure, cause)
        if isinstance(failure, SizeMismatch) and failure.on_parameter:
            return None
        change = size_change(failure, cause, examination.run)
        if change is None or change.meaning is not SizeMeaning.CHANGED:
            return None
        source, dim = str(change.size.source), change.size.dim
        return Claim(
            source=source,
            dim=dim,
            message=f"dimension {dim} of {source} was compiled as {change.expected} "
            f"and then was {change.actual}",
            why=_WHY,
            values=(str(change.expected), str(change.actual)),
            location=size_location(source, dim, cause, examination.run),
            observed=change.observed,
        )

    def _view_base(self, failure: AttributeMissing, cause: Cause) -> Claim | None:
        """Claim the guard on the base of a view, which fails when a call passes no view."""
        if failure.attribute != "size" or cause.chosen.entry is None:
            return None
        leaves = (parse_size(each.source) for each in cause.chosen.entry.symbols)
        base = next((str(each.source) for each in leaves if each and _is_base(each)), None)
        if base is None:
            return None
        return Claim(
            source=base,
            dim=None,
            message=f"the graph was compiled for a view whose base is {base}; "
            "this call passed a tensor that is no view",
            why="a view's base has dimensions of its own that torch guards on when they vary",
            location=call_location(cause.recompile) or definition(cause.recompile.frame),
        )

    def disposition(self, claims: tuple[Claim, ...], causes: tuple[Cause, ...]) -> Disposition:
        """Call it a one-off when it happened once in each process and the dim is dynamic since."""
        processes = [cause.recompile.key.process for cause in causes]
        if len(processes) != len(set(processes)):
            return Disposition.FIXABLE
        lead = claims[0]
        if lead.source is None or lead.dim is None:
            return Disposition.FIXABLE
        size = SizeSource(parse_source(lead.source), lead.dim)
        settled = all(size in symbolic_dims(cause.recompile) for cause in causes)
        return Disposition.ONE_OFF if settled else Disposition.FIXABLE


def _is_base(size: SizeSource) -> bool:
    return str(size.source).endswith("._base")
