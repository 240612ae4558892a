"""The probe's files, read back."""

import json
from pathlib import Path

import pytest

from recompile_doctor.bundle import Bundle, bundle_root, create_bundle
from recompile_doctor.capture.snapshot import (
    Snapshot,
    UnreadSnapshot,
    read_snapshots,
)


@pytest.fixture
def bundle(tmp_path: Path) -> Bundle:
    return create_bundle(bundle_root(tmp_path), "run")


def test_a_snapshot_is_read(bundle: Bundle) -> None:
    """Counters, recompiles and what was silenced come back, unknown keys are passed over."""
    content = {
        "format": 1,
        "pid": 7,
        "complete": True,
        "torch_version": "2.13.0",
        "python_version": "3.11.7",
        "counters": {"frames": {"total": 3}},
        "compilations": [
            {"compile_id": "0/0", "recompile_reason": None},
            {"compile_id": "0/1", "recompile_reason": "0/0: size mismatch"},
        ],
        "logging": {"text": ["logging.disable(50) was called"], "trace": []},
        "later": 1,
    }
    (bundle.probe_directory / "7.json").write_text(json.dumps(content))
    (snapshot,) = read_snapshots(bundle)
    assert isinstance(snapshot, Snapshot)
    assert snapshot.recompiles == 1
    assert snapshot.counters == {"frames": {"total": 3}}
    assert snapshot.logging.text == ("logging.disable(50) was called",)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}', "[" * 100_000])
def test_a_damaged_snapshot_is_a_value(bundle: Bundle, text: str) -> None:
    """A file that cannot be read is reported, not raised."""
    (bundle.probe_directory / "7.json").write_text(text)
    (unread,) = read_snapshots(bundle)
    assert isinstance(unread, UnreadSnapshot)
    assert unread.reason
