"""Bundles on disk: names, the manifest, the pointer to the newest, damage."""

import errno
import os
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from recompile_doctor import bundle as bundles
from recompile_doctor.bundle import (
    Manifest,
    bundle_root,
    check_name,
    create_bundle,
    default_name,
    find_bundle,
    latest_bundle,
    open_bundle,
    write_manifest,
)
from recompile_doctor.errors import DoctorError

MANIFEST = Manifest(
    command=("python", "train.py", "--name", "müller \udcff"),
    cwd="/project",
    environment={"TORCH_LOGS": "dynamic"},
    started="2026-01-02T03:04:05+01:00",
    caches="cold",
    logging=("dynamic",),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return bundle_root(tmp_path)


def test_manifest_survives_a_round_trip(root: Path) -> None:
    """What is written is what is read, also an argument that is not UTF-8."""
    bundle = create_bundle(root, "before")
    write_manifest(bundle, MANIFEST)
    assert open_bundle(bundle.path).manifest == MANIFEST


def test_manifest_of_a_run_that_never_ended_says_so() -> None:
    """A manifest is not complete until the end has been written."""
    assert not MANIFEST.complete
    assert MANIFEST.cut_short_reason == bundles.NOT_ENDED


def test_root_ignores_itself_in_git(root: Path) -> None:
    """The folder keeps its content out of git without touching the user's .gitignore."""
    create_bundle(root, "a")
    assert (root / ".gitignore").read_text() == "*\n"
    assert [path.name for path in root.parent.iterdir()] == [".recompile-doctor"]


def test_latest_is_the_newest(root: Path) -> None:
    """``latest`` follows each new bundle, and is a relative link that survives a move."""
    for name in ("a", "b"):
        write_manifest(create_bundle(root, name), MANIFEST)
    assert latest_bundle(root).name == "b"
    moved = root.parent / "moved"
    root.rename(moved)
    assert latest_bundle(moved).path == moved / "b"


def test_latest_without_symbolic_links(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where links are impossible ``latest`` is a text file with the name."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    write_manifest(create_bundle(root, "a"), MANIFEST)
    assert (root / "latest").read_text() == "a\n"
    assert latest_bundle(root).name == "a"


@pytest.mark.parametrize(
    "content", [b"../outside", b"", b"/etc", b"gone", b"\xff\xfe", b"a\0b", b"x" * 9999]
)
def test_latest_file_cannot_lead_outside(root: Path, content: bytes) -> None:
    """A damaged ``latest`` names no bundle."""
    root.mkdir()
    (root / "latest").write_bytes(content)
    with pytest.raises(DoctorError) as caught:
        latest_bundle(root)
    assert caught.value.slug == "no-bundle"


def test_latest_that_is_a_folder_costs_no_run(root: Path) -> None:
    """The bundle is made, and somebody is told that the pointer is not."""
    (root / "latest").mkdir(parents=True)
    told: list[str] = []
    assert create_bundle(root, "a", on_problem=told.append).trace_directory.is_dir()
    assert create_bundle(root, "b").name == "b"
    (problem,) = told
    assert problem.startswith(f"{root / 'latest'} does not name this run: ")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "\ud800",
        " a",
        "..",
        ".",
        "../a",
        "a/b",
        "/etc",
        "a\\b",
        "-rf",
        ".hidden",
        "a\nb",
        "a\0b",
        "\x1b[31m",
        "a" * 101,
        "ä" * 60,
        "latest",
        "c:",
        "a*",
        "dots.",
        "\u202egnp",
    ],
)
def test_hostile_names_are_refused(root: Path, name: str) -> None:
    """A name that could leave the root, hide or mislead makes nothing on disk."""
    with pytest.raises(DoctorError) as caught:
        create_bundle(root, name)
    assert caught.value.slug == "bad-bundle-name"
    assert not root.exists()


@pytest.mark.parametrize("name", ["before-fix", "a.b", "lauf_1", "größe", "with space"])
def test_ordinary_names_are_taken(name: str) -> None:
    """Names that people write are left as they are."""
    assert check_name(name) == name


@pytest.mark.parametrize(
    ("program", "stem"),
    [
        ("train.py", "train"),
        ("/a/b/my train.py", "my-train"),
        ("..", "run"),
        ("-x", "x"),
        ("é\n", "run"),
        ("x" * 300, "x" * 60),
    ],
)
def test_default_name_is_safe(program: str, stem: str) -> None:
    """The name made from a program passes the check for names."""
    name = default_name(program, datetime(2026, 7, 12, 9, 30, 15))
    assert name == f"{stem}-0712-093015"
    assert check_name(name) == name


def test_a_taken_name_gets_a_number_unless_it_must_be_exact(root: Path) -> None:
    """A default name is made unique, a name that the user chose is refused."""
    assert create_bundle(root, "a").name == "a"
    assert create_bundle(root, "a").name == "a-2"
    assert create_bundle(root, "a").name == "a-3"
    with pytest.raises(DoctorError) as caught:
        create_bundle(root, "a", exact=True)
    assert caught.value.slug == "bundle-exists"


def test_a_root_that_cannot_be_made_is_an_expected_error(root: Path) -> None:
    """A file in the place of the root, like a read-only disk, is one sentence."""
    root.write_text("")
    with pytest.raises(DoctorError) as caught:
        create_bundle(root, "a")
    assert caught.value.slug == "bundle-not-writable"


def test_a_full_disk_leaves_the_old_manifest(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest that cannot be written leaves the one before it, and no rubbish."""
    bundle = create_bundle(root, "a")
    write_manifest(bundle, MANIFEST)
    files = sorted(bundle.path.iterdir())

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(bundles.os, "fsync", full)
    with pytest.raises(DoctorError, match="No space left") as caught:
        write_manifest(bundle, MANIFEST)
    assert caught.value.slug == "bundle-not-writable"
    assert bundle.manifest == MANIFEST
    assert sorted(bundle.path.iterdir()) == files


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("", "bundle-unreadable"),
        ("- a\n", "bundle-unreadable"),
        ("{", "bundle-unreadable"),
        ("command: 3\n", "bundle-unreadable"),
        ("!!python/object/apply:os.system ['true']\n", "bundle-unreadable"),
        ("bundle_version: 99\n", "bundle-too-new"),
        ("bundle_version: 0x" + "f" * 10_000, "bundle-unreadable"),
        ("bundle_version: " + "9" * 10_000, "bundle-unreadable"),
        ("a: &a [1]\nb: *a\n", "bundle-unreadable"),
        ("a: " + "[" * 500_000, "bundle-unreadable"),
        ("- " * 200_000 + "a", "bundle-unreadable"),
        ("a: 1\n" * 300_000, "bundle-unreadable"),
    ],
)
def test_damaged_manifests_are_expected_errors(root: Path, text: str, slug: str) -> None:
    """No content of a manifest raises anything else, or runs code."""
    bundle = create_bundle(root, "a")
    bundle.manifest_path.write_text(text)
    with pytest.raises(DoctorError) as caught:
        open_bundle(bundle.path)
    assert caught.value.slug == slug


@pytest.mark.parametrize(
    "line",
    [
        "started: 2026-99-99",
        "started: 2026-01-01",
        "started: !!timestamp x",
        "complete: !!bool x",
        'exit_code: !!int ""',
        "exit_code: 0b_",
        "exit_code: 0x" + "f" * 10_000,
        "exit_code: " + "9" * 10_000,
        "exit_code: 1" + ":59" * 300,
        "wall_seconds: .nan",
        "wall_seconds: .inf",
        "wall_seconds: -1",
        "wall_seconds: !!float x",
        "devices: !!binary x",
        "devices: !!omap x",
        "environment: {? {} : x}",
        "<<: 3",
    ],
)
def test_a_value_that_yaml_stumbles_over_is_an_expected_error(root: Path, line: str) -> None:
    """Each value alone, in a manifest that is whole otherwise."""
    bundle = create_bundle(root, "a")
    write_manifest(bundle, MANIFEST)
    key = line.partition(":")[0]
    lines = bundle.manifest_path.read_text().splitlines()
    kept = [each for each in lines if not each.startswith(f"{key}:")]
    if key in ("devices", "environment"):
        kept = [each for each in kept if not each.startswith(("- ", "  TORCH"))]
        kept = [each for each in kept if not each.startswith(("command:", "logging:"))]
        kept += ["command: [a]", "logging: [a]"]
    bundle.manifest_path.write_text("\n".join([*kept, line]))
    with pytest.raises(DoctorError) as caught:
        open_bundle(bundle.path)
    assert caught.value.slug == "bundle-unreadable"
    assert len(caught.value.message) < 1000


def test_a_manifest_is_read_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow reading is not repeated for each value that is wanted."""
    write_manifest(create_bundle(root, "a"), MANIFEST)
    bundle = open_bundle(root / "a")
    monkeypatch.setattr(bundles, "_read_manifest", pytest.fail)
    assert bundle.manifest == MANIFEST


def test_a_command_with_very_many_words_leaves_a_manifest_that_can_be_read(root: Path) -> None:
    """Of a list of files, as a shell makes it, only the first are kept."""
    bundle = create_bundle(root, "a")
    write_manifest(bundle, replace(MANIFEST, command=("python", "a.py", *["word"] * 400_000)))
    command = open_bundle(bundle.path).manifest.command
    assert command[:2] == ("python", "a.py")
    assert re.fullmatch(r"\.\.\. and \d+ more", command[-1])


@pytest.mark.parametrize("name", ["manifest.yaml", "trace/a.log", "probe/1.json"])
def test_a_pipe_in_a_bundle_is_not_waited_for(root: Path, name: str) -> None:
    """Only regular files are opened."""
    bundle = create_bundle(root, "a")
    os.mkfifo(bundle.path / name)
    assert not bundles.is_bundle(bundle.path)
    assert (bundle.trace_files(), bundle.probe_files()) == ((), ())
    with pytest.raises(DoctorError) as caught:
        open_bundle(bundle.path)
    assert caught.value.slug == "not-a-bundle"


def test_a_name_that_is_too_long_is_no_bundle(root: Path) -> None:
    """The system's refusal to look is one sentence, and not of thousands of characters."""
    name = "a" * 5000
    assert not bundles.is_bundle(root / name)
    with pytest.raises(DoctorError) as caught:
        find_bundle(root, name)
    assert caught.value.slug == "not-a-bundle"
    assert len(caught.value.message) < 1000


def test_the_folder_that_we_started_in_is_known_when_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name stays good for messages."""
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PWD", str(folder))
    folder.rmdir()
    assert bundles.current_folder() == folder


def test_a_manifest_is_overwritten_only_where_it_fits(root: Path) -> None:
    """Half a manifest would be worse than the old one."""
    bundle = create_bundle(root, "a")
    assert not bundles.overwrite_manifest(bundle, MANIFEST)
    write_manifest(bundle, MANIFEST)
    large = replace(MANIFEST, cwd="/x" * 50_000)
    assert not bundles.overwrite_manifest(bundle, large)
    assert open_bundle(bundle.path).manifest == MANIFEST
    small = replace(MANIFEST, cwd="/", complete=True)
    assert bundles.overwrite_manifest(bundle, small)
    assert open_bundle(bundle.path).manifest == bundle.manifest == small


def test_a_manifest_with_more_in_it_can_be_read(root: Path) -> None:
    """A field that a later version adds is passed over."""
    bundle = create_bundle(root, "a")
    write_manifest(bundle, MANIFEST)
    content = yaml.safe_load(bundle.manifest_path.read_text())
    bundle.manifest_path.write_text(yaml.safe_dump({**content, "later": 1}))
    assert bundle.manifest == MANIFEST


def test_a_manifest_from_before_a_field_can_be_read(root: Path) -> None:
    """Bundles of earlier versions have no word of the memory of devices."""
    bundle = create_bundle(root, "a")
    write_manifest(bundle, replace(MANIFEST, device_memory_peak={"cuda:0": 1}))
    content = yaml.safe_load(bundle.manifest_path.read_text())
    del content["device_memory_peak"]
    bundle.manifest_path.write_text(yaml.safe_dump(content))
    assert open_bundle(bundle.path).manifest.device_memory_peak is None


def test_find_bundle_takes_a_name_latest_or_a_path(root: Path, tmp_path: Path) -> None:
    """A run is named as ``latest``, by its name, or by its path."""
    made = create_bundle(root, "a")
    write_manifest(made, MANIFEST)
    assert find_bundle(root, "latest").path == made.path
    assert find_bundle(root, "a").path == made.path
    assert find_bundle(root, str(made.path)).path == made.path
    with pytest.raises(DoctorError) as caught:
        find_bundle(root, str(tmp_path))
    assert caught.value.slug == "not-a-bundle"


def test_files_are_listed_by_kind(root: Path) -> None:
    """Each folder is listed by the ending that its files have."""
    bundle = create_bundle(root, "a")
    for path in ("trace/b.log", "trace/a.log", "logs/7.log", "probe/7.json", "probe/7.failure.txt"):
        (bundle.path / path).write_text("")
    assert [path.name for path in bundle.trace_files()] == ["a.log", "b.log"]
    assert [path.name for path in bundle.log_files()] == ["7.log"]
    assert [path.name for path in bundle.probe_files()] == ["7.json"]
