"""Patched programs on the installed torch: recompiles by torch's own log."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from recompile_doctor.events.vocabulary import MarkKind, StackFrame
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.prescription.call_sites import FrameMarks, SourceFile
from recompile_doctor.prescription.marks import Mark
from recompile_doctor.prescription.patch import Form, make_patch

UNBACKED = MarkKind.UNBACKED
BLOCK = """
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, dim: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return x + a.transpose(1, 2).reshape(b, t, d)


torch.manual_seed(0)
block = torch.compile(Block(), backend="aot_eager")
for b, t in [(4, 16), (4, 17), (2, 9), (1, 9), (1, 1), (3, 1), (0, 5), (8, 32), (1, 30)]:
    x = torch.randn(b, t, 16)
    mask = torch.ones(b, 1, t, t, dtype=torch.bool)
    y = block(x, mask)
    print(tuple(y.shape), f"{y.double().sum().item():.4f}")
"""
BLOCK_MARKS = (
    Mark("L['x']", 0, UNBACKED, "b"),
    Mark("L['mask']", 0, UNBACKED, "b"),
    Mark("L['x']", 1, UNBACKED, "t", 1),
    Mark("L['mask']", 2, UNBACKED, "t", 1),
    Mark("L['mask']", 3, UNBACKED, "t", 1),
)
FORMS = """
import torch

SIZES = (8, 16, 1, 0, 2)


def make(n):
    return {"ids": torch.ones(n, 4)}


@torch.compile(backend="eager")
def by_name(x, mask=None):
    return x * 2 if mask is None else x * mask


@torch.compile(backend="eager")
def nested(batch, *more):
    return batch["ids"] + more[0]


class Step(torch.nn.Module):
    def forward(self, x):
        return x + 1


def loop(step):
    for n in SIZES:
        print(step(torch.ones(n, 3) + 1).shape)


class Trainer:
    def __init__(self):
        self.state = None
        self.run = torch.compile(self._run, backend="eager")

    def _run(self, x):
        return x + self.state

    def go(self):
        for n in SIZES:
            self.state = torch.ones(n, 2)
            if self.run(torch.zeros(n, 2)).numel() > 3: print("large")


step = Step()
step.compile(backend="eager")
for n in SIZES:
    print(by_name(make(n)["ids"]).sum())
    print(by_name(mask=torch.ones(n, 4), x=torch.ones(n, 4)).sum())
    arguments = (make(n), torch.ones(n, 4))
    print(nested(*arguments).shape)
loop(step)
Trainer().go()
"""


def recompiles(source: bytes, folder: Path) -> tuple[int, str]:
    """Run a program and return how often torch compiled again, and what the program printed."""
    folder.mkdir()
    program = folder / "program.py"
    program.write_bytes(source)
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "TORCH_TRACE": str(folder / "trace"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"),
    }
    done = subprocess.run(
        [sys.executable, str(program)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    logs = list((folder / "trace").glob("*.log"))
    assert logs
    count = sum(len(re.findall('"recompile_reasons"', log.read_text())) for log in logs)
    return count, done.stdout


def line_of(source: str, text: str) -> int:
    lines = source.splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.fixture(scope="module", autouse=True)
def _torch() -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")


@pytest.mark.torch
@pytest.mark.parametrize("form", list(Form))
def test_an_attention_block_compiles_once(form: Form, tmp_path: Path) -> None:
    """The marks that the block needs, written as calls or declared, leave no recompile."""
    before, output = recompiles(BLOCK.encode(), tmp_path / "before")
    assert before == 6
    frame = FrameKey("forward", "/p/program.py", line_of(BLOCK, "def forward"))
    request = FrameMarks(frame, BLOCK_MARKS, (), (("L['x']", 3), ("L['mask']", 4)))
    file = SourceFile(Path("/p/program.py"), "program.py", BLOCK.encode())
    result = make_patch([request], [file], target_torch="2.13.0", form=form)
    assert not result.declined
    after, same = recompiles(result.files[0].after, tmp_path / "after")
    assert after == 0
    assert same == output


@pytest.mark.torch
def test_forms_of_calls_compile_once(tmp_path: Path) -> None:
    """Marks reach torch through names, new variables, unpacked arguments, methods and modules."""
    marks = {
        "def by_name": (Mark("L['x']", 0, UNBACKED, "n"), Mark("L['mask']", 0, UNBACKED, "n")),
        "def nested": (
            Mark("L['batch']['ids']", 0, UNBACKED, "n"),
            Mark("L['more'][0]", 0, UNBACKED, "n"),
        ),
        "def forward": (Mark("L['x']", 0, UNBACKED),),
        "def _run": (Mark("L['x']", 0, UNBACKED, "n"), Mark("L['self'].state", 0, UNBACKED, "n")),
    }
    requests = []
    for text, wanted in marks.items():
        line = line_of(FORMS, text)
        if text in ("def by_name", "def nested"):
            line -= 1  # the decorator's
        # loop() is given the module: only the log knows what it calls.
        call = StackFrame("/p/program.py", line_of(FORMS, "print(step("), "loop")
        calls = (call,) if text == "def forward" else ()
        requests.append(FrameMarks(FrameKey(text[4:], "/p/program.py", line), wanted, calls))
    file = SourceFile(Path("/p/program.py"), "program.py", FORMS.encode())
    result = make_patch(requests, [file], target_torch="2.13.0")
    assert not result.declined
    _, output = recompiles(FORMS.encode(), tmp_path / "before")
    after, same = recompiles(result.files[0].after, tmp_path / "after")
    assert same == output
    # by_name is given a mask in every second call: with and without are two graphs.
    assert after == 1
