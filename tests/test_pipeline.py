"""From bytes to a report: any log gives one, and real ones give valid ones."""

import gzip
import io
import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from recompile_doctor.diagnosis.attribution import Cause
from recompile_doctor.errors import DoctorError
from recompile_doctor.pipeline import Examined, examine, explain_recompile
from recompile_doctor.reports.chain import print_chain
from recompile_doctor.reports.json_report import render_json
from recompile_doctor.reports.markdown import render_markdown
from recompile_doctor.reports.terminal import print_terminal

ROOT = Path(__file__).parents[1]
FIXTURES = ROOT / "fixtures"
SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))
SMALL = [
    gzip.decompress(path.read_bytes())
    for rule in ("zero-one-specialization", "data-dependent-scalar", "recompile-limit-hit")
    for release in ("torch-2.8.0", "torch-2.13.0")
    for path in sorted((FIXTURES / "logs" / rule / release).rglob("*.log.gz"))
]


def reported(examined: Examined) -> dict[str, object]:
    """Return the JSON report, after all other forms were made too."""
    console = Console(file=io.StringIO(), width=80)
    print_terminal(examined.document, console)
    render_markdown(examined.document)
    for cause in examined.diagnosis.causes[:3]:
        print_chain(chain_of(examined, cause), console)
    report: dict[str, object] = json.loads(render_json(examined.document))
    return report


def chain_of(examined: Examined, cause: Cause):  # type: ignore[no-untyped-def]
    return explain_recompile(examined, str(cause.recompile.key))[0]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Cut, splice, flip bytes in, or swap lines of one of the small logs."""
    log = bytearray(draw(st.sampled_from(SMALL)))
    start = draw(st.integers(0, max(len(log) - 6000, 0)))
    log = log[start : start + 6000]
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(("cut", "splice", "flip", "swap", "drop")))
        at = draw(st.integers(0, max(len(log) - 1, 0)))
        if kind == "cut":
            del log[at:]
        elif kind == "splice":
            other = draw(st.sampled_from(SMALL))
            begin = draw(st.integers(0, len(other)))
            log[at:at] = other[begin : begin + 500]
        elif kind == "flip" and log:
            log[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "drop":
            del log[at : at + draw(st.integers(1, 300))]
        else:
            lines = log.split(b"\n")
            one, two = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
            lines[one], lines[two] = lines[two], lines[one]
            log = bytearray(b"\n".join(lines))
    return bytes(log)


@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@given(damaged())
def test_a_damaged_log_gives_a_report_or_one_sentence(log: bytes) -> None:
    """Nothing but a DoctorError comes out of any damage, and what is reported is valid."""
    try:
        examined = examine(io.BytesIO(log))
    except DoctorError:
        return
    assert examined.document.summary.recompiles >= 0
    render_json(examined.document)


@pytest.mark.parametrize("log", SMALL, ids=range(len(SMALL)))
def test_every_form_is_made_of_a_real_log(log: bytes) -> None:
    """Terminal, markdown, chain and JSON come out, and the JSON fits its schema."""
    jsonschema.validate(reported(examine(io.BytesIO(log))), SCHEMA)


@pytest.mark.parametrize("case", sorted(path.name for path in (FIXTURES / "case-logs").iterdir()))
def test_every_form_is_made_of_a_case(case: str) -> None:
    """Each stored case gives all forms, and the JSON fits its schema."""
    jsonschema.validate(reported(examine(FIXTURES / "case-logs" / case)), SCHEMA)


def test_a_recompile_that_is_not_there_is_said_with_those_that_are() -> None:
    """The hint lists the recompiles that there are."""
    with pytest.raises(DoctorError, match="no recompile 7/7") as caught:
        explain_recompile(examine(FIXTURES / "case-logs" / "51_attention_block"), "7/7")
    assert "0/1, 0/2" in caught.value.hint


def test_a_chain_tells_the_values_of_its_own_recompile() -> None:
    """A finding speaks of all its recompiles, the chain of one."""
    examined = examine(FIXTURES / "logs" / "module-attribute-change" / "torch-2.13.0")
    (chain,) = explain_recompile(examined, "0/3")
    (cause,) = [step.text for step in chain.steps if step.label == "cause"]
    assert "L['self'].calls = 4" in cause


def test_the_next_command_reads_the_same_log_again() -> None:
    """A log that is no bundle stands behind the command; a pipe cannot be read again."""
    folder = FIXTURES / "case-logs" / "51_attention_block"
    commands = [each.command for each in examine(folder).document.next_commands]
    assert commands[0] == f"recompile-doctor explain 0/3 {folder}"
    stream = io.BytesIO(gzip.decompress((folder / "torch.log.gz").read_bytes()))
    commands = [each.command for each in examine(stream).document.next_commands]
    assert commands == ["recompile-doctor explain zero-one-specialization"]
