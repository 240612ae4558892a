"""Patched text in place of the user's files, in real Python processes: as if it stood there.

Most tests run a program twice at the same place: with the patched text in the user's file, and
with the first text there and the patched one in the overlay. Both must print the same.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from recompile_doctor.bundle import Bundle, bundle_root, create_bundle
from recompile_doctor.capture.environment import child_environment
from recompile_doctor.capture.overlay import OverlayApplied, prepare_overlay, read_overlay
from recompile_doctor.capture.record import record
from recompile_doctor.capture.snapshot import Snapshot, read_snapshots
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.prescription.call_sites import FrameMarks, SourceFile
from recompile_doctor.prescription.patch import make_patch
from tests.prescription.test_patch_torch import BLOCK, BLOCK_MARKS, line_of

PYTHON = sys.executable
BEFORE = b"raise SystemExit('not patched')\n"
# Everything that Python tells a script about itself.
SELF = b'''"""What the script is."""
from __future__ import annotations
import inspect, linecache, os, sys, traceback
NUMBER: int = 7
def where():
    traceback.print_stack(file=sys.stdout)
    return inspect.getsource(where), inspect.stack()[-1].filename
print(sorted(globals()), __name__, __doc__, __annotations__)
print(__file__, __spec__, __cached__, __package__, __loader__.__class__, __loader__.name)
print(__loader__.path, __loader__.get_source("__main__")[:12], type(__builtins__), where())
print(sys.argv, sys.path[:2], sys.flags, sys.warnoptions, sys._xoptions, sys.executable)
print(getattr(sys, "orig_argv", None), inspect.getsourcefile(where), where.__code__.co_filename)
print(linecache.getline(__file__, 4), [name for name in os.environ if "OVERLAY_MAIN" in name])
'''


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return create_bundle(bundle_root(tmp_path), "run")


class Program:
    """Runs a command with patched files in place, and with them in the overlay alone."""

    def __init__(self, folder: Path, bundle: Bundle) -> None:
        self.folder = folder
        self.bundle = bundle
        self.given = ""

    def run(
        self, command: list[str], variables: dict[str, str]
    ) -> subprocess.CompletedProcess[str]:
        base = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        child = child_environment(base, self.bundle, use_caches=True, probe=True)
        return subprocess.run(
            [PYTHON, *command],
            cwd=self.folder,
            env={**child, **variables},
            input=self.given,
            capture_output=True,
            text=True,
            check=False,
        )

    def in_overlay(self, files: dict[str, bytes], command: list[str], **variables: str) -> str:
        patched = [(self.folder / name, text) for name, text in files.items()]
        overlay = prepare_overlay(patched, self.bundle)
        return self.shown(self.run(command, {**overlay, **variables}))

    def in_place(self, files: dict[str, bytes], command: list[str], **variables: str) -> str:
        for name, text in files.items():
            self.put(name, text)
        return self.shown(self.run(command, variables))

    def both(self, files: dict[str, bytes], command: list[str], **variables: str) -> str:
        """Return what the program shows, which is the same in both ways."""
        expected = self.in_place(files, command, **variables)
        for name in files:
            self.put(name, BEFORE)
        for cache in self.folder.rglob("__pycache__"):
            shutil.rmtree(cache)
        before = self.state(files)
        assert self.in_overlay(files, command, **variables) == expected
        assert self.state(files) == before
        assert list(self.bundle.overlay_directory.glob("main-*")) == []
        return expected

    def put(self, name: str, text: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)

    def state(self, files: dict[str, bytes]) -> list[object]:
        """Return all that must not change: the user's files, and no .pyc of a patched one."""
        stems = {Path(name).stem for name in files}
        compiled = [path for path in self.folder.rglob("*.pyc") if path.name.split(".")[0] in stems]
        stats = [(self.folder / name).stat() for name in files]
        return [
            *((each.st_mtime_ns, each.st_size, each.st_ino) for each in stats),
            *((self.folder / name).read_bytes() for name in files),
            *compiled,
        ]

    def shown(self, done: subprocess.CompletedProcess[str]) -> str:
        shown = f"{done.stdout}\n--\n{done.stderr}\n--\n{done.returncode}"
        return re.sub("0x[0-9a-f]{6,}", "0x", shown)  # addresses

    @property
    def applied(self) -> OverlayApplied:
        return read_overlay(self.bundle)

    @property
    def notes(self) -> str:
        return "".join(path.read_text() for path in self.bundle.failure_files())


@pytest.fixture
def program(tmp_path: Path, bundle: Bundle) -> Program:
    folder = tmp_path / "user"
    folder.mkdir()
    return Program(folder, bundle)


@pytest.mark.parametrize(
    "options", [[], ["-u"], ["-OO", "-Walways", "-W", "ignore::UserWarning"], ["-Xdev", "-Bq"]]
)
def test_a_script_is_what_it_would_be(program: Program, options: list[str]) -> None:
    """Names, arguments, options, paths, stack and source are those of a script in place."""
    shown = program.both({"s.py": SELF}, [*options, "./s.py", "-c", "", "-x", "two words"])
    assert "two words" in shown
    assert shown.endswith("0")
    assert program.applied.served == {program.folder / "s.py"}
    assert program.applied.missing == ()
    assert program.notes == ""


def test_a_safe_path_stays_safe(program: Program) -> None:
    """Where the script's folder is not on the path, it is not put there."""
    program.both({"s.py": SELF}, ["s.py"], PYTHONSAFEPATH="1")


def test_a_script_behind_links(program: Program) -> None:
    """A linked script, in a linked folder, has the name it was called by, and its own folder."""
    program.put("real/s.py", SELF)
    program.put("real/beside.py", b"print('beside')")
    (program.folder / "folder").symlink_to("real")
    (program.folder / "link.py").symlink_to(program.folder / "folder" / "s.py")
    text = SELF + b"import beside\n"
    for script in ("folder/../folder/s.py", "link.py", str(program.folder / "folder/s.py")):
        assert "beside\n" in program.both({"real/s.py": text}, [script])
    assert program.applied.served == {program.folder / "real/s.py"}


@pytest.mark.parametrize("end", [b"raise SystemExit(7)", b"raise SystemExit('why')", b"1 / 0"])
def test_a_script_ends_as_it_would(program: Program, end: bytes) -> None:
    """Status and traceback are Python's own, the latter with the patched line."""
    text = b"import atexit\natexit.register(print, 'at exit')\ndef f():\n    " + end + b"\nf()\n"
    shown = program.both({"s.py": text}, ["s.py"])
    assert "at exit" in shown
    assert ("1 / 0\n" in shown) == (end == b"1 / 0")


def test_a_script_that_ends_in_a_thread_or_a_child(program: Program) -> None:
    """Tracebacks of threads and of finalizers show the patched lines too."""
    text = b"""import threading
class Bad:
    def __del__(self):
        raise ValueError("in a finalizer")
def work():
    raise KeyError("in a thread")
thread = threading.Thread(target=work, name="t")
thread.start()
thread.join()
Bad()
"""
    shown = program.both({"s.py": text}, ["s.py"])
    assert 'raise KeyError("in a thread")' in shown


def test_interactive_mode(program: Program) -> None:
    """`python -i` goes on in the namespace of the script, with its __future__ imports."""
    program.given = "print(answer, __doc__)\ndef f(x: no_such): pass\n"
    text = b"from __future__ import annotations\nanswer = 42\n"
    assert "42 " in program.both({"s.py": text}, ["-i", "s.py"])


@pytest.mark.parametrize(
    "text",
    [
        "# coding: latin-1\nprint(ascii('\xe9'))\n1 / 0 # \xe9\n".encode("latin-1"),
        b"\xef\xbb\xbfprint('after a mark')\r\n\r\n1 / 0\r\n",
        b"\x0cx = 'no line end at the end'\n1 / 0",
        b"",
        b"# nothing\n",
        b'"""Only a docstring."""',
    ],
)
def test_a_text_in_any_form(program: Program, text: bytes) -> None:
    """Encodings, line ends and empty texts are read as Python reads them."""
    program.both({"s.py": text}, ["s.py"])
    program.both({"module.py": text}, ["-c", "import module"])
    assert program.notes == ""


def test_warnings_of_the_compiler_come_once(program: Program) -> None:
    """The text is compiled in the first start only."""
    assert program.both({"s.py": b"x = 1\nprint(x is 1)\n"}, ["s.py"]).count("SyntaxWarning") == 1


def test_modules_of_every_kind(program: Program) -> None:
    """Modules, packages, namespace packages, and relative entries of the path are served."""
    program.put("s.py", b"import sys; sys.path.insert(0, 'more')\nimport one, pack, spaced.two\n")
    text = b"""import inspect, sys
def f(): "patched"
print(__name__, __file__, __cached__, __spec__, inspect.getsource(f), f.__code__.co_filename)
print(inspect.getsource(sys.modules[__name__]) == __loader__.get_source(__name__))
"""
    files = dict.fromkeys(("more/one.py", "pack/__init__.py", "spaced/two.py"), text)
    assert program.both(files, ["s.py"]).count("patched") == 3
    assert program.applied.served == {program.folder / name for name in files}


def test_an_old_pyc_is_not_used(program: Program) -> None:
    """A .pyc that fits the user's file stays as it is, and is not what runs."""
    program.put("module.py", b"print('old')")
    program.run(["-c", "import module"], {})
    (compiled,) = program.folder.rglob("module.*.pyc")
    before = (compiled.read_bytes(), compiled.stat().st_mtime_ns)
    assert program.in_overlay({"module.py": b"print('new')"}, ["-c", "import module"]).startswith(
        "new\n"
    )
    assert (compiled.read_bytes(), compiled.stat().st_mtime_ns) == before
    assert program.shown(program.run(["-c", "import module"], {})).startswith("old\n")


def test_an_error_in_a_module_shows_its_line(program: Program) -> None:
    """No frame of ours is in the traceback of a failing import."""
    shown = program.both({"module.py": b"def f():\n    1 / 0\nf()\n"}, ["-c", "import module"])
    assert "    1 / 0\n" in shown
    assert "overlay" not in shown


@pytest.mark.parametrize(
    "command", [["-m", "pack.tool", "x"], ["-m", "pack"], ["folder"], ["-m", "runpy", "pack.tool"]]
)
def test_what_runpy_runs(program: Program, command: list[str]) -> None:
    """`-m` and a folder with a __main__.py run the patched text."""
    program.put("pack/__init__.py", b"")
    text = SELF.replace(b', __loader__.get_source("__main__")[:12]', b"")
    files = dict.fromkeys(("pack/tool.py", "pack/__main__.py", "folder/__main__.py"), text)
    program.both(files, command)
    assert len(program.applied.served) == 1


def test_what_reads_code_itself(program: Program) -> None:
    """runpy.run_path, cProfile and pdb open code to run it, and get the patched text."""
    text = b"print(__name__, __file__)\n"
    program.both({"s.py": text}, ["-c", "import runpy; runpy.run_path('s.py', run_name='x')"])
    assert program.in_overlay({"s.py": text}, ["-m", "cProfile", "s.py"]).startswith("__main__ ")
    program.given = "continue\nquit\n"
    program.both({"s.py": text}, ["-m", "pdb", "s.py"])


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_multiprocessing(program: Program, method: str) -> None:
    """Classes of a patched script travel to processes of every kind, which run it patched."""
    text = f"""
import multiprocessing, helper
class Item:
    value = "patched"
def work(item):
    return item.value, helper.value, item.__class__.__module__, __file__
if __name__ == "__main__":
    with multiprocessing.get_context({method!r}).Pool(1) as pool:
        print(pool.map(work, [Item()]))
""".encode()
    files = {"s.py": text, "helper.py": b"value = 'helped'\n"}
    assert "('patched', 'helped', " in program.both(files, ["s.py"])
    assert program.applied.missing == ()


def test_children_inherit_the_overlay(program: Program) -> None:
    """A Python that the program starts, as torchrun does, runs the patched script as well."""
    program.put(
        "launch.py", b"import subprocess, sys\nsubprocess.run([sys.executable, '-u', 's.py'])"
    )
    assert "patched\n" in program.both({"s.py": b"print('patched')"}, ["launch.py"])


def test_a_script_may_start_itself_again(program: Program) -> None:
    """A program that executes its own command line runs patched again."""
    text = b"""import os, sys
if "again" not in sys.argv:
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
print("again", sys.argv)
"""
    assert "again" in program.both({"s.py": text}, ["s.py"])


def test_the_next_sitecustomize_runs_once(program: Program, tmp_path: Path) -> None:
    """The second start of a script is not seen by what the user runs at each start."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import sys; print('site', sys.argv)")
    base = os.environ["PATH"]
    child = child_environment(
        {"PYTHONPATH": str(site), "PATH": base}, program.bundle, use_caches=True, probe=True
    )
    shown = program.both({"s.py": b"print(1)"}, ["s.py", "a"], PYTHONPATH=child["PYTHONPATH"])
    assert shown.startswith("site ['s.py', 'a']\n1\n")


def test_another_file_of_the_same_bytes_is_not_patched(program: Program) -> None:
    """A hard link is a file of its own, and so is a copy."""
    program.put("one.py", b"print('one')")
    os.link(program.folder / "one.py", program.folder / "two.py")
    shown = program.in_overlay({"one.py": b"print('patched')"}, ["-c", "import one, two"])
    assert shown.startswith("patched\none\n")


@pytest.mark.skipif(sys.platform == "darwin", reason="its file names are UTF-8")
def test_a_name_that_is_no_text(program: Program) -> None:
    """A path need not be UTF-8."""
    name = os.fsdecode(b"caf\xe9/s.py")
    text = b"import sys\nprint(ascii(__file__), ascii(sys.argv), ascii(sys.path[0]))\n"
    assert "caf\\udce9" in program.both({name: text}, [name, os.fsdecode(b"\xff")])
    assert program.applied.served == {program.folder / name}


def test_a_program_that_reads_its_file_reads_its_file(program: Program) -> None:
    """Only what runs or inspects the code sees the patch."""
    text = b"""import pathlib
print(open(__file__).read() + pathlib.Path(__file__).read_text())
"""
    program.put("s.py", b"user's")
    assert program.in_overlay({"s.py": text}, ["s.py"]).startswith("user'suser's\n")


def test_a_file_that_is_not_run_is_missing(program: Program) -> None:
    """What no process imports was not tried, and neither was what a program runs on its own."""
    program.put("unused.py", b"")
    program.put("own.py", b"print('own')")
    program.put("used.py", b"")
    files = {"unused.py": b"1", "own.py": b"2", "used.py": b"3"}
    code = "import used; exec(open('own.py').read())"
    shown = program.in_overlay(files, ["-c", code])
    assert shown.startswith("own\n")
    assert program.applied.served == {program.folder / "used.py"}
    assert program.applied.missing == (program.folder / "unused.py", program.folder / "own.py")


def test_a_python_without_us_serves_nothing(program: Program) -> None:
    """An isolated Python runs the user's file, and the bundle does not say otherwise."""
    program.put("s.py", b"print('old')")
    assert program.in_overlay({"s.py": b"print('new')"}, ["-I", "s.py"]).startswith("old\n")
    assert program.applied == OverlayApplied(frozenset(), (program.folder / "s.py",))


def test_a_script_that_cannot_be_replaced_is_not_silent(program: Program) -> None:
    """Where the text cannot run, the user's does, and the bundle says so in two ways."""
    program.put("s.py", b"print('old')\nimport helper")
    program.put("helper.py", b"")
    files = {"s.py": b"print(", "helper.py": b"print('helper')"}
    assert program.in_overlay(files, ["s.py"]).startswith("old\nhelper\n")
    assert program.applied.served == {program.folder / "helper.py"}
    assert program.applied.missing == (program.folder / "s.py",)
    assert "SyntaxError" in program.applied.problems[0]
    assert "runs without its patch: SyntaxError" in program.notes


def test_a_script_without_its_first_line_is_not_silent(program: Program) -> None:
    """`python -x` would skip a line of our compiled file."""
    program.put("s.py", b"print('first')\nprint('old')")
    assert program.in_overlay({"s.py": b"print('new')"}, ["-ux", "s.py"]).startswith("old\n")
    assert "skips the first line" in program.applied.problems[0]


def test_one_process_without_the_patch_is_enough(program: Program) -> None:
    """A file that was served in one process and failed in another is missing."""
    program.put("s.py", b"print('old')")
    program.in_overlay({"s.py": b"print('new')"}, ["s.py"])
    assert program.applied.missing == ()
    program.in_overlay({"s.py": b"print('new')"}, ["-x", "s.py"])
    assert program.applied.missing == (program.folder / "s.py",)


def test_an_overlay_that_cannot_be_read_is_not_silent(program: Program) -> None:
    """The program runs, and a note is left."""
    program.put("s.py", b"print('old')")
    overlay = prepare_overlay([(program.folder / "s.py", b"print('new')")], program.bundle)
    (program.bundle.overlay_directory / "0.py").unlink()
    assert program.shown(program.run(["s.py"], overlay)).startswith("old\n")
    assert "the overlay could not be installed" in program.notes
    assert program.applied.missing == (program.folder / "s.py",)


def test_pytest_runs_the_patched_tests(program: Program) -> None:
    """pytest reads test files itself, to rewrite their asserts; a patched one is left to Python."""
    program.put("test_it.py", b"def test_it():\n    assert False\n")
    program.put("test_other.py", b"def test_other():\n    x = 1\n    assert x == 2\n")
    patched = {"test_it.py": b"def test_it():\n    print('patched')\n"}
    command = ["-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "."]
    shown = program.in_overlay(patched, command)
    assert "patched" in shown
    assert "assert 1 == 2" in shown
    assert "1 failed, 1 passed" in shown
    assert program.applied.missing == ()


def test_the_probe_s_other_files_are_left_alone(program: Program) -> None:
    """What was served is no snapshot of a process."""
    program.put("s.py", b"")
    program.in_overlay({"s.py": b"1"}, ["s.py"])
    (path,) = program.bundle.overlay_files()
    assert json.loads(path.read_text())["served"] == [str(program.folder / "s.py")]
    assert program.bundle.probe_files() == ()


@pytest.mark.torch
def test_a_patched_attention_block_compiles_once(
    bundle: Bundle, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A patch from the marks is run without being applied: six recompiles, and none."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    script = tmp_path / "program.py"
    script.write_text(BLOCK)
    before = script.stat()
    frame = FrameKey("forward", str(script), line_of(BLOCK, "def forward"))
    request = FrameMarks(frame, BLOCK_MARKS, (), (("L['x']", 3), ("L['mask']", 4)))
    patch = make_patch(
        [request], [SourceFile(script, "program.py", BLOCK.encode())], target_torch="2.13.0"
    )
    command = [sys.executable, "program.py"]
    plain = record(bundle, command, base=os.environ, cwd=tmp_path)
    printed = capfd.readouterr().out
    patched = create_bundle(bundle_root(tmp_path), "patched")
    overlay = prepare_overlay([(file.path, file.after) for file in patch.files], patched)
    tried = record(patched, command, base=os.environ, cwd=tmp_path, overrides=overlay)
    assert (plain.outcome.exit_code, tried.outcome.exit_code) == (0, 0)
    assert [count_recompiles(each) for each in (bundle, patched)] == [6, 0]
    assert capfd.readouterr().out == printed
    assert read_overlay(patched) == OverlayApplied(frozenset({script}))
    assert patched.failure_files() == ()
    after = script.stat()
    assert script.read_text() == BLOCK
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)
    assert not list(tmp_path.glob("__pycache__"))


def count_recompiles(bundle: Bundle) -> int:
    (snapshot,) = read_snapshots(bundle)
    assert isinstance(snapshot, Snapshot)
    return snapshot.recompiles
