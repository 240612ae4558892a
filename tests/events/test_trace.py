"""TORCH_TRACE logs of five releases, whole and in pieces."""

import gzip
import io
import json
from collections import Counter
from pathlib import Path

import pytest
import zstandard

from recompile_doctor.events import records
from recompile_doctor.events.records import RecordReader
from recompile_doctor.events.trace import iter_trace_events
from recompile_doctor.events.user_code import is_standard_library_frame, is_torch_frame
from recompile_doctor.events.vocabulary import (
    AssumptionMade,
    AutomaticDynamic,
    CompileErrored,
    CompileFinished,
    CompileStarted,
    ConstraintViolated,
    DataDependentError,
    EntryFailure,
    ForeignLines,
    GraphBroke,
    GraphCaptured,
    GuardAdded,
    GuardRole,
    InputDescribed,
    IssueKind,
    ParseIssue,
    ReadItem,
    RecompileLimitHit,
    RecompileReported,
    StackFrame,
    SymbolCreated,
    SymbolSpecialized,
    TorchVersion,
    UnbackedSymbolCreated,
)
from recompile_doctor.ids import CompileId

LOGS = Path(__file__).parents[2] / "fixtures" / "logs-reader"
RELEASES = ("2.6.0", "2.8.0", "2.11.0", "2.13.0", "2.15.0")
ALL_FILES = sorted(LOGS.glob("*/*/trace/*.log.gz"))
PREFIX = "V1130 05:00:30.713000 930 torch/_dynamo/convert_frame.py:276] "


def read_log(release: str, scenario: str) -> list[ReadItem]:
    """Return the items of all trace files of a real run."""
    items: list[ReadItem] = []
    for path in sorted((LOGS / release / scenario / "trace").glob("*.gz")):
        with path.open("rb") as stream:
            items += iter_trace_events(stream, path.name)
    return items


def read_bytes(data: bytes, name: str = "trace.log") -> list[ReadItem]:
    return list(iter_trace_events(io.BytesIO(data), name))


def record(content: dict[str, object], payload: str | None = None, prefix: str = PREFIX) -> bytes:
    """Return a record as torch writes it."""
    lines = "" if payload is None else "\t" + payload.replace("\n", "\n\t") + "\n"
    return f"{prefix}{json.dumps(content)}\n{lines}".encode()


def artifact(name: str, payload: str, **ids: object) -> bytes:
    content = {"artifact": {"name": name, "encoding": "json"}, **ids, "has_payload": "0" * 32}
    return record(content, payload)


IDS: dict[str, object] = {"frame_id": 0, "frame_compile_id": 1, "attempt": 0}


# --- Real logs


@pytest.mark.parametrize("path", ALL_FILES, ids=lambda path: "-".join(path.parts[-4:-2]))
def test_every_record_of_a_real_log_is_understood(path: Path) -> None:
    """No issue, no foreign line, and as many recompiles as the file has such records."""
    with path.open("rb") as stream:
        kinds = Counter(type(item) for item in iter_trace_events(stream, path.name))
    data = gzip.decompress(path.read_bytes())
    assert kinds[ParseIssue] == kinds[ForeignLines] == 0
    assert kinds[RecompileReported] == data.count(b'] {"artifact": {"name": "recompile_reasons"')
    assert kinds[CompileStarted] == data.count(b'] {"dynamo_start"')
    assert kinds[InputDescribed] == data.count(b'] {"describe_source"')
    assert kinds[AutomaticDynamic] == data.count(b'\n\t"name": "automatic_dynamic"')


@pytest.mark.parametrize("release", RELEASES)
def test_sizes_8_16_1_0_recompile_for_one_and_zero(release: str) -> None:
    """The same program gives the same recompiles, inputs and symbols in every release."""
    items = read_log(release, "zero_one")
    recompiles = [item for item in items if isinstance(item, RecompileReported)]
    first_ids = [item.origin.compile_id for item in recompiles[:3]]
    assert first_ids == [CompileId(0, 1), CompileId(0, 2), CompileId(0, 3)]
    assert [len(item.failures) for item in recompiles[:3]] == [1, 2, 3]
    assert [failure.entry for failure in recompiles[2].failures] == [
        CompileId(0, 2),
        CompileId(0, 1),
        CompileId(0, 0),
    ]
    assert {item.sources_stripped for item in recompiles} == {release != "2.6.0"}
    assert recompiles[1].failures[0].text.startswith("2 <= ")
    inputs = [item for item in items if isinstance(item, InputDescribed)][:4]
    assert [item.sizes for item in inputs] == [(8, 4), (16, 4), (1, 4), (0, 4)]
    assert {(item.source, item.strides, item.dtype, item.device) for item in inputs} == {
        ("L['x']", (4, 1), "torch.float32", "cpu")
    }
    symbol = next(item for item in items if isinstance(item, SymbolCreated))
    assert (symbol.source, symbol.hint, symbol.value_range) == (
        "L['x'].size()[0]",
        "16",
        "[2, int_oo]",
    )
    assert symbol.user_stack[-1].file == "/home/user/project/zero_one.py"
    assert (symbol.user_stack[-1].line, symbol.user_stack[-1].function) == (9, "scale")
    assert symbol.torch_frame is not None
    assert symbol.torch_frame.file.endswith("torch/_dynamo/variables/builder.py")
    start = next(item for item in items if isinstance(item, CompileStarted))
    assert (start.function, start.file, start.line) == (
        "scale",
        "/home/user/project/zero_one.py",
        7,
    )
    changed = next(item for item in items if isinstance(item, AutomaticDynamic))
    assert (changed.name, changed.what, changed.dim) == ("L['x']", "size", 0)
    assert (changed.cached, changed.new) == ("8", "16")
    finished = next(item for item in items if isinstance(item, CompileFinished))
    assert (finished.function, finished.fail_type, finished.forward) == ("scale", None, True)
    assert finished.seconds is not None and 0 < finished.seconds < 10
    limit = "cache_size_limit" if release == "2.6.0" else "recompile_limit"
    assert (limit, "8") in finished.config
    graph = next(item for item in items if isinstance(item, GraphCaptured))
    assert ("l_x_", (8, 4)) in graph.sizes


@pytest.mark.parametrize("release", RELEASES)
def test_breaks_name_their_line_and_kind(release: str) -> None:
    """``.item()`` and a branch on a tensor break the graph."""
    breaks = [item for item in read_log(release, "item_branch") if isinstance(item, GraphBroke)]
    item, branch = breaks
    assert item.place is not None and branch.place is not None
    assert (item.place.line, item.place.function) == (9, "gate")
    assert (branch.place.line, branch.place.code) == (21, "if x.sum() > 0:")
    assert "Tensor.item" in item.kind
    assert branch.kind.startswith("Data-dependent")
    assert bool(item.hints) == (release != "2.6.0")
    assert (item.gb_id == "GB0124") == (release in ("2.11.0", "2.13.0", "2.15.0"))


@pytest.mark.parametrize("release", RELEASES)
def test_two_ranks_are_told_apart(release: str) -> None:
    """The rank comes from the file's name, and from each record once torch.distributed is up."""
    items = read_log(release, "two_ranks")
    recompiles = [item for item in items if isinstance(item, RecompileReported)]
    assert {item.origin.rank for item in recompiles} == {0, 1}
    assert len({item.origin.process for item in recompiles}) == 2


@pytest.mark.parametrize("release", RELEASES)
def test_a_broken_promise_is_found(release: str) -> None:
    """The error of ``mark_dynamic`` gives the source, its value and (2.8 and later) the line."""
    items = read_log(release, "mark_dynamic_violation")
    violated = next(item for item in items if isinstance(item, ConstraintViolated))
    assert (violated.source, violated.value) == ("L['x'].size()[0]", "6")
    assert [frame.line for frame in violated.user_stack] == ([] if release == "2.6.0" else [9])
    error = next(item for item in items if isinstance(item, CompileErrored))
    assert error.exception_type is not None
    assert error.exception_type.endswith("ConstraintViolationError")
    specialized = next(item for item in items if isinstance(item, SymbolSpecialized))
    assert (specialized.value, specialized.reason) == ("6", "range_refined_to_singleton")
    assert specialized.sources == ("L['x'].size()[0]",)


@pytest.mark.parametrize("release", RELEASES)
def test_data_dependent_errors_are_found(release: str) -> None:
    """They come from errors, and since torch 2.10 from the exceptions of breaks too."""
    items = read_log(release, "capture_scalar_dde")
    errors = [item for item in items if isinstance(item, DataDependentError)]
    expected = {"2.6.0": {"u0 < 0", "u0"}, "2.8.0": {"u0 > 3", "u0 < 0", "u0", "Ne(u0, 0)"}}
    found = {item.expression for item in errors}
    assert found >= expected.get(release, {"u0 > 3", "u0", "Ne(u0, 0)"})
    assert all(item.user_stack[-1].file.endswith("capture_scalar_dde.py") for item in errors)
    symbols = [item for item in items if isinstance(item, UnbackedSymbolCreated)]
    assert symbols[0].symbol == "u0"
    assert symbols[0].user_stack[-1].line == 14


@pytest.mark.parametrize("release", RELEASES)
def test_a_refused_compile_hits_the_limit(release: str) -> None:
    """Torch 2.6 has no such record except under fullgraph."""
    hits = [
        item for item in read_log(release, "recompile_limit") if isinstance(item, RecompileLimitHit)
    ]
    assert hits
    if release == "2.6.0":
        assert {hit.limit for hit in hits} == {"cache_size_limit"}
    else:
        assert (hits[0].limit, hits[0].limit_value) == ("recompile_limit", 3)
        assert hits[0].last_reason is not None and hits[0].last_reason.startswith("0/2: ")


def test_a_killed_run_ends_clean() -> None:
    """What was written before is all there, and nothing is reported as broken."""
    for release in RELEASES:
        items = read_log(release, "killed")
        assert any(isinstance(item, CompileStarted) for item in items)
        assert not any(isinstance(item, ParseIssue) for item in items)


def test_backward_compiles_and_compiled_autograd_are_read() -> None:
    """Backward compiles are marked, parameters are told, and ids have the autograd part."""
    items = read_log("2.13.0", "training")
    finished = [item for item in items if isinstance(item, CompileFinished)]
    assert {item.forward for item in finished} == {True, False}
    ids = {item.origin.compile_id for item in items if isinstance(item, CompileStarted)}
    assert any(found is not None and found.autograd_id is not None for found in ids)
    inputs = [item for item in items if isinstance(item, InputDescribed)]
    assert any(item.is_parameter and item.requires_grad for item in inputs)


@pytest.mark.parametrize(
    ("release", "version"), [("2.6.0", None), ("2.13.0", "2.13.0"), ("2.15.0", "2.15.0")]
)
def test_a_version_is_told_once(release: str, version: str | None) -> None:
    """The version stands in an artifact and in every metrics record."""
    found = [item for item in read_log(release, "zero_one") if isinstance(item, TorchVersion)]
    assert [item.version.partition("+")[0] for item in found] == ([version] if version else [])


# --- Single records


def test_a_lone_bare_text_reason_is_read_as_one_reason() -> None:
    """Torch 2.11 and later write one reason without JSON although the record says json."""
    text = '0/0: n == 2  # x\nUser stack trace:\n  File "a.py", line 3, in f\n    x'
    (item,) = read_bytes(artifact("recompile_reasons", text, **IDS))
    assert isinstance(item, RecompileReported)
    assert item.failures == (
        EntryFailure(CompileId(0, 0), "n == 2  # x", (StackFrame("a.py", 3, "f", "x"),)),
    )


def test_a_list_of_reasons_that_is_cut_keeps_its_whole_lines() -> None:
    """Torch writes one reason a line."""
    payload = '[\n"0/1: a == 1",\n"0/0: b =='
    item, issue = read_bytes(artifact("recompile_reasons", payload, **IDS))
    assert isinstance(item, RecompileReported)
    assert [failure.text for failure in item.failures] == ["a == 1"]
    assert isinstance(issue, ParseIssue) and issue.kind is IssueKind.BAD_JSON


def test_strings_belong_to_the_process_that_defined_them() -> None:
    """The same number means another file in another process, and nothing in a third."""
    other, third = PREFIX.replace(" 930 ", " 931 "), PREFIX.replace(" 930 ", " 932 ")
    start: dict[str, object] = {
        "dynamo_start": {"stack": [{"line": 1, "name": "f", "filename": 0}]},
        **IDS,
    }
    data = (
        record({"str": ["/p/a.py", 0]})
        + record({"str": ["/p/b.py", 0]}, prefix=other)
        + record(start)
        + record(start, prefix=other)
        + record(start, prefix=third)
    )
    files = [item.file for item in read_bytes(data) if isinstance(item, CompileStarted)]
    assert files == ["/p/a.py", "/p/b.py", "<unknown>"]


def test_callers_are_the_users_frames() -> None:
    """Frames of torch and of Python are left out of the callers."""
    names = ["/p/main.py", "/v/lib/python3.11/site-packages/torch/_dynamo/eval_frame.py"]
    names += ["/usr/lib/python3.11/runpy.py", "/v/lib/python3.11/site-packages/lib/a.py", "/p/a.py"]
    strings = b"".join(record({"str": [name, number]}) for number, name in enumerate(names))
    stack = [{"line": n, "name": "f", "filename": n, "loc": "f(x)"} for n in range(len(names))]
    (item,) = read_bytes(strings + record({"dynamo_start": {"stack": stack}, **IDS}))
    assert isinstance(item, CompileStarted)
    assert [frame.file for frame in item.callers] == [names[0], names[3]]
    assert item.file == "/p/a.py"


@pytest.mark.parametrize(
    ("last", "code", "known"),
    [
        ("/p/main.py", "y = f(x)", True),  # 2.8 and before name the direct caller
        ("/p/main.py", "return g(torch.ones(n))", False),  # its caller: later leave it out
        ("/v/lib/python3.11/site-packages/torch/nn/modules/module.py", "forward_call(x)", True),
    ],
)
def test_callers_that_do_not_end_at_the_call_are_not_told(
    last: str, code: str, known: bool
) -> None:
    """Since 2.9 the frame that called a plain function is missing from the stack."""
    names = ["/p/main.py", last, "/p/a.py"]
    strings = b"".join(record({"str": [name, number]}) for number, name in enumerate(names))
    stack = [
        {"line": 15, "name": "<module>", "filename": 0, "loc": "h(n)"},
        {"line": 13, "name": "h", "filename": 1, "loc": code},
        {"line": 2, "name": "f", "filename": 2},
    ]
    (item,) = read_bytes(strings + record({"dynamo_start": {"stack": stack}, **IDS}))
    assert isinstance(item, CompileStarted)
    assert bool(item.callers) is known


@pytest.mark.parametrize(
    ("path", "torch", "python"),
    [
        ("/v/lib/python3.11/site-packages/torch/nn/modules/linear.py", True, False),
        (r"C:\v\Lib\site-packages\torch\_dynamo\guards.py", True, False),
        ("/src/pytorch/torch/_dynamo/guards.py", True, False),
        ("_dynamo/variables/builder.py", True, False),
        ("<eval_with_key>.3", True, False),
        ("/home/me/torch/train.py", False, False),
        ("/v/lib/python3.11/site-packages/torchvision/models/resnet.py", False, False),
        ("/usr/lib/python3.11/inspect.py", False, True),
        ("<frozen runpy>", False, True),
        ("/p/model.py", False, False),
    ],
)
def test_whose_code_a_frame_is(path: str, torch: bool, python: bool) -> None:
    """A user's folder that is called torch does not belong to torch."""
    assert is_torch_frame(path) is torch
    assert is_standard_library_frame(path) is python


def test_symbolic_sizes_of_an_input_are_unknown() -> None:
    """A size that is no number is None; views, marked dims and devices are told."""
    tensor = {
        "id": 1,
        "describer_id": 7,
        "size": ["s0", 4],
        "stride": [4, "s1"],
        "device": "device(type='cuda', index=1)",
        "is_view": True,
        "dynamo_dynamic_indices": [0],
    }
    source = {"describer_id": 7, "id": 1, "source": "L['x']"}
    data = record({"describe_tensor": tensor, **IDS}) + record({"describe_source": source, **IDS})
    (item,) = read_bytes(data)
    assert isinstance(item, InputDescribed)
    assert (item.sizes, item.strides) == ((None, 4), (4, None))
    assert (item.device, item.is_view, item.dynamic_dims) == ("cuda:1", True, (0,))


def test_a_source_without_its_tensor_is_no_input() -> None:
    """A log can begin in the middle; that is no damage."""
    source = {"describer_id": 7, "id": 1, "source": "L['x']"}
    assert read_bytes(record({"describe_source": source, **IDS})) == []


def test_facts_that_dtrace_tells_twice_are_told_once() -> None:
    """``guard_added`` adds the role to what ``guard_added_fast`` repeats."""
    first: dict[str, object] = {"guard_added": {"expr": "u0 >= 0", "prefix": "runtime_assert"}}
    second: dict[str, object] = {"guard_added_fast": {"expr": "u0 >= 0"}}
    assumed: dict[str, object] = {"expr": "u0 > 3", "result": "True"}
    data = b"".join(
        record({**content, **IDS})
        for content in (
            first,
            second,
            second,
            {"propagate_real_tensors": assumed},
            {"propagate_real_tensors_provenance": assumed},
        )
    )
    items = read_bytes(data)
    assert [item.role for item in items if isinstance(item, GuardAdded)] == [
        GuardRole.RUNTIME_ASSERT,
        GuardRole.UNKNOWN,
    ]
    assert [item.assumed for item in items if isinstance(item, AssumptionMade)] == ["True"]


def test_a_data_dependent_error_of_dtrace_is_read() -> None:
    """It has no message of its own."""
    (item,) = read_bytes(record({"guard_on_data_dependent_error": {"expr": "u0 > 3"}, **IDS}))
    assert isinstance(item, DataDependentError)
    assert (item.expression, item.message) == ("u0 > 3", "")


def test_compiled_autograd_outside_a_frame_has_an_id() -> None:
    """``!0`` names the capture of a backward pass."""
    data = record({"dynamo_start": {"stack": []}, "compiled_autograd_id": 0, "attempt": 0})
    (item,) = read_bytes(data)
    assert isinstance(item, CompileStarted)
    assert item.origin.compile_id == CompileId(None, None, autograd_id=0)


def test_the_rank_comes_from_the_file_name() -> None:
    """A path with another rank in a folder's name does not matter."""
    data = record({"dynamo_start": {"stack": []}, **IDS})
    (item,) = read_bytes(data, "/logs/rank_7_x/dedicated_log_torch_trace_rank_2_ab.log")
    assert isinstance(item, CompileStarted) and item.origin.rank == 2
    (item,) = read_bytes(record({"dynamo_start": {}, "rank": 3, **IDS}), "a_rank_2_b.log")
    assert isinstance(item, CompileStarted) and item.origin.rank == 3


# --- Damage


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"create_symbol": {"symbol": "s0", "sou', IssueKind.BAD_JSON),
        (b'{"create_symbol": {"symbol": "s0", "source": ' + b"[" * 10_000 + b"}}", None),
        (b'{"create_symbol": {"symbol": "s0"}}', IssueKind.BAD_FIELD),
        (b'{"create_symbol": {"symbol": 3, "source": "x"}}', IssueKind.BAD_FIELD),
        (b'{"create_symbol": [1]}', IssueKind.BAD_FIELD),
        (b'{"create_symbol": {"symbol": "s0", "source": "x"}, "frame_id": 1e400}', None),
        (b'{"create_symbol": {"symbol": "s\xff", "source": "x"}}', IssueKind.BAD_ENCODING),
        (b'{"create_symbol": {"symbol": "s\x00", "source": "x"}}', IssueKind.BAD_JSON),
        (b'{"create_symbol": {"symbol": "s0", "source": ' + b"9" * 5000 + b"}}", None),
    ],
)
def test_a_damaged_record_is_an_issue(body: bytes, kind: IssueKind | None) -> None:
    """One issue, at the record's line, with a short excerpt; the next record is read."""
    good = record({"dynamo_start": {"stack": []}, **IDS})
    damaged, start = read_bytes(PREFIX.encode() + body + b"\n" + good)
    assert isinstance(damaged, ParseIssue)
    assert kind is None or damaged.kind is kind
    assert damaged.position.line == 1
    assert len(damaged.excerpt) <= 200
    assert damaged.size == len(PREFIX) + len(body) + 1
    assert isinstance(start, CompileStarted) and start.origin.position.line == 2


def test_an_odd_field_does_not_cost_the_rest() -> None:
    """The event is told without it, and the issue is told too."""
    content: dict[str, object] = {"create_symbol": {"symbol": "s0", "source": "x", "val": [4]}}
    symbol, issue = read_bytes(record({**content, **IDS}))
    assert isinstance(symbol, SymbolCreated) and symbol.hint is None
    assert isinstance(issue, ParseIssue) and issue.kind is IssueKind.BAD_FIELD


def test_json_that_only_python_writes_is_read() -> None:
    """NaN, and the lone surrogates that stand for odd bytes of a file name."""
    content: dict[str, object] = {
        "compilation_metrics": {"co_name": "f", "co_filename": "/p/\udcff.py", "start_time": 1.5},
    }
    data = record({**content, **IDS}).replace(b"1.5", b"NaN")
    (item,) = read_bytes(data)
    assert isinstance(item, CompileFinished)
    assert (item.function, item.file, item.start_time) == ("f", "/p/?.py", None)


def test_a_payload_without_record_is_passed_over() -> None:
    """Lines with a tab at the start belong to whatever is before them."""
    assert read_bytes(b"\tstray\n\tpayload\n" + record({"unheard_of": {}}, "x")) == []


def test_a_record_without_its_payload_is_cut_short() -> None:
    """The reasons are missing, so no recompile can be told."""
    (issue,) = read_bytes(artifact("recompile_reasons", "0/0: x").split(b"\t")[0])
    assert isinstance(issue, ParseIssue) and issue.kind is IssueKind.CUT_SHORT


@pytest.mark.parametrize("keep", [1, 4, 12, 40, 70, 90, 150])
def test_a_last_record_that_is_cut_is_told(keep: int) -> None:
    """Wherever a kill cuts it: in the prefix, in the JSON."""
    data = record({"dynamo_start": {"stack": []}, **IDS, "pad": "x" * 100})
    first, issue = read_bytes(data + data[:keep])
    assert isinstance(first, CompileStarted)
    assert isinstance(issue, ParseIssue)
    assert (issue.kind, issue.position.line) == (IssueKind.CUT_SHORT, 2)


def test_a_payload_that_lacks_its_last_line_break_is_judged_by_its_hash() -> None:
    """Somebody may have trimmed the file, which costs nothing."""
    data = (LOGS / "2.13.0" / "zero_one" / "trace").glob("*.gz")
    log = gzip.decompress(next(data).read_bytes())
    at = log.index(b'{"artifact": {"name": "recompile_reasons"')
    end = log.index(b"\nV", at)
    whole = read_bytes(log[:end])
    assert isinstance(whole[-1], RecompileReported)
    cut = read_bytes(log[: end - 1])
    assert isinstance(cut[-2], RecompileReported)
    assert isinstance(cut[-1], ParseIssue) and cut[-1].kind is IssueKind.CUT_SHORT


def test_a_record_with_a_damaged_prefix_is_an_issue() -> None:
    """Without a process its strings mean nothing."""
    data = record({"dynamo_start": {"stack": []}}, prefix="garbage] ")
    (issue,) = read_bytes(data)
    assert isinstance(issue, ParseIssue) and issue.kind is IssueKind.BAD_PREFIX


def test_foreign_lines_are_counted() -> None:
    """They are told once, at the end; blank lines do not count."""
    data = b"hello\n\n" + record({"dynamo_start": {"stack": []}}) + b"Traceback\n"
    start, foreign = read_bytes(data)
    assert isinstance(start, CompileStarted)
    assert isinstance(foreign, ForeignLines)
    assert (foreign.lines, foreign.position.line, foreign.size) == (2, 1, 16)


def test_windows_line_ends_are_accepted() -> None:
    """A log can have been copied through a tool that changes them."""
    data = artifact("recompile_reasons", '[\n"0/0: a",\n"0/1: b"\n]', **IDS)
    (item,) = read_bytes(data.replace(b"\n", b"\r\n"))
    assert isinstance(item, RecompileReported)
    assert [failure.text for failure in item.failures] == ["a", "b"]


# --- Packed files, long lines


def pack(data: bytes, form: str) -> bytes:
    match form:
        case "gzip":
            return gzip.compress(data)
        case "zstd":
            return zstandard.ZstdCompressor().compress(data)
        case "two zstd frames":
            half = len(data) // 2
            return pack(data[:half], "zstd") + pack(data[half:], "zstd")
        case _:
            return data


FORMS = ("plain", "gzip", "zstd", "two zstd frames")


@pytest.mark.parametrize("form", FORMS)
def test_packed_files_are_told_by_their_first_bytes(form: str) -> None:
    """The name says nothing."""
    data = gzip.decompress(ALL_FILES[0].read_bytes())
    assert read_bytes(pack(data, form), "x.txt") == read_bytes(data, "x.txt")


@pytest.mark.parametrize("form", FORMS[1:])
def test_a_packed_file_that_is_cut_is_read_to_the_cut(form: str) -> None:
    """What could be unpacked is read, and the cut is told."""
    data = gzip.decompress(ALL_FILES[0].read_bytes()) * 20
    packed = pack(data, form)
    items = read_bytes(packed[: len(packed) * 9 // 10])
    assert sum(isinstance(item, CompileStarted) for item in items) > 0
    assert isinstance(items[-1], ParseIssue)
    assert items[-1].kind is IssueKind.CUT_SHORT


@pytest.mark.parametrize("magic", [b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\x1f\x8b\x08\x00garbage"])
def test_a_packed_file_of_garbage_is_one_issue(magic: bytes) -> None:
    """Nothing is raised."""
    (issue,) = read_bytes(magic)
    assert isinstance(issue, ParseIssue) and issue.kind is IssueKind.CUT_SHORT


def test_an_empty_file_has_nothing_to_tell() -> None:
    """Torch makes the file at the first record; an empty one is no damage."""
    assert read_bytes(b"") == []


def test_long_lines_and_payloads_are_kept_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes and line numbers stay right, and memory does not follow the line."""
    monkeypatch.setattr(records, "LINE_LIMIT", 1000)
    monkeypatch.setattr(records, "PAYLOAD_LIMIT", 1000)
    long_start = record({"dynamo_start": {"stack": []}, "pad": "x" * 5000})
    long_reason = artifact("recompile_reasons", "0/0: " + "y\n" * 5000)
    good = record({"dynamo_start": {"stack": []}})
    data = long_start + long_reason + good
    for step in (7, 100, 4096, 1 << 20):
        chunks = [data[at : at + step] for at in range(0, len(data), step)]
        raws = list(RecordReader(chunks))
        assert [raw.size for raw in raws] == [
            len(long_start),
            long_reason.index(b"\n") + 1,
            len(good),
        ]
        assert [raw.number for raw in raws] == [1, 2, 5004]
        assert max(len(raw.line) for raw in raws) <= 1000
    cut, reported, payload_cut, start = read_bytes(data)
    assert isinstance(cut, ParseIssue) and cut.kind is IssueKind.CUT_SHORT
    assert isinstance(reported, RecompileReported)
    assert isinstance(payload_cut, ParseIssue) and payload_cut.kind is IssueKind.CUT_SHORT
    assert isinstance(start, CompileStarted)
