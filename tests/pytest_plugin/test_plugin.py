"""The plugin where torch is never imported."""

import os
import re
from pathlib import Path

import pytest

from recompile_doctor.pytest_plugin.terms import TermsError, read_terms

pytest_plugins = "pytester"

PLUGIN = ("-p", "recompile_doctor.pytest_plugin", "-p", "no:hypothesispytest")


@pytest.fixture(autouse=True)
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let child processes find the package where it is not installed."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)


def run(pytester: pytest.Pytester, source: str, *args: str) -> pytest.RunResult:
    pytester.makepyfile(test_it=source)
    return pytester.runpytest_inprocess(*PLUGIN, "-p", "no:xdist", *args)


def test_a_test_that_never_imports_torch_passes(pytester: pytest.Pytester) -> None:
    """Nothing was compiled, so nothing was spent."""
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.recompile_budget()
        def test_marked(): pass

        def test_blocks(recompile_budget):
            with recompile_budget(): pass
            with recompile_budget(recompiles=3, count="fixable", reset=True): pass
        """,
        "--strict-markers",
    )
    result.assert_outcomes(passed=2)
    assert not list(pytester.path.glob(".pytest_cache/d/recompile-budget/*"))


def test_min_graphs_demands_that_something_is_compiled(pytester: pytest.Pytester) -> None:
    """Zero recompiles can mean that nothing compiled; min_graphs=1 fails then."""
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.recompile_budget(min_graphs=1)
        def test_marked(): pass
        """,
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["recompile budget: 0 graphs compiled, at least 1 wanted, torch was not even imported"]
    )


@pytest.mark.parametrize(
    ("args", "kwargs", "problem"),
    [
        ((), {"recompile": 1}, "there is no argument 'recompile'; did you mean recompiles?"),
        ((), {"x": 1}, "there is no argument 'x'; known are recompiles, graph_breaks, "),
        ((3,), {}, "give its arguments by name (recompiles, "),
        ((), {"recompiles": -1}, "recompiles is a whole number from 0, or None for no limit, "),
        ((), {"graph_breaks": True}, "graph_breaks is a whole number from 0, or None for no "),
        ((), {"min_graphs": None}, "min_graphs is a whole number from 0, not None"),
        ((), {"count": "some"}, "count is one of all, fixable, not 'some'"),
        ((), {"reset": 1}, "reset is True or False, not 1"),
    ],
)
def test_arguments_without_meaning_are_refused(
    args: tuple[object, ...], kwargs: dict[str, object], problem: str
) -> None:
    """The message says which argument is wrong, and what would be right."""
    with pytest.raises(TermsError, match=re.escape(problem)):
        read_terms(args, kwargs)


def test_a_mark_without_meaning_is_a_usage_error(pytester: pytest.Pytester) -> None:
    """The run ends before any test, and the message names the test."""
    result = run(
        pytester,
        """
        import pytest

        def test_other(): print("something happened")

        @pytest.mark.recompile_budget(recompile=1)
        def test_marked(): pass
        """,
        "-s",
    )
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.no_fnmatch_line("*something happened*")
    result.stderr.fnmatch_lines(
        ["ERROR: test_it.py::test_marked: @pytest.mark.recompile_budget: there is no argument*"]
    )


def test_a_worker_fails_the_test_instead(pytester: pytest.Pytester) -> None:
    """A worker of pytest-xdist cannot end the run; the mark's mistake fails its test."""
    pytest.importorskip("xdist")
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.recompile_budget(recompile=1)
        def test_marked(): pass

        @pytest.mark.recompile_budget()
        def test_right(): pass
        """
    )
    result = pytester.runpytest_subprocess(*PLUGIN, "-n", "1")
    result.assert_outcomes(errors=1, passed=1)
    result.stdout.fnmatch_lines(["*test_marked: @pytest.mark.recompile_budget: there is no arg*"])


def test_the_nearest_mark_counts(pytester: pytest.Pytester) -> None:
    """A mark of a method replaces that of its class."""
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.recompile_budget(min_graphs=1)
        class TestIt:
            def test_far(self): pass

            @pytest.mark.recompile_budget()
            def test_near(self): pass
        """,
    )
    result.assert_outcomes(failed=1, passed=1)


def test_budgets_do_not_nest(pytester: pytest.Pytester) -> None:
    """A block in a marked test or in another block is refused, and leaves no body open."""
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.recompile_budget()
        def test_in_mark(recompile_budget):
            with recompile_budget(): pass

        def test_in_block(recompile_budget):
            with recompile_budget():
                with pytest.raises(pytest.UsageError, match="is not possible"):
                    with recompile_budget(): pass
            with recompile_budget(): pass
        """,
    )
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["E *UsageError: recompile_budget: a budget inside of another*"])


def test_a_block_without_meaning_fails_its_test(pytester: pytest.Pytester) -> None:
    """Its arguments are checked like those of the mark."""
    result = run(
        pytester,
        """
        def test_block(recompile_budget):
            with recompile_budget(graph_breaks="none"): pass
        """,
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *recompile_budget: graph_breaks is a whole number*'none'"])


def test_other_outcomes_stay(pytester: pytest.Pytester) -> None:
    """Skips, expected failures, own failures and errors of fixtures are left alone."""
    result = run(
        pytester,
        """
        import unittest, pytest

        pytestmark = pytest.mark.recompile_budget(min_graphs=1)

        @pytest.fixture
        def broken(): raise ValueError("mine")

        def test_skips(): pytest.skip("no")
        @pytest.mark.skip
        def test_is_skipped(): pass
        @pytest.mark.xfail
        def test_is_expected_to(): pass
        def test_expects(): pytest.xfail("known")
        def test_fails(): assert 0, "own failure"
        def test_errs(broken): pass

        class TestOld(unittest.TestCase):
            def test_old(self): self.assertEqual(1, 2)
            def test_old_skip(self): self.skipTest("no")
        """,
        "-p",
        "no:cacheprovider",
    )
    # unittest's skip is not raised either, and a section of a skipped test is not shown.
    result.assert_outcomes(failed=2, skipped=3, xfailed=2, errors=1)
    result.stdout.fnmatch_lines(
        [
            "E *AssertionError: own failure",
            "*Captured recompile budget call*",
            "recompile budget: 0 graphs compiled, at least 1 wanted*",
            "E *AssertionError: 1 != 2",
            "*Captured recompile budget call*",
        ]
    )


def test_it_costs_nothing_when_unused(pytester: pytest.Pytester) -> None:
    """No room of the package is imported, nor torch, until something was compiled."""
    pytester.makepyfile(
        """
        import sys, pytest

        ROOMS = {"torch", "rich", "msgspec", "yaml", "click", "recompile_doctor.pipeline",
                 "recompile_doctor.diagnosis", "recompile_doctor.reports"}

        def test_unmarked():
            assert not ROOMS & set(sys.modules)

        @pytest.mark.recompile_budget()
        def test_marked(): pass

        def test_after():
            assert not ROOMS & set(sys.modules)
        """
    )
    result = pytester.runpytest_subprocess(*PLUGIN)
    result.assert_outcomes(passed=3)
