"""Objects and containers whose identity, type, length or keys torch guards on."""

from recompile_doctor.prescription.advice.text import AdviceText

OBJECTS = {
    "object-identity-change": AdviceText(
        "Another object came in for {subject} than the one that was compiled. Make it once, "
        "outside of the loop, and pass what changes as a tensor.",
        """\
import torch

@torch.compile(backend="eager")
def applied(function, x, factor):
    return function(x, factor)

def scale(x, factor):
    return x * factor

for factor in range(4):
    applied(scale, torch.ones(3), torch.tensor(factor))
""",
    ),
    "type-change": AdviceText(
        "{subject} has several types. Give it one: an empty tensor instead of None, always a tuple "
        "or always a list.",
        """\
import torch

@torch.compile(backend="eager", dynamic=True)
def appended(cache, x):
    return torch.cat([cache, x])

cache = torch.zeros(0, 4)  # not None
torch._dynamo.decorators.mark_unbacked(cache, 0)
for _ in range(3):
    cache = appended(cache, torch.ones(2, 4))
    torch._dynamo.decorators.mark_unbacked(cache, 0)
""",
    ),
    "container-length-change": AdviceText(
        "The graph holds one step for each element of {subject}, and no list makes a length "
        "dynamic. Pad or stack the elements outside of the compiled function and pass one tensor.",
        """\
import torch
from torch.nn.utils.rnn import pad_sequence

@torch.compile(backend="eager")
def total(padded):
    return padded.sum(0)

for lengths in ((3, 5), (4, 2, 6), (5,)):
    padded = pad_sequence([torch.ones(length) for length in lengths], batch_first=True)
    torch._dynamo.decorators.mark_unbacked(padded, 0)
    torch._dynamo.decorators.mark_unbacked(padded, 1)
    total(padded)
""",
    ),
    "container-keys-change": AdviceText(
        "The keys of {subject} choose the graph: each set of keys has a graph of its own. Pass the "
        "same keys always, with a neutral value for what is missing.",
        """\
import torch

NAMES = ("main", "auxiliary")

@torch.compile(backend="eager")
def combined(parts):
    return sum(part.mean() for part in parts.values())

for given in ({"main": torch.ones(4)}, {"main": torch.ones(4), "auxiliary": torch.ones(4)}):
    combined({name: given.get(name, torch.zeros(4)) for name in NAMES})
""",
    ),
    "cold-cache-entry": AdviceText(
        "The compiled graph held an object that is gone. Keep the module or tensor that {subject} "
        "names alive as long as the compiled function is used.",
    ),
    "backend-change": AdviceText(
        "Each call of torch.compile got another backend object, and graphs of one backend do not "
        "serve another. Make the backend, and the compiled function, once.",
        """\
import torch

def backend(graph, inputs):
    return graph.forward

def model(x):
    return x + 1

compiled = torch.compile(model, backend=backend)  # once, not in the loop
for _ in range(4):
    compiled(torch.ones(3))
""",
    ),
}
