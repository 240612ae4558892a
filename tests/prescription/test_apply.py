"""Writing a patch into files, and taking it back."""

import stat
from pathlib import Path

import pytest

from recompile_doctor.errors import DoctorError
from recompile_doctor.prescription import apply
from recompile_doctor.prescription.patched import PatchedFile, PatchResult


def result(*files: PatchedFile) -> PatchResult:
    return PatchResult("", files, (), (), ())


def files(folder: Path, count: int = 2) -> PatchResult:
    made = []
    for number in range(count):
        path = folder / f"{number}.py"
        path.write_bytes(b"old\r\n")
        made.append(PatchedFile(path, path.name, b"old\r\n", b"new\r\n"))
    return result(*made)


def test_write_and_undo(tmp_path: Path) -> None:
    """The files become what the patch says, and undo gives back the bytes that they had."""
    patch = files(tmp_path)
    backup = tmp_path / "bundle" / "patch"
    assert apply.write(patch, backup) == tuple(file.path for file in patch.files)
    assert [file.path.read_bytes() for file in patch.files] == [b"new\r\n"] * 2
    assert apply.is_applied(backup)
    assert apply.undo(backup) == tuple(file.path for file in patch.files)
    assert [file.path.read_bytes() for file in patch.files] == [b"old\r\n"] * 2
    assert not apply.is_applied(backup)
    assert apply.write(patch, backup)
    assert {path.name for path in tmp_path.iterdir()} == {"0.py", "1.py", "bundle"}


def test_mode_is_kept_and_links_stay_links(tmp_path: Path) -> None:
    """The new file has the mode of the old one, also behind a symbolic link."""
    path = tmp_path / "a.py"
    path.write_bytes(b"old")
    path.chmod(0o754)
    link = tmp_path / "link.py"
    link.symlink_to("a.py")
    apply.write(result(PatchedFile(link, "link.py", b"old", b"new")), tmp_path / "b")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o754


def test_an_empty_patch_writes_nothing(tmp_path: Path) -> None:
    """Without files there is no backup."""
    assert apply.write(result(), tmp_path / "b") == ()
    assert not (tmp_path / "b").exists()


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    """When one file is not as it was, none is written."""
    patch = files(tmp_path)
    patch.files[1].path.write_bytes(b"edited")
    with pytest.raises(DoctorError) as caught:
        apply.write(patch, tmp_path / "b")
    assert caught.value.slug == "patch-file-changed"
    assert patch.files[0].path.read_bytes() == b"old\r\n"
    assert not (tmp_path / "b").exists()


def test_a_second_patch_needs_its_own_backup(tmp_path: Path) -> None:
    """A backup that is in use is not overwritten."""
    patch = files(tmp_path)
    apply.write(patch, tmp_path / "b")
    again = result(*(PatchedFile(f.path, f.name, f.after, b"newer") for f in patch.files))
    with pytest.raises(DoctorError) as caught:
        apply.write(again, tmp_path / "b")
    assert caught.value.slug == "patch-already-written"


def test_undo_refuses_a_file_that_was_edited_since(tmp_path: Path) -> None:
    """When one file was edited after the patch, none is put back."""
    patch = files(tmp_path)
    apply.write(patch, tmp_path / "b")
    patch.files[1].path.write_bytes(b"edited")
    with pytest.raises(DoctorError) as caught:
        apply.undo(tmp_path / "b")
    assert caught.value.slug == "patch-edited-since"
    assert patch.files[0].path.read_bytes() == b"new\r\n"


def test_undo_of_a_write_that_was_cut_short(tmp_path: Path) -> None:
    """A file that the patch did not reach is left alone."""
    patch = files(tmp_path)
    apply.write(patch, tmp_path / "b")
    patch.files[1].path.write_bytes(b"old\r\n")
    assert apply.undo(tmp_path / "b") == (patch.files[0].path,)


@pytest.mark.parametrize("manifest", ["{", "[]", '{"files": [{}]}', '{"files": 3}'])
def test_a_damaged_backup(manifest: str, tmp_path: Path) -> None:
    """A manifest that cannot be read is an expected error."""
    (tmp_path / "manifest.json").write_text(manifest)
    with pytest.raises(DoctorError) as caught:
        apply.undo(tmp_path)
    assert caught.value.slug == "patch-backup-damaged"


def test_a_damaged_original(tmp_path: Path) -> None:
    """An original that is not what the manifest says is not written back."""
    apply.write(files(tmp_path), tmp_path / "b")
    (tmp_path / "b" / "originals" / "0").write_bytes(b"other")
    with pytest.raises(DoctorError) as caught:
        apply.undo(tmp_path / "b")
    assert caught.value.slug == "patch-backup-damaged"


def test_nothing_to_undo(tmp_path: Path) -> None:
    """Without a backup there is nothing to undo."""
    with pytest.raises(DoctorError) as caught:
        apply.undo(tmp_path)
    assert caught.value.slug == "patch-nothing-to-undo"


def test_a_write_that_fails_is_rolled_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the second file cannot be written, the first gets its content back."""
    patch = files(tmp_path)
    original = Path.replace

    def failing(self: Path, target: Path) -> Path:
        if Path(target).name == "1.py":
            raise PermissionError(13, "Permission denied")
        return original(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(DoctorError) as caught:
        apply.write(patch, tmp_path / "b")
    assert caught.value.slug == "patch-not-written"
    assert [file.path.read_bytes() for file in patch.files] == [b"old\r\n"] * 2
    assert not apply.is_applied(tmp_path / "b")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
