"""The codemod that declares sizes where a function is compiled."""

from pathlib import Path

import pytest

from recompile_doctor.events.vocabulary import MarkKind
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.prescription.call_sites import FrameMarks, SourceFile
from recompile_doctor.prescription.marks import Mark
from recompile_doctor.prescription.patch import Form, make_patch
from recompile_doctor.prescription.patched import PatchResult

UNBACKED = MarkKind.UNBACKED
X0 = Mark("L['x']", 0, UNBACKED)
RANKS = (("L['x']", 2), ("L['y']", 1), ("L['d']['k'].q[1]", 2), ("L['args'][1]", 1))


def declare(
    source: str, marks: tuple[Mark, ...] = (X0,), torch: str = "2.15.0", function: str = "f"
) -> PatchResult:
    files = [SourceFile(Path("/p/a.py"), "a.py", source.encode())]
    request = FrameMarks(FrameKey(function, "/p/a.py", None), marks, (), RANKS)
    return make_patch([request], files, target_torch=torch, form=Form.DECLARATION)


def added(result: PatchResult) -> list[str]:
    lines = [line[1:] for line in result.diff.splitlines() if line.startswith("+")]
    return [line for line in lines if not line.startswith(("++ ", "from torch.fx"))]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "c = torch.compile(f)\n",
            'c = torch.compile(f, dynamic_shapes={"x": TensorSpec([ShapeVar(), None])})',
        ),
        (
            "c = torch.compile(f, dynamic=None,)\n",
            "c = torch.compile(f, dynamic=None, "
            'dynamic_shapes={"x": TensorSpec([ShapeVar(), None])},)',
        ),
    ],
)
def test_calls_get_an_option(before: str, after: str) -> None:
    """The declaration is one more option of torch.compile."""
    source = f"import torch\ndef f(x): return x\n{before}"
    result = declare(source)
    assert added(result) == [after]
    assert not result.declined
    again = declare(result.files[0].after.decode())
    assert again.diff == ""
    assert again.marked == (X0,)


@pytest.mark.parametrize("decorator", ["@torch.compile", "@torch.compile()"])
def test_decorators_get_an_option(decorator: str) -> None:
    """A bare decorator becomes a call."""
    result = declare(f"import torch\n{decorator}\ndef f(x): return x\n", torch="2.13.0")
    assert added(result) == [
        '@torch.compile(shapes_spec={"x": TensorSpec([ShapeVar(), None])})',
    ]


def test_shape_groups_share_a_variable() -> None:
    """Sizes that are one group are one variable, bound before the statement and the class."""
    marks = (
        Mark("L['x']", 0, UNBACKED, "b", 1, None, 8),
        Mark("L['y']", 0, UNBACKED, "b", None, 64),
        Mark("L['n']", None, UNBACKED),
        Mark("L['d']['k'].q[1]", 1, UNBACKED),
        Mark("L['args'][1]", 0, UNBACKED),
    )
    source = (
        "import torch\nclass T:\n    @torch.compile\n    def f(self, x, y, n, d, *args): return x\n"
    )
    result = declare(source, marks)
    assert added(result) == [
        'b_size = ShapeVar("b", min=1, max=64, optimization_hint=8)',
        "    @torch.compile(dynamic_shapes={",
        '        "x": TensorSpec([b_size, None]),',
        '        "y": TensorSpec([b_size]),',
        '        "n": IntVar(),',
        '        "d": DictSpec({"k": ObjectSpec({"q": SeqSpec('
        "[None, TensorSpec([None, ShapeVar()])])})}),",
        '        "*args": [None, TensorSpec([ShapeVar()])],',
        "    })",
    ]
    assert declare(result.files[0].after.decode(), marks).diff == ""
    assert len(result.losses) == 2


@pytest.mark.parametrize(
    ("compiled", "mark", "torch", "reason"),
    [
        ("torch.compile(f)", X0, "2.12.0", "takes no declaration of shapes"),
        ("torch.compile(f, dynamic=True)", X0, "2.15.0", "which excludes a declaration"),
        ("torch.compile(f, **options)", X0, "2.15.0", "unpacked from another place"),
        ("torch.compile(f, dynamic_shapes=q)", X0, "2.15.0", "in its own way"),
        ("torch.compile(g)", X0, "2.15.0", "do not show where it is compiled"),
        (
            "torch.compile(f)",
            Mark("L['x']", 0, MarkKind.DYNAMIC),
            "2.15.0",
            "a declaration is always unbacked",
        ),
        ("torch.compile(f)", Mark("L['z']", 0, UNBACKED), "2.15.0", "dimensions of L['z']"),
        ("torch.compile(f)", Mark("L['q']", 0, UNBACKED), "2.15.0", "no argument"),
    ],
)
def test_declined_declarations(compiled: str, mark: Mark, torch: str, reason: str) -> None:
    """All marks of a function are declared or none: what is left out would be static."""
    source = f"import torch\ndef f(x, z): return x\nc = {compiled}\n"
    result = declare(source, (mark,), torch)
    assert not result.files
    assert [reason in each.why for each in result.declined] == [True]


def test_self_cannot_be_declared() -> None:
    """Attributes of a module are no arguments."""
    source = "import torch\nclass T:\n    @torch.compile\n    def f(self, x): return x\n"
    result = declare(source, (Mark("L['self'].t", 0, UNBACKED),))
    assert "only arguments can be declared" in result.declined[0].why
