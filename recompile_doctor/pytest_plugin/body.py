"""One body: the test function of a marked test, or a ``with`` block."""

from pathlib import Path
from types import TracebackType

import pytest

from recompile_doctor.pytest_plugin.recording import Recording, Span, reset_dynamo
from recompile_doctor.pytest_plugin.terms import Terms

_NESTED = (
    "recompile_budget: a budget inside of another one (a `with` block in a marked test, in "
    "another block, or in another thread) is not possible; state one for the whole, or one "
    "after the other."
)


class Body:
    """Holds what runs inside it to its terms; its end fails the test when they are broken.

    A test that fails by itself keeps its own failure, and gets a section beside it.
    """

    def __init__(self, item: pytest.Item, recording: Recording, terms: Terms) -> None:
        self._item = item
        self._recording = recording
        self._terms = terms
        self._span: Span | None = None

    def __enter__(self) -> None:
        __tracebackhide__ = True
        if self._recording.has_open_body:
            raise pytest.UsageError(_NESTED)
        if self._terms.reset:
            reset_dynamo()
            self._recording.restart()
        self._recording.has_open_body = True
        self._span = Span(self._recording)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        __tracebackhide__ = True
        excess = self.close(looked_at=error is None or _is_failure(error))
        if not excess:
            return
        if error is None:
            pytest.fail(excess)
        self.add_section(excess)

    def close(self, *, looked_at: bool) -> str:
        """End the body and return in words how it broke its terms, or an empty text."""
        recording, span = self._recording, self._span
        recording.has_open_body = False
        if span is None or not looked_at or self._is_free(span):
            return ""
        # Takes a while to import, so only where something was compiled.
        from recompile_doctor.pytest_plugin.verdict import judge

        excess = judge(
            span,
            self._terms,
            recording.path,
            why_silent=recording.why_silent(),
            base=Path(self._item.config.invocation_params.dir),
        )
        if excess is None:
            return ""
        recording.is_kept = bool(excess.report)
        return str(excess)

    def _is_free(self, span: Span) -> bool:
        return span.is_empty and not (span.counted or span.failure or self._terms.min_graphs)

    def add_section(self, text: str) -> None:
        """Show ``text`` beside the test's own failure."""
        self._item.add_report_section("call", "recompile budget", text)


def _is_failure(error: BaseException) -> bool:
    """Return whether a test fails by ``error``: not when it is skipped, expected or interrupted."""
    expected = isinstance(error, pytest.xfail.Exception)
    return isinstance(error, (Exception, pytest.fail.Exception)) and not expected
