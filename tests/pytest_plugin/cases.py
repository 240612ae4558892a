"""Tests with a budget, run by test_plugin_torch.py in one process, in this order."""

import asyncio
import logging
import logging.config
import threading
import unittest

import pytest

# Imported in the first body: the recording must not need torch to be there before.
torch = None


def scale(x):
    return x * 2


def compiled(function=scale):
    return torch.compile(function, backend="eager")


def ones(*sizes):
    return torch.ones(*sizes)


@pytest.fixture(autouse=True)
def nothing_left_of_other_tests(request):
    if torch is not None and "keeps_cache" not in request.keywords:
        torch._dynamo.reset()
    yield


@pytest.mark.recompile_budget(min_graphs=1)
def test_first_compile_is_free():
    global torch
    import torch as imported

    torch = imported
    function = compiled()
    function(ones(4))
    function(ones(4))


@pytest.mark.recompile_budget()
def test_over():
    function = compiled()
    for size in (4, 1, 7):
        function(ones(size))


@pytest.mark.recompile_budget(recompiles=2)
def test_within():
    function = compiled()
    for size in (4, 1, 7):
        function(ones(size))


@pytest.mark.recompile_budget(recompiles=None)
def test_unlimited():
    function = compiled()
    for size in (4, 1, 7):
        function(ones(size))


@pytest.mark.recompile_budget(count="fixable")
def test_warm_up_is_not_fixable():
    function = compiled()
    for size in (4, 7, 9):
        function(ones(size))


@pytest.fixture
def warm():
    function = compiled()
    for size in (4, 1):  # a recompile that is not the test's
        function(ones(size))
    yield function
    function(ones(2, 2))  # nor is this one


@pytest.mark.recompile_budget()
def test_fixture_is_context(warm):
    warm(ones(4))


@pytest.mark.recompile_budget()
def test_fixture_explains(warm):
    warm(ones(7))


def test_blocks(recompile_budget):
    function = compiled()
    with recompile_budget(min_graphs=1):
        function(ones(4))
    function(ones(1))
    with recompile_budget(recompiles=1):
        function(ones(5))
    with recompile_budget(min_graphs=0):
        function(ones(2, 2))  # line of the recompile


def test_block_raises(recompile_budget):
    function = compiled()
    with recompile_budget():
        function(ones(4))
        function(ones(5))
        raise KeyError("own failure")


def test_reset_first():
    compiled()(ones(4))


@pytest.mark.keeps_cache
@pytest.mark.recompile_budget()
def test_strangers():
    compiled()(ones(5))


@pytest.mark.keeps_cache
@pytest.mark.recompile_budget(reset=True, min_graphs=1)
def test_reset():
    compiled()(ones(6))


class TestMethods:
    @pytest.mark.recompile_budget()
    @pytest.mark.parametrize("sizes", [(4, 4), (4, 5)], ids=["same size", "ünlike/../sizes"])
    def test_sizes(self, sizes):
        function = compiled()
        for size in sizes:
            function(ones(size))


@pytest.mark.recompile_budget()
class TestOld(unittest.TestCase):
    def test_over(self):
        function = compiled()
        function(ones(4))
        function(ones(5))

    def test_within(self):
        compiled()(ones(4))

    def test_own(self):
        self.test_over()
        self.assertEqual(1, 2)


@pytest.mark.recompile_budget()
def test_fails():
    function = compiled()
    function(ones(4))
    function(ones(5))
    assert not "own failure"


@pytest.mark.recompile_budget()
def test_skips():
    function = compiled()
    function(ones(4))
    function(ones(5))
    pytest.skip("too late")


@pytest.mark.xfail(strict=True)
@pytest.mark.recompile_budget()
def test_expected_to_exceed():
    function = compiled()
    function(ones(4))
    function(ones(5))


@pytest.mark.recompile_budget()
def test_thread():
    function = compiled()
    function(ones(4))
    thread = threading.Thread(target=function, args=(ones(5),))
    thread.start()
    thread.join()


@pytest.mark.recompile_budget()
async def test_async():
    function = compiled()
    function(ones(4))
    await asyncio.sleep(0)
    function(ones(5))


def breaks(x):
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2


@pytest.mark.recompile_budget()
def test_breaks():
    compiled(breaks)(ones(4))


@pytest.mark.recompile_budget(graph_breaks=1, min_graphs=2)
def test_breaks_within():
    compiled(breaks)(ones(4))


@pytest.mark.recompile_budget(recompiles=None)
def test_limit():
    with torch._dynamo.config.patch(recompile_limit=2):
        function = compiled()
        for rank in (1, 2, 3, 4):
            function(ones(*[3] * rank))


@pytest.mark.recompile_budget(recompile_limit_hits=None, recompiles=1)
def test_limit_unlimited():
    with torch._dynamo.config.patch(recompile_limit=2):
        function = compiled()
        for rank in (1, 2, 3, 4):
            function(ones(*[3] * rank))


@pytest.mark.recompile_budget()
def test_silenced():
    logger = logging.getLogger("torch.__trace")
    try:
        logging.config.dictConfig({"version": 1})  # disables all loggers that exist
        function = compiled()
        function(ones(4))
        function(ones(5))
    finally:
        reason = logger.disabled
        logger.disabled = False
    assert reason


@pytest.mark.recompile_budget()
def test_silent_to_the_end(monkeypatch):
    monkeypatch.setattr(logging.getLogger("torch.__trace"), "disabled", True)
    compiled()(ones(4))


@pytest.mark.recompile_budget()
def test_silent_and_nothing_compiled(monkeypatch):
    monkeypatch.setattr(logging.getLogger("torch.__trace"), "disabled", True)


@pytest.mark.recompile_budget()
def test_logging_disabled():
    logging.disable(logging.CRITICAL)
    try:
        function = compiled()
        function(ones(4))
        function(ones(5))
    finally:
        logging.disable(logging.NOTSET)


@pytest.mark.recompile_budget()
def test_logs_set():
    function = compiled()
    function(ones(4))
    torch._logging.set_logs()
    function(ones(5))


@pytest.mark.recompile_budget()
def test_metrics_cleared():
    function = compiled()
    function(ones(4))
    torch._dynamo.utils.clear_compilation_metrics()
    function(ones(4))


@pytest.mark.recompile_budget(min_graphs=1)
def test_nothing_compiled():
    scale(ones(4))


def test_logger_is_as_before():
    internal = torch._logging._internal
    ours = [each for each in internal.trace_log.handlers if "recompile_doctor" in str(type(each))]
    assert not ours
    assert internal.LOG_TRACE_HANDLER in internal.trace_log.handlers
