"""Standard streams that are closed or full, and what a status means then."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASE = ROOT / "fixtures" / "case-logs" / "51_attention_block"
LOOK = """
import os, sys
from pathlib import Path
def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return "-"
    return "+"
Path("seen").write_text("".join(map(is_open, range(3))))
raise SystemExit(int(sys.argv[1]))
"""


def shell(line: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in which ``rd`` is the tool and ``CASE`` a folder of logs."""
    return subprocess.run(
        ["bash", "-c", f'rd() {{ "{sys.executable}" -m recompile_doctor "$@"; }}\n{line}'],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CASE": str(CASE), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "look.py").write_text(LOOK)
    return tmp_path


@pytest.mark.parametrize(
    ("streams", "seen", "status"),
    [
        ("2>&-", "++-", 0),
        ("<&-", "-++", 0),
        (">&-", "+-+", 3),
        ("<&- >&- 2>&-", "---", 3),
        ("2>/dev/full", "+++", 0),
        (">/dev/full", "+++", 3),
    ],
)
def test_a_program_finds_the_streams_as_the_user_left_them(
    project: Path, streams: str, seen: str, status: int
) -> None:
    """It runs, a closed descriptor is closed for it too, and its own failure comes back."""
    done = shell(f"rd run look.py 0 {streams}", project)
    assert ((project / "seen").read_text(), done.returncode) == (seen, status)
    assert "Traceback" not in done.stderr
    assert shell(f"rd run look.py 7 {streams}", project).returncode == 7


@pytest.mark.parametrize(
    ("line", "slug"),
    [
        ("rd run --output /nope/x look.py", "report-not-written"),
        ("rd run --format json look.py >/dev/full", "output-not-written"),
        ("rd run look.py >&-", "output-not-written"),
        ("rd run -- sh -c 'rm -r .recompile-doctor; exit $0'", "bundle-gone"),
        ("mkdir sub; cd sub; rd run -- sh -c 'rm -r ../sub; exit $0'", "bundle-gone"),
    ],
)
def test_a_report_that_fails_does_not_hide_the_programs_status(
    project: Path, line: str, slug: str
) -> None:
    """A program that fails gives its own status, one that does not the error's; both are told."""
    program, streams = line.partition(" >")[::2]
    for status, expected in ((7, 7), (0, 3)):
        done = shell(f"{program} {status} {'>' * bool(streams)}{streams}", project)
        assert done.returncode == expected
        assert f"docs/messages.md#{slug}" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_reader_that_leaves_does_not_hide_the_programs_status(project: Path) -> None:
    """141 is for a program that did not fail."""
    line = "rd run look.py {} | true; exit ${{PIPESTATUS[0]}}"
    assert shell(line.format(7), project).returncode == 7
    assert shell(line.format(0), project).returncode == 141


COMMANDS = (
    "--help",
    "analyze $CASE",
    "analyze $CASE --format json",
    "explain range-guard",
    "explain 0/4 $CASE",
    "diff $CASE $CASE",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_output_that_cannot_be_written_is_one_sentence(tmp_path: Path, command: str) -> None:
    """Full, closed, or all three closed: status 3, and never a traceback."""
    for streams in (">/dev/full", ">&-"):
        done = shell(f"rd {command} {streams}", tmp_path)
        assert (done.returncode, done.stderr.count("output-not-written")) == (3, 1)
        assert len(done.stderr.splitlines()) == 3
    assert shell(f"rd {command} <&- >&- 2>&-", tmp_path).returncode == 3


def test_a_report_in_a_file_needs_no_standard_output(tmp_path: Path) -> None:
    """A closed standard output is no trouble where nothing is written to it."""
    assert shell("rd analyze $CASE --output x <&- >&- 2>&-", tmp_path).returncode == 0
    assert (tmp_path / "x").stat().st_size


def test_a_closed_standard_input_is_one_sentence(tmp_path: Path) -> None:
    """There is nothing to read, and that is said."""
    done = shell("rd analyze - <&-", tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("error: Standard input is closed.\n")


@pytest.mark.parametrize(
    "command",
    [
        "analyze $NAME",
        "analyze ''",
        "explain 0/1 $NAME",
        "explain $NAME",
        "run $NAME",
        "run --name $NAME look.py 0",
        "run --output $NAME look.py 0",
        "run --name '' look.py 0",
        "run --python '' look.py 0",
        "run $'a\\e[31m\\nb'",
        "run folder",
        "analyze $'a\\e[31m\\nb'",
        "analyze $'folder\\e[31m\\nb'",
        "diff $NAME $NAME",
        "check --budget $NAME $CASE",
        "check --baseline $NAME $CASE",
        "check --update-budget --budget $NAME $CASE",
    ],
)
def test_hostile_names_are_shown_as_one_harmless_line(project: Path, command: str) -> None:
    """Too long, empty, with escapes or line ends: three lines of text and status 3."""
    (project / "folder").mkdir()
    (project / "folder\x1b[31m\nb").mkdir()
    done = shell(f"rd {command}", project, NAME="a" * 5000)
    assert done.returncode == 3
    assert "\x1b" not in done.stderr
    lines = done.stderr.splitlines()
    assert [line.partition(" ")[0] for line in lines[:-1]] == ["error:", "hint:"]
    assert not (project / "seen").exists() or "--output" in command


def test_wrong_usage_shows_words_so_that_they_do_nothing(tmp_path: Path) -> None:
    """Also what click has to say of them."""
    done = shell(r"rd analyze x $'a\e[31m\nb'", tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (r"Error: Got unexpected extra argument (a\x1b[31m\nb)")


def test_a_folder_that_is_gone_can_still_be_read_from(tmp_path: Path) -> None:
    """A log elsewhere is explained; a run is refused, since its bundle would have no place."""
    gone = 'mkdir sub; cd sub; rmdir "$PWD"; '
    for command in ("explain 0/4 $CASE", "explain", "--help"):
        done = shell(f"{gone}rd {command}", tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
    done = shell(f"{gone}rd analyze", tmp_path)
    assert (done.returncode, "#no-bundle" in done.stderr) == (3, True)
    done = shell(f"{gone}rd run -- true", tmp_path)
    assert (done.returncode, "#no-working-folder" in done.stderr) == (3, True)


def test_a_pipe_in_the_place_of_a_manifest_is_not_waited_for(tmp_path: Path) -> None:
    """The folder is no bundle then."""
    (tmp_path / "b").mkdir()
    os.mkfifo(tmp_path / "b" / "manifest.yaml")
    done = shell("timeout 60 true; rd analyze b", tmp_path)
    assert done.returncode == 3


def test_latest_as_a_folder_is_noted(project: Path) -> None:
    """The run is made and reported on."""
    (project / ".recompile-doctor" / "latest").mkdir(parents=True)
    done = shell("rd run look.py 0", project)
    assert (done.returncode, done.stdout != "") == (0, True)
    assert done.stderr.startswith("recompile-doctor: ")
    assert "latest does not name this run" in done.stderr
