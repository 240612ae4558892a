"""The pytest plugin: ``recompile_budget``, a mark and a fixture that fail tests that recompile.

pytest loads it wherever this package is installed, so it imports nothing of the package's rooms,
nor torch, until a test with a budget has compiled something. docs/pytest.md explains it.
"""

import hashlib
import os
import re
import tempfile
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from recompile_doctor.pytest_plugin.body import Body
from recompile_doctor.pytest_plugin.recording import Recording
from recompile_doctor.pytest_plugin.terms import Terms, TermsError, read_terms

NAME = "recompile_budget"
_FOLDER = "recompile-budget"
_MARK = (
    f"{NAME}(recompiles=0, graph_breaks=0, recompile_limit_hits=0, min_graphs=0, count='all', "
    "reset=False): fail the test when torch.compile recompiles or breaks graphs more often in it."
)
_LONGEST_NAME = 80
_recording = pytest.StashKey[Recording]()


class RecompileBudget:
    """Opens bodies with a budget: ``with recompile_budget(recompiles=1): ...``."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def __call__(
        self,
        *,
        recompiles: int | None = 0,
        graph_breaks: int | None = 0,
        recompile_limit_hits: int | None = 0,
        min_graphs: int = 0,
        count: str = "all",
        reset: bool = False,
    ) -> Body:
        """Return a context that fails the test when what runs in it spends more."""
        __tracebackhide__ = True
        try:
            terms = Terms(recompiles, graph_breaks, recompile_limit_hits, min_graphs, count, reset)
        except TermsError as error:
            raise pytest.UsageError(f"{NAME}: {error}") from None
        return Body(self._item, _begin(self._item), terms)


@pytest.fixture(name=NAME)
def budget_fixture(request: pytest.FixtureRequest) -> RecompileBudget:
    """Hold parts of a test to a recompile budget: `with recompile_budget(recompiles=1): ...`."""
    _begin(request.node)
    return RecompileBudget(request.node)


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", _MARK)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse marks that have no meaning before any test runs."""
    if hasattr(session.config, "workerinput"):
        return  # a worker of pytest-xdist cannot refuse; its tests fail in their setup instead
    for item in session.items:
        try:
            _terms(item)
        except TermsError as error:
            raise pytest.UsageError(_refusal(item, error)) from None


def _terms(item: pytest.Item) -> Terms | None:
    """Return the terms of a test's mark, the nearest one, or None without a mark."""
    mark = item.get_closest_marker(NAME)
    return None if mark is None else read_terms(mark.args, mark.kwargs)


def _refusal(item: pytest.Item, error: TermsError) -> str:
    return f"{item.nodeid}: @pytest.mark.{NAME}: {error}"


# Not tryfirst: a failure here would keep other plugins from setting up what they tear down later.
@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Record from here on: what fixtures compile is the context of what the body recompiles."""
    refusal = ""
    try:
        if _terms(item) is not None or NAME in getattr(item, "fixturenames", ()):
            _begin(item)
    except TermsError as error:
        refusal = _refusal(item, error)
    if refusal:
        pytest.fail(refusal, pytrace=False)
    yield


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Hold the test function to its mark's terms."""
    terms = _terms(item)
    if terms is None:
        yield
        return
    body = Body(item, _begin(item), terms)
    body.__enter__()
    try:
        yield
    except BaseException as error:
        body.__exit__(type(error), error, error.__traceback__)
        raise
    # unittest's own failures are not raised: pytest keeps them here until it reports.
    own = getattr(item, "_excinfo", None)
    excess = body.close(looked_at=True)
    if not excess:
        return
    if own:
        body.add_section(excess)
    else:
        pytest.fail(excess, pytrace=False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Stop recording, after the last fixture."""
    try:
        yield
    finally:
        _end(item)


def _begin(item: pytest.Item) -> Recording:
    """Return the recording of a test, which begins here unless it has begun."""
    if _recording not in item.stash:
        item.stash[_recording] = Recording(_folder(item.config) / _file_name(item.nodeid))
    return item.stash[_recording]


def _end(item: pytest.Item) -> None:
    recording = item.stash.get(_recording, None)
    if recording is not None:
        del item.stash[_recording]
        recording.stop()
        folder = recording.path.parent
        if folder.name != _FOLDER:  # not of the cache: another worker may be about to write there
            with suppress(OSError):  # a kept trace is in it
                folder.rmdir()


def _folder(config: pytest.Config) -> Path:
    """Return where traces are written: pytest's cache, where those of failed tests stay."""
    cache = getattr(config, "cache", None)  # there is none with -p no:cacheprovider
    if cache is not None:
        with suppress(OSError):  # a source tree that cannot be written to
            return Path(cache.mkdir(_FOLDER))
    return Path(tempfile.mkdtemp(prefix=f"{_FOLDER}-"))


def _file_name(nodeid: str) -> str:
    name = re.sub(r"[^\w.]+", "-", nodeid)[-_LONGEST_NAME:].strip("-")
    # Distinct also where two ids look alike, and where two workers run the same test.
    whole = f"{nodeid}\n{os.environ.get('PYTEST_XDIST_WORKER', '')}"
    return f"{name}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}.log"
