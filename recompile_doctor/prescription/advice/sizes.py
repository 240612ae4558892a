"""Sizes for which a mark is not the whole answer: branches, divisibility, broadcasting, ranks."""

from recompile_doctor.prescription.advice.text import AdviceText

BROADCAST = AdviceText(
    "{subject} is 1 in some calls while the dimension that it otherwise equals is larger: it "
    "broadcasts. Expand it before the compiled function; then it can be marked like the others.",
    """\
import torch

@torch.compile(backend="eager")
def masked(x, keep):
    return x * keep

for batch, kept in ((4, 4), (3, 1), (1, 1)):
    x, keep = torch.ones(batch, 5), torch.ones(kept, 5).expand(batch, 5).contiguous()
    for each in (x, keep):
        torch._dynamo.decorators.mark_unbacked(each, 0)
    masked(x, keep)
""",
)

SIZES = {
    "range-guard": AdviceText(
        "The program, or an operation in it, branches on {subject}: one compile for each branch is "
        "what it takes. Branch outside and compile each side by itself when the number of graphs "
        "grows; an unbacked mark turns the branch into a graph break.",
        """\
import torch

@torch.compile(backend="eager", dynamic=True)
def pooled(x):
    return x.topk(3, dim=0).values.mean(0)

for rows in (6, 2, 9):
    x = torch.ones(rows, 2)
    x.mean(0) if rows < 4 else pooled(x)  # the branch stands outside
""",
    ),
    "divisibility-guard": AdviceText(
        "The graph is for sizes with one remainder. Pad {subject} to a multiple before the "
        "compiled function, or round it up to a few bucket sizes.",
        """\
import torch
import torch.nn.functional as F

@torch.compile(backend="eager")
def blockwise(x):
    return x.reshape(-1, 8, x.shape[1]).amax(1)

for rows in (10, 16, 13, 1):
    x = F.pad(torch.ones(rows, 2), (0, 0, 0, -rows % 8))
    torch._dynamo.decorators.mark_unbacked(x, 0)
    blockwise(x)
""",
    ),
    "pinned-dimension": AdviceText(
        "{subject} was made dynamic, and then the program needed it to be one number: it meets a "
        "weight or a constant of that size. Leave it static; several sizes there mean several "
        "graphs.",
    ),
    "rank-change": AdviceText(
        "The number of dimensions of {subject} changes. Give it one rank before the call "
        "(unsqueeze, or squeeze with an explicit dimension).",
        """\
import torch

@torch.compile(backend="eager", dynamic=True)
def scored(x):
    return x.sum(-1)

for x in (torch.ones(4, 3), torch.ones(3)):
    x = torch.atleast_2d(x)
    torch._dynamo.decorators.mark_unbacked(x, 0)
    scored(x)
""",
    ),
    "stride-change": AdviceText(
        "The memory layout of {subject} changes: a transposed or sliced view in one call, a fresh "
        "tensor in another. Make it contiguous before the call.",
        """\
import torch

@torch.compile(backend="eager")
def doubled(x):
    return x * 2

for x in (torch.ones(4, 4), torch.ones(4, 4).t()):
    doubled(x.contiguous())
""",
    ),
    "violated-dynamic-mark": AdviceText(
        "The program marks {subject} as dynamic, but needs it to be one number. Drop the mark, or "
        "use maybe_mark_dynamic, which gives way.",
        """\
import torch

POSITIONS = torch.ones(16, 4)

@torch.compile(backend="eager")
def encoded(tokens):
    return tokens + POSITIONS

tokens = torch.ones(3, 16, 4)
torch._dynamo.maybe_mark_dynamic(tokens, 1)
encoded(tokens)
""",
    ),
    "dim-marking-change": AdviceText(
        "{subject} is marked in some calls and not in others, or with other dimensions. Mark it in "
        "one place, before the first call.",
    ),
    "equal-sizes-guard": AdviceText(
        "Two dimensions happened to be equal when the graph was made, and torch took them for one. "
        "Mark both, so that each gets a size of its own.",
        """\
import torch

@torch.compile(backend="eager")
def pairwise(queries, keys):
    return queries[:, None] - keys[None]

for q, k in ((12, 12), (12, 30), (25, 9)):
    queries, keys = torch.ones(q), torch.ones(k)
    torch._dynamo.mark_dynamic(queries, 0)
    torch._dynamo.mark_dynamic(keys, 0)
    pairwise(queries, keys)
""",
    ),
}
