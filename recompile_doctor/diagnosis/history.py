"""The values that a size or an int had over a run, as far as the log tells them."""

from collections.abc import Iterable

from recompile_doctor.diagnosis.attribution import Cause, parse_size
from recompile_doctor.model.expression import ComparisonOperator, expression_text
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.model.reason import OtherConstant, SizeMismatch, ValueMismatch
from recompile_doctor.model.run import Compilation, Run

_Key = tuple[str, FrameKey, str, int | None]
# A value that the log does not tell: torch names what an entry was for, not what the call has.
UNKNOWN_VALUE = "?"


class History:
    """Values by frame, source and dimension, in the order in which they were compiled.

    Only calls that made torch compile are in the log; calls that a cached entry served are not.
    """

    def __init__(self, run: Run, causes: Iterable[Cause]) -> None:
        self._values: dict[_Key, list[str]] = {}
        self._open: set[_Key] = set()
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

    def values(self, cause: Cause, source: str | None, dim: int | None) -> tuple[str, ...]:
        """Return the values seen in the process of ``cause``, oldest first, none twice in a row.

        The last is ``?`` where the log does not tell the value that came at the end.
        """
        if source is None:
            return ()
        key = (cause.recompile.key.process, cause.recompile.frame, source, dim)
        values = self._values.get(key, ())
        return (*values, UNKNOWN_VALUE) if key in self._open else tuple(values)

    def _note(self, compilation: Compilation, source: str, dim: int | None, value: str) -> None:
        key = (compilation.key.process, compilation.frame, source, dim)
        values = self._values.setdefault(key, [])
        if not values or values[-1] != value:
            values.append(value)
        self._open.discard(key)

    def _add_inputs(self, compilation: Compilation) -> None:
        for each in compilation.inputs:
            for dim, size in enumerate(each.sizes):
                if size is not None:
                    self._note(compilation, each.source, dim, str(size))

    def _add_symbols(self, compilation: Compilation) -> None:
        described = {each.source for each in compilation.inputs}
        for symbol in compilation.symbols:
            leaf = parse_size(symbol.source)
            if symbol.hint is None or (leaf is not None and str(leaf.source) in described):
                continue
            if leaf is None:
                self._note(compilation, symbol.source, None, symbol.hint)
            else:
                self._note(compilation, str(leaf.source), leaf.dim, symbol.hint)

    def _add_constants(self, cause: Cause) -> None:
        """Take the constants that the entries were compiled for: no symbol tells them."""
        recompile = cause.recompile
        for candidate in reversed((cause.chosen, *cause.others)):
            for failure in candidate.failures:
                if not isinstance(failure, ValueMismatch) or failure.source is None:
                    continue
                key = (recompile.key.process, recompile.frame, str(failure.source), None)
                text = _constant(failure)
                if text is not None and text not in self._values.get(key, ()):
                    self._note(recompile, str(failure.source), None, text)
        for failure in cause.chosen.failures:
            if isinstance(failure, ValueMismatch) and failure.source is not None:
                key = (recompile.key.process, recompile.frame, str(failure.source), None)
                self._open.add(key)

    def _add_reported(self, cause: Cause) -> None:
        """Take the sizes that the reasons name, where the log describes no inputs."""
        recompile = cause.recompile
        for candidate in reversed((cause.chosen, *cause.others)):
            for failure in candidate.failures:
                if isinstance(failure, SizeMismatch):
                    source = str(failure.source)
                    key = (recompile.key.process, recompile.frame, source, failure.dim)
                    if key not in self._values:
                        self._note(recompile, source, failure.dim, str(failure.expected))
        for leaf, size in cause.sizes.items():
            self._note(recompile, str(leaf.source), leaf.dim, str(size))


def _constant(failure: ValueMismatch) -> str | None:
    """Return the constant that an entry was compiled for, as text."""
    if failure.operator is not ComparisonOperator.EQUAL:
        return None
    expected = failure.expected
    return expected.text if isinstance(expected, OtherConstant) else expression_text(expected)
