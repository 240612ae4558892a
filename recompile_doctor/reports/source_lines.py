"""Source lines of the user's program, quoted in reports."""

import io
import tokenize
from itertools import islice
from pathlib import Path

from recompile_doctor.events.vocabulary import StackFrame

_LONGEST_LINE = 400
_LARGEST_FILE = 5_000_000
_PYTHON = (".py", ".pyw")


def code_of(frame: StackFrame) -> str | None:
    """Return the code of a stack frame: as torch logged it, else as it stands in the file now."""
    logged = frame.code.strip() if frame.code else ""
    return logged or quoted_line(frame.file, frame.line)


def quoted_line(file: str, line: int) -> str | None:
    """Return line ``line`` (from 1) of ``file``, stripped, or None when it cannot be read.

    A log can name any path, and a report is passed on. So only Python files are opened, only
    regular ones of a reasonable size, and only by their absolute path: torch cuts the beginning
    off the paths in its text log (``ct/model.py`` for ``/home/me/project/model.py``), and
    what such a path names from here can be another file.
    """
    try:
        content = _content(Path(file)) if line > 0 else None
        if content is None:
            return None
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        # Universal newlines end the lines that Python counts; str.splitlines() finds more.
        lines = io.TextIOWrapper(io.BytesIO(content), encoding, errors="replace")
        text = next(islice(lines, line - 1, None), "")
    except (OSError, ValueError, SyntaxError, LookupError):
        return None
    return text.strip()[:_LONGEST_LINE] or None


def _content(path: Path) -> bytes | None:
    # A size of 0 is that of files in /proc, some of which block their reader.
    if not path.is_absolute() or path.suffix not in _PYTHON or not path.is_file():
        return None
    return path.read_bytes() if 0 < path.stat().st_size <= _LARGEST_FILE else None
