"""docs/messages.md and the code name the same errors."""

import ast
import re
from pathlib import Path

import recompile_doctor
from recompile_doctor.errors import ExitCode

PACKAGE = Path(recompile_doctor.__file__).parent
PAGE = PACKAGE.parent / "docs" / "messages.md"


def slugs_in_code() -> set[str]:
    slugs: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "slug":
                assert isinstance(node.value, ast.Constant), f"{path}: a slug is written out"
                slugs.add(node.value.value)
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Notice":
                _kind, slug, *_text = node.args
                assert isinstance(slug, ast.Constant), f"{path}: a slug is written out"
                slugs.add(slug.value)
    return slugs


def test_every_slug_is_explained_and_every_explanation_is_used() -> None:
    """A message that sends the reader to the page finds its heading there."""
    headings = set(re.findall(r"^### ([a-z-]+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert headings == slugs_in_code()


def test_the_table_lists_every_exit_code() -> None:
    """The page and the enumeration have the same numbers."""
    numbers = re.findall(r"^\| (\d+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(number) for number in numbers] == [int(code) for code in ExitCode]
