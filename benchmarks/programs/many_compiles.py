"""Sixty compiles of small functions on the eager backend: all time goes into compiling."""

import torch


def make(index):
    """Return a function with a constant of its own."""

    def body(x, y):
        z = torch.sin(x) + y * index
        return torch.relu(z).sum(dim=-1) / (index + 1)

    return body


for index in range(20):
    torch._dynamo.reset()
    compiled = torch.compile(make(index), backend="eager")
    for size in (8, 9, 1):
        compiled(torch.randn(size, 4), torch.randn(size, 4))
