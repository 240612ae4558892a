"""What the text reader makes of messages and of the lines around them."""

from recompile_doctor.events.vocabulary import (
    CompilePassed,
    CompileStarted,
    ForeignLines,
    GraphBroke,
    IssueKind,
    LogKind,
    ParseIssue,
    RecompileReported,
)
from recompile_doctor.ids import CompileId
from tests.events.text_samples import BREAKS, RECOMPILES, events, logged, read, recompile

SIZE = "0/0: tensor 'x' size mismatch at index 0. expected 8, actual 16"


def test_an_event_tells_where_it_comes_from() -> None:
    log = "hello\n" + logged("create_env", compile_id="3/1_2", rank=4, time="00:00:02.500000")
    (event,) = events(log)
    assert isinstance(event, CompileStarted)
    origin = event.origin
    assert (origin.kind, origin.position.file, origin.position.line) == (LogKind.TEXT, "a.log", 2)
    assert (origin.process, origin.rank, origin.compile_id) == ("24523", 4, CompileId(3, 1, 2))
    assert origin.time is not None and origin.time % 60 == 2.5


def test_a_message_of_several_lines_is_one_event() -> None:
    (event,) = events(recompile(SIZE, "0/1: x.y == 2"))
    assert isinstance(event, RecompileReported)
    assert [str(failure.entry) for failure in event.failures] == ["0/0", "0/1"]
    assert (event.function, event.file, event.line) == ("f", "/home/user/a.py", 7)


def test_two_messages_with_equal_prefixes_are_two_events() -> None:
    """Torch gives no more than milliseconds."""
    first, second = events(recompile(SIZE) + recompile(SIZE))
    assert isinstance(first, RecompileReported) and isinstance(second, RecompileReported)
    assert len(first.failures) == len(second.failures) == 1


def test_ranks_merged_line_by_line_are_kept_apart() -> None:
    ranks = [
        recompile(f"0/0: x == {rank}", f"0/1: y == {rank}", rank=rank, process=process)
        for rank, process in ((0, 10), (1, 11), (2, 11))
    ]
    rounds = zip(*map(str.splitlines, ranks), strict=True)
    mixed = "".join(f"{line}\n" for lines in rounds for line in lines)
    found = events(mixed)
    assert [event.origin.rank for event in found] == [0, 1, 2]
    for event in found:
        assert isinstance(event, RecompileReported)
        texts = [failure.text for failure in event.failures]
        assert texts == [f"x == {event.origin.rank}", f"y == {event.origin.rank}"]


def test_compile_ids_of_one_process_are_kept_apart() -> None:
    one = recompile(SIZE, compile_id="0/1").splitlines()
    two = recompile("1/0: y == 2", compile_id="1/1").splitlines()
    mixed = "\n".join([one[0], two[0], one[1], one[2], two[1], two[2]]) + "\n"
    failures = [e.failures for e in events(mixed) if isinstance(e, RecompileReported)]
    assert [[failure.text for failure in of_one] for of_one in failures] == [
        ["tensor 'x' size mismatch at index 0. expected 8, actual 16"],
        ["y == 2"],
    ]


def test_events_come_in_the_order_in_which_their_messages_begin() -> None:
    """Also when a message of another process ends later."""
    slow = recompile(SIZE, process=1).splitlines(keepends=True)
    log = slow[0] + logged("create_env", process=2) + "".join(slow[1:]) + logged("produce_guards")
    kinds = [type(event) for event in events(log)]
    assert kinds == [RecompileReported, CompileStarted, CompilePassed]


def test_output_of_the_program_does_not_end_a_message() -> None:
    head, *rest = recompile(SIZE).splitlines(keepends=True)
    found = read(head + "loss 0.5\n" + "".join(rest))
    assert isinstance(found[0], RecompileReported) and found[0].failures
    assert isinstance(found[1], ForeignLines)
    assert (found[1].lines, found[1].size, found[1].position.line) == (1, 8, 2)


def test_blank_lines_are_not_counted() -> None:
    """TORCH_LOGS_TRACE_ID_FILTER leaves one for each message that it drops."""
    assert read("\n\n \n" + logged("create_env"))[1:] == []


def test_a_message_waits_for_its_end_only_so_long() -> None:
    """What no other line of its process follows is told before the log ends."""
    others = logged("track_symint L['x'].size()[0] 4 None", process=2) * 300
    found = events(logged("create_env", process=1) + others + logged("create_env", process=3))
    assert [event.origin.process for event in found][:2] == ["1", "2"]


def test_a_recompile_without_its_reasons_is_a_recompile_and_an_issue() -> None:
    head = recompile(SIZE).splitlines(keepends=True)[0]
    event, issue = read(head)
    assert isinstance(event, RecompileReported) and event.failures == ()
    assert isinstance(issue, ParseIssue) and issue.kind is IssueKind.CUT_SHORT


def test_a_message_without_its_head_is_cut() -> None:
    """A log that was rotated begins anywhere."""
    (issue,) = read("".join(recompile(SIZE).splitlines(keepends=True)[1:]))
    assert isinstance(issue, ParseIssue) and issue.kind is IssueKind.CUT_SHORT


def test_a_line_that_the_end_of_the_log_cuts_is_cut_short() -> None:
    (issue,) = read(logged("create_symbol s77 = 16 for")[:-1])
    assert isinstance(issue, ParseIssue) and issue.kind is IssueKind.CUT_SHORT


def test_a_form_that_is_not_known_is_told_with_its_place_and_size() -> None:
    text = "create_symbol s77 was 16"
    (issue,) = read(logged(text) + logged("produce_guards"))[:1]
    assert isinstance(issue, ParseIssue)
    assert (issue.kind, issue.excerpt) == (IssueKind.UNKNOWN_FORM, text)
    assert issue.size == len(logged(text)) - 1


def test_a_prefix_that_cannot_be_read_is_told() -> None:
    (issue,) = read("V1130 04:20:29.133000 24523 torch/_dynamo/guards.py: Recompiling\n")
    assert isinstance(issue, ParseIssue) and issue.kind is IssueKind.BAD_PREFIX


def test_bad_bytes_are_told_where_they_matter() -> None:
    needed = recompile("0/0: mode == '?'").encode().replace(b"?", b"\xff")
    unneeded = logged("- LAMBDA_GUARD: ?", RECOMPILES, artifact="guards").encode()
    found = read(needed + unneeded.replace(b"?", b"\xff") + b"\xff\xff\n")
    assert [item.kind for item in found if isinstance(item, ParseIssue)] == [IssueKind.BAD_ENCODING]
    assert [type(item) for item in found if not isinstance(item, ParseIssue)] == [
        RecompileReported,
        ForeignLines,
    ]


def test_other_kinds_of_messages_are_passed_over() -> None:
    log = logged("GUARDS:", RECOMPILES, artifact="guards")
    log += logged("constrain_symbol_range u0 [0, 8]", level="I")
    log += logged("set_replacement: solve for s0 in s0 == 2 gives 2")
    log += logged("lru_cache_stats has_hint: CacheInfo(hits=0)", compile_id=None)
    log += logged("Data dependent variable 'u0' allocated at:\n  File \"a.py\", line 1, in f")
    log += logged("No CUDA runtime is found", "torch/utils/cpp_extension.py:24", level="W")
    assert read(log) == []


def test_windows_paths_are_known() -> None:
    place = "torch\\fx\\experimental\\symbolic_shapes.py:4058"
    assert isinstance(events(logged("create_env", place))[0], CompileStarted)


def test_records_of_a_trace_are_passed_over() -> None:
    record = (
        'V1130 04:20:29.133000 2 torch/_dynamo/a.py:1] {"dynamo_output_graph": {}, "rank": 0}\n'
    )
    assert read(record + "\tclass GraphModule:\n\t\n" + logged("create_env"))[1:] == []


def test_the_warning_about_item_is_told_when_breaks_are_not_logged() -> None:
    (event,) = events(logged(ITEM_WARNING, "torch/_dynamo/variables/tensor.py:1759", level="W"))
    assert isinstance(event, GraphBroke) and event.place is not None
    assert (event.kind, event.place.line, event.place.function) == ("Tensor.item()", 9, "gate")
    assert "capture_scalar_outputs = True" in event.hints[0]


def test_the_warning_about_item_is_not_a_second_break() -> None:
    log = logged(ITEM_WARNING, "torch/_dynamo/variables/tensor.py:1759", level="W")
    log += logged("Graph break in user code at /a.py:9\nReason: x", BREAKS, artifact="graph_breaks")
    (event,) = events(log)
    assert isinstance(event, GraphBroke) and event.kind == "x"


def test_a_forged_message_cannot_be_told_from_one_of_torch() -> None:
    """What a program prints in torch's exact form is taken for torch's (cases/43).

    The ids give it away where they contradict each other, which the model can see and a reader
    of lines cannot; inside of quotation marks or of a message it is not taken.
    """
    forged = "V0101 00:00:00.000000 1 torch/_dynamo/guards.py:1] [9/9] [__recompiles] "
    log = f"{forged}Recompiling function tag in user.py:1\n"
    log += f"{forged}    - 9/0: tensor 'L['tag']' size mismatch at index 0. expected 2, actual 3\n"
    log += "progress 50%|#####     |\r" + recompile(f"0/0: modus == '{forged}Recompiling'")
    log += f"    print('{forged}Recompiling function g in user.py:1')\n"
    found = [event for event in events(log) if isinstance(event, RecompileReported)]
    assert [(e.function, e.origin.process, len(e.failures)) for e in found] == [
        ("tag", "1", 1),
        ("f", "24523", 1),
    ]
    assert found[1].failures[0].text == f"modus == '{forged}Recompiling'"


def test_a_guard_on_a_very_long_string_is_read_in_full() -> None:
    text = f"modus == '{'x' * 50_000}'"
    (event,) = events(recompile(f"0/0: {text}"))
    assert isinstance(event, RecompileReported) and event.failures[0].text == text


ITEM_WARNING = """Graph break from `Tensor.item()`, consider setting:
    torch._dynamo.config.capture_scalar_outputs = True
or:
    env TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS=1
to include these operations in the captured graph.

Graph break: from user code at:
  File "/home/user/project/item_branch.py", line 9, in gate
    k = t.item()
        ^^^^^^^^

"""
