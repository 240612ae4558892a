"""The chain behind one recompile."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from recompile_doctor.events.vocabulary import StackFrame
from recompile_doctor.reports.chain import Chain, ChainStep, ListedEntry, print_chain
from tests.reports import documents

FILE = f"{documents.PROJECT}/model.py"
CHAIN = Chain(
    title="Why 0/2 of forward (model.py:30) was compiled again",
    steps=(
        ChainStep(
            "recompile",
            "0/2 of forward, 0.81 s",
            evidence=documents.evidence(16, "Recompiling function forward"),
        ),
        ChainStep(
            "guard",
            "2 <= L['x'].size()[0] of entry 0/1 failed: the size was 1",
            evidence=documents.evidence(18, "0/1: 2 <= x.size()[0]"),
        ),
        ChainStep(
            "symbol",
            "s77 stands for L['x'].size()[0], created with hint 16, range [2, int_oo]",
            note="torch made it dynamic because the size had changed from 8 to 16 (0/1)",
        ),
        ChainStep(
            "specialization",
            "torch assumes of each dynamic size that it is neither 0 nor 1",
            location=StackFrame(FILE, 31, "forward", "b, t, d = x.shape"),
            note="first use of the value; the line is not to blame",
        ),
        ChainStep(
            "argument",
            "x of forward",
            location=StackFrame(f"{documents.PROJECT}/train.py", 88, "step", "y = model(x, mask)"),
            note="the compiled function is called here",
        ),
    ),
    entries=(
        ListedEntry("0/1", "2 <= x.size()[0]  # b, t, d = x.shape  # project/model.py:31", True),
        ListedEntry(
            "0/0", "tensor 'x' size mismatch at index 0. expected 8, actual 1\nsecond line"
        ),
    ),
)


def show(chain: Chain, width: int = 80) -> str:
    file = io.StringIO()
    print_chain(chain, Console(file=file, width=width), base=Path(documents.PROJECT))
    return file.getvalue()


@pytest.mark.parametrize("width", [80, 200])
def test_golden(width: int, check_golden: Callable[[str, str], None]) -> None:
    check_golden(f"chain.{width}.txt", show(CHAIN, width))


def test_hostile_text_stays_in_its_lines() -> None:
    text = documents.HOSTILE
    frame = StackFrame(f"/{text}/{'x' * 200}.py", 3, text, text)
    step = ChainStep(text, text, frame, documents.evidence(1, text, text), text)
    chain = Chain(text, (step, step), (ListedEntry(text, f"{text}\n{text}", True),))
    for line in show(chain, 60).split("\n"):
        assert line.isprintable()
        assert cell_len(line) <= 60


def test_a_chain_without_entries_ends_with_its_steps() -> None:
    assert "All entries" not in show(Chain("Why", CHAIN.steps))
