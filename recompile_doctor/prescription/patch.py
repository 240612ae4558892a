"""A prescription as an edit of the user's files, and as a diff that ``git apply`` takes."""

import difflib
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum

from recompile_doctor.events.vocabulary import StackFrame
from recompile_doctor.prescription.call_sites import (
    FrameMarks,
    NotPatched,
    SourceFile,
    file_of,
    why_not_editable,
)
from recompile_doctor.prescription.codemods.declare_shapes import DeclareShapes
from recompile_doctor.prescription.codemods.insert_marks import InsertMarks, Plan, Request
from recompile_doctor.prescription.codemods.module import Module, parse_module
from recompile_doctor.prescription.codemods.text import (
    Edit,
    SourceText,
    Unreadable,
    apply_edits,
    moved_lines,
    read_text,
)
from recompile_doctor.prescription.codemods.values import Program
from recompile_doctor.prescription.marks import Mark
from recompile_doctor.prescription.patched import PatchedFile, PatchResult
from recompile_doctor.torch_compat import features_of

# Each pass edits every statement at most once, so the passes are as many as the compiled calls
# in the busiest statement; a statement with more than this is left as it is by then.
_MOST_PASSES = 20


class _State:
    """The files as they are by now, and where their lines were."""

    def __init__(self, files: tuple[SourceFile, ...]) -> None:
        self.files = files
        self.texts: dict[str, SourceText] = {}
        self.unreadable: dict[str, str] = {}
        self._modules: dict[str, Module] = {}
        self._lines: dict[str, tuple[int, ...]] = {}
        for file in files:
            source = read_text(file.content)
            if isinstance(source, Unreadable):
                self.unreadable[file.name] = source.why
            else:
                self.texts[file.name] = source

    def program(self) -> Program:
        """Return the files as they are by now; those that did not change are not parsed again."""
        for file in self.files:
            if file.name not in self.texts or file.name in self._modules:
                continue
            module = parse_module(file, self.texts[file.name])
            if isinstance(module, Unreadable):
                self.unreadable[file.name] = module.why
            else:
                self._modules[file.name] = module
        return Program(self._modules.values())

    def edit(self, module: Module, edits: list[Edit]) -> None:
        """Make the edits in the text of a file."""
        name = module.name
        after = apply_edits(module.data, edits).decode("utf-8")
        moved = moved_lines(module.data, edits)
        known = self._lines.get(name, tuple(range(1, len(moved) + 1)))
        self._lines[name] = tuple(moved[line - 1] for line in known)
        self.texts[name] = SourceText(after, module.source.encoding)
        del self._modules[name]

    def line_now(self, file: str, line: int) -> int:
        """Return where a line of the file as it was read is by now."""
        lines = self._lines.get(file, ())
        return lines[line - 1] if 1 <= line <= len(lines) else line

    def line_before(self, file: str | None, line: int | None) -> int | None:
        """Return where a line of the text by now was in the file as it was read."""
        lines = self._lines.get(file or "")
        if lines is None or line is None:
            return line
        return max(1, bisect_right(lines, line))


class Form(Enum):
    """How marks are written: calls before each call, or a declaration where it is compiled."""

    CALLS = "calls"
    DECLARATION = "declaration"


def make_patch(
    requests: Iterable[FrameMarks],
    files: Iterable[SourceFile],
    *,
    target_torch: str,
    form: Form = Form.CALLS,
) -> PatchResult:
    """Return the edit that tells torch the marks of compiled functions.

    ``files`` are all that may be edited or looked into: those of the functions, those that call
    them. What cannot be edited without a guess is declined.
    """
    torch = features_of(target_torch)
    codemod = InsertMarks if form is Form.CALLS else DeclareShapes
    state = _State(tuple(files))
    possible, declined = _possible(tuple(requests), state)
    for _ in range(_MOST_PASSES):
        plan = codemod(state.program(), torch).run(tuple(_now(each, state) for each in possible))
        if not plan.edits:
            break
        for module, edits in plan.edits.items():
            state.edit(module, edits)
    return _result(state, plan, declined)


def _possible(
    requests: tuple[FrameMarks, ...], state: _State
) -> tuple[tuple[FrameMarks, ...], tuple[NotPatched, ...]]:
    """Return the requests for functions in files that can be edited, and why not the others."""
    possible: list[FrameMarks] = []
    declined: list[NotPatched] = []
    for request in requests:
        frame = request.frame
        why = None if frame.file is None else why_not_editable(frame.file)
        file = None if frame.file is None else file_of(frame.file, state.files)
        if why is None and file is not None and file.name in state.unreadable:
            why = state.unreadable[file.name]
        if why is None:
            possible.append(request)
        else:
            why = f"the file of {frame.function} cannot be patched: {why}"
            declined.append(NotPatched(why, frame.file, frame.line, request.marks))
    return tuple(possible), tuple(declined)


def _now(request: FrameMarks, state: _State) -> Request:
    """Return a request with the lines of the files as they are by now."""
    frame = request.frame
    file = None if frame.file is None else file_of(frame.file, state.files)
    if file is not None and frame.line is not None:
        frame = replace(frame, line=state.line_now(file.name, frame.line))
    lines: list[tuple[StackFrame, int]] = []
    for call in dict.fromkeys(request.calls):
        file = file_of(call.file, state.files)
        lines.append((call, call.line if file is None else state.line_now(file.name, call.line)))
    return Request(replace(request, frame=frame), tuple(lines))


def _result(state: _State, plan: Plan, declined: tuple[NotPatched, ...]) -> PatchResult:
    patched: list[PatchedFile] = []
    for file in state.files:
        after = state.texts[file.name].to_bytes() if file.name in state.texts else file.content
        if after != file.content:
            patched.append(PatchedFile(file.path, file.name, file.content, after))
    left = [replace(each, line=state.line_before(each.file, each.line)) for each in plan.declined]
    return PatchResult(
        diff="".join(unified_diff(each.name, each.before, each.after) for each in patched),
        files=tuple(patched),
        declined=_merged((*declined, *left)),
        losses=tuple(dict.fromkeys(plan.losses)),
        marked=tuple(plan.marked),
    )


def _merged(declined: tuple[NotPatched, ...]) -> tuple[NotPatched, ...]:
    """Return what is declined with one entry for each place and reason."""
    marks: dict[NotPatched, dict[Mark, None]] = {}
    for each in declined:
        marks.setdefault(replace(each, marks=()), {}).update(dict.fromkeys(each.marks))
    return tuple(replace(each, marks=tuple(found)) for each, found in marks.items())


def unified_diff(name: str, before: bytes, after: bytes) -> str:
    """Return the change of one file in git's form; bytes that are no UTF-8 are surrogates."""
    if before == after:
        return ""
    # Not splitlines(): only a line feed ends a line for git, not a form feed or a lone \r.
    old, new = (_lines(content) for content in (before, after))
    old_name, new_name = quote_path(f"a/{name}"), quote_path(f"b/{name}")
    parts = [f"diff --git {old_name} {new_name}\n"]
    for line in difflib.unified_diff(old, new, _header(old_name), _header(new_name)):
        parts.append(line)
        if not line.endswith("\n"):
            parts.append("\n\\ No newline at end of file\n")
    return "".join(parts)


def quote_path(path: str) -> str:
    """Return a path as git writes it in a diff: in quotes where it has odd characters."""
    escapes = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
    quoted = "".join(
        f"\\{escapes[byte]}"
        if byte in escapes
        else chr(byte)
        if 32 <= byte < 127
        else f"\\{byte:03o}"
        for byte in path.encode("utf-8", "surrogateescape")
    )
    return path if quoted == path else f'"{quoted}"'


def _header(name: str) -> str:
    # git ends a name that has a space with a tab, so that a date is not taken for a part of it.
    return f"{name}\t" if " " in name and not name.startswith('"') else name


def _lines(content: bytes) -> list[str]:
    text = content.decode("utf-8", "surrogateescape")
    return [line + "\n" for line in text.split("\n")[:-1]] + [
        line for line in text.split("\n")[-1:] if line
    ]
