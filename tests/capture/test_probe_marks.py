"""The probe's marks, with a stand-in for torch; the real one is in tests/end_to_end."""

import ast
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from recompile_doctor.bundle import Bundle, create_bundle
from recompile_doctor.capture.applied import AppliedMark, read_applied
from recompile_doctor.capture.probe import marks as marks_module

PROBE = Path(__file__).parents[2] / "recompile_doctor" / "capture" / "probe"


class Tensor:
    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes
        self.marked: list[tuple[Any, ...]] = []

    def dim(self) -> int:
        return len(self.sizes)


def mark_unbacked(
    t: Tensor, index: int, hint_override: int | None = None, shape_id: str | None = None
) -> None:
    t.marked.append(("unbacked", index, hint_override, shape_id))


def maybe_mark_dynamic(t: Tensor, index: int) -> None:
    t.marked.append(("dynamic", index))


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bundle:
    torch: Any = ModuleType("torch")
    torch.Tensor = Tensor
    decorators: Any = ModuleType("torch._dynamo.decorators")
    decorators.mark_unbacked = mark_unbacked
    decorators.maybe_mark_dynamic = maybe_mark_dynamic
    config: Any = ModuleType("torch._dynamo.config")
    config.recompile_limit = 8
    for module in (torch, decorators, config, ModuleType("torch._dynamo")):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    made = create_bundle(tmp_path, "run")
    monkeypatch.setenv("RECOMPILE_DOCTOR_BUNDLE", str(made.path))
    return made


class Compiler:
    """A stand-in for torch._dynamo.convert_frame."""

    def __init__(self) -> None:
        self.compiled: list[str] = []

    def _compile(self, code: Any, globals: Any, locals: Any, *rest: Any, **more: Any) -> str:
        self.compiled.append(code.co_name)
        return "compiled"


def started(bundle: Bundle, marks: list[dict[str, Any]], **config: Any) -> tuple[Any, list[str]]:
    notes: list[str] = []
    compiler = Compiler()
    names = {f"torch._dynamo.config.{name}": value for name, value in config.items()}
    marks_module._Marks({"marks": marks, "config": names}, notes.append).start(compiler)
    return compiler, notes


def wanted(**changes: Any) -> dict[str, Any]:
    code = compiled.__code__
    mark = {
        "source": "L['x']", "root": "x", "path": [], "dim": 0, "kind": "unbacked",
        "shape_group": None, "min": None, "max": None, "hint": None,
        "function": code.co_name, "file": code.co_filename, "line": code.co_firstlineno,
    }  # fmt: skip
    return {**mark, **changes}


def compiled(x: Tensor) -> None:
    """The function that torch is about to compile."""


def other(x: Tensor) -> None:
    """Another function, with an argument of the same name."""


def test_the_inputs_of_the_named_function_are_marked(bundle: Bundle) -> None:
    """Another function's are not, whatever they are called."""
    compiler, notes = started(bundle, [wanted(), wanted(kind="dynamic", dim=1)])
    x, y = Tensor(3, 4), Tensor(3, 4)
    assert compiler._compile(compiled.__code__, {}, {"x": x}, 1, key=2) == "compiled"
    assert compiler._compile(other.__code__, {}, {"x": y}) == "compiled"
    assert x.marked == [("unbacked", 0, None, None), ("dynamic", 1)]
    assert y.marked == []
    assert notes == []
    assert read_applied(bundle).marks == (
        AppliedMark("L['x']", 0, "unbacked", "compiled", compiles=1, marked=1),
        AppliedMark("L['x']", 1, "dynamic", "compiled", compiles=1, marked=1),
    )


def test_members_and_attributes_are_reached(bundle: Bundle) -> None:
    """A path goes down through items and attributes."""
    inner = Tensor(3)

    class Batch:
        values = {"a": (inner,)}  # noqa: RUF012

    path = [["item", 0], ["attribute", "values"], ["item", "a"], ["item", 0]]
    compiler, _ = started(bundle, [wanted(root="args", path=path)])
    compiler._compile(compiled.__code__, {}, {"args": (Batch(),)})
    assert len(inner.marked) == 1


def test_what_this_torch_does_not_take_is_dropped_and_said(bundle: Bundle) -> None:
    """The rest of the mark is set."""
    compiler, _ = started(bundle, [wanted(min=1, max=9, hint=4, shape_group="b")])
    x = Tensor(3)
    compiler._compile(compiled.__code__, {}, {"x": x})
    assert x.marked == [("unbacked", 0, 4, "b")]
    assert read_applied(bundle).marks[0].dropped == ("min", "max")


@pytest.mark.parametrize(
    ("variables", "problem"),
    [({"x": None}, "no tensor"), ({}, "KeyError"), ({"x": Tensor()}, "0 dimensions")],
)
def test_what_cannot_be_marked_is_recorded_and_compiled_all_the_same(
    bundle: Bundle, variables: dict[str, Any], problem: str
) -> None:
    """No failure reaches the program."""
    compiler, notes = started(bundle, [wanted()])
    assert compiler._compile(compiled.__code__, {}, variables) == "compiled"
    applied = read_applied(bundle)
    assert problem in applied.marks[0].problems[0]
    assert applied.without_effect == applied.marks
    assert notes == []


def test_a_full_disk_does_not_reach_the_program(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is lost, and a note is tried."""
    compiler, notes = started(bundle, [wanted()])
    monkeypatch.setenv("RECOMPILE_DOCTOR_BUNDLE", "/nowhere")
    x = Tensor(3)
    assert compiler._compile(compiled.__code__, {}, {"x": x}) == "compiled"
    assert len(x.marked) == 1
    assert notes == ["a mark could not be set"]


def test_a_file_of_another_machine_is_found_by_its_name(bundle: Bundle) -> None:
    """A path that is not there counts by its last part; one that is there counts whole."""
    here = Path(__file__)
    elsewhere = f"/elsewhere/{here.name}"
    there = str(Path(sys.executable).resolve())
    compiler, _ = started(bundle, [wanted(file=elsewhere), wanted(file=there)])
    compiler._compile(compiled.__code__, {}, {"x": Tensor(3)})
    assert [each.marked for each in read_applied(bundle).marks] == [1, 0]


def test_settings_are_set_or_said_to_be_unknown(bundle: Bundle) -> None:
    """A setting that this torch lacks changes nothing."""
    started(bundle, [], recompile_limit=64, no_such=1)
    assert sys.modules["torch._dynamo.config"].recompile_limit == 64
    assert read_applied(bundle).config == {
        "torch._dynamo.config.recompile_limit": "set",
        "torch._dynamo.config.no_such": "this torch has no such setting",
    }


def test_a_damaged_record_is_left_out(bundle: Bundle) -> None:
    """What the probe left is never trusted."""
    (bundle.probe_directory / "7.marks.json").write_text("{")
    (bundle.probe_directory / "8.marks.json").write_text(json.dumps({"marks": [1]}))
    assert read_applied(bundle).marks == ()
    assert bundle.probe_files() == ()


def test_the_probe_has_the_syntax_of_python_3_9() -> None:
    """The interpreter is the user's."""
    for path in PROBE.rglob("*.py"):
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))
