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

from recompile_doctor.bundle import Manifest, create_bundle, write_manifest
from recompile_doctor.diagnosis.attribution import Cause
from recompile_doctor.errors import DoctorError
from recompile_doctor.pipeline import Examined, examine, explain_recompile, suggest
from recompile_doctor.reports.chain import print_chain
from recompile_doctor.reports.json_report import render_json
from recompile_doctor.reports.markdown import render_markdown
from recompile_doctor.reports.suggest_report import print_suggestions
from recompile_doctor.reports.terminal import print_terminal
from tests.capture.calls_files import function, process, row, write_calls

ROOT = Path(__file__).parents[1]
FIXTURES = ROOT / "fixtures"
SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text(encoding="utf-8"))
MANIFEST = Manifest(
    command=("python", "train.py"),
    cwd="/home/user/project",
    environment={},
    started="2026-01-01T00:00:00+00:00",
    caches="cold",
    logging=(),
    complete=True,
    cut_short_reason=None,
    exit_code=0,
)
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
    assert commands[:2] == [
        f"recompile-doctor suggest {folder}",
        f"recompile-doctor explain 0/3 {folder}",
    ]
    stream = io.BytesIO(gzip.decompress((folder / "torch.log.gz").read_bytes()))
    commands = [each.command for each in examine(stream).document.next_commands]
    assert commands == ["recompile-doctor explain zero-one-specialization"]


def trace_of(scenario: str) -> bytes:
    """Return a real trace of three recompiles."""
    (path,) = (FIXTURES / "logs-reader" / "2.13.0" / scenario / "trace").glob("*.gz")
    return gzip.decompress(path.read_bytes())


def slugs(examined: Examined) -> list[str]:
    return [each.slug for each in examined.document.notices]


def test_a_break_whose_first_report_is_lost_is_still_a_break() -> None:
    """Torch's line for a repeated break has no title; recompiles after it are told all the same."""
    prefix = b"V1130 04:55:44.364000 32247 torch/_dynamo/"
    log = b"\n".join(
        (
            prefix + b"guards.py:1] [4/1] [__recompiles] Recompiling function "
            b"torch_dynamo_resume_in_f_at_20 in /home/user/project/a.py:20",
            prefix + b"guards.py:1] [4/1] [__recompiles]     - 4/0: tensor 'y' size mismatch at "
            b"index 0. expected 8, actual 12",
            prefix + b"symbolic_convert.py:2] [3/2] [__graph_breaks] Graph break (user stack "
            b"suppressed due to duplicate graph break) in user code at /home/user/project/a.py:20",
        )
    )
    examined = examine(io.BytesIO(log))
    assert examined.document.summary.graph_breaks == 1
    assert "resume-function-churn" in [each.rule for each in examined.document.findings]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_log_that_ends_in_zeros_is_no_clean_bill(end: bytes) -> None:
    """What a file system leaves after a crash is not understood, and is said."""
    trace = trace_of("zero_one")
    cut = trace.rindex(b"\n", 0, trace.index(b'"recompile_reasons"')) + 1
    examined = examine(io.BytesIO(trace[:cut] + b"\0" * 5000 + end))
    assert examined.document.unread.records == 1
    assert examined.document.unread.size >= 5000
    assert "partly-unread" in slugs(examined)


def test_a_compile_that_the_log_cuts_is_unknown_not_eager() -> None:
    """A compile that neither succeeded nor failed has an unknown number of graphs."""
    trace = trace_of("zero_one")
    cut = trace.rindex(b"\n", 0, trace.index(b'"dynamo_output_graph"')) + 1
    examined = examine(io.BytesIO(trace[:cut]))
    assert examined.document.summary.graphs_captured is None
    assert "log-ends-early" in slugs(examined)


def test_a_log_cut_within_a_payload_says_so() -> None:
    """Torch ends each payload with a line break."""
    trace = trace_of("zero_one")
    examined = examine(io.BytesIO(trace[: trace.index(b'\n\t"', len(trace) // 2) + 5]))
    assert examined.document.unread.records >= 1


def test_a_trace_in_utf_16_reads_like_any_other() -> None:
    """PowerShell writes redirected output so."""
    trace = trace_of("zero_one")
    examined = examine(io.BytesIO(trace.decode().encode("utf-16")))
    assert examined.document.summary.recompiles == 3


def test_one_file_that_is_no_log_does_not_cost_the_bundle(tmp_path: Path) -> None:
    """The good trace beside it is reported, the other file counts as not understood."""
    bundle = create_bundle(tmp_path / ".recompile-doctor", "b")
    write_manifest(bundle, MANIFEST)
    bundle.trace_directory.mkdir(exist_ok=True)
    bundle.log_directory.mkdir(exist_ok=True)
    (bundle.trace_directory / "dedicated_log_torch_trace_a.log").write_bytes(trace_of("zero_one"))
    (bundle.trace_directory / "dedicated_log_torch_trace_b.log").write_bytes(b"V1130 04:2")
    (bundle.log_directory / "77.log").write_bytes(b"hello\n")
    examined = examine(bundle.path)
    assert examined.document.summary.recompiles == 3
    assert examined.document.unread.records == 2


def test_thousands_of_functions_are_reported() -> None:
    """Each of thousands of functions has its finding; benchmarks/ measures how long it takes."""
    lines = []
    for frame in range(3000):
        head = f"V1130 04:20:00.000000 7 torch/_dynamo/guards.py:1] [{frame}/1] [__recompiles]"
        lines.append(f"{head} Recompiling function f{frame} in /u/m{frame}.py:1")
        lines.append(f"{head}     triggered by the following guard failure(s):")
        lines.append(
            f"{head}     - {frame}/0: tensor 'x' size mismatch at index 0. expected 8, actual 9"
        )
    examined = examine(io.BytesIO("\n".join(lines).encode() + b"\n"))
    assert examined.document.summary.recompiles == 3000
    assert len(examined.document.findings) == 3000


def test_a_bundle_with_calls_tells_how_many_had_the_special_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report, its JSON and the suggestions say it, and the marks know of all sizes."""
    monkeypatch.chdir(tmp_path)
    bundle = create_bundle(tmp_path / ".recompile-doctor", "run")
    write_manifest(bundle, MANIFEST)
    for path in (FIXTURES / "case-logs" / "01_last_batch_one" / "trace").iterdir():
        content = gzip.decompress(path.read_bytes())
        (bundle.trace_directory / path.name.removesuffix(".gz")).write_bytes(content)
    rows = [
        row({"L['inputs']": (size, 6), "L['labels']": (size,)}, calls, compiled=int(size != 33))
        for size, calls in ((8, 10), (1, 3), (20, 2), (33, 397))
    ]
    file = "/home/user/cases/01_last_batch_one/case.py"
    write_calls(bundle, process([function("loss_fn", file, 12, rows)], pid=32627))
    write_calls(bundle, "{")

    examined = examine(bundle.path)
    report = reported(examined)
    jsonschema.validate(report, SCHEMA)
    weights = [each["calls"] for each in report["findings"] if each["calls"]]  # type: ignore[attr-defined]
    assert weights and all(each == {"with_value": 3, "of": 412, "value": "1"} for each in weights)
    assert [each.slug for each in examined.document.notices] == ["calls-unread"]
    text = io.StringIO()
    print_suggestions(suggest(examined, bounds=True), Console(file=text, width=100))
    assert "3 of 412 observed calls have size 1" in " ".join(text.getvalue().split())
    assert "max=33" in text.getvalue()
