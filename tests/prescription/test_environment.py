"""Marks as environment variables: torch's reading of the lists, and each shell's of the lines."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recompile_doctor.events.vocabulary import MarkKind
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.prescription.environment import (
    DYNAMIC,
    STATIC,
    UNBACKED,
    Shell,
    entry_for,
    environment_for,
    escaped_entry,
    idle_entries,
    lines_for,
)
from recompile_doctor.prescription.marks import Flag, Mark
from recompile_doctor.torch_compat import features_of
from tests.prescription.names import HOSTILE, ODD, SOURCES

TORCH_2_13 = features_of("2.13")


def torch_hits(value: str, source: str, dim: int) -> bool:
    """Say whether torch takes a list to name a dimension, as its builder.py reads it."""
    for entry in filter(None, value.replace(" ", "").split(",")):
        match = re.match(r"^(.+):(\d+)$", entry)
        pattern, only = (match[1], int(match[2])) if match else (entry, None)
        if (pattern == source or re.match(pattern, source)) and only in (None, dim):
            return True
    return False


@given(SOURCES, st.lists(SOURCES, max_size=6), st.integers(0, 3))
@example(HOSTILE[1], list(HOSTILE), 0)
@settings(max_examples=400)
def test_an_entry_hits_its_own_source_and_no_other(
    source: str, others: list[str], dim: int
) -> None:
    """Torch's own reading of the entry names this source and dimension only."""
    for entry in (entry_for(source, others), escaped_entry(source)):
        value = f"{entry}:{dim}"
        assert torch_hits(value, source, dim)
        assert not torch_hits(value, source, dim + 1)
        for other in (*others, *HOSTILE, source + "x", source + "._base", "L"):
            if other != source:
                assert not torch_hits(value, other, dim)


@pytest.mark.parametrize("source", HOSTILE)
def test_hostile_names_are_one_valid_entry(source: str) -> None:
    """Commas, spaces and what is no regular expression are escaped."""
    entry = entry_for(source, HOSTILE)
    assert "," not in entry
    assert " " not in entry
    re.compile(entry)
    assert [each for each in HOSTILE if torch_hits(entry, each, 0)] == [source]


def test_a_plain_name_stays_as_it_is() -> None:
    """What is safe as torch spells it is not made harder to read."""
    assert entry_for("L['x']", ("L['x1']", "L['x'].a")) == "L['x']"
    assert entry_for("L['self']._modules['1'].t") == "L['self']._modules['1'].t"


def mark(
    source: str, dim: int | None = 0, kind: MarkKind = MarkKind.UNBACKED, **more: object
) -> Mark:
    return Mark(source, dim, kind, **more)  # type: ignore[arg-type]


def test_each_kind_has_its_list() -> None:
    """Unbacked, dynamic and static marks stand in lists of their own, ints without a dimension."""
    marks = [
        mark("L['x']", 1),
        mark("L['x']", 0),
        mark("L['n']", None, MarkKind.DYNAMIC),
        mark("L['s']", 0, MarkKind.STATIC),
    ]
    made = environment_for(marks, (), features_of("2.15"))
    assert made.variables == {UNBACKED: "L['x']:1,L['x']:0", DYNAMIC: "L['n']", STATIC: "L['s']:0"}
    assert made.refused == ()


def test_before_2_13_a_list_takes_whole_sources_and_says_so() -> None:
    """An entry with a dimension would silently hit nothing there."""
    made = environment_for([mark("L['x']", 1), mark("L['x']", 0)], (), features_of("2.11"))
    assert made.variables == {UNBACKED: "L['x']"}
    assert "all dimensions of L['x']" in made.warnings[0]


def test_2_7_takes_exact_names_only() -> None:
    """It has no unbacked list and no patterns; what it cannot say is refused with a reason."""
    marks = [
        mark("L['d']['a b']", 0, MarkKind.DYNAMIC),
        mark("L['fn'](]", 0, MarkKind.DYNAMIC),
        mark("L['x']", 0),
    ]
    made = environment_for(marks, (), features_of("2.7.1"))
    assert made.variables == {DYNAMIC: "L['fn'](]"}
    reasons = {each.mark.source: each.why for each in made.refused}
    assert "spaces and commas" in reasons["L['d']['a b']"]
    assert "has no TORCH_COMPILE_UNBACKED_SOURCES" in reasons["L['x']"]


def test_2_6_has_no_list() -> None:
    """All marks are refused there."""
    made = environment_for([mark("L['x']", 0, MarkKind.DYNAMIC)], (), features_of("2.6"))
    assert made.variables == {}
    assert len(made.refused) == 1


def test_a_parameter_is_in_both_lists_up_to_2_14() -> None:
    """Torch ignores an unbacked parameter that is not dynamic too; 2.15 takes dynamic alone."""
    marks = [mark("L['layer']._parameters['weight']", 1)]
    entry = "L['layer']._parameters['weight']:1"
    assert environment_for(marks, (), TORCH_2_13).variables == {UNBACKED: entry, DYNAMIC: entry}
    assert environment_for(marks, (), features_of("2.15")).variables == {DYNAMIC: entry}
    free = Flag("torch._dynamo.config.force_parameter_static_shapes", False)
    made = environment_for(marks, (free,), features_of("2.15"))
    assert made.variables == {UNBACKED: entry}
    assert made.code_flags == (free,)


def test_functions_that_disagree_get_the_safer_kind() -> None:
    """A list knows no functions, so one name has one kind."""
    one, other = FrameKey("f", "a.py", 1), FrameKey("g", "a.py", 9)
    marks = [
        mark("L['x']", 0, frame=one),
        mark("L['x']", 0, MarkKind.DYNAMIC, frame=other),
        mark("L['y']", 0, MarkKind.STATIC, frame=one),
        mark("L['y']", 0, frame=other),
    ]
    made = environment_for(marks, (), features_of("2.15"))
    assert made.variables == {UNBACKED: "L['y']:0", DYNAMIC: "L['x']:0"}
    assert made.warnings
    assert [each.mark.kind for each in made.refused] == [MarkKind.STATIC]


def test_flags_have_variables_where_torch_has_them() -> None:
    """The rest needs a line in the program."""
    scalars = Flag("torch._dynamo.config.capture_scalar_outputs", True)
    limit = Flag("torch._dynamo.config.recompile_limit", 64)
    made = environment_for((), (scalars, limit), TORCH_2_13)
    assert made.variables == {"TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS": "1"}
    assert made.code_flags == (limit,)


VALUES = st.text(st.sampled_from(ODD.replace("\0", "")), max_size=30)
SHELLS = [each for each in ("sh", "bash", "zsh", "dash") if shutil.which(each)]


@pytest.mark.parametrize("shell", SHELLS)
@given(value=VALUES)
@example(value="L['x']:0,L\\['kw'\\]\\['x\\x2cy'\\]\\Z:0")
@settings(max_examples=25, deadline=None)
def test_a_shell_gives_the_value_back(shell: str, value: str) -> None:
    """What the line sets is the value, whatever is in it."""
    (line,) = lines_for({"NAME": value}, Shell.SH)
    done = subprocess.run(
        [shell, "-c", f'{line}\nexec "$PYTHON" -c "$PRINT"'],
        env={
            **os.environ,
            "PYTHON": sys.executable,
            "PRINT": "import os, sys; sys.stdout.buffer.write(os.environb[b'NAME'])",
        },
        capture_output=True,
        check=True,
    )
    assert done.stdout.decode() == value


@given(VALUES)
def test_fish_and_powershell_and_env_files_are_read_back(value: str) -> None:
    """Each form, read by the rules of its reader, is the value."""
    (fish,) = lines_for({"NAME": value}, Shell.FISH)
    assert read_fish(fish.removeprefix("set -gx NAME ")) == value
    (power,) = lines_for({"NAME": value}, Shell.POWERSHELL)
    inner = power.removeprefix("$env:NAME = ")[1:-1]
    assert re.sub("(['\u2018\u2019\u201a\u201b])\\1", r"\1", inner) == value
    (env,) = lines_for({"NAME": value}, Shell.ENV)
    assert read_env(env.removeprefix("NAME=")) == value
    (made,) = lines_for({"NAME": value}, Shell.YAML)
    assert yaml.safe_load(made) == {"NAME": value}


def read_fish(text: str) -> str:
    """Read a word of fish: in quotes only the quote and the backslash are escaped."""
    quote, inner = text[0], text[1:-1]
    if quote == '"':
        assert not re.search(r'["$\\]', inner)
        return inner
    return re.sub(r"\\(['\\])", r"\1", inner)


def read_env(text: str) -> str:
    """Read a value as python-dotenv does: in double quotes here nothing is special."""
    quote, inner = text[0], text[1:-1]
    if quote == '"':
        assert not re.search(r'["$\\\n]', inner)
        return inner
    return re.sub(r"\\(['\\])", r"\1", inner)


# With torch's own functions

ASK_TORCH = """
import json, sys
import torch, torch._dynamo
from torch._dynamo.variables import builder
wrong = []
for value, source, dim, expected in json.load(sys.stdin):
    for name, ask in (("unbacked_sources", builder.is_unbacked_source),
                      ("dynamic_sources", builder.is_dynamic_source)):
        with torch.compiler.config.patch(**{name: value}):
            try:
                said = ask(source, dim)
            except Exception as error:
                said = repr(error)
        if said != expected:
            wrong.append([name, value, source, dim, said])
json.dump(wrong, sys.stdout)
"""


def questions() -> list[tuple[str, str, int, bool]]:
    """Return list values and sources, with whether the value is to hit the source."""
    asked: list[tuple[str, str, int, bool]] = []

    @given(st.lists(SOURCES, min_size=1, max_size=5, unique=True))
    @settings(max_examples=150, database=None, derandomize=True)
    def collect(sources: list[str]) -> None:
        for source in sources:
            value = f"L['first']:2,{entry_for(source, sources)}:1"
            asked.extend((value, each, 1, each == source) for each in sources)
            asked.append((value, source, 0, False))

    collect()
    for source in HOSTILE:
        value = f"{entry_for(source, HOSTILE)}:1"
        asked += [(value, each, 1, each == source) for each in HOSTILE]
    return asked


def ask_torch(python: str) -> list[list[object]]:
    """Return where torch's functions do not say what is expected."""
    done = subprocess.run(
        [python, "-W", "ignore", "-c", ASK_TORCH],
        input=json.dumps(questions()),
        capture_output=True,
        text=True,
        check=True,
    )
    wrong: list[list[object]] = json.loads(done.stdout)
    return wrong


@pytest.mark.torch
def test_torch_itself_reads_the_entries_so() -> None:
    """torch's own matching functions agree with ours."""
    assert ask_torch(sys.executable) == []


@pytest.mark.torch
@pytest.mark.skipif(
    "RECOMPILE_DOCTOR_TORCH_2_15" not in os.environ,
    reason="RECOMPILE_DOCTOR_TORCH_2_15 names no interpreter with torch 2.15",
)
def test_torch_2_15_reads_the_entries_so() -> None:
    """The same with an interpreter that has torch 2.15."""
    python = os.environ["RECOMPILE_DOCTOR_TORCH_2_15"]
    assert Path(python).exists()
    assert ask_torch(python) == []


@pytest.mark.parametrize(
    ("entry", "hits"),
    [
        ("L['x']:0", True),
        ("L['x']", True),
        (r"L\['x'\]:1", True),
        ("L['x", True),  # no pattern: it ends the program, which is seen elsewhere
        ("x:0", False),
        ("L['xx']:0", False),
        (r"L\['x'\]\.grad", False),
    ],
)
def test_an_entry_that_hits_nothing_is_named(entry: str, hits: bool) -> None:
    found = idle_entries({"TORCH_COMPILE_DYNAMIC_SOURCES": entry}, ["L['x']", "L['y']"])
    assert found == (() if hits else (f"{entry} in TORCH_COMPILE_DYNAMIC_SOURCES",))
