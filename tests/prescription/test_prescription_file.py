"""The prescription file: written and read back, and refused with the line where it is wrong."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recompile_doctor.bundle import create_bundle
from recompile_doctor.errors import DoctorError
from recompile_doctor.events.vocabulary import MarkKind
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.prescription.marks import Flag, Mark, Prescription
from recompile_doctor.prescription.prescription_file import (
    Trial,
    content_name,
    prepare,
    prescription_file,
    read_prescription,
    trial_of,
)
from recompile_doctor.prescription.rendering import render
from recompile_doctor.torch_compat import features_of
from tests.prescription.names import TEXT

FRAME = FrameKey("forward", "/home/user/train.py", 20)
TORCH = features_of("2.13")


def strongest(*marks: Mark, flags: tuple[Flag, ...] = ()) -> Prescription:
    return Prescription(
        id="strongest", title="a title", marks=marks, flags=flags, risks=("a\nrisk: {x}",)
    )


def read_back(prescription: Prescription, folder: Path, torch: str = "2.13") -> tuple[Trial, Trial]:
    features = features_of(torch)
    trial = trial_of(prescription, features)
    file = folder / "fix.yaml"
    file.write_text(
        prescription_file(render(prescription, features), torch, trial), encoding="utf-8"
    )
    return trial, read_prescription(file)


def unbacked(source: str, dim: int | None, **more: object) -> Mark:
    return Mark(source, dim, MarkKind.UNBACKED, frame=FRAME, **more)  # type: ignore[arg-type]


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    """Marks with groups go to the probe, the rest to the environment, other settings to config."""
    prescription = strongest(
        unbacked("L['x']", 0, shape_group="b", minimum=1, maximum=9, hint=4),
        unbacked("L['d']['a, b']", 1, shape_group="b"),
        unbacked("L['n']", None),
        unbacked("L['___stack0']", 0),
        flags=(
            Flag("torch._dynamo.config.capture_scalar_outputs", True),
            Flag("torch._dynamo.config.recompile_limit", 64),
        ),
    )
    trial, read = read_back(prescription, tmp_path)
    assert read == Trial("strongest", trial.marks, trial.environment, trial.config, "2.13")
    assert [mark.source for mark in read.marks] == ["L['x']", "L['d']['a, b']"]
    assert read.environment == {
        "TORCH_COMPILE_UNBACKED_SOURCES": "L['n'],L['___stack0']:0",
        "TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS": "1",
    }
    assert read.config == (Flag("torch._dynamo.config.recompile_limit", 64),)


def test_what_variables_say_whole_is_run_by_variables(tmp_path: Path) -> None:
    """A trial does what the user would paste."""
    _, read = read_back(strongest(unbacked("L['x']", 0, hint=4)), tmp_path)
    assert read.marks == ()
    assert read.environment == {"TORCH_COMPILE_UNBACKED_SOURCES": "L['x']:0"}


@pytest.mark.parametrize("torch", ["2.6", "2.7", "2.11"])
def test_where_a_list_takes_no_dimension_the_probe_marks(torch: str, tmp_path: Path) -> None:
    """A mark says more than an entry for the whole tensor, or than no list at all."""
    _, read = read_back(strongest(unbacked("L['x']", 0)), tmp_path, torch)
    assert [mark.source for mark in read.marks] == ["L['x']"]
    assert read.environment == {}


@given(key=TEXT, group=TEXT, function=TEXT, file=TEXT)
def test_any_name_survives_the_file(
    key: str, group: str, function: str, file: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Quotes, line ends and colons in names change nothing."""
    frame = FrameKey(function, file, 1)
    mark = Mark(f"L['d'][{key!r}]", 0, MarkKind.UNBACKED, shape_group=group, minimum=0, frame=frame)
    folder = tmp_path_factory.mktemp("file")
    trial, read = read_back(strongest(mark), folder)
    assert read.marks == trial.marks == (mark,)


BAD = (
    ("prescription_version: 2\n", 1, "prescription_version is 2"),
    ("id: x\n", 1, "prescription_version is missing"),
    ("", 1, "it is empty"),
    ("- 1\n", 1, "keys and values"),
    ("prescription_version: 1\nmarks:\n  - sorce: x\n", 3, "'sorce' is not known"),
    ("prescription_version: 1\nid: a\nid: b\n", 3, "stands there twice"),
    ("prescription_version: 1\nmarks:\n  - dim: 0\n    kind: unbacked\n", 3, "needs source"),
    (
        "prescription_version: 1\nmarks:\n  - source: L['x']\n    dim: 0\n    kind: open\n",
        5,
        "not one of",
    ),
    (
        "prescription_version: 1\nmarks:\n  - source: L['x']\n    dim: '0'\n    kind: static\n",
        4,
        "a whole number",
    ),
    (
        "prescription_version: 1\nmarks:\n  - source: L['x']\n    dim: -1\n    kind: static\n",
        4,
        "0 or more",
    ),
    (
        "prescription_version: 1\nmarks:\n  - source: L['___stack0']\n    dim: 0\n"
        "    kind: unbacked\n",
        3,
        "no argument of a function",
    ),
    (
        "prescription_version: 1\nmarks:\n  - source: L['x']\n    dim: 0\n    kind: dynamic\n"
        "    min: 1\n",
        6,
        "for unbacked marks only",
    ),
    ("prescription_version: 1\nenvironment:\n  PATH: /tmp\n", 3, "'PATH' is not known"),
    ("prescription_version: 1\nenvironment:\n  - a\n", 3, "keys and values"),
    ("prescription_version: 1\nconfig:\n  os.environ: 1\n", 3, "no setting of torch"),
    ("prescription_version: 1\nconfig:\n  torch._dynamo.config.a: 1.5\n", 3, "a setting is"),
    ("prescription_version: 1\nmarks: 3\n", 2, "a list is expected"),
    ("prescription_version: 1\n\tid: x\n", 2, "no YAML"),
    ("prescription_version: !!python/object:os.system 1\n", 1, "could not determine"),
)


@pytest.mark.parametrize(("text", "line", "words"), BAD)
def test_what_is_wrong_is_refused_with_its_line(
    text: str, line: int, words: str, tmp_path: Path
) -> None:
    """Nothing unknown passes in silence."""
    file = tmp_path / "fix.yaml"
    file.write_text(text)
    with pytest.raises(DoctorError) as caught:
        read_prescription(file)
    assert caught.value.slug == "bad-prescription"
    assert caught.value.message.startswith(f"{file}:{line}: ")
    assert words in caught.value.message


@given(
    text=st.one_of(
        st.text(max_size=60),
        st.text(st.sampled_from("marks: -{}[]\n\"'&*!|>%@,#?id0 "), max_size=60),
    )
)
def test_any_text_is_read_or_refused(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No file makes it crash."""
    file = tmp_path_factory.mktemp("any") / "fix.yaml"
    file.write_text(f"prescription_version: 1\n{text}", encoding="utf-8", errors="replace")
    try:
        read_prescription(file)
    except DoctorError as error:
        assert error.slug == "bad-prescription"


def test_a_missing_file_is_an_expected_error(tmp_path: Path) -> None:
    """It is said, and what to do."""
    with pytest.raises(DoctorError, match="cannot be read"):
        read_prescription(tmp_path / "none.yaml")


def test_lists_of_the_user_are_added_to(tmp_path: Path) -> None:
    """What the user set stays in force; the probe's part is left in the bundle."""
    bundle = create_bundle(tmp_path, "a")
    mark = unbacked("L['args'][0]['k'].t", 2, shape_group="b")
    trial = Trial("t", (mark,), {"TORCH_COMPILE_UNBACKED_SOURCES": "L['x']:0"})
    base = {"TORCH_COMPILE_UNBACKED_SOURCES": "L['theirs']"}
    variables = prepare(trial, bundle, base)
    assert variables["TORCH_COMPILE_UNBACKED_SOURCES"] == "L['theirs'],L['x']:0"
    content = json.loads(Path(variables["RECOMPILE_DOCTOR_PRESCRIPTION"]).read_text())
    (given_mark,) = content["marks"]
    assert given_mark["root"] == "args"
    assert given_mark["path"] == [["item", 0], ["item", "k"], ["attribute", "t"]]
    assert prepare(Trial("e"), bundle, os.environ) == {}


def test_the_manifest_names_file_and_content(tmp_path: Path) -> None:
    """Two files of one name are told apart."""
    file = tmp_path / "fix.yaml"
    file.write_text("prescription_version: 1\n")
    first = content_name(file)
    file.write_text("prescription_version: 1\nid: b\n")
    assert content_name(file) != first
    assert first.startswith(str(file))


def test_the_example_of_the_documentation_is_read(tmp_path: Path) -> None:
    """docs/prescriptions.md shows a file that is one."""
    page = (Path(__file__).parents[2] / "docs" / "prescriptions.md").read_text("utf-8")
    example = page.partition("```yaml\n")[2].partition("```")[0]
    file = tmp_path / "fix.yaml"
    file.write_text(example, encoding="utf-8")
    read = read_prescription(file)
    assert (read.marks[0].shape_group, read.marks[0].minimum, read.marks[0].hint) == ("b", 1, 16)
    assert read.config == (Flag("torch._dynamo.config.recompile_limit", 64),)


@pytest.mark.parametrize(
    "lines",
    [
        "id: !!bool x",
        'id: !!int ""',
        "id: !!timestamp x",
        f"id: 0x{'f' * 6000}",
        f"prescription_version: 0x{'f' * 6000}",
        'id: "\\ud800"',
        'environment:\n  TORCH_COMPILE_UNBACKED_SOURCES: "a\\0b"',
        f'environment:\n  TORCH_COMPILE_UNBACKED_SOURCES: "{"x" * 200_000}"',
        f"config:\n  torch._dynamo.config.x: {'9' * 6000}",
        'config:\n  torch._dynamo.config.x: "\\ud800"',
        f"marks:\n  - {{source: \"L['x']\", dim: 0x{'f' * 6000}, kind: unbacked}}",
        f"# {'x' * (1 << 21)}",
    ],
)
def test_hostile_values_are_refused_with_a_sentence(tmp_path: Path, lines: str) -> None:
    path = tmp_path / "p.yaml"
    start = "" if lines.startswith("prescription_version") else "prescription_version: 1\n"
    path.write_text(f"{start}{lines}\n", "utf-8")
    with pytest.raises(DoctorError) as caught:
        read_prescription(path)
    assert caught.value.slug == "bad-prescription"
