"""Source lines of the user's program, quoted in reports."""

import linecache
from pathlib import Path

_LONGEST_LINE = 400
_LARGEST_FILE = 5_000_000


def quoted_line(file: str, line: int) -> str | None:
    """Return line ``line`` (from 1) of ``file``, stripped, or None when it cannot be read.

    A log can name any path: only regular files of a reasonable size are opened, and only as
    text.
    """
    path = Path(file)
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_FILE:
            return None
        text = linecache.getline(str(path), line)
    except (OSError, ValueError, SyntaxError, UnicodeError):
        return None
    stripped = text.strip()
    return stripped[:_LONGEST_LINE] if stripped else None
