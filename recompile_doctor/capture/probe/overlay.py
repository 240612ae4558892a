"""Runs patched text in place of files of the user, which stay as they are.

RECOMPILE_DOCTOR_OVERLAY names a JSON file, ``{"files": {"/the/user's.py": "/the/patched/copy"}}``.
Whoever imports, runs or inspects such a file in a Python process gets the patched text under the
name of the user's file: code objects, ``__file__``, tracebacks and ``inspect`` show it. No .pyc of
the text is kept, and none of the user's file is read. Served are

    modules, and with them ``-m`` and a folder with a __main__.py    (SourceFileLoader)
    code that is opened to be run, e.g. by runpy, multiprocessing's spawn, pdb, cProfile
                                                                     (io.open_code)
    the main script of ``python script.py``                          (a second start, see _Main)

Out of reach are a script in a zip file, ``python -x``, a program that opens and runs a file in its
own way, and a main script on Windows, where ``exec`` leaves the first process's status behind.
``<pid>.overlay.json`` says what was served in each process, and what could not be: a program that
runs without its patch is not to be taken for one with it.
"""

from __future__ import annotations

import _io
import _thread
import io
import json
import os
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, decode_source
from typing import TYPE_CHECKING, Any

from .foreign import is_from_signal_handler
from .waiting import after_import

if TYPE_CHECKING:
    from types import CodeType

FORMAT = 1
_MAIN = "RECOMPILE_DOCTOR_OVERLAY_MAIN"
# What runs first in a patched main script. The name is the one that sitecustomize gives us.
_PRELUDE = "__import__('sys').modules['recompile_doctor_probe.overlay'].begin_main()"


def install(path: str, *, note: Callable[[str], None]) -> None:
    """Serve the files that ``path`` lists from here on, and the main script if it is one of them.

    For a main script this does not return: the same Python starts once more, under the same pid.
    """
    overlay = _Overlay(path, note)
    overlay.serve_modules()
    overlay.serve_open_code()
    after_import("linecache", overlay.serve_lines, note=note, what="the overlay")
    after_import(
        "_pytest.assertion.rewrite", overlay.keep_from_pytest, note=note, what="the overlay"
    )
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=overlay.after_fork)
    state = os.environ.pop(_MAIN, None)
    if state is None:
        _start_again(overlay)
    else:
        _Main.current = _Main(overlay, json.loads(state))


def begin_main() -> None:
    """Make ``__main__`` what it is for the user's own file; called by the patched script."""
    if _Main.current is not None:
        _Main.current.begin()


class _Patched:
    """One file of the user, and the text that stands in for it."""

    def __init__(self, file: str, copy: str) -> None:
        self.file = file
        self.real = os.path.realpath(file)
        self.copy = copy
        with open(copy, "rb") as opened:  # noqa: PTH123 - pathlib costs start-up
            self.text = opened.read()

    def lines(self) -> list[str]:
        """Return the text as linecache has it."""
        lines = io.StringIO(decode_source(self.text)).readlines()
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        return lines


class _Overlay:
    """The files, and what has become of them in this process."""

    def __init__(self, path: str, note: Callable[[str], None]) -> None:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - see above
            wanted = json.load(file)["files"]
        self.folder = os.path.dirname(path)  # noqa: PTH120
        self._note = note
        self._lock = _thread.allocate_lock()
        self._served: set[str] = set()
        self._failed: dict[str, str] = {}
        self._by_name: dict[str, _Patched] = {}
        self._by_identity: dict[tuple[int, int], _Patched] = {}
        for name, copy in wanted.items():
            patched = _Patched(name, copy)
            self._by_name[patched.file] = self._by_name[patched.real] = patched
            status = os.stat(name)  # noqa: PTH116
            self._by_identity[status.st_dev, status.st_ino] = patched

    def find(self, path: Any) -> _Patched | None:
        """Return what stands in for the file at ``path``, however the path is spelled."""
        if not isinstance(path, (str, bytes)):
            return None
        name = os.fsdecode(path)
        if name in self._by_name:
            return self._by_name[name]
        try:
            # One call of the system for each module, where realpath makes one for each folder.
            status = os.stat(name)  # noqa: PTH116
        except (OSError, ValueError) as error:
            if is_from_signal_handler(error):
                raise
            return None
        patched = self._by_identity.get((status.st_dev, status.st_ino))
        if patched is not None and os.path.realpath(name) != patched.real:
            return None  # another name of the same bytes: a hard link is a file of its own here
        return patched

    def served(self, patched: _Patched) -> None:
        """Write down that a file took effect in this process."""
        if patched.file not in self._served:
            self._served.add(patched.file)
            self._write()

    def failed(self, patched: _Patched, why: str) -> None:
        """Write down that a file runs unpatched in this process, and leave a note."""
        self._note(f"{patched.file} runs without its patch: {why}")
        self._failed[patched.file] = why
        self._write()

    def after_fork(self) -> None:
        """Begin anew in a child: the lock may have been held by a thread of the parent."""
        self._lock = _thread.allocate_lock()

    def _write(self) -> None:
        try:
            folder = os.path.join(os.environ["RECOMPILE_DOCTOR_BUNDLE"], "probe")  # noqa: PTH118
            path = os.path.join(folder, f"{os.getpid()}.overlay.json")  # noqa: PTH118
            with self._lock:
                content = {
                    "format": FORMAT,
                    "pid": os.getpid(),
                    "served": sorted(self._served),
                    "failed": [{"file": file, "why": why} for file, why in self._failed.items()],
                }
                with open(path + ".tmp", "w", encoding="utf-8") as file:  # noqa: PTH123
                    json.dump(content, file, indent=1)
                os.replace(path + ".tmp", path)  # noqa: PTH105
        except Exception as error:  # no failure may reach the program
            if is_from_signal_handler(error):
                raise
            self._note("what the overlay served could not be written")

    def serve_modules(self) -> None:
        """Let every source loader find the patched text, and no .pyc beside the user's file."""
        loader: Any = SourceFileLoader
        read_code, read_data = loader.get_code, loader.get_data

        def get_code(self: Any, fullname: str) -> Any:
            path = self.get_filename(fullname)
            patched = overlay.find(path)
            if patched is None:
                return read_code(self, fullname)
            code = self.source_to_code(patched.text, path)
            overlay.served(patched)
            return code

        def get_data(self: Any, path: Any) -> Any:
            patched = overlay.find(path)
            return read_data(self, path) if patched is None else patched.text

        overlay = self
        loader.get_code, loader.get_data = get_code, get_data

    def serve_open_code(self) -> None:
        """Let those who open a file in order to run it find the patched text."""
        public: Any = io
        private: Any = _io
        public.open_code = private.open_code = _OpenCode(self, private.open_code)
        public.open = _OpenForTraceback(self, private.open)

    def serve_lines(self, linecache: Any) -> None:
        """Let tracebacks and inspect show the patched lines."""
        read_lines = linecache.updatecache

        def updatecache(filename: Any, module_globals: Any = None) -> Any:
            patched = self.find(filename)
            if patched is None:
                return read_lines(filename, module_globals)
            lines = patched.lines()
            # Without a time linecache does not compare the entry with the file on disk.
            linecache.cache[filename] = (len(patched.text), None, lines, filename)
            return lines

        linecache.updatecache = updatecache

    def keep_from_pytest(self, rewrite: Any) -> None:
        """Leave patched files to Python's loader: pytest's own would read the file on disk.

        Their asserts are plain ones then: they fail as ever, with a shorter message.
        """
        hook: Any = rewrite.AssertionRewritingHook
        decide = hook._should_rewrite

        def _should_rewrite(self: Any, name: str, fn: str, state: Any) -> Any:
            return overlay.find(fn) is None and decide(self, name, fn, state)

        overlay = self
        hook._should_rewrite = _should_rewrite


# Instances and not functions: pathlib of Python 3.10 keeps io.open in a class, where a function
# would become a method.
class _OpenCode:
    """io.open_code, with the patched text for the files of the overlay."""

    def __init__(self, overlay: _Overlay, original: Callable[[Any], Any]) -> None:
        self._overlay = overlay
        self._original = original

    def __call__(self, path: Any) -> Any:
        patched = self._overlay.find(path)
        if patched is None:
            return self._original(path)
        self._overlay.served(patched)
        return io.BytesIO(patched.text)


class _OpenForTraceback:
    """io.open, with the patched copy for the one call that the interpreter makes.

    Where a traceback is not printed by the traceback module, it reads the lines in this way: each
    uncaught exception before Python 3.13, and those of finalizers since then.
    A program that reads its own file, through pathlib or with more arguments, reads that file.
    """

    def __init__(self, overlay: _Overlay, original: Callable[..., Any]) -> None:
        self._overlay = overlay
        self._original = original

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 2 and args[1] == "rb" and not kwargs and isinstance(args[0], str):
            patched = self._overlay.find(args[0])
            if patched is not None:
                return self._original(patched.copy, "rb")
        return self._original(*args, **kwargs)


for _called in (_OpenCode.__call__, _OpenForTraceback.__call__):
    # A compiled function that calls them breaks its graph there, as it does at io.open itself,
    # and not somewhere in here.
    _called.__dict__["_torchdynamo_disable"] = True


class _Main:
    """The patched main script of this process, in its second start.

    Python opens the script itself, where no hook reaches. So the first start compiles the patched
    text under the script's name, writes it as a .pyc into the bundle, and replaces itself by the
    same Python with that .pyc as its script. Then the program runs as ever, without a frame
    of ours: its end, its tracebacks and ``-i`` are Python's own. Its first statement calls
    ``begin``, which makes the names of the script those of the user's file, and removes the .pyc.
    Code that Python runs at start before us, in a .pth file, runs twice.
    """

    current: _Main | None = None

    def __init__(self, overlay: _Overlay, state: dict[str, Any]) -> None:
        self._overlay = overlay
        self._compiled: str = state["compiled"]
        self._filename: str = state["filename"]
        self._patched = overlay.find(self._filename)
        sys.argv[0] = state["argv"]
        if hasattr(sys, "orig_argv"):
            sys.orig_argv[:] = state["orig_argv"]

    def begin(self) -> None:
        """Rename the script; its code is loaded already."""
        _Main.current = None
        if self._patched is None:
            return
        try:
            os.unlink(self._compiled)  # noqa: PTH108
            main: Any = sys.modules["__main__"]
            main.__file__ = self._filename
            main.__loader__ = SourceFileLoader("__main__", self._filename)
            ours = os.path.dirname(os.path.realpath(self._compiled))  # noqa: PTH120
            if sys.path and sys.path[0] == ours:  # else a "safe path" has been asked for
                sys.path[0] = os.path.dirname(os.path.realpath(self._filename))  # noqa: PTH120
            self._overlay.served(self._patched)
        except Exception as error:  # noqa: BLE001 - no failure may reach the program
            self._overlay.failed(self._patched, f"its names could not be set: {error}")


def _start_again(overlay: _Overlay) -> None:
    """Replace this process by one that runs the patched main script, where that is to be run."""
    script = sys.argv[0] if getattr(sys, "argv", None) else ""
    patched = overlay.find(script) if script else None
    if patched is None:
        return
    compiled = os.path.join(overlay.folder, f"main-{os.getpid()}.pyc")  # noqa: PTH118
    try:
        options = _options(script)
        # As Python makes it since 3.9.
        filename = os.path.join(os.getcwd(), script)  # noqa: PTH109, PTH118
        _write_compiled(compiled, _main_code(patched.text, filename))
        state = {
            "compiled": compiled,
            "filename": filename,
            "argv": script,
            "orig_argv": list(getattr(sys, "orig_argv", ())),
        }
        os.environ[_MAIN] = json.dumps(state)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os.execv(sys.executable, [sys.executable, *options, compiled, *sys.argv[1:]])
    except Exception as error:  # noqa: BLE001 - no failure may reach the program
        os.environ.pop(_MAIN, None)
        overlay.failed(patched, f"{type(error).__name__}: {error}")
        if os.path.exists(compiled):  # noqa: PTH110
            os.unlink(compiled)  # noqa: PTH108


def _options(script: str) -> list[str]:
    """Return the options that this Python was started with."""
    if os.name == "nt":
        raise OSError("a main script cannot be replaced on Windows")
    words = _original_arguments()
    place = len(words) - len(sys.argv)
    if place < 1 or words[place] != script:
        raise ValueError(f"the script was not found in {words}")
    options = words[1:place]
    if any(option.startswith("-") and "x" in _letters(option) for option in options):
        raise ValueError("python -x skips the first line")
    return options


def _letters(option: str) -> str:
    """Return the one-letter options in ``-Bu``, without the value in ``-Wx``."""
    letters = "" if option.startswith("--") else option
    return letters.partition("W")[0].partition("X")[0]


def _original_arguments() -> list[str]:
    if hasattr(sys, "orig_argv"):
        return list(sys.orig_argv)
    import ctypes  # Python 3.9

    count = ctypes.c_int()
    words = ctypes.POINTER(ctypes.c_wchar_p)()
    ctypes.pythonapi.Py_GetArgcArgv(ctypes.byref(count), ctypes.byref(words))
    return [words[place] or "" for place in range(count.value)]


def _main_code(text: bytes, filename: str) -> CodeType:
    """Return the code of a main script that calls ``begin_main`` before its first statement."""
    import ast

    tree = ast.parse(text, filename)
    place = 0
    if ast.get_docstring(tree, clean=False) is not None:
        place = 1
    while place < len(tree.body) and _is_future(tree.body[place]):
        place += 1
    prelude = ast.parse(_PRELUDE).body[0]
    line = tree.body[place].lineno if place < len(tree.body) else 1
    for node in ast.walk(prelude):
        if isinstance(node, (ast.expr, ast.stmt)):
            node.lineno = node.end_lineno = line
            node.col_offset = node.end_col_offset = 0
    tree.body.insert(place, prelude)
    code: CodeType = compile(tree, filename, "exec", dont_inherit=True)
    return code


def _is_future(statement: Any) -> bool:
    return getattr(statement, "module", None) == "__future__"


def _write_compiled(path: str, code: CodeType) -> None:
    import marshal

    with open(path, "wb") as file:  # noqa: PTH123 - see above
        # Flags, time and size of the source: nobody checks them in a file that is run.
        file.write(MAGIC_NUMBER + bytes(12) + marshal.dumps(code))
