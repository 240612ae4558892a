"""What verify has shown stays with the bundle, and damage to it costs only that."""

from dataclasses import replace
from pathlib import Path

import pytest

from recompile_doctor.bundle import Bundle
from recompile_doctor.errors import DoctorError
from recompile_doctor.events.vocabulary import MarkKind
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.prescription.marks import Advice, Flag, Mark, Prescription, Status
from recompile_doctor.prescription.verified import (
    FILE_NAME,
    Shown,
    ShownInBundle,
    read_shown,
    write_shown,
)

MARK = Mark(
    "L['x']", 0, MarkKind.UNBACKED, "b", minimum=1, frame=FrameKey("f", "/home/user/f.py", 3)
)
GOOD = Prescription(
    "strongest", "all", (MARK,), (Flag("torch._dynamo.config.x", True),), explains=("a/b",)
)
PROOF = Shown(GOOD, "good", True, "fixed", "same", 6, 0)
REFUSED = Shown(replace(GOOD, id="plain"), "bad", False, "worse", "unknown", 6, 9, "more")


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    write_shown(Bundle(tmp_path), ShownInBundle("2.13.0", "strongest", (PROOF, REFUSED)))
    shown = read_shown(tmp_path)
    assert shown.proof is not None
    assert shown.proof.prescription == replace(GOOD, status=Status.VERIFIED)
    assert shown.of("bad") == REFUSED
    assert shown.of("unheard of") is None


def test_advice_is_not_kept(tmp_path: Path) -> None:
    advised = replace(PROOF, prescription=replace(GOOD, advice=(Advice("r", "f", "text"),)))
    write_shown(Bundle(tmp_path), ShownInBundle("2.13.0", "strongest", (advised,)))
    proof = read_shown(tmp_path).proof
    assert proof is not None
    assert proof.prescription.advice == ()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"null", b'{"format": 9}', b'{"shown": 3}', b"\xff"]
)
def test_damage_counts_as_never_verified(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    assert read_shown(tmp_path) == ShownInBundle()
    assert read_shown(tmp_path / "nowhere") == ShownInBundle()


def test_a_later_check_adds_to_what_was_shown() -> None:
    earlier = ShownInBundle("2.13.0", "strongest", (PROOF,))
    later = ShownInBundle("2.13.0", None, (REFUSED,))
    both = later.joined(earlier)
    assert both.shown == (REFUSED, PROOF)
    assert both.proof == PROOF


def test_what_was_shown_on_another_torch_is_forgotten() -> None:
    later = ShownInBundle("2.15.0", None, (REFUSED,))
    assert later.joined(ShownInBundle("2.13.0", "strongest", (PROOF,))) == later


def test_a_repeated_trial_replaces_what_was_shown() -> None:
    worse_now = replace(PROOF, proof=False, verdict="worse", after=9)
    both = ShownInBundle("2.13.0", None, (worse_now,)).joined(
        ShownInBundle("2.13.0", "strongest", (PROOF,))
    )
    assert both.shown == (worse_now,)
    assert both.proof is None


def test_a_bundle_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DoctorError) as caught:
        write_shown(Bundle(tmp_path / "gone"), ShownInBundle())
    assert caught.value.slug == "bundle-not-writable"
