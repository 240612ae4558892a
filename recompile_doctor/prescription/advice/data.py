"""Graph breaks: values and shapes that depend on data, and constructs that torch does not trace."""

from recompile_doctor.prescription.advice.text import AdviceText

DATA = {
    "data-dependent-branch": AdviceText(
        "The program branches on a tensor's value, which no flag captures. Compute both sides and "
        "choose with torch.where, or hand both to torch.cond.",
        """\
import torch

@torch.compile(backend="eager", fullgraph=True)
def step(x, target):
    delta = target - x
    done = delta.abs().max() < 0.1
    return torch.where(done, x, x + delta / 2)

for start in (0.0, 0.5, 0.95):
    step(torch.full((4,), start), torch.ones(4))
""",
    ),
    "data-dependent-scalar": AdviceText(
        "A Python number is taken out of a tensor (item(), int(), float(), tolist()). Keep it a "
        "tensor: index and multiply with it directly. torch's flag for it captures the number, but "
        "code that branches on the number, or counts with it, then fails.",
        """\
import torch

@torch.compile(backend="eager", fullgraph=True)
def normalized(x):
    return x / x.abs().max()  # not .max().item()

for top in (2.0, 3.0):
    normalized(torch.tensor([1.0, top]))
""",
    ),
    "data-dependent-shape": AdviceText(
        "The shape of a result depends on data (nonzero, a mask as index, unique). Multiply by the "
        "mask instead of selecting, or return the mask and select outside.",
        """\
import torch

@torch.compile(backend="eager", fullgraph=True)
def masked_mean(x):
    keep = x > 0
    return (x * keep).sum() / keep.sum().clamp(min=1)  # not x[x > 0].mean()

for start in (-2.0, -1.0):
    masked_mean(torch.arange(start, start + 4))
""",
    ),
    "data-dependent-guard": AdviceText(
        "Torch had to know a size or number that depends on data. Say what is known with "
        "torch._check, or rewrite the line so that it does not ask.",
        """\
import torch
import torch._dynamo

torch._dynamo.config.capture_scalar_outputs = True

@torch.compile(backend="eager", fullgraph=True)
def beginning(x, count):
    n = count.item()
    torch._check(n >= 0)
    torch._check(n <= x.shape[0])
    return torch.narrow(x, 0, 0, n)

for count in (2, 5):
    beginning(torch.ones(8), torch.tensor(count))
""",
    ),
    "graph-break": AdviceText(
        "Torch does not trace this construct: it ends the graph there and goes on in another "
        "function, which recompiles by itself. Move it out of the compiled function, or compile "
        "the parts before and behind it; `fullgraph=True` shows every break as an error.",
        """\
import torch

@torch.compile(backend="eager", fullgraph=True)
def step(x):
    return x * 2  # the print that broke the graph stands outside

for _ in range(2):
    y = step(torch.ones(3))
    print(y.sum())
""",
    ),
}
