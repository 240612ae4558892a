"""A Python file as text from which its bytes can be made again, and edits of it.

Positions are offsets into the text's UTF-8 form, as libcst gives them.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass

# libcst's parser is native and overflows the stack on deep nesting, which kills the process:
# "(" * 5000 is enough. Python's own parser refuses such a file, and real code is far below.
_DEEPEST = 300
_NEWLINE = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of a file without its byte order mark; ``encoding`` gives the bytes back."""

    text: str
    encoding: str

    def to_bytes(self) -> bytes:
        """Return the file's bytes."""
        return self.text.encode(self.encoding)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why a file is not Python that can be edited."""

    why: str


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace what stands from ``start`` to ``end`` by ``text``."""

    start: int
    end: int
    text: str


def read_text(content: bytes) -> SourceText | Unreadable:
    """Return the text of a Python file, or why it cannot be edited byte for byte."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        source = SourceText(content.decode(encoding), encoding)
        if source.to_bytes() != content:
            return Unreadable(f"its encoding {encoding} does not give the same bytes back")
        tree = ast.parse(source.text)
    except (SyntaxError, UnicodeError, LookupError, ValueError) as error:
        return Unreadable(
            f"it cannot be read as Python: {(str(error) or 'damaged').splitlines()[0]}"
        )
    except (RecursionError, MemoryError):
        return Unreadable("its code is nested too deeply")
    if _depth(tree) > _DEEPEST:
        return Unreadable("its code is nested too deeply")
    return source


def apply_edits(data: bytes, edits: Iterable[Edit]) -> bytes:
    """Return the text with the edits made; edits at one place keep their order."""
    parts: list[bytes] = []
    position = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < position:
            raise ValueError("two edits overlap")
        parts += [data[position : edit.start], edit.text.encode("utf-8")]
        position = edit.end
    return b"".join([*parts, data[position:]])


def moved_lines(data: bytes, edits: Iterable[Edit]) -> tuple[int, ...]:
    """Return for each line of the text, from the first, the number that it has after the edits."""
    starts = line_starts(data)
    changes = sorted(
        (
            edit.start,
            len(_NEWLINE.findall(edit.text.encode("utf-8")))
            - len(_NEWLINE.findall(data[edit.start : edit.end])),
        )
        for edit in edits
    )
    moved: list[int] = []
    shift = done = 0
    for number, begin in enumerate(starts, 1):
        while data[begin : begin + 1] in (b" ", b"\t", b"\f"):
            begin += 1
        while done < len(changes) and changes[done][0] <= begin:
            shift += changes[done][1]
            done += 1
        moved.append(number + shift)
    return tuple(moved)


def line_starts(data: bytes) -> list[int]:
    """Return where each line of the text begins."""
    return [0, *(match.end() for match in _NEWLINE.finditer(data))]


def newline_near(data: bytes, position: int) -> str:
    """Return the kind of newline that ends the line at ``position``, or the file's last kind."""
    match = _NEWLINE.search(data, position)
    if match is not None:
        return match[0].decode()
    found = _NEWLINE.findall(data)
    return str(found[-1].decode()) if found else "\n"


def end_of_line(data: bytes, position: int) -> int:
    """Return where the line after the one at ``position`` begins, or the end of the text."""
    match = _NEWLINE.search(data, position)
    return len(data) if match is None else match.end()


def indentation_at(data: bytes, position: int) -> str:
    """Return what stands before ``position`` on its line."""
    begin = max(data.rfind(b"\n", 0, position), data.rfind(b"\r", 0, position)) + 1
    # A form feed sets the column back to 0, so what stands before it is no indentation.
    return data[begin:position].rpartition(b"\f")[2].decode("utf-8")


def _depth(tree: ast.AST) -> int:
    deepest = 0
    pending: list[tuple[ast.AST, int]] = [(tree, 1)]
    while pending:
        node, depth = pending.pop()
        deepest = max(deepest, depth)
        pending += [(child, depth + 1) for child in ast.iter_child_nodes(node)]
    return deepest
