"""Pages by tlparse, for those who want all that torch logged."""

import gzip
import html
import importlib.metadata
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, BinaryIO

import zstandard

from recompile_doctor.errors import DoctorError
from recompile_doctor.reports.words import shortened, visible

_RANK = re.compile(r"_rank_(\d+)_")
# What every page folder of tlparse holds (0.4.3).
_MARK = "compile_directory.json"
_LAST_BYTES = 20_000
_LONGEST_WORDS = 300
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


def make_pages(trace_files: Sequence[Path], out_dir: Path, *, timeout: float = 300.0) -> Path:
    """Write tlparse's pages on ``trace_files`` to ``out_dir`` and return the first page.

    Several files are the ranks or processes of one run: each has its pages in a folder of its
    own, under a common first page. Pages that are in ``out_dir`` already are replaced; any other
    content is kept and is an error. ``timeout`` is in seconds, for each start of tlparse.
    """
    if not trace_files:
        raise DoctorError(
            "There is no trace to make pages of.",
            slug="tlparse-failed",
            hint="tlparse reads TORCH_TRACE logs only, and a run that compiles nothing has none.",
        )
    tlparse = _tlparse()
    out_dir = out_dir.resolve()
    _refuse_foreign(out_dir)
    try:
        out_dir.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".tlparse-", dir=out_dir.parent) as name:
            pages = _make(tlparse, trace_files, Path(name), timeout)
            # tlparse's own --overwrite deletes whatever the folder holds.
            if out_dir.exists():
                shutil.rmtree(out_dir)
            pages.rename(out_dir)
    except OSError as error:
        raise DoctorError(
            f"The pages cannot be written to {out_dir}: {error}", slug="tlparse-failed"
        ) from error
    return out_dir / "index.html"


def _make(tlparse: str, traces: Sequence[Path], work: Path, timeout: float) -> Path:
    """Return the folder in ``work`` that holds the pages."""
    pages = work / "pages"
    logs = work / "logs"
    logs.mkdir()
    ranks = [_RANK.search(trace.name) for trace in traces]
    numbers = {match[1] for match in ranks if match}
    if len(traces) > 1 and len(numbers) == len(traces):
        # tlparse takes a folder of ranks by this name only, and compares them.
        for trace, match in zip(traces, ranks, strict=True):
            number = match[1] if match else ""
            _copy_plain(trace, logs / f"dedicated_log_torch_trace_rank_{number}_.log")
        _run(tlparse, logs, pages, timeout, "--all-ranks-html")
        return pages
    if len(traces) == 1:
        _copy_plain(traces[0], logs / "trace.log")
        _run(tlparse, logs / "trace.log", pages, timeout)
        return pages
    pages.mkdir()
    for number, trace in enumerate(traces):
        log = logs / f"{number}.log"
        _copy_plain(trace, log)
        _run(tlparse, log, pages / f"process_{number}", timeout)
        log.unlink()
    (pages / "index.html").write_text(_links(traces), encoding="utf-8")
    return pages


def _links(traces: Sequence[Path]) -> str:
    items = "".join(
        f'<li><a href="process_{number}/index.html">{html.escape(visible(trace.name))}</a></li>\n'
        for number, trace in enumerate(traces)
    )
    return f'<!doctype html>\n<meta charset="utf-8">\n<title>tlparse</title>\n<ul>\n{items}</ul>\n'


def _tlparse() -> str:
    """Return the path of the program: that of the installed package, else any in PATH."""
    try:
        files = importlib.metadata.files("tlparse") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    candidates = [str(each.locate()) for each in files if each.stem == "tlparse"]
    candidates.append(str(Path(sys.executable).with_name("tlparse")))
    for candidate in [*candidates, "tlparse"]:
        found = shutil.which(candidate)
        if found is not None:
            return found
    raise DoctorError(
        "tlparse is not installed.",
        slug="tlparse-failed",
        hint="Install it with: pip install tlparse",
    )


def _refuse_foreign(out_dir: Path) -> None:
    if not out_dir.exists():
        return
    if not out_dir.is_dir() or (any(out_dir.iterdir()) and not _holds_pages(out_dir)):
        raise DoctorError(
            f"{out_dir} exists and does not hold pages of tlparse.",
            slug="tlparse-failed",
            hint="Give another folder, or remove this one.",
        )


def _holds_pages(folder: Path) -> bool:
    return any(folder.glob(_MARK)) or any(folder.glob(f"*/{_MARK}"))


def _run(tlparse: str, log: Path, pages: Path, timeout: float, *options: str) -> None:
    command = [tlparse, str(log), "-o", str(pages), "--no-browser", *options]
    # Rust's backtraces would hide tlparse's message.
    environment = {**os.environ, "RUST_BACKTRACE": "0", "RUST_LIB_BACKTRACE": "0"}
    # To a file, since tlparse repeats each record that it cannot read.
    with tempfile.TemporaryFile() as output:
        try:
            status = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                timeout=timeout,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired as error:
            raise DoctorError(
                f"tlparse did not finish within {timeout:g} seconds.",
                slug="tlparse-failed",
                hint="Give it a smaller trace; the report does not need tlparse.",
            ) from error
        except OSError as error:
            raise DoctorError(
                f"tlparse cannot be started: {error}", slug="tlparse-failed"
            ) from error
        if status != 0 or not (pages / "index.html").exists():
            raise DoctorError(
                f"tlparse failed with status {status}: {_last_words(output)}",
                slug="tlparse-failed",
                hint="The report of recompile-doctor does not need tlparse.",
            )


def _copy_plain(trace: Path, log: Path) -> None:
    """Copy a trace to where tlparse can read it: it takes neither compressed nor broken text.

    A run that was killed can leave half a character at the end of its trace.
    """
    if not trace.is_file():
        raise DoctorError(
            f"{trace} is not a file.", slug="tlparse-failed", hint="Give a TORCH_TRACE log."
        )
    try:
        with trace.open("rb") as raw, log.open("w", encoding="utf-8", newline="") as target:
            text = io.TextIOWrapper(_plain(raw), encoding="utf-8", errors="replace", newline="")
            shutil.copyfileobj(text, target)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise DoctorError(f"{trace} cannot be read: {error}", slug="tlparse-failed") from error


def _plain(raw: BinaryIO) -> IO[bytes] | gzip.GzipFile:
    start = raw.read(4)
    raw.seek(0)
    if start.startswith(_GZIP):
        return gzip.open(raw)
    if start == _ZSTD:
        return zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
    return raw


def _last_words(output: IO[bytes]) -> str:
    """Return tlparse's error, or the last line that it wrote."""
    end = output.seek(0, os.SEEK_END)
    output.seek(max(end - _LAST_BYTES, 0))
    text = output.read().decode(errors="replace")
    lines = [visible(each.strip()) for each in text.splitlines() if each.strip()]
    errors = [each for each in lines if each.startswith(("Error:", "error:"))]
    return shortened((errors or lines or ["it said nothing"])[-1], _LONGEST_WORDS)
