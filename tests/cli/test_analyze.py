"""`analyze` and `explain`, as processes of their own."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASE = ROOT / "fixtures" / "case-logs" / "51_attention_block"


def tool(*words: str, cwd: Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    command = [sys.executable, "-m", "recompile_doctor", *words]
    return subprocess.run(command, cwd=cwd, input=stdin, capture_output=True, env=environment)


def test_a_folder_of_logs_is_explained(tmp_path: Path) -> None:
    """The report names totals, source and dimension on standard output, and nothing else."""
    done = tool("analyze", str(CASE), cwd=tmp_path)
    text = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"")
    assert text.startswith("6 recompiles in 1 function cost ")
    assert "L['x'] dim 0: 4 → 2 → 1 → 3 → 0" in text
    assert all(len(line) <= 80 for line in text.splitlines() if "recompile-doctor" not in line)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("packed", [False, True])
def test_a_text_log_comes_from_standard_input(tmp_path: Path, packed: bool) -> None:
    """A log in a pipe, packed or not, is read; what it cannot tell is unknown, not zero."""
    log = (CASE / "torch.log.gz").read_bytes()
    stdin = log if packed else gzip.decompress(log)
    done = tool("analyze", "-", "--format", "json", cwd=tmp_path, stdin=stdin)
    report = json.loads(done.stdout)
    assert (done.returncode, report["source"]) == (0, "text")
    assert report["summary"]["recompiles"] == 6
    assert report["summary"]["compile_seconds"] is None
    assert report["summary"]["graphs_captured"] is None


def test_findings_fail_only_when_asked(tmp_path: Path) -> None:
    """`--fail-on findings` turns something to fix into exit status 1."""
    assert tool("analyze", str(CASE), "--fail-on", "findings", cwd=tmp_path).returncode == 1
    fine = CASE.parent / "40_same_tensor_twice"
    assert tool("analyze", str(fine), "--fail-on", "findings", cwd=tmp_path).returncode == 0


def test_the_report_goes_to_a_file(tmp_path: Path) -> None:
    """`--output` writes there and leaves standard output alone."""
    target = tmp_path / "report.md"
    done = tool("analyze", str(CASE), "--format", "markdown", "--output", str(target), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, b"")
    assert "a dimension is sometimes 0 or 1" in target.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        (("analyze", "nothing-here"), "no-such-input"),
        (("analyze",), "no-bundle"),
        (("explain", "no-such-rule"), "no-such-rule"),
        (("explain", "9/9", str(CASE)), "no-such-recompile"),
        (("analyze", str(ROOT / "LICENSE")), "not-a-log"),
    ],
)
def test_bad_input_is_one_sentence_and_status_3(
    tmp_path: Path, words: tuple[str, ...], slug: str
) -> None:
    """No traceback; the message names its place in the docs."""
    done = tool(*words, cwd=tmp_path)
    assert done.returncode == 3
    assert f"docs/messages.md#{slug}" in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_a_recompile_is_explained_back_to_the_call(tmp_path: Path) -> None:
    """The chain goes from the recompile over guard and symbol to the user's lines."""
    text = tool("explain", "0/4", str(CASE), cwd=tmp_path).stdout.decode()
    places = [text.index(word) for word in ("recompile 0/4", "guard", "symbol", "argument")]
    assert places == sorted(places)
    assert "2 <= L['x'].size()[1]" in " ".join(text.split())
    assert "case.py:33" in text


def test_rules_are_listed_and_explained(tmp_path: Path) -> None:
    """Without a name all rules are listed; with one its page is shown."""
    listed = tool("explain", cwd=tmp_path).stdout.decode()
    assert len(listed.splitlines()) == 34
    page = tool("explain", "zero-one-specialization", cwd=tmp_path).stdout.decode()
    assert "## What to do" in page


@pytest.mark.parametrize(
    "words", [("--help",), ("analyze", str(CASE)), ("explain", "range-guard"), ("run", "--help")]
)
def test_the_tool_itself_never_imports_torch(tmp_path: Path, words: tuple[str, ...]) -> None:
    """After a command, torch is not among the modules of the process."""
    code = (
        "import sys\n"
        "from recompile_doctor.__main__ import main\n"
        f"main({list(words)!r})\n"
        "heavy = ('torch', 'libcst', 'numpy')\n"
        "found = sorted(m for m in sys.modules if m.split('.')[0] in heavy)\n"
        "print(found, file=sys.stderr)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, env=environment
    )
    assert done.stderr.decode().splitlines()[-1] == "[]"


@pytest.mark.parametrize("form", ["folder", "file", "stdin"])
def test_logs_are_kept_as_a_bundle_when_they_get_a_name(tmp_path: Path, form: str) -> None:
    """What has a name is found again: by its name, and as the latest run."""
    log = CASE / "torch.log.gz"
    target = {"folder": str(CASE), "file": str(log), "stdin": "-"}[form]
    first = tool("analyze", target, "--name", "ci", cwd=tmp_path, stdin=log.read_bytes())
    assert first.returncode == 0, first.stderr
    assert b"recompile-doctor explain 0/3 " in first.stdout
    chain = tool("explain", "0/3", cwd=tmp_path)
    assert (chain.returncode, b"Why 0/3 of forward" in chain.stdout) == (0, True)
    same = tool("diff", "ci", "ci", cwd=tmp_path)
    assert (same.returncode, b"recompiles 6 -> 6" in same.stdout) == (0, True)
    taken = tool("analyze", target, "--name", "ci", cwd=tmp_path, stdin=log.read_bytes())
    assert (taken.returncode, b"bundle-exists" in taken.stderr) == (3, True)


def test_what_is_no_log_makes_no_bundle(tmp_path: Path) -> None:
    """The error is that of analyze, and nothing is left behind."""
    done = tool("analyze", str(ROOT / "LICENSE"), "--name", "x", cwd=tmp_path)
    assert (done.returncode, b"not-a-log" in done.stderr) == (3, True)
    assert not (tmp_path / ".recompile-doctor" / "x").exists()
