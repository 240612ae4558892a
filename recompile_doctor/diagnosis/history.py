"""The values that a size or an int had over a run, as far as the log tells them."""

from collections.abc import Iterable

from recompile_doctor.diagnosis.attribution import Cause, parse_size
from recompile_doctor.model.expression import (
    ComparisonOperator,
    FloatLiteral,
    IntLiteral,
    expression_text,
)
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.model.reason import SizeMismatch, ValueMismatch
from recompile_doctor.model.run import Compilation, Run

_Key = tuple[FrameKey, str, int | None]


class History:
    """Values by frame, source and dimension, in the order in which they were compiled.

    Only calls that made torch compile are in the log; calls that a cached entry served are not.
    """

    def __init__(self, run: Run, causes: Iterable[Cause]) -> None:
        self._values: dict[_Key, list[str]] = {}
        by_recompile = {cause.recompile.key: cause for cause in causes}
        for compilation in run.compilations:
            if compilation.refused is not None and not compilation.inputs:
                continue
            cause = by_recompile.get(compilation.key)
            if cause is not None:
                self._add_constants(cause)
            self._add_inputs(compilation)
            self._add_symbols(compilation)
            if cause is not None and not compilation.inputs:
                self._add_reported(cause)

    def values(self, frame: FrameKey, source: str | None, dim: int | None) -> tuple[str, ...]:
        """Return the values seen, oldest first, without repetitions in a row."""
        if source is None:
            return ()
        return tuple(self._values.get((frame, source, dim), ()))

    def _note(self, frame: FrameKey, source: str, dim: int | None, value: str) -> None:
        values = self._values.setdefault((frame, source, dim), [])
        if not values or values[-1] != value:
            values.append(value)

    def _add_inputs(self, compilation: Compilation) -> None:
        for each in compilation.inputs:
            for dim, size in enumerate(each.sizes):
                if size is not None:
                    self._note(compilation.frame, each.source, dim, str(size))

    def _add_symbols(self, compilation: Compilation) -> None:
        described = {each.source for each in compilation.inputs}
        for symbol in compilation.symbols:
            leaf = parse_size(symbol.source)
            if symbol.hint is None or (leaf is not None and str(leaf.source) in described):
                continue
            if leaf is None:
                self._note(compilation.frame, symbol.source, None, symbol.hint)
            else:
                self._note(compilation.frame, str(leaf.source), leaf.dim, symbol.hint)

    def _add_constants(self, cause: Cause) -> None:
        """Take the numbers that the entries were compiled for: no symbol tells them."""
        for candidate in reversed((cause.chosen, *cause.others)):
            for failure in candidate.failures:
                if not isinstance(failure, ValueMismatch) or failure.source is None:
                    continue
                key = (cause.recompile.frame, str(failure.source), None)
                text = _number(failure)
                if text is not None and text not in self._values.get(key, ()):
                    self._note(*key, text)

    def _add_reported(self, cause: Cause) -> None:
        """Take the sizes that the reasons name, where the log describes no inputs."""
        frame = cause.recompile.frame
        for candidate in reversed((cause.chosen, *cause.others)):
            for failure in candidate.failures:
                if isinstance(failure, SizeMismatch):
                    key = (frame, str(failure.source), failure.dim)
                    if key not in self._values:
                        self._note(frame, str(failure.source), failure.dim, str(failure.expected))
        for leaf, size in cause.sizes.items():
            self._note(frame, str(leaf.source), leaf.dim, str(size))


def _number(failure: ValueMismatch) -> str | None:
    """Return the number that an entry was compiled for, as text."""
    if failure.operator is not ComparisonOperator.EQUAL:
        return None
    if not isinstance(failure.expected, IntLiteral | FloatLiteral):
        return None
    return expression_text(failure.expected)
