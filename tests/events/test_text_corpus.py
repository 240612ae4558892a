"""All text logs of real programs: those of the fixtures, and a larger collection beside them."""

import gzip
import io
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from recompile_doctor.events.text import iter_text_events
from recompile_doctor.events.trace import iter_trace_events
from recompile_doctor.events.vocabulary import (
    CompilePassed,
    CompileStarted,
    ForeignLines,
    GraphBroke,
    GuardAdded,
    ParseIssue,
    ReadItem,
    RecompileReported,
    SymbolCreated,
)

FIXTURES = Path(__file__).parents[2] / "fixtures" / "logs-reader"
CORPUS = Path(__file__).parents[3] / "shared" / "logs"
SCENARIOS = sorted(path.parent for path in FIXTURES.glob("*/*/dynamic.log.gz"))
TEXTS = ("dynamic.log.gz", "dynamic.log", "verbose.log.gz", "stderr.log.gz")

# A bare grep for each kind of event, on lines as torch writes them.
GREPS = {
    CompileStarted: rb"\] create_env$",
    CompilePassed: rb"\] produce_guards$",
    RecompileReported: rb"\] \[__recompiles(_verbose)?\] Recompiling function ",
    SymbolCreated: rb"\] create_symbol ",
    GraphBroke: rb"\] \[__graph_breaks\] Graph break (\(.*\) )?in user code at ",
    GuardAdded: rb"\] (eval|runtime_assert) .*\[guard added\]",
}
L_SOURCE = re.compile(r"""L\[\s*['"](.*?)['"]\s*\]""")


def texts_below(folder: Path) -> Iterator[Path]:
    for name in TEXTS:
        yield from sorted(folder.glob(f"*/*/{name}"))


def read_text(path: Path) -> list[ReadItem]:
    with path.open("rb") as stream:
        return [*iter_text_events(stream, path.name)]


def check(path: Path) -> None:
    items = read_text(path)
    name = "/".join(path.parts[-3:])
    assert [item for item in items if isinstance(item, ParseIssue)] == [], name
    raw = path.read_bytes()
    data = gzip.decompress(raw) if path.suffix == ".gz" else raw
    kinds = Counter(type(item) for item in items)
    for kind, pattern in GREPS.items():
        assert kinds[kind] == len(re.findall(pattern, data, re.MULTILINE)), (name, kind)
    foreign = [item.lines for item in items if isinstance(item, ForeignLines)]
    prefixes = len(re.findall(rb"^(?:\[rank\d+\]:)?[VIWE]1130 ", data, re.MULTILINE))
    assert sum(foreign) == len(data.splitlines()) - prefixes, name


def test_the_fixtures_are_here() -> None:
    assert len(list(texts_below(FIXTURES))) >= 100


@pytest.mark.parametrize(
    "path", list(texts_below(FIXTURES)), ids=lambda path: "/".join(path.parts[-3:])
)
def test_every_log_of_the_fixtures_is_understood(path: Path) -> None:
    check(path)


@pytest.mark.skipif(not CORPUS.exists(), reason="the collection of logs is not here")
def test_every_log_of_the_collection_is_understood() -> None:
    for path in texts_below(CORPUS):
        check(path)


def stripped(text: str) -> str:
    """Return a reason without the spelling of sources, and without what one log shortens."""
    return L_SOURCE.sub(r"\1", text).rstrip()


def reasons(items: list[ReadItem]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return each recompile's new id, and the entries that failed with their reasons."""
    return [
        (
            f"{item.origin.rank} {item.origin.compile_id}",
            [(str(failure.entry), stripped(failure.text)) for failure in item.failures],
        )
        for item in items
        if isinstance(item, RecompileReported)
    ]


@pytest.mark.parametrize("folder", SCENARIOS, ids=lambda path: "/".join(path.parts[-2:]))
def test_text_and_trace_tell_the_same_recompiles(folder: Path) -> None:
    traces = sorted((folder / "trace").glob("*"))
    if not traces:
        pytest.skip("no trace of this run")
    from_trace: list[ReadItem] = []
    for path in traces:
        with path.open("rb") as stream:
            from_trace += iter_trace_events(stream, path.name)
    from_text = reasons(read_text(folder / "dynamic.log.gz"))
    assert sorted(from_text) == sorted(reasons(from_trace))


WRAPPED = sorted(FIXTURES.glob("2.1[35].0/*/verbose.log.gz"))


@pytest.mark.parametrize("path", WRAPPED, ids=lambda path: "/".join(path.parts[-3:]))
def test_what_others_put_around_the_lines_changes_nothing(path: Path) -> None:
    text = gzip.decompress(path.read_bytes()).decode()
    wrappings = (
        text.replace("\n", "\r\n").encode(),
        text.encode("utf-16"),
        wrapped(text, "2026-01-01T00:00:07.1234567Z {}"),
        wrapped(text, "trainer-1  | {}"),
        wrapped(text, "[default0]:{}"),
        wrapped(text, " 50%|###  | 1/2 [00:00<00:00]{}"),
        wrapped(text, "\x1b[36m2026-01-01\x1b[0m \x1b[31m{}\x1b[0m"),
    )
    plain = read_text(path)
    for data in wrappings:
        assert [*iter_text_events(io.BytesIO(data), path.name)] == plain


def wrapped(text: str, form: str) -> bytes:
    return "".join(f"{form.format(line)}\n" for line in text.splitlines()).encode()
