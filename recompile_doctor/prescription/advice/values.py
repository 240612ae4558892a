"""Python values that torch compiles as constants: floats, strings, flags, counters."""

from recompile_doctor.prescription.advice.text import AdviceText

VALUES = {
    "float-value-change": AdviceText(
        "No list reaches a float. Pass {subject} as a tensor without dimensions; its value is then "
        "data and not part of the graph.",
        """\
import torch

@torch.compile(backend="eager")
def scaled(weights, rate):
    return weights * (1 - rate)

for rate in (0.1, 0.05, 0.025):
    scaled(torch.ones(6), torch.tensor(rate, dtype=torch.float64))
""",
    ),
    "constant-value-change": AdviceText(
        "Strings, bools, None and enums choose the graph, and no list reaches them. Decide on "
        "{subject} before the compiled function, and hand it only what changes the computation: a "
        "name that is only for logging does not belong there.",
        """\
import torch

@torch.compile(backend="eager")
def reduced(image, keep):
    return (image * keep).sum()

for mode in ("train-1", "train-2", "eval-1"):
    keep = torch.tensor(mode.startswith("train"))
    reduced(torch.ones(4), keep)
""",
    ),
    "int-value-change": AdviceText(
        "Where the int {subject} is a list index, a loop bound or a number of heads, the graph "
        "depends on it and a mark cannot help: index a stacked tensor instead, or compile the body "
        "of the loop.",
        """\
import torch

@torch.compile(backend="eager")
def picked(table, index):
    return table.index_select(0, index.reshape(1)) * 2

for step in range(4):
    picked(torch.ones(8, 3), torch.tensor(step))
""",
    ),
    "module-attribute-change": AdviceText(
        "A number on a module that changes, such as {subject}, is best a buffer that is changed in "
        "place: its value is then data. This also serves floats, which no list reaches.",
        """\
import torch

class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return x * self.calls

counting = torch.compile(Counting(), backend="eager")
for _ in range(4):
    counting(torch.ones(3))
""",
    ),
}
