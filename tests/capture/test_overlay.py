"""The parent's side of an overlay: the copies, and what the processes say about them."""

import json
from pathlib import Path

import pytest

from recompile_doctor.bundle import Bundle, bundle_root, create_bundle
from recompile_doctor.capture.overlay import OverlayApplied, prepare_overlay, read_overlay
from recompile_doctor.errors import DoctorError

ONE = Path("/user/one.py")
TWO = Path("/user/two.py")


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return create_bundle(bundle_root(tmp_path), "run")


def leave(bundle: Bundle, pid: int, *served: Path, **failed: str) -> None:
    """Write what the probe writes at the end of a process."""
    content = {
        "format": 1,
        "pid": pid,
        "served": [str(path) for path in served],
        "failed": [{"file": f"/user/{name}.py", "why": why} for name, why in failed.items()],
    }
    (bundle.probe_directory / f"{pid}.overlay.json").write_text(json.dumps(content))


def test_copies_hold_the_very_bytes(bundle: Bundle) -> None:
    """The variable names a list of the copies, which have the bytes of the patch."""
    text = b"\xef\xbb\xbf# \xe9\r\n"
    (path,) = prepare_overlay([(ONE, text), (TWO, b"")], bundle).values()
    files = json.loads(Path(path).read_bytes())["files"]
    assert list(files) == [str(ONE), str(TWO)]
    assert Path(files[str(ONE)]).read_bytes() == text


def test_served_in_any_process_is_served(bundle: Bundle) -> None:
    """Processes need not all import a file; one that none imports is missing."""
    prepare_overlay([(TWO, b""), (ONE, b"")], bundle)
    leave(bundle, 1)
    leave(bundle, 2, ONE)
    assert read_overlay(bundle) == OverlayApplied(frozenset({ONE}), (TWO,))


def test_failed_in_one_process_is_missing(bundle: Bundle) -> None:
    """A rank that ran the user's file spoils the trial of all."""
    prepare_overlay([(ONE, b""), (TWO, b"")], bundle)
    leave(bundle, 1, ONE, TWO)
    leave(bundle, 2, TWO, one="no room")
    leave(bundle, 3, TWO, one="no room")
    applied = read_overlay(bundle)
    assert applied == OverlayApplied(frozenset({TWO}), (ONE,), (f"{ONE}: no room",))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"served": 1}', b"\xff", b"[" * 100_000])
def test_what_cannot_be_read_proves_nothing(bundle: Bundle, content: bytes) -> None:
    """A damaged file of a process counts as if it had served nothing."""
    prepare_overlay([(ONE, b"")], bundle)
    (bundle.probe_directory / "1.overlay.json").write_bytes(content)
    assert read_overlay(bundle) == OverlayApplied(frozenset(), (ONE,))


def test_a_damaged_list_is_told(bundle: Bundle) -> None:
    """Without the list nobody knows what is missing."""
    prepare_overlay([(ONE, b"")], bundle)
    leave(bundle, 1, ONE)
    (bundle.overlay_directory / "files.json").write_text("{")
    (problem,) = read_overlay(bundle).problems
    assert problem.endswith("files.json cannot be read")


def test_a_run_without_an_overlay_has_none(bundle: Bundle) -> None:
    """Most runs try no patch."""
    assert read_overlay(bundle) == OverlayApplied()


def test_a_bundle_that_cannot_be_written_is_an_expected_error(bundle: Bundle) -> None:
    """The run cannot begin, and the user is told why."""
    bundle.overlay_directory.write_text("a file in the way")
    with pytest.raises(DoctorError) as caught:
        prepare_overlay([(ONE, b"")], bundle)
    assert caught.value.slug == "bundle-not-writable"
