"""Rules about Python values that torch compiles as constants."""

from abc import abstractmethod
from typing import ClassVar

from recompile_doctor.diagnosis.attribution import Cause
from recompile_doctor.diagnosis.finding import Disposition
from recompile_doctor.diagnosis.locate import guard_location
from recompile_doctor.diagnosis.plain_rule import PlainRule
from recompile_doctor.diagnosis.rule import Claim, Examination
from recompile_doctor.model.expression import (
    Expression,
    FloatLiteral,
    children,
    expression_text,
)
from recompile_doctor.model.reason import (
    GuardFailure,
    OtherConstant,
    ShapeGuardFailure,
    ValueMismatch,
)
from recompile_doctor.model.source import Attribute, Source


class ValueRule(PlainRule[ValueMismatch]):
    """A rule that claims the guards on values of one kind."""

    failure_type = ValueMismatch

    def message(self, failure: ValueMismatch) -> str:
        """Return the value that the graph is for."""
        return f"the graph is for {failure.source} = {_text(failure)}, this call has another"

    def values(self, failure: ValueMismatch) -> tuple[str, ...]:
        """Return the value that the graph is for."""
        return (_text(failure),)

    def disposition(self, claims: tuple[Claim, ...], causes: tuple[Cause, ...]) -> Disposition:
        """Call it a one-off when it happened once in each process and is a symbol since."""
        processes = [cause.recompile.key.process for cause in causes]
        if len(processes) != len(set(processes)):
            return Disposition.FIXABLE
        source = claims[0].source
        settled = all(
            any(symbol.source == source for symbol in cause.recompile.symbols) for cause in causes
        )
        return Disposition.ONE_OFF if settled else Disposition.FIXABLE


class NumberRule(ValueRule):
    """A rule about numbers, which can be constants of a graph, or symbols that it guards on."""

    branch: ClassVar[str]

    @abstractmethod
    def is_kind(self, source: Source, failure: ShapeGuardFailure, cause: Cause) -> bool:
        """Return whether a guarded symbol stands for a number of this rule's kind."""

    def claim(self, failure: GuardFailure, cause: Cause, examination: Examination) -> Claim | None:
        """Claim constants, and guards on a number that is a symbol by now."""
        if not isinstance(failure, ShapeGuardFailure) or failure.sizes:
            return super().claim(failure, cause, examination)
        source = next((each for each in failure.variables if isinstance(each, Source)), None)
        if source is None or not self.is_kind(source, failure, cause):
            return None
        return Claim(
            source=str(source),
            dim=None,
            message=f"the graph needs `{expression_text(failure.expression)}`, and this call has "
            "another value",
            why=self.branch,
            location=guard_location(failure, cause),
        )


def is_float(source: Source, failure: ShapeGuardFailure, cause: Cause) -> bool:
    """Return whether a guarded symbol stands for a float: torch names those zf0, zf1, ...

    A backed float of a resume function has no such symbol in the log of a static entry; then the
    number that it is compared with decides.
    """
    entry = cause.chosen.entry
    compiles = (cause.recompile, *([entry] if entry is not None else []))
    symbols = [each for one in compiles for each in one.symbols if each.source == str(source)]
    if symbols:
        return any(each.symbol.startswith("zf") for each in symbols)
    return _has_float(failure.expression)


def _has_float(expression: Expression) -> bool:
    parts = children(expression)
    return isinstance(expression, FloatLiteral) or any(_has_float(each) for each in parts)


def _text(failure: ValueMismatch) -> str:
    expected = failure.expected
    return expected.text if isinstance(expected, OtherConstant) else expression_text(expected)


def is_module_attribute(failure: ValueMismatch) -> bool:
    """Return whether a value is an attribute of an nn.Module.

    Torch says so since 2.8 (its hint on integer attributes of modules). Before, and for values
    that are not ints, the path must tell: an attribute directly on ``self`` or on a submodule.
    """
    if _stands_on_module(failure.source):
        return True
    return failure.module_int_hint and not _belongs_to_hook(failure.source)


def _belongs_to_hook(source: Source | None) -> bool:
    """Return whether a value belongs to a hook of a module, for which torch gives its hint too."""
    steps = () if source is None else source.steps
    return any(isinstance(each, Attribute) and each.name.endswith("_hooks") for each in steps)


def _stands_on_module(source: Source | None) -> bool:
    if source is None or not source.steps or not isinstance(source.steps[-1], Attribute):
        return False
    owner = source.parent()
    if owner is None:
        return False
    if str(owner) == "L['self']":
        return True
    grandparent = owner.parent()
    return grandparent is not None and str(grandparent).endswith("._modules")
