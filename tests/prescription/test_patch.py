"""Patches as diffs that git applies, byte by byte."""

import ast
import shutil
import subprocess
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recompile_doctor.events.vocabulary import MarkKind
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.prescription.call_sites import (
    FrameMarks,
    SourceFile,
    file_of,
    read_source_files,
    why_not_editable,
)
from recompile_doctor.prescription.marks import Mark
from recompile_doctor.prescription.patch import make_patch, quote_path, unified_diff
from recompile_doctor.prescription.patched import PatchResult

MARKS = (Mark("L['x']", 0, MarkKind.UNBACKED, "b", 1), Mark("L['x']", 1, MarkKind.DYNAMIC))
PROGRAM = b"import torch\n\n\n@torch.compile\ndef f(x):\n    return x\n\n\nf(torch.ones(2, 3))\n"


def patch(content: bytes, name: str = "a.py", root: Path = Path("/p")) -> PatchResult:
    file = SourceFile(root / name, name, content)
    request = FrameMarks(FrameKey("f", str(root / name), None), MARKS)
    return make_patch([request], [file], target_torch="2.13.0")


ODD_FILES = {
    "plain": PROGRAM,
    "crlf": PROGRAM.replace(b"\n", b"\r\n"),
    "no newline at the end": PROGRAM.rstrip(),
    "byte order mark": b"\xef\xbb\xbf" + PROGRAM,
    "latin-1": b"# coding: latin-1\n# caf\xe9\n" + PROGRAM + b"s = '\xe9'\n",
    "form feed": PROGRAM.replace(b"\n\n\n@", b"\n\x0c\n@").replace(
        b"    return", b"\x0c    return"
    ),
    "tabs": PROGRAM.replace(b"    ", b"\t") + b"if 1:\n\tf(a)\n",
    "line separators": PROGRAM + "s = '\u2028\x85\x1c'  # é\n".encode(),
    "mixed newlines": PROGRAM.replace(b"torch\n", b"torch\r\n") + b"f(a)\r\n",
    "trailing spaces": PROGRAM.replace(b"\n\n", b"\n  \n"),
}


@pytest.mark.parametrize("content", ODD_FILES.values(), ids=list(ODD_FILES))
@pytest.mark.parametrize("name", ["a.py", "my dir/a b.py", 'é"\\\t.py'])
def test_git_applies_the_diff(content: bytes, name: str, tmp_path: Path) -> None:
    """What git makes of the diff is what the patch says, and the reverse takes it back."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    result = patch(content, name, tmp_path)
    (tmp_path / "diff").write_bytes(result.diff_bytes)
    subprocess.run([git, "init", "-q", "."], cwd=tmp_path, check=True)
    apply = [git, "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", "diff"]
    subprocess.run(apply, cwd=tmp_path, check=True)
    assert path.read_bytes() == result.files[0].after
    subprocess.run([*apply, "--reverse"], cwd=tmp_path, check=True)
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", ODD_FILES.values(), ids=list(ODD_FILES))
def test_other_bytes_are_kept(content: bytes) -> None:
    """A patch only adds lines and replaces arguments; every other line is the same bytes."""
    result = patch(content)
    after = result.files[0].after
    kept = [line for line in content.split(b"\n") if b"f(torch" not in line]
    rest = iter(after.split(b"\n"))
    assert all(any(line.rstrip(b"\r") == other.rstrip(b"\r") for other in rest) for line in kept)
    assert patch(after).diff == ""
    assert len(result.marked) == 2


def test_added_lines_end_as_the_file_does() -> None:
    """New lines have the line ends of their surroundings."""
    after = patch(ODD_FILES["crlf"]).files[0].after
    assert after.count(b"\n") == after.count(b"\r\n")


def test_several_functions_and_lines_of_the_file_as_it_was() -> None:
    """Functions are found by their lines also when an earlier edit has moved them."""
    head = "import torch\nclass A:\n    @torch.compile\n    def f(self, x): return x\n"
    other = "class B:\n    @torch.compile\n    def f(self, x): return x\n"
    calls = "A().f(f(1))\nwhile A().f(b): pass\nB().f(c)\n"
    file = SourceFile(Path("/p/a.py"), "a.py", (head + other + calls).encode())
    mark = MARKS[1:]
    requests = [FrameMarks(FrameKey("f", "/p/a.py", line), mark) for line in (3, 6)]
    result = make_patch(requests, [file], target_torch="2.13.0")
    assert b"maybe_mark_dynamic(c, 1)\nB().f(c)" in result.files[0].after
    assert [(each.line, each.file) for each in result.declined] == [(8, "a.py"), (9, "a.py")]


def test_code_that_is_not_the_users() -> None:
    """A function of a library, of torch, of a notebook or of no file is declined."""
    for name, reason in (
        ("/v/lib/python3.11/site-packages/lib/a.py", "installed library"),
        ("/v/lib/python3.11/site-packages/torch/nn/functional.py", "torch's own code"),
        ("/usr/lib/python3.11/abc.py", "Python's own code"),
        ("/tmp/ipykernel_71/99.py", "notebook cell"),
        ("<eval_with_key>.1", "generated code"),
        ("/p/a.cpp", "not a Python file"),
    ):
        request = FrameMarks(FrameKey("f", name, 1), MARKS)
        result = make_patch([request], [], target_torch="2.13.0")
        assert [reason in each.why for each in result.declined] == [True], name
    assert why_not_editable("/p/torch_models/a.py") is None


def test_files_are_found_by_the_end_of_their_path(tmp_path: Path) -> None:
    """A log of another machine names the same file by another beginning."""
    for name in ("m/a.py", "n/a.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"")
    files = read_source_files([Path("m/a.py"), Path("n/a.py"), Path("../x.py")], tmp_path)
    assert [file.name for file in files] == ["m/a.py", "n/a.py"]
    assert file_of("/elsewhere/n/a.py", files) == files[1]
    assert file_of(str(tmp_path / "m/a.py"), files) == files[0]
    assert file_of("a.py", files) is None


def test_quoted_paths() -> None:
    """Paths are quoted as git does it."""
    assert quote_path("a b.py") == "a b.py"
    assert quote_path('é"\t.py') == r'"\303\251\"\t.py"'
    assert unified_diff("a", b"x\n", b"x\n") == ""


F_DEFINITION = "def f(x, z, y=None): return x"
_ATOMS = st.sampled_from(["a", "b.c", "d['k']", "g()", "a + 1", "None", "h(a, b)", "3", "(a)"])
_ITERABLES = st.sampled_from(["a", "b.c", "d['k']", "g()", "a + 1", "(a)"])
_ARGUMENTS = st.one_of(
    _ATOMS,
    _ATOMS.map(lambda text: f"f({text})"),
    _ITERABLES.map(lambda text: f"*{text}"),
    _ITERABLES.map(lambda text: f"**{text}"),
    _ATOMS.map(lambda text: f"y={text}"),
)
_CALLS = st.lists(_ARGUMENTS, max_size=3).map(lambda found: f"f({', '.join(found)})")
_EXPRESSIONS = st.recursive(
    st.one_of(_CALLS, _ATOMS),
    lambda inner: st.tuples(
        st.sampled_from(
            [
                "{} + {}",
                "({}, {})",
                "{} if {} else 0",
                "{} and {}",
                "[{} for a in {}]",
                "(lambda: {})({})",
                "print({}, {})",
                "{{1: {}, 2: {}}}",
                "f'{{{}}}' + str({})",
            ]
        ),
        inner,
        inner,
    ).map(lambda parts: parts[0].format(parts[1], parts[2])),
    max_leaves=4,
)
_STATEMENTS = st.tuples(
    st.sampled_from(
        [
            "{}\n",
            "q = {}; r = 1\n",
            "if {}: r = 1\n",
            "if 1: {}\n",
            "while {}:\n\tbreak\n",
            "for a in {}:\n    f(a)\n",
            "with {} as b: pass\n",
            "def m(a):\n  return {}\n",
            "class C:\n    q = {}\n",
            "try:\n    {}\nfinally: pass\n",
            "assert {}\n",
            "q += {}\n",
        ]
    ),
    _EXPRESSIONS,
).map(lambda parts: parts[0].format(parts[1]))


def _parses(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "program", "exec")
    except SyntaxError:
        return False
    return True


class _Unmark(ast.NodeTransformer):
    """Takes out what the codemod puts in, so that the rest can be compared."""

    def __init__(self, text: str) -> None:
        self._values = {
            node.targets[0].id: node.value
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            if "_arg" in node.targets[0].id
        }

    def visit_Starred(self, node: ast.Starred) -> ast.AST:
        plain = self.generic_visit(node)
        match plain:
            case ast.Starred(value=ast.Tuple(elts=[ast.Starred() as inner])):
                return inner
            case _:
                return plain

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        plain = self.generic_visit(node)
        match plain:
            case ast.keyword(arg=None, value=ast.Dict(keys=[None], values=[inner])):
                return ast.keyword(None, inner)
            case _:
                return plain

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self._values.get(node.id)
        return node if value is None else self.visit(value)

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        target = node.targets[0]
        if isinstance(target, ast.Name) and target.id in self._values:
            return None
        return self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        call = node.value
        function = call.func if isinstance(call, ast.Call) else None
        if isinstance(function, ast.Name) and function.id.startswith(("mark_", "maybe_mark_")):
            return None
        return self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        return None


@settings(max_examples=150, deadline=None)
@given(st.lists(_STATEMENTS, min_size=1, max_size=4).map("".join).filter(_parses))
def test_any_program(body: str) -> None:
    """The output parses, is the program plus marks, and a second patch changes nothing."""
    source = f"import torch\n@torch.compile\n{F_DEFINITION}\n{body}"
    result = patch(source.encode())
    if not result.files:
        assert result.diff == ""
        return
    after = result.files[0].after.decode()
    assert ast.dump(_Unmark(after).visit(ast.parse(after))) == ast.dump(ast.parse(source))
    again = patch(after.encode())
    assert again.diff == ""
    assert set(again.marked) == set(result.marked)


class _Recorder:
    """Runs a program with stand-ins and records what is called, in order, with which values."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self._count = 0

    def _tensor(self) -> "_Tensor":
        self._count += 1
        return _Tensor(self._count)

    def run(self, source: str) -> list[str]:
        def called(name: str) -> Callable[..., object]:
            def stand_in(*args: object, **kw: object) -> object:
                self.events.append(f"{name}{args}{sorted(kw.items())}")
                return self._tensor()

            return stand_in

        names = {name: _Tensor(name) for name in ("a", "q")}
        scope: dict[str, object] = {
            **names,
            "b": types.SimpleNamespace(c=_Tensor("b.c")),
            "d": {"k": _Tensor("d['k']")},
            **{name: called(name) for name in ("f", "g", "h", "print", "str")},
            **{name: lambda *_, **__: None for name in ("mark_unbacked", "maybe_mark_dynamic")},
        }
        lines = [line for line in source.splitlines() if not line.startswith(("from torch", "@"))]
        text = "\n".join(lines).replace("import torch\n", "").replace(F_DEFINITION, "")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                code = compile(text, "program", "exec")
            exec(code, scope)
        except (TypeError, AttributeError, AssertionError) as error:  # the program's own
            self.events.append(type(error).__name__)
        return self.events


class _Tensor:
    """A value that takes part in everything that the generated programs do with one."""

    def __init__(self, name: object) -> None:
        self.name = name
        self._left = 2

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def __add__(self, other: object) -> "_Tensor":
        return _Tensor(f"{self.name}+{other}")

    __radd__ = __add__

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Tensor(f"{self.name}.{name}")

    def __iter__(self) -> Iterator["_Tensor"]:
        return iter([_Tensor(f"{self.name}[0]"), _Tensor(f"{self.name}[1]")])

    def __getitem__(self, key: object) -> "_Tensor":
        return _Tensor(f"{self.name}[{key}]")

    def keys(self) -> list[str]:
        return ["x", "z"]

    def __call__(self, *args: object) -> "_Tensor":
        return _Tensor(f"{self.name}{args}")

    def __enter__(self) -> "_Tensor":
        return self

    def __exit__(self, *error: object) -> None:
        return None


@settings(max_examples=300, deadline=None)
@given(st.lists(_STATEMENTS, min_size=1, max_size=4).map("".join).filter(_parses))
def test_the_program_does_the_same_in_the_same_order(body: str) -> None:
    """With the marks, the same functions are called in the same order with the same values."""
    source = f"import torch\n@torch.compile\n{F_DEFINITION}\n{body}"
    result = patch(source.encode())
    after = result.files[0].after.decode() if result.files else source
    assert _Recorder().run(after) == _Recorder().run(source)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(content: bytes) -> None:
    """No content of a file raises."""
    patch(content)
    patch(PROGRAM + content)
