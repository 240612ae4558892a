"""The watch over compiled functions, in real programs; several behaviours to each program."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from recompile_doctor.bundle import Bundle, bundle_root, create_bundle
from recompile_doctor.capture.environment import child_environment

pytestmark = pytest.mark.torch

Record = dict[str, Any]


@dataclass(frozen=True)
class Ran:
    """What a program left."""

    exit_code: int
    stdout: list[str]
    stderr: str
    calls: dict[str, Any]
    outputs: list[Record]
    notes: str

    def function(self, name: str) -> Record:
        """Return the one function of this qualified name."""
        (found,) = (each for each in self.calls["functions"] if each["qualname"] == name)
        return dict(found)

    def results(self, name: str) -> list[Record]:
        """Return the calls of a function, as the fingerprints have them."""
        number = self.function(name)["id"]
        return [each for each in self.outputs if each.get("function") == number and "call" in each]


def run(folder: Path, code: str, *, fingerprints: bool = False) -> Ran:
    """Run a program under the probe."""
    bundle = create_bundle(bundle_root(folder), "run")
    done = _start(folder, code, bundle, fingerprints=fingerprints)
    calls = [json.loads(path.read_text("utf-8")) for path in bundle.calls_files()]
    outputs = [
        json.loads(line)
        for path in bundle.outputs_files()
        for line in path.read_text("utf-8").splitlines()
    ]
    notes = "".join(path.read_text("utf-8") for path in bundle.failure_files())
    assert len(calls) == 1, (done.returncode, done.stdout, done.stderr)
    assert not set(bundle.calls_files()) & set(bundle.probe_files())
    return Ran(done.returncode, done.stdout.splitlines(), done.stderr, calls[0], outputs, notes)


def _start(
    folder: Path, code: str, bundle: Bundle | None, *, fingerprints: bool = False
) -> subprocess.CompletedProcess[str]:
    program = folder / "program.py"
    program.write_text(code)
    base = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    base["TORCH_TRACE"] = str(folder / ("probed" if bundle else "plain"))
    base["TORCH_DYNAMO_AUTOMATIC_DYNAMIC_LOCAL_PGO"] = "0"
    if bundle is not None:
        base = child_environment(
            base, bundle, use_caches=True, probe=True, fingerprints=fingerprints
        )
    return subprocess.run(
        [sys.executable, str(program)], env=base, capture_output=True, text=True, check=False
    )


def compiled(folder: Path) -> list[Any]:
    """Return what the trace in ``folder`` says was compiled, in order, and why again."""
    found: list[Any] = []
    for path in sorted(folder.glob("*.log")):
        for line in path.read_text("utf-8").splitlines():
            content = json.loads("{" + line.partition("] {")[2] or "null") if "] {" in line else {}
            if "dynamo_start" in content:
                last = content["dynamo_start"]["stack"][-1]
                found.append((last["name"], last["line"]))
            elif content.get("artifact", {}).get("name") == "recompile_reasons":
                found.append("recompile")
            found += [kind for kind in ("dynamo_output_graph",) if kind in content]
    return found


PRELUDE = """
import functools, sys, threading, traceback, torch
comp = functools.partial(torch.compile, backend="eager")
x = torch.arange(8.0).reshape(2, 4)
"""

# Each kind of callable, each place to be called from. Everything is printed, and a random number
# after each, so that a changed result or a number drawn by us shows.
# No generator and no coroutine function is compiled here: torch 2.13 itself then crashes at times
# (4 of 6 plain runs, without any of our code).
TRANSPARENT = (
    PRELUDE
    + """
import copy, inspect, warnings
torch.manual_seed(0)
def show(name, *values):
    print(name, [getattr(v, "tolist", lambda: v)() for v in values], float(torch.rand(())))
def base(x, n=2):
    return x * n + torch.rand(())
class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(4, 3)
    def forward(self, x):
        return self.l(x).relu()
    @torch.compile(backend="eager")
    def method(self, x):
        return self.l(x) + 1
    def other(self, x):
        return self.method(x) * 2
class C:
    def __call__(self, x):
        return x - 1
f = comp(base)
for size in (2, 3, 4):
    show("function", f(torch.ones(size, 4), n=size))
print(f.__name__, f.__wrapped__ is base, inspect.signature(f), f.__module__)
print(torch._dynamo.eval_frame.innermost_fn(f) is base)
show("compiled again", comp(f)(x), comp(base)(x))
m = M()
c = comp(m)
show("module", c(x), copy.deepcopy(c)(x))
show("method", m.method(x), m.other(x), comp(m.other)(x), comp(M.other)(m, x))
m2 = M()
m2.compile(backend="eager")
show("Module.compile", m2(x))
m3 = M()
m3.forward = comp(m3.forward)
show("forward", m3(x), comp(m3)(x))
show("no frame", comp(C())(x), comp(functools.partial(base, n=3))(x), comp(torch.sin)(x))
comp(C)
show("class", C()(x))
show("options", torch.compile(lambda x: x.sin(), backend="eager", dynamic=True, fullgraph=True)(x))
opt = torch.optim.SGD(m.parameters(), lr=0.1)
for _ in range(2):
    torch.compile(m, backend="aot_eager")(x).sum().backward()
    opt.step()
    show("train", *[p.detach() for p in m.parameters()])
for mode in (torch.no_grad, torch.inference_mode, functools.partial(torch.autocast, "cpu")):
    with mode():
        show("mode", c(x).detach().float(), f(x))
inner = comp(lambda x: x.cos() * 2)
functions = {"k": inner}
@comp
def nested(x):
    return inner(x) + functions["k"](x) + m.method(x).sum()
@comp
def nested_break(x):
    torch._dynamo.graph_break()
    y = inner(x)
    torch._dynamo.graph_break()
    return y * 2
@torch.compile(backend="eager", fullgraph=True)
def full(x):
    return inner(x) * 3
@comp
def takes(fn, x):
    return fn(x) + 1
show("nested", nested(x).detach(), nested_break(x), full(x), takes(inner, x))
show("disabled", torch.compiler.disable(f)(x))
torch._dynamo.reset()
show("after reset", f(x))
for stance in ("force_eager", "eager_on_recompile"):
    with torch.compiler.set_stance(stance):
        show(stance, f(torch.ones(7, 3)))
@comp
def recursive(x, n):
    torch._dynamo.graph_break()
    return x if n < 1 else recursive(x + 1, n - 1)
show("results", recursive(x, 3))
show("transforms", torch.vmap(comp(lambda x: x * 2))(x), comp(torch.func.grad(torch.sum))(x))
def warn(x):
    warnings.warn("look", stacklevel=3)
    return x + 1
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    comp(warn)(x)
print([each.filename for each in caught if str(each.message) == "look"])
@comp
def raises(x):
    raise ValueError("no")
def caller():
    return raises(x)
try:
    caller()
except ValueError as error:
    names = [(each.name, each.filename) for each in traceback.extract_tb(error.__traceback__)]
    print(names if sys.version_info >= (3, 11) else "", error.__context__)
raises(x)
"""
)


def test_the_program_runs_as_without_us(tmp_path: Path) -> None:
    """Results, random numbers, tracebacks, exit status and what torch compiled are the same."""
    plain = _start(tmp_path, TRANSPARENT, None)
    probed = run(tmp_path, TRANSPARENT, fingerprints=True)
    assert probed.stdout == plain.stdout.splitlines()
    assert probed.exit_code == plain.returncode == 1
    assert probed.stderr == plain.stderr
    assert probed.notes == ""
    assert compiled(tmp_path / "probed") == compiled(tmp_path / "plain") != []
    functions = {each["qualname"]: each for each in probed.calls["functions"]}
    assert functions["M.forward"]["kind"] == "module"
    assert functions["C.__call__"]["kind"] == "function"
    assert functions["raises"]["raised_calls"] == functions["raises"]["calls"] == 2
    assert probed.outputs[-1]["end"] is True


TABLE = (
    PRELUDE
    + """
import collections, dataclasses
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
@dataclasses.dataclass
class Batch:
    ids: torch.Tensor
    name: str
Pair = collections.namedtuple("Pair", "a b")
@comp
def f(x, n=1, *rest, flag=False, **more):
    return x * n
f(x, 2)
f(x, 2)
f(torch.ones(3, 4), 2)
f(x.t(), 2, x, flag=True, z=None)
f(x, 2.5)
f(x, 2.5, Batch(x, "b"), Pair(1, x), {"k": [x, {3: True}]}, object(), x.to_sparse())
class Hostile(torch.Tensor):
    @property
    def shape(self):
        raise RuntimeError("no")
    def __repr__(self):
        raise RuntimeError("no")
class Rude:
    def __repr__(self):
        raise RuntimeError("no")
    __eq__ = __hash__ = __str__ = __repr__
@torch.compile(backend="eager")
def g(a, b):
    return 1
torch.compiler.set_stance("force_eager")  # torch itself cannot compile these
g(x.as_subclass(Hostile), Rude())
class Count:
    n = 0
class F(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        Count.n += 1
        return func(*args, **(kwargs or {}))
class D(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        Count.n += 1
        return func(*args, **(kwargs or {}))
with F(), D():
    g(x, x)
print(Count.n)
for n in range(2100):
    g(x, n)
torch.compiler.set_stance("default")
steady = comp(lambda x: x + 1)
other = comp(lambda x: x + 2)
steady(x)
started, go = threading.Event(), threading.Event()
def work():
    for _ in range(50):
        steady(x)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
other(x)
for thread in threads:
    thread.join()
"""
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return run(tmp_path_factory.mktemp("table"), TABLE)


def test_calls_are_counted_by_their_arguments(table: Ran) -> None:
    """Sizes, strides and values with torch's sources; odd objects by type; a bounded table."""
    ran = table
    assert (ran.exit_code, ran.notes, ran.stderr) == (0, "", "")
    f = ran.function("f")
    assert (f["parameters"], f["varargs"], f["varkw"]) == (["x", "n"], "rest", "more")
    assert (f["calls"], f["kind"], f["clock"]) == (6, "function", "wall")
    first, second, third, _, last = f["rows"]
    tensor = {"dtype": "torch.float32", "device": "cpu"}
    whole = {"source": "L['x']", **tensor, "sizes": [2, 4], "strides": [4, 1]}
    assert first["arguments"] == [whole, {"source": "L['n']", "int": 2}]
    assert (first["calls"], first["compiled_calls"], first["first_call"]) == (2, 1, 0)
    assert first["steady_seconds"] > 0
    assert (second["first_call"], second["arguments"][0]["sizes"]) == (2, [3, 4])
    assert third["arguments"] == [
        {**whole, "sizes": [4, 2], "strides": [1, 4]},
        {"source": "L['n']", "int": 2},
        {**whole, "source": "L['rest'][0]"},
        {"source": "L['flag']", "value": "True"},
        {"source": "L['more']['z']", "value": "None"},
    ]
    assert [each["source"] for each in last["arguments"]] == [
        "L['x']", "L['n']", "L['rest'][0].ids", "L['rest'][0].name", "L['rest'][1].a",
        "L['rest'][1].b", "L['rest'][2]['k'][0]", "L['rest'][2]['k'][1][3]", "L['rest'][3]",
        "L['rest'][4]",
    ]  # fmt: skip
    assert last["arguments"][-2] == {"source": "L['rest'][3]", "type": "builtins.object"}
    g = ran.function("g")
    assert g["rows"][0]["arguments"] == [
        {**whole, "source": "L['a']"},
        {"source": "L['b']", "type": "__main__.Rude"},
    ]
    assert (len(g["rows"]), g["calls_without_row"], g["calls"]) == (2000, 102, 2102)
    assert ran.stdout == ["0"], "a mode of the program saw us"


def test_a_compile_in_another_thread_is_not_ours(table: Ran) -> None:
    """Calls and their times are counted over all threads, compiles by thread."""
    steady, other = (each for each in table.calls["functions"] if each["qualname"] == "<lambda>")
    assert (steady["calls"], steady["compiled_calls"], steady["steady_calls"]) == (201, 1, 200)
    assert (other["calls"], other["compiled_calls"]) == (1, 1)
    times = steady["steady_seconds"]
    assert times["samples"] == 200
    assert 0 < times["min"] <= times["median"] <= times["max"] <= times["sum"]


PRINTS = (
    PRELUDE
    + """
import collections, dataclasses, gc, weakref
Pair = collections.namedtuple("Pair", "a b")
@dataclasses.dataclass
class Box:
    t: torch.Tensor
big = torch.arange(3_000_000.0).reshape(3, 1000, 1000)
model = torch.nn.Sequential(torch.nn.Linear(4, 2))
@torch.compile(backend="eager")
def f(x):
    x.add_(1)
    nan = float("nan")
    return {"a": (x, [x > 4]), "p": Pair(1, Box(x * 1j)), "n": torch.tensor([nan, 1.0]), "s": "s"}
@torch.compile(backend="eager")
def identity(x):
    return x
@torch.compile(backend="aot_eager")
def loss(x):
    return model(x).sum()
f(x.clone())
for tensor in (big, big.transpose(0, 2), torch.ones(3).to("meta"), torch.ones(2).to_sparse(),
               torch.tensor([2**62, 2**62, 5]), torch.tensor([], dtype=torch.bool), big[:, ::7]):
    identity(tensor)
y = torch.ones(2, 4, requires_grad=True)
loss(y).backward()
identity(y)
lives = torch.ones(3)
gone = weakref.ref(identity(lives))
del lives
print(gone())
dying = torch.nn.Linear(4, 2)
weight = weakref.ref(dying.weight)
torch.compile(dying, backend="eager")(x).sum().backward()
del dying
gc.collect()
print(weight())
with torch.autocast("cpu"), torch.no_grad():
    identity(big)
try:
    identity()
except TypeError:
    pass
"""
)


def test_outputs_are_fingerprinted(tmp_path: Path) -> None:
    """Containers, values that are no numbers, large and unreadable tensors, and parameters."""
    ran = run(tmp_path, PRINTS, fingerprints=True)
    assert (ran.exit_code, ran.notes, ran.stderr) == (0, "", "")
    assert ran.stdout == ["None", "None"], "something of the program was kept alive"
    assert ran.outputs[0]["format"] == 1
    (call,) = ran.results("f")
    outputs = {each["path"]: each for each in call["outputs"]}
    assert list(outputs) == [
        "['a'][0]", "['a'][1][0]", "['p'].a", "['p'].b", "['p'].b.t", "['n']", "['s']"
    ]  # fmt: skip
    assert outputs["['p'].b"] == {"path": "['p'].b", "type": "__main__.Box", "members": True}
    assert outputs["['a'][0]"]["sum"] == 36.0
    assert outputs["['a'][1][0]"]["exact"] == 4
    assert outputs["['p'].b.t"]["sample"][:4] == [0.0, 1.0, 0.0, 2.0]
    assert outputs["['n']"]["nan"] == 1
    assert outputs["['n']"]["sample"] == ["nan", 1.0]
    assert outputs["['n']"]["sum"] == 1.0
    assert outputs["['s']"] == {"path": "['s']", "value": "'s'"}
    assert call["arguments"][0]["sum"] == 36.0, "the argument as the call left it"
    results = ran.results("identity")
    big, turned, meta, sparse, ints, empty, strided, leaf, *_ = (
        each["outputs"][0] for each in results[:-1]
    )
    n = 3_000_000
    assert big["sum"] == big["abs"] == turned["sum"] == n * (n - 1) / 2
    assert big["weighted"] != pytest.approx(turned["weighted"], rel=1e-9)
    weights = (1 + (i * 2654435761) % 2**32 / 2**32 for i in range(n))
    expected = sum(i * weight for i, weight in enumerate(weights))
    assert big["weighted"] == pytest.approx(expected, rel=1e-12)
    assert big["sample"] == [float(i * n // 64) for i in range(64)]
    assert (big["min"], big["max"], len(strided["sample"])) == (0.0, n - 1.0, 64)
    assert meta["values"] == sparse["values"] == "unknown"
    assert "meta" in meta["why"]
    assert ints["exact"] == (2**63 + 5) % 2**63
    assert (empty["numel"], empty["min"], empty["sum"], empty["sample"]) == (0, None, 0.0, [])
    assert results[7]["arguments"][0]["grad"]["numel"] == 8
    assert leaf["numel"] == 8
    assert results[-2]["outputs"] == results[0]["outputs"]
    assert results[-1]["raised"].startswith("TypeError")
    assert [each["call"] for each in results] == list(range(len(results)))
    parameters = [each for line in ran.outputs for each in line.get("parameters", ())]
    assert [(each["module"], each["number"], each["name"]) for each in parameters] == [
        ("Linear", 1, "weight"),  # dies first
        ("Linear", 1, "bias"),
        ("Sequential", 0, "0.weight"),
        ("Sequential", 0, "0.bias"),
    ]
    assert all(each["grad"]["numel"] == each["value"]["numel"] for each in parameters)
    assert ran.outputs[-1] == {"end": True, "calls": 14, "skipped": 0}


FAULTS = (
    PRELUDE
    + """
f, g, h = comp(lambda x: x + 1), comp(lambda x: x + 2), comp(lambda x: x + 3)
print(f(x).sum(), g(x).sum())
probe = "recompile_doctor_probe."
def fail(*args, **kwargs):
    raise RuntimeError("injected")
sys.modules[probe + "calls"].Watch._account = fail
print(f(x).sum(), f(x).sum())
del sys.modules[probe + "calls"].Watch._new_row
print(h(x).sum())
sys.modules[probe + "calls"].describe = fail
print(comp(lambda x: x + 4)(x).sum())
sys.modules[probe + "outputs"].Outputs.finish = fail
sys.exit(7)
"""
)


def test_a_failure_of_ours_does_not_reach_the_program(tmp_path: Path) -> None:
    """The function goes on unobserved, and a note says so."""
    ran = run(tmp_path, FAULTS, fingerprints=True)
    assert ran.exit_code == 7
    assert ran.stderr == ""
    assert ran.stdout == [
        "tensor(36.) tensor(44.)",
        "tensor(36.) tensor(36.)",
        "tensor(52.)",
        "tensor(60.)",
    ]
    assert "injected" in ran.notes
    assert "could not be observed any more" in ran.notes
    assert "could not be watched" in ran.notes
    assert "the calls could not be written" in ran.notes


def test_a_killed_process_and_a_forked_one_leave_their_calls(tmp_path: Path) -> None:
    """The file is written now and then; a forked process writes its own."""
    code = (
        PRELUDE
        + """
import os, signal, time
f = comp(lambda x: x + 1)
f(x)
if os.fork() == 0:
    f(x); f(x)
    sys.exit(0)
os.wait()
calls = sys.modules["recompile_doctor_probe.calls"]
watch = next(c.cell_contents for c in f.__closure__ if isinstance(c.cell_contents, calls.Watch))
watch._process.next_write = 0.0
f(x)
os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    bundle = create_bundle(bundle_root(tmp_path), "run")
    _start(tmp_path, code, bundle)
    files = [json.loads(path.read_text("utf-8")) for path in bundle.calls_files()]
    files.sort(key=lambda each: bool(each["complete"]))
    assert [each["complete"] for each in files] == [False, True]
    assert [each["functions"][0]["calls"] for each in files] == [2, 2]
    assert [each["functions"][0]["compiled_calls"] for each in files] == [1, 0]


GROUP = """
import sys
import torch
import torch.distributed as dist

dist.init_process_group("gloo", init_method=f"file://{sys.argv[0]}.store", rank=0, world_size=1)
double = torch.compile(lambda x: x * 2, backend="eager")
double(torch.ones(3))
dist.destroy_process_group()
"""


def test_the_rank_that_a_program_gives_itself_is_known(tmp_path: Path) -> None:
    """torch.multiprocessing.spawn sets no variable; processes start in any order."""
    ran = run(tmp_path, GROUP, fingerprints=True)
    assert ran.calls["rank"] == {"RANK": "0"}
    assert ran.outputs[0]["rank"] == {"RANK": "0"}
    assert ran.notes == ""


HIDING = (
    PRELUDE
    + """
import collections, dataclasses, enum, logging
import numpy
class Rude:
    def __init__(self, **held):
        self.__dict__.update(held)
    def __getattr__(self, name):
        raise RuntimeError("no")
    __repr__ = __eq__ = __hash__ = __str__ = __len__ = __getattr__
    bad = property(__getattr__)
class Slots:
    __slots__ = ("t", "unset")
    def __init__(self, t):
        self.t = t
Sized = dataclasses.make_dataclass("Sized", [("t", object)], slots=True)
Color = enum.Enum("Color", "RED")
class Output(collections.OrderedDict):
    pass
output = Output(logits=x)
output.logits, output.more = x, x + 1
around = Rude(t=x)
around.me = [around]
@comp
def give(key):
    return values[key]
values = {
    "object": Rude(t=x, inner=Rude(n=1)), "around": around, "slots": Slots(x), "sized": Sized(x),
    "output": output, "keys": {(1, "a"): x, Color.RED: 2, Rude: 3}, "array": numpy.eye(3)[::-1],
    "number": numpy.float32(1.5), "dtype": torch.float16, "enum": Color.RED, "set": {"b", 1, "a"},
    "slice": slice(1, None), "long": "a" * 100, "complex": 1 + 2j, "function": give.__wrapped__,
    "closure": lambda: x, "generator": (each for each in ()), "logger": logging.getLogger("a"),
    "module": torch.nn.Linear(1, 1), "partial": functools.partial(print),
    "raw": collections.deque(), "none": None,
}
values["closure"] = (lambda y: lambda: y)(x)
with torch.compiler.set_stance("force_eager"):
    for key in values:
        give(key)
class Inner(torch.nn.Module):
    def forward(self, x):
        self.last = [x * 3]
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.same = torch.nn.Parameter(torch.ones(4)), [self.parameters, {}]
        self.register_buffer("steps", torch.zeros(()))
        self.register_buffer("fixed", torch.ones(2))
        self.inner, self.cache = Inner(), {}
    def forward(self, x):
        self.steps += 1
        self.inner(x)
        self.cache = {"k": x * self.weight}
    @torch.compile(backend="eager")
    def method(self, x):
        self.cache = x * 2
class Trainer:
    def __init__(self):
        self.model = Inner()
        self.model.scale = torch.nn.Parameter(torch.ones(2))
        self.optimizer = torch.optim.SGD([torch.nn.Parameter(x.clone())], lr=0.1)
        self.log = [x] * 60
        self.words, self.graph = {str(n): n for n in range(30_000)}, x.to_sparse()
        self.data = torch.ones(600, 600)
    def step(self, x):
        self.model(x)
        self.log.append(x + 1)
    __call__ = step
model, trainer = Model(), Trainer()
comp(model)(x)
model.method(x)
comp(trainer.step)(x)
comp(trainer)(x)
@comp
def fill(into, store, x):
    into.copy_(x)
    store.held = x + 1
store = Rude(held=x)
fill(torch.zeros(2, 4), store, x)
many = comp(lambda: [0] * 10_001)
with torch.compiler.set_stance("force_eager"):
    many()
"""
)


@pytest.fixture(scope="module")
def hiding(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    ran = run(tmp_path_factory.mktemp("hiding"), HIDING, fingerprints=True)
    assert (ran.exit_code, ran.notes, ran.stderr) == (0, "", "")
    return ran


def test_what_an_object_holds_is_fingerprinted(hiding: Ran) -> None:
    """Without running its code; where it may hold more than can be read, only its type stands."""
    spelled = [
        {each["path"]: _spelled(each) for each in call["outputs"]}
        for call in hiding.results("give")
    ]
    keys = [row["arguments"][0]["value"].strip("'") for row in hiding.function("give")["rows"]]
    found = dict(zip(keys, spelled, strict=True))
    around = "+__main__.Rude"
    assert found["object"] == {"": around, ".t": 28.0, ".inner": around, ".inner.n": 1}
    assert found["around"] == {"": around, ".t": 28.0, ".me[0]": around}
    assert found["slots"] == {"": "+__main__.Slots", ".t": 28.0}
    assert found["sized"][".t"] == 28.0
    assert found["output"] == {"['logits']": 28.0, ".more": 36.0}
    assert found["keys"] == {
        "[(1, 'a')]": 28.0,
        "[__main__.Color.RED]": 2,
        "[class __main__.Rude]": 3,
    }
    assert found["array"] == {"": 3.0}
    assert found["complex"] == {".real": "1.0", ".imag": "2.0"}
    texts = {
        "number": "1.5",
        "dtype": "torch.float16",
        "enum": "__main__.Color.RED",
        "set": "{'a', 'b', 1}",
        "slice": "slice(1, None, None)",
        "function": "function '__main__'.give",
        "none": "None",
    }
    assert {key: found[key][""] for key in texts} == texts
    assert found["long"][""].startswith("'aaa") and len(found["long"][""]) <= 80
    opaque = {
        "closure": "builtins.function",
        "generator": "builtins.generator",
        "logger": "logging.Logger",
        "module": "torch.nn.modules.linear.Linear",
        "partial": "functools.partial",
    }
    assert {key: found[key] for key in opaque} == {key: {"": f"?{opaque[key]}"} for key in opaque}
    assert found["raw"] == {}
    (many,) = hiding.results("<lambda>")
    assert (len(many["outputs"]), many["cut"]) == (10_000, True)


def _spelled(leaf: Record) -> object:
    """Return what a leaf says: `+` before a type whose members follow, `?` before any other."""
    if "type" in leaf:
        return ("+" if leaf.get("members") else "?") + leaf["type"]
    return next(leaf[key] for key in ("sum", "int", "value") if key in leaf)


def test_what_a_call_leaves_on_its_objects_is_fingerprinted(hiding: Ran) -> None:
    """Attributes and buffers, not parameters, and whether the call put or changed them."""

    def left(name: str, number: int = 0) -> dict[str, tuple[float, bool]]:
        call = hiding.results(name)[number]
        return {
            each["path"]: (each["sum"], each.get("changed", False)) for each in call["arguments"]
        }

    argument = {"L['x']": (28.0, False)}
    assert left("Model.forward") == argument | {
        "self.cache['k']": (28.0, True),
        "self.steps": (1.0, True),
        "self.fixed": (2.0, False),
        "self.inner.last[0]": (84.0, True),
    }
    method = left("Model.method")
    assert method["self.cache"] == (56.0, True)
    assert method["self.steps"] == (1.0, False)
    logged = {f"self.log[{number}]": (28.0, False) for number in range(11, 60)}
    assert left("Trainer.step") == argument | logged | {
        "self.model.last[0]": (84.0, True),
        "self.data": (360_000.0, False),
        "self.log[60]": (36.0, True),
    }
    assert left("step")["self.data"] == (360_000.0, False), "read once"
    assert not any(call.get("cut") for call in hiding.results("Trainer.step"))
    assert left("step")["self.log[61]"] == (36.0, True), "an object that is called"
    assert left("fill") == argument | {
        "L['into']": (28.0, True),
        "L['store'].held": (36.0, True),
    }
    parameters = [each for line in hiding.outputs for each in line.get("parameters", ())]
    assert [(each["module"], each["name"]) for each in parameters] == [
        ("Model", "weight"),
        ("Inner", "scale"),
    ]
