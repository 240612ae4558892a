"""The codemod that marks arguments before the calls of a compiled function."""

from pathlib import Path

import pytest

from recompile_doctor.events.vocabulary import MarkKind, StackFrame
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.prescription.call_sites import FrameMarks, SourceFile
from recompile_doctor.prescription.marks import Mark
from recompile_doctor.prescription.patch import make_patch
from recompile_doctor.prescription.patched import PatchResult

X0 = Mark("L['x']", 0, MarkKind.UNBACKED)
IMPORT = "from torch._dynamo.decorators import mark_unbacked\n"
FUNCTION = "import torch\n@torch.compile\ndef f(x, y=None, *args, z=1, **kw):\n    return x\n"
NET = """import torch
class Net(torch.nn.Module):
    def forward(self, x, mask=None):
        return x
"""


def patch(
    source: str | dict[str, str],
    function: str = "f",
    marks: tuple[Mark, ...] = (X0,),
    calls: tuple[StackFrame, ...] = (),
    torch: str = "2.13.0",
) -> PatchResult:
    texts = {"a.py": source} if isinstance(source, str) else source
    files = [SourceFile(Path("/p") / name, name, text.encode()) for name, text in texts.items()]
    first = next(iter(texts))
    lines = texts[first].split("\n")
    line = next((n for n, text in enumerate(lines, 1) if f"def {function}(" in text), None)
    request = FrameMarks(FrameKey(function, f"/p/{first}", line), marks, calls)
    return make_patch([request], files, target_torch=torch)


def after(result: PatchResult, name: str = "a.py") -> str:
    return next(file.after for file in result.files if file.name == name).decode()


def added(result: PatchResult) -> list[str]:
    """Return the lines that the patch adds, without the imports."""
    lines = [line[1:] for line in result.diff.splitlines() if line.startswith("+")]
    return [line.strip() for line in lines if not line.startswith(("++ ", "from torch._dynamo"))]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("f(a)\n", "mark_unbacked(a, 0)\nf(a)\n"),
        ("a = f(a)\n", "mark_unbacked(a, 0)\na = f(a)\n"),
        ("a = f(a + 1)\n", "x_arg = a + 1\nmark_unbacked(x_arg, 0)\na = f(x_arg)\n"),
        ("for a in f(a):\n    a = 1\n", "mark_unbacked(a, 0)\nfor a in f(a):\n    a = 1\n"),
        (
            "f(*g())\n",
            "unpacked_arg = (*g(),)\nmark_unbacked(unpacked_arg[0], 0)\nf(*unpacked_arg)\n",
        ),
        (
            "f(**g())\n",
            'unpacked_arg = {**g()}\nmark_unbacked(unpacked_arg["x"], 0)\nf(**unpacked_arg)\n',
        ),
        (
            "print(f'{f(g()):>3}')\n",
            "x_arg = g()\nmark_unbacked(x_arg, 0)\nprint(f'{f(x_arg):>3}')\n",
        ),
        ("f(y=1, x=a)\n", "mark_unbacked(a, 0)\nf(y=1, x=a)\n"),
        ("f(o.a['k'][0])\n", "mark_unbacked(o.a['k'][0], 0)\nf(o.a['k'][0])\n"),
        ("f(*q)\n", "mark_unbacked(q[0], 0)\nf(*q)\n"),
        ("f(**q)\n", 'mark_unbacked(q["x"], 0)\nf(**q)\n'),
        ("y = f(g(1))\n", "x_arg = g(1)\nmark_unbacked(x_arg, 0)\ny = f(x_arg)\n"),
        ("y = f(a + 1)\n", "x_arg = a + 1\nmark_unbacked(x_arg, 0)\ny = f(x_arg)\n"),
        (
            "f(y=g(), x=h())\n",
            "y_arg = g()\nx_arg = h()\nmark_unbacked(x_arg, 0)\nf(y=y_arg, x=x_arg)\n",
        ),
        (
            "f(z=o.z, x=h())\n",
            "z_arg = o.z\nx_arg = h()\nmark_unbacked(x_arg, 0)\nf(z=z_arg, x=x_arg)\n",
        ),
        ("f(b, g())\n", "mark_unbacked(b, 0)\nf(b, g())\n"),
        ("if f(a).sum():\n    b\n", "mark_unbacked(a, 0)\nif f(a).sum():\n    b\n"),
        ("for i in f(a):\n    b\n", "mark_unbacked(a, 0)\nfor i in f(a):\n    b\n"),
        ("with f(a) as b:\n    b\n", "mark_unbacked(a, 0)\nwith f(a) as b:\n    b\n"),
        ("match f(a):\n    case 1: b\n", "mark_unbacked(a, 0)\nmatch f(a):\n    case 1: b\n"),
        ("for i in q:\n    f(i)\n", "for i in q:\n    mark_unbacked(i, 0)\n    f(i)\n"),
        ("if a: f(a)\n", "if a: mark_unbacked(a, 0); f(a)\n"),
        ("a = 1; f(a); b\n", "a = 1; mark_unbacked(a, 0); f(a); b\n"),
        ("a = 1; f(g())\n", "a = 1; x_arg = g(); mark_unbacked(x_arg, 0); f(x_arg)\n"),
        ("def r(a):\n\treturn f(a)\n", "def r(a):\n\tmark_unbacked(a, 0)\n\treturn f(a)\n"),
        (
            "async def r(q):\n  return f(await q)\n",
            "async def r(q):\n  x_arg = await q\n  mark_unbacked(x_arg, 0)\n  return f(x_arg)\n",
        ),
        ("f(a) if f else 0\n", None),
        ("0 if f(a) else 1\n", "mark_unbacked(a, 0)\n0 if f(a) else 1\n"),
        ("f(a) and b\n", "mark_unbacked(a, 0)\nf(a) and b\n"),
        ("[i for i in f(a)]\n", "mark_unbacked(a, 0)\n[i for i in f(a)]\n"),
        ("q.append(f(g()))\n", "x_arg = g()\nmark_unbacked(x_arg, 0)\nq.append(f(x_arg))\n"),
        (
            "f(f(a))\n",
            "mark_unbacked(a, 0)\nx_arg = f(a)\nmark_unbacked(x_arg, 0)\nf(x_arg)\n",
        ),
        ("f(a) + f(b)\n", "mark_unbacked(a, 0)\nmark_unbacked(b, 0)\nf(a) + f(b)\n"),
        (
            "f(\n    a\n    + b,  # why\n)\n",
            "x_arg = (a\n    + b)\nmark_unbacked(x_arg, 0)\nf(\n    x_arg,  # why\n)\n",
        ),
        ("class C:\n    q = f(a)\n", "class C:\n    mark_unbacked(a, 0)\n    q = f(a)\n"),
        ("torch.compile(f)(a)\n", "mark_unbacked(a, 0)\ntorch.compile(f)(a)\n"),
    ],
)
def test_call_forms(before: str, expected: str | None) -> None:
    """A mark goes before the statement of the call, and nothing else changes."""
    result = patch(FUNCTION + before)
    if expected is None:
        assert not result.files
        return
    assert after(result) == FUNCTION.replace("import torch\n", "import torch\n" + IMPORT) + expected
    assert not result.declined
    assert result.marked == (X0,)
    again = patch(after(result))
    assert again.diff == ""
    assert again.marked == (X0,)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("if a:\n    b\nelif f(a):\n    b\n", "in the condition of an elif"),
        ("while f(a):\n    b\n", "in the condition of a while loop"),
        ("[f(i) for i in q]\n", "in a comprehension"),
        ("[j for i in q for j in f(i)]\n", "in a comprehension"),
        ("sum(f(i) for i in q)\n", "in a comprehension"),
        ("k = lambda q: f(q)\n", "in a lambda"),
        ("f(a) if b else 0\n", "in a branch of a conditional expression"),
        ("b and f(a)\n", "behind 'and' or 'or'"),
        ("a < b < f(a)\n", "in a chain of comparisons"),
        ("def r(q=f(a)): pass\n", "a default"),
        ("@f(a)\ndef r(): pass\n", "in a decorator"),
        ("class C(f(a)): pass\n", "in the first line of a class"),
        ("class C:\n    q = f(g())\n", "attribute of the class"),
        ("with a, f(b): pass\n", "behind another context manager"),
        ("f(b) + f(g())\n", "runs other code before it"),
        ("print(len(a), f(g()))\n", "runs other code before it"),
        ("print(h(), f(o.a))\n", "the statement runs other code"),
        ("print(f'{f(g())=}')\n", "the f-string shows its text"),
        ("assert f(g())\n", "python -O"),
        ("print((a := 1), f(a))\n", "assigned in the same statement"),
        ("f(*q, *r)\n", "several unpacked arguments"),
        ("q[f(a)] = 1\n", "in the target of an assignment"),
        ("get()(1)\n", "no call of f"),
        ("f(None)\n", "no call gives it a tensor"),
    ],
)
def test_declined_calls(call: str, reason: str) -> None:
    """A call before which nothing can be inserted without a guess is left alone, with a reason."""
    result = patch(FUNCTION + call)
    assert [reason in each.why for each in result.declined] == [True]
    assert result.declined[0].marks == (X0,)
    if "f(b) +" not in call:
        assert not result.files
        assert result.diff == ""


@pytest.mark.parametrize(
    ("source", "function", "expected"),
    [
        (NET + "m = torch.compile(Net())\nm(a)\n", "forward", ["mark_unbacked(a, 0)"]),
        (
            NET + "m = Net().cuda()\nm = torch.compile(m)\nm(a)\n",
            "forward",
            ["mark_unbacked(a, 0)"],
        ),
        (NET + "m = Net()\nm.compile()\nm(a)\n", "forward", ["mark_unbacked(a, 0)"]),
        (
            NET + "m = Net()\nm.forward = torch.compile(m.forward)\nm(a)\n",
            "forward",
            ["mark_unbacked(a, 0)"],
        ),
        (
            NET + "class T:\n    def __init__(self):\n        self.net = torch.compile(Net())\n"
            "    def step(self, b):\n        return self.net(b)\nT().net(a)\n",
            "forward",
            ["mark_unbacked(b, 0)", "mark_unbacked(a, 0)"],
        ),
        (
            "import torch\ndef f(x): return x\nclass T:\n    def __init__(self):\n"
            "        self.fn = torch.compile(f)\n    def go(self, q):\n        self.fn(q)\n",
            "f",
            ["mark_unbacked(q, 0)"],
        ),
        (
            "import torch\ndef f(x): return x\nc = torch.compile(f, dynamic=False)\nc(a)\nf(b)\n",
            "f",
            ["mark_unbacked(a, 0)"],
        ),
        (
            "from torch import compile as tc\ndef f(x): return x\nc = tc(mode='q')(f)\nc(a)\n",
            "f",
            ["mark_unbacked(a, 0)"],
        ),
        (
            "import torch\nopt = torch.compile(mode='q')\n@opt\ndef f(x): return x\nf(a)\n",
            "f",
            ["mark_unbacked(a, 0)"],
        ),
        (
            "import torch\n@torch.no_grad()\n@torch.compile\ndef f(x): return x\nf(a)\n",
            "f",
            ["mark_unbacked(a, 0)"],
        ),
        (
            "import torch\nc = torch.compile(lambda x: x)\nc(a)\n",
            "<lambda>",
            ["mark_unbacked(a, 0)"],
        ),
        (
            "import torch\nclass T:\n    @torch.compile()\n    def f(self, x): return x\n"
            "class S(T):\n    def go(self, q): self.f(q)\n",
            "f",
            ["def go(self, q): mark_unbacked(q, 0); self.f(q)"],
        ),
    ],
)
def test_ways_to_compile(source: str, function: str, expected: list[str]) -> None:
    """A call is followed to the function through every way of compiling it."""
    result = patch(source, function)
    assert added(result) == expected
    assert not result.declined


def test_a_partial_is_declined() -> None:
    """Calls of a functools.partial do not show all arguments."""
    source = "import torch, functools\ndef f(y, x): return x\n"
    result = patch(source + "c = torch.compile(functools.partial(f, 1))\nc(a)\n")
    assert not result.files
    assert "functools.partial" in result.declined[0].why


def test_an_unknown_decorator_is_declined() -> None:
    """A decorator above torch.compile may change the arguments."""
    result = patch("import torch\n@cache\n@torch.compile\ndef f(x): return x\nf(a)\n")
    assert "its decorator cache may change the arguments" in result.declined[0].why


def test_traced_callers_are_left_alone() -> None:
    """In code that torch traces itself a mark is an error, so such a call gets none."""
    source = FUNCTION + "def h(q): return f(q)\n@torch.compile\ndef g(q): return h(q)\ng(a)\n"
    result = patch(source)
    assert not result.files
    assert "called only from code that torch traces" in result.declined[0].why
    assert added(patch(source + "f(b)\n")) == ["mark_unbacked(b, 0)"]


def test_calls_in_other_files() -> None:
    """Calls in files that import the function are found, the import is added there."""
    result = patch(
        {
            "pkg/model.py": FUNCTION,
            "pkg/train.py": "from .model import f as go\ngo(a)\n",
            "run.py": "import pkg.model as m\nm.f(a)\n",
            "other.py": "def f(x): return x\nf(a)\n",
        }
    )
    assert {file.name for file in result.files} == {"pkg/train.py", "run.py"}
    assert after(result, "run.py") == (
        f"import pkg.model as m\n{IMPORT}mark_unbacked(a, 0)\nm.f(a)\n"
    )


def test_a_line_of_the_log_names_a_call_that_the_text_does_not() -> None:
    """What is called at a line of the log is marked, also in its other calls."""
    loop = "def train(model):\n    model(a)\n    print(b)\n    model(b)\n"
    source = NET + loop + "train(torch.compile(Net()))\n"
    assert not patch(source, "forward").files
    line = StackFrame("/p/a.py", 6, "train")
    result = patch(source, "forward", calls=(line,))
    assert added(result) == ["mark_unbacked(a, 0)", "mark_unbacked(b, 0)"]


def test_a_call_in_a_library_is_declined() -> None:
    """A call in code that is not the user's is named, with the advice to use the environment."""
    frame = StackFrame("/v/lib/python3.11/site-packages/trainer/loop.py", 3, "fit")
    result = patch(NET + "fit(torch.compile(Net()))\n", "forward", calls=(frame,))
    assert not result.files
    assert "installed library" in result.declined[0].why
    assert "environment" in result.declined[0].advice


def test_paths_below_arguments() -> None:
    """Items, attributes and submodules below an argument are written as the caller reaches them."""
    marks = tuple(
        Mark(source, 0, MarkKind.DYNAMIC)
        for source in (
            "L['x']['clicks']",
            "L['y'].q[0][1]",
            "L['args'][1]",
            "L['kw']['z-a']",
            "L['self']._modules['layers']._modules['1'].t",
        )
    )
    source = (
        "import torch\nclass T:\n    @torch.compile\n    def f(self, x, y, *args, **kw): return x\n"
    )
    result = patch(source + "t = T()\nt.f(a, b, 0, c, **q)\n", marks=marks)
    assert added(result) == [
        'maybe_mark_dynamic(a["clicks"], 0)',
        "maybe_mark_dynamic(b.q[0][1], 0)",
        "maybe_mark_dynamic(c, 0)",
        'maybe_mark_dynamic(q["z-a"], 0)',
        'maybe_mark_dynamic(getattr(t.layers, "1").t, 0)',
    ]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("L['self']._parameters['w']", "on which torch ignores marks"),
        ("L['self']._buffers['w']", "on which torch ignores marks"),
        ("L['x']._base", "mark the view instead"),
        ("L['___stack0']", "no argument of the function"),
        ("L['q']", "no argument of the function"),
        ("___from_numpy(L['x'])", "not the argument itself"),
        ("G['T']", "is not the global of that name"),
        ("L['x'][True]", "has no plain text"),
    ],
)
def test_sources_that_no_caller_can_mark(source: str, reason: str) -> None:
    """A source that a call does not show is declined with the reason."""
    program = "import torch\n@torch.compile\ndef f(x): return x\ndef g(T):\n    f(a)\n"
    result = patch(program, marks=(Mark(source, 0, MarkKind.UNBACKED),))
    assert not result.files
    assert [reason in each.why for each in result.declined] == [True]


def test_an_int_has_no_mark() -> None:
    """No call of torch marks an int."""
    result = patch(FUNCTION + "f(a)\n", marks=(Mark("L['x']", None, MarkKind.DYNAMIC),))
    assert "no call marks an int" in result.declined[0].why


def test_optional_arguments_are_asked_for_none() -> None:
    """An argument that may be None by the function's signature is marked under a condition."""
    marks = (X0, *(Mark("L['y']", dim, MarkKind.UNBACKED) for dim in (0, 1)))
    result = patch(FUNCTION + "f(a, b)\nf(a)\nf(a, None)\n", marks=marks)
    assert added(result) == [
        "mark_unbacked(a, 0)",
        "if b is not None:",
        "mark_unbacked(b, 0)",
        "mark_unbacked(b, 1)",
        "mark_unbacked(a, 0)",
        "mark_unbacked(a, 0)",
    ]
    assert patch(after(result), marks=marks).diff == ""


def test_a_key_that_the_function_asks_for_is_declined() -> None:
    """A key that may be missing by the function's own text would be an error for the caller."""
    source = "import torch\n@torch.compile\ndef f(x):\n    return x.get('k')\nf(a)\n"
    result = patch(source, marks=(Mark("L['x']['k']", 0, MarkKind.UNBACKED),))
    assert "allows that the key 'k'" in result.declined[0].why


def test_resume_functions() -> None:
    """An argument that reaches a resume function as it is can be marked, a new value cannot."""
    source = "import torch\n@torch.compile\ndef f(x, y):\n    y = x\n    return y\nf(a, b)\n"
    files = [SourceFile(Path("/p/a.py"), "a.py", source.encode())]
    marks = (X0, Mark("L['y']", 0, MarkKind.UNBACKED))
    frame = FrameKey("torch_dynamo_resume_in_f_at_4", "/p/a.py", 4)
    result = make_patch([FrameMarks(frame, marks)], files, target_torch="2.13")
    assert added(result) == ["mark_unbacked(a, 0)"]
    assert "made inside of the function" in result.declined[0].why


@pytest.mark.parametrize(
    ("mark", "call"),
    [
        ("mu(a, 0)", None),
        ("mu(a, index=[0, 1])", None),
        ("mu(t=a, index=0)", None),
        ("mu(a, 1)", "mu(a, 0)"),
        ("mu(b, 0)", "mu(a, 0)"),
        ("mu(a, 0)\na = g()", "mu(a, 0)"),
        ("mu(a, 0)\nprint(a)", None),
    ],
)
def test_marks_written_by_hand(mark: str, call: str | None) -> None:
    """A mark that holds at the call already is not written again; its import is used."""
    source = "from torch._dynamo.decorators import mark_unbacked as mu\n" + FUNCTION
    result = patch(f"{source}{mark}\nf(a)\n")
    assert added(result) == ([] if call is None else [call])
    assert not result.declined


@pytest.mark.parametrize("mark", ["mu(a, 0, shape_id='q')", "mu(a, n)", "mu(a, 0, min=2)"])
def test_a_mark_of_another_kind_is_not_overruled(mark: str) -> None:
    """Where the program marks the dimension in its own way, nothing is added."""
    source = "from torch._dynamo.decorators import mark_unbacked as mu\n" + FUNCTION
    result = patch(f"{source}{mark}\nf(a)\n")
    assert not result.files
    assert "in its own way" in result.declined[0].why


@pytest.mark.parametrize(
    ("torch", "expected", "lost"),
    [
        ("2.13.0", 'mark_unbacked(a, 0, hint_override=8, shape_id="b", min=1, max=64)', 0),
        ("2.11.0", 'mark_unbacked(a, 0, hint_override=8, shape_id="b")', 2),
        ("2.10.0", "mark_unbacked(a, 0, hint_override=8)", 3),
        ("2.8.0", "mark_unbacked(a, 0)", 4),
    ],
)
def test_only_what_the_release_takes(torch: str, expected: str, lost: int) -> None:
    """Options that the target torch lacks are left out, and each is told as a loss."""
    mark = Mark("L['x']", 0, MarkKind.UNBACKED, "b", 1, 64, 8)
    result = patch(FUNCTION + "f(a)\n", marks=(mark,), torch=torch)
    assert added(result) == [expected]
    assert len(result.losses) == lost


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ('"""Doc."""\nimport torch\n\n', '"""Doc."""\nimport torch\n{}\n'),
        (
            "from __future__ import annotations\nimport os\nos.environ['A'] = '1'\nimport torch\n",
            "from __future__ import annotations\nimport os\nos.environ['A'] = '1'\n"
            "import torch\n{}",
        ),
        ("import torch  # why\nimport z\n\n", "import torch  # why\nimport z\n{}\n"),
        ("import os\nfrom torch import (\n    compile,\n)\nimport torch\n", None),
    ],
)
def test_place_of_the_import(head: str, expected: str | None) -> None:
    """The import goes behind those that bring torch in, never before what prepares it."""
    body = "@torch.compile\ndef f(x): return x\n"
    result = patch(f"{head}{body}f(a)\n")
    start = (expected or head + "{}").format(IMPORT)
    assert after(result) == f"{start}{body}mark_unbacked(a, 0)\nf(a)\n"


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ("import torch._dynamo\n", "torch._dynamo.decorators.mark_unbacked"),
        ("import torch._dynamo as dynamo\n", "dynamo.decorators.mark_unbacked"),
        ("from torch._dynamo import decorators as d\n", "d.mark_unbacked"),
    ],
)
def test_existing_imports_are_used(head: str, name: str) -> None:
    """An import of torch._dynamo under any name serves as it is."""
    result = patch(f"{head}{FUNCTION}f(a)\n")
    assert added(result) == [f"{name}(a, 0)"]
    assert IMPORT not in after(result)


def test_names_that_are_taken() -> None:
    """Neither the import nor a new variable takes a name that the file uses."""
    source = FUNCTION + "def mark_unbacked(): pass\nx_arg = 1\nf(g())\n"
    result = patch(source)
    assert added(result) == ["x_arg_2 = g()", "torch_mark_unbacked(x_arg_2, 0)", "f(x_arg_2)"]


@pytest.mark.parametrize(
    "source",
    [
        "def f(:\n",
        "f(" * 150 + ")" * 150,
        "x = 1" + "+1" * 5000,
        "a" + ".b" * 5000,
        "\0",
        "(" * 9999,
    ],
)
def test_files_that_cannot_be_read(source: str) -> None:
    """A file that is no Python, or nested beyond reason, is declined and crashes nothing."""
    result = patch(source)
    assert not result.files
    assert len(result.declined) == 1
