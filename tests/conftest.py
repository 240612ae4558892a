"""Golden files: expected output, kept as files and reviewed like code."""

from collections.abc import Callable

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite the golden files that differ"
    )


@pytest.fixture
def check_golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a check of a text against ``golden/<name>`` beside the test.

    A text that differs is saved as ``actual/<name>``, so that the two can be compared.
    """
    folder = request.path.parent

    def check(name: str, text: str) -> None:
        golden = folder / "golden" / name
        actual = folder / "actual" / name
        if golden.exists() and golden.read_bytes() == text.encode():
            actual.unlink(missing_ok=True)
            return
        target = golden if request.config.getoption("--update-golden") else actual
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())
        if target is actual:
            expected = golden.read_text("utf-8") if golden.exists() else "(no golden file)"
            assert text == expected, f"compare {actual} and {golden}, or use --update-golden"

    return check
