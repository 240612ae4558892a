"""Message bodies: real texts of torch 2.6 to 2.15."""

import time

import pytest

from recompile_doctor.events.messages import (
    parse_constraints,
    parse_data_dependent,
    parse_entry_failure,
    parse_entry_failures,
    parse_exception,
    parse_graph_break,
    parse_location_comment,
    parse_user_stack,
    sources_stripped,
    stack_from_user_code,
)
from recompile_doctor.events.vocabulary import EntryFailure, StackFrame
from recompile_doctor.ids import CompileId

STACK_2_15 = """\
  File "/home/user/project/item_branch.py", line 26, in <module>
    print(tuple(tensor_if(torch.randn(4)).shape))
                ~~~~~~~~~^^^^^^^^^^^^^^^^
  File "/home/user/project/item_branch.py", line 21, in tensor_if
    if x.sum() > 0:
       ^^^^^^^^^^^
"""


def test_a_stack_is_read_without_its_markers() -> None:
    """Frames keep their order and code; torch 2.13 and later underline the code."""
    assert parse_user_stack(STACK_2_15.splitlines()) == (
        StackFrame(
            "/home/user/project/item_branch.py",
            26,
            "<module>",
            "print(tuple(tensor_if(torch.randn(4)).shape))",
        ),
        StackFrame("/home/user/project/item_branch.py", 21, "tensor_if", "if x.sum() > 0:"),
    )


def test_a_frame_may_lack_its_code() -> None:
    """Code that is not there is None, and not the next frame's."""
    lines = ['  File "a.py", line 1, in f', '  File "b.py", line 2, in g', "    g()"]
    assert parse_user_stack(lines) == (
        StackFrame("a.py", 1, "f"),
        StackFrame("b.py", 2, "g", "g()"),
    )


# --- Recompile reasons


def test_reasons_of_2_6_are_read() -> None:
    """One entry a bullet, newest first, in torch's words."""
    lines = [
        "    - 0/2: tensor 'L['x']' size mismatch at index 0. expected 1, actual 0",
        "    - 0/1: 2 <= L['x'].size()[0]  # return x  # project/zero_one.py:9 in scale (user code "
        "shown is first use of this value)",
    ]
    failures = parse_entry_failures(lines, verbose=False)
    assert [failure.entry for failure in failures] == [CompileId(0, 2), CompileId(0, 1)]
    assert failures[0].text == "tensor 'L['x']' size mismatch at index 0. expected 1, actual 0"
    assert failures[1].text.startswith("2 <= L['x'].size()[0]  # return x")
    assert sources_stripped(failures) is False


def test_the_user_stack_of_2_11_is_no_part_of_the_reason() -> None:
    """Its lines have bullets too, and go to the entry above them."""
    lines = [
        "    - 1/1: ___stack0 == 5                        # if k > 3:  # project/i.py:10 in g",
        "    - User stack trace:",
        '    -   File "/home/user/project/item_branch.py", line 10, in g',
        "    -     if k > 3:",
        "    - 1/0: ___stack0 == 6 ",
    ]
    failures = parse_entry_failures(lines, verbose=False)
    assert failures == (
        EntryFailure(
            CompileId(1, 1),
            "___stack0 == 5                        # if k > 3:  # project/i.py:10 in g",
            (StackFrame("/home/user/project/item_branch.py", 10, "g", "if k > 3:"),),
        ),
        EntryFailure(CompileId(1, 0), "___stack0 == 6 "),
    )
    assert sources_stripped(failures) is True


def test_verbose_reasons_are_told_apart_by_their_heads() -> None:
    """``guard N failures:`` and the blank line before it are no reasons."""
    lines = [
        "    guard 0 failures:",
        "    - 0/1: tensor 'x' size mismatch at index 0. expected 4, actual 1; len(l) == 2",
        "",
        "    guard 1 failures:",
        "    - 0/0: tensor 'x' size mismatch at index 0. expected 4, actual 1",
    ]
    failures = parse_entry_failures(lines, verbose=True)
    assert [failure.entry for failure in failures] == [CompileId(0, 1), CompileId(0, 0)]
    assert failures[0].text.endswith("; len(l) == 2")


def test_a_reason_with_line_breaks_is_one_reason() -> None:
    """Its lines have bullets, but a blank line in it has none."""
    lines = ["    - !1/0/0: mode == 'a", "", "    - 0: b'"]
    failures = parse_entry_failures(lines, verbose=False)
    assert failures == (EntryFailure(CompileId(0, 0, autograd_id=1), "mode == 'a\n\n0: b'"),)


def test_a_reason_without_id_keeps_its_text() -> None:
    """Unknown forms are handed on as they are."""
    assert parse_entry_failure("odd") == EntryFailure(None, "odd")
    huge = f"{'9' * 5000}/0: x"
    assert parse_entry_failure(huge) == EntryFailure(None, huge)


def test_whether_sources_are_stripped_can_be_unknown() -> None:
    """A reason that names no local settles nothing."""
    failures = (EntryFailure(CompileId(0, 0), "GLOBAL_STATE changed: grad_mode "),)
    assert sources_stripped(failures) is None
    assert sources_stripped((EntryFailure(None, "2 <= x.size()[0]"),)) is True
    assert sources_stripped((EntryFailure(None, "G['T'] == 3"),)) is None


# --- Location comments


@pytest.mark.parametrize(
    ("text", "user", "torch"),
    [
        (
            "return (x * 2.0).sum(dim=1)  # project/zero_one.py:9 in scale "
            "(_dynamo/variables/builder.py:2861 in <lambda>), for more info run with "
            'TORCHDYNAMO_EXTENDED_DEBUG_CREATE_SYMBOL="s0" or to suppress this message run with '
            'TORCHDYNAMO_EXTENDED_ADVICE="0"',
            StackFrame("project/zero_one.py", 9, "scale", "return (x * 2.0).sum(dim=1)"),
            StackFrame("_dynamo/variables/builder.py", 2861, "<lambda>"),
        ),
        (
            "y = f('# a.py:1 in b', (1))  # note: # 2  # my proj/m#1.py:3 in forward "
            "(_dynamo/x.py:4 in g)",
            StackFrame("my proj/m#1.py", 3, "forward", "y = f('# a.py:1 in b', (1))  # note: # 2"),
            StackFrame("_dynamo/x.py", 4, "g"),
        ),
        (
            "(_dynamo/compiled_autograd.py:352 in wrap_fake), for more info run with "
            'TORCHDYNAMO_EXTENDED_DEBUG_CREATE_SYMBOL="s35" or to suppress this message',
            None,
            StackFrame("_dynamo/compiled_autograd.py", 352, "wrap_fake"),
        ),
        (
            "2 <= x.size()[0]  # return x.sin() + 1  # project/killed.py:8 in f (user code shown "
            "is first use of this value--the guard itself is not due user code)",
            StackFrame("project/killed.py", 8, "f", "2 <= x.size()[0]  # return x.sin() + 1"),
            None,
        ),
        ("None  # a.py:1 in f", StackFrame("a.py", 1, "f"), None),
        ("x = 1  # no place", None, None),
        ("", None, None),
    ],
)
def test_a_location_comment_names_the_user_and_the_torch_line(
    text: str, user: StackFrame | None, torch: StackFrame | None
) -> None:
    """Code may contain what looks like a comment; either place may be missing."""
    assert parse_location_comment(text) == (user, torch)


# --- Exceptions

DATA_DEPENDENT_2_11 = """\
Traceback (most recent call last):
  File "/home/user/venv/lib/python3.11/site-packages/torch/_dynamo/variables/t.py", line 1, in e
    return guard_scalar(self.sym_num)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^
torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode: Could not guard on \
data-dependent expression u0 > 3 (unhinted: u0 > 3).  (Size-like symbols: none)

consider using data-dependent friendly APIs such as guard_or_false, guard_or_true and \
statically_known_true.
Caused by: if u > 3:  # project/dde.py:15 in gate (_dynamo/variables/tensor.py:1951 in evaluate)
For more information, run with TORCH_LOGS="dynamic"

User Stack (most recent call last):
  (snipped, see stack below for prefix)
  File "/home/user/project/dde.py", line 15, in gate
    if u > 3:

For C++ stack trace, run with TORCHDYNAMO_EXTENDED_DEBUG_CPP=1

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/home/user/venv/lib/python3.11/site-packages/torch/_dynamo/convert_frame.py", line 2, in c
    raise UserError
torch._dynamo.exc.UserError: Consider annotating your code using torch._check*(). Could not guard \
on data-dependent expression u0 > 3 (unhinted: u0 > 3).  (Size-like symbols: none)

from user code:
   File "/home/user/project/dde.py", line 15, in gate
    if u > 3:

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace
"""


def test_the_last_exception_of_a_chain_counts() -> None:
    """The exception that ended the compile is the last, with its message in full."""
    error = parse_exception(DATA_DEPENDENT_2_11)
    assert error.type == "torch._dynamo.exc.UserError"
    assert error.message.startswith("Consider annotating your code")
    assert stack_from_user_code(error.message) == (
        StackFrame("/home/user/project/dde.py", 15, "gate", "if u > 3:"),
    )


def test_an_exception_message_can_have_several_lines() -> None:
    """A backend's own error stands on the second line."""
    text = (
        "Traceback (most recent call last):\n"
        '  File "a.py", line 1, in f\n'
        "    x\n"
        "torch._dynamo.exc.BackendCompilerFailed: backend='bad' raised:\n"
        "RuntimeError: backend says no\n"
    )
    error = parse_exception(text)
    assert error.type == "torch._dynamo.exc.BackendCompilerFailed"
    assert error.message == "backend='bad' raised:\nRuntimeError: backend says no"


def test_a_data_dependent_error_is_found_in_a_traceback() -> None:
    """Expression, line, torch's line and stack are read; the message ends before the next error."""
    found = parse_data_dependent(DATA_DEPENDENT_2_11)
    assert found is not None
    assert found.expression == "u0 > 3"
    assert found.place == StackFrame("project/dde.py", 15, "gate", "if u > 3:")
    assert found.torch_frame == StackFrame("_dynamo/variables/tensor.py", 1951, "evaluate")
    assert found.user_stack == (StackFrame("/home/user/project/dde.py", 15, "gate", "if u > 3:"),)
    assert "During handling" not in found.message


def test_an_unbacked_integer_is_a_data_dependent_error_too() -> None:
    """Torch 2.9 forgot the line break before "Caused by"; its place stands in for the stack."""
    found = parse_data_dependent(
        "Could not extract specialized integer from data-dependent expression Max(1, u0) "
        "(unhinted: Max(1, u0)).  (Size-like symbols: none)\n\nconsider using data-dependent "
        "friendly APIs such as guard_or_false, guard_or_true and statically_known_trueCaused by: "
        "for _ in range(n):  # p/d.py:47 in ranged (_dynamo/variables/tensor.py:1 in evaluate)\n"
    )
    assert found is not None
    assert found.expression == "Max(1, u0)"
    assert found.user_stack == (StackFrame("p/d.py", 47, "ranged", "for _ in range(n):"),)


def test_other_errors_are_not_data_dependent() -> None:
    """Nothing is found in other text."""
    assert parse_data_dependent("RuntimeError: no") is None


# --- Constraint violations

HEAD = 'Constraints violated ({})! For more information, run with TORCH_LOGS="+dynamic".\n  - {}\n'


@pytest.mark.parametrize(
    ("sentence", "source", "value"),
    [
        (
            "Not all values of RelaxedUnspecConstraint(L['x'].size()[0]) are valid because "
            "L['x'].size()[0] was inferred to be a constant (6).",
            "L['x'].size()[0]",
            "6",
        ),
        (
            "You marked L['x'].size()[0] as dynamic but your code specialized it to be a constant "
            "(6). If you're using mark_dynamic, either remove it or use maybe_mark_dynamic.",
            "L['x'].size()[0]",
            "6",
        ),
        (
            "Not all values of RelaxedUnspecConstraint(L['x'].size()[0]) are valid because "
            "L['x'].size()[0] was inferred to be equal to L['y'].size()[0].",
            "L['x'].size()[0]",
            "L['y'].size()[0]",
        ),
        (
            "Not all values of L['x'].size()[0] = L['x'].size()[0] in the specified range "
            "2 <= L['x'].size()[0] <= 9 satisfy the generated guard L['x'].size()[0] <= 4.",
            "L['x'].size()[0]",
            None,
        ),
        (
            "The values of L['a'].size()[0] = L['a'].size()[0] and L['b'].size()[0] = "
            "L['b'].size()[0] must always be equal.",
            "L['a'].size()[0]",
            "L['b'].size()[0]",
        ),
        (
            "The values of dy = L['a'].size()[0] must always be related to the values of dx = "
            "L['b'].size()[0] by dy = 2*dx.",
            "L['a'].size()[0]",
            "2*dx",
        ),
        ("Something that is not known yet", "L['x'].size()[0]", None),
    ],
)
def test_every_form_of_a_constraint_is_read(sentence: str, source: str, value: str | None) -> None:
    """An unknown sentence still has the source that the head names."""
    (found,) = parse_constraints(HEAD.format("L['x'].size()[0]", sentence))
    assert (found.source, found.value, found.message) == (source, value, sentence)


def test_each_violated_constraint_has_its_stack() -> None:
    """Torch 2.8 puts its own C stack in between, which is left out."""
    text = (
        "ConstraintViolationError: "
        + HEAD.format(
            "L['x'].size()[0], L['y'].size()[1]",
            "You marked L['x'].size()[0] as dynamic but your code specialized it to be a constant "
            "(6). Text.\n\nFramework stack:\n"
            '  File "./nptl/./nptl/pthread_create.c", line 442, in start_thread\n\n'
            "User stack:\n"
            '  File "/p/mark.py", line 9, in fixed\n'
            "    return x + torch.ones(6, 1)\n\n"
            "  - You marked L['y'].size()[1] as dynamic but your code specialized it to be a "
            "constant (2). Text.",
        )
        + "\n\nDuring handling of the above exception, another exception occurred:\n\nConstraints "
    )
    first, second = parse_constraints(text)
    assert first.user_stack == (
        StackFrame("/p/mark.py", 9, "fixed", "return x + torch.ones(6, 1)"),
    )
    assert (second.source, second.value, second.user_stack) == ("L['y'].size()[1]", "2", ())


def test_a_violation_at_the_input_has_one_sentence() -> None:
    """Promises broken by the sizes given have no list."""
    (found,) = parse_constraints(
        "torch.fx.experimental.symbolic_shapes.ConstraintViolationError: Static shape constraint "
        "of 3 does not match input size of 4, for L['x'].size()[0]"
    )
    assert (found.source, found.value) == ("L['x'].size()[0]", "4")
    assert parse_constraints("nothing of the kind") == ()


# --- Graph breaks

BREAK_2_13 = """\
Graph break in user code at /home/user/project/item_branch.py:9
Graph Break Reason: Encountered graph break when attempting to trace CALL: a function call, e.g. \
f(x, y):

Unsupported Tensor.item() call with capture_scalar_outputs=False
  Explanation: Dynamo does not support tracing `Tensor.item()` with config.capture_scalar_outputs=\
False.
  Hint: Set `torch._dynamo.config.capture_scalar_outputs = True`.

  Developer debug context: call_method TensorVariable() item () {}

 For more details about this graph break, please visit: \
https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0124.html

Stack variable source attribution:
  TensorVariable() originated from:
  File "/home/user/project/item_branch.py", line 8, in gate

User code traceback:
  File "/home/user/project/item_branch.py", line 16, in <module>
    print(v, tuple(gate(torch.randn(4), torch.tensor(v)).shape))
  File "/home/user/project/item_branch.py", line 9, in gate
    k = t.item()

Traceback (most recent call last):
  File "/home/user/venv/lib/python3.11/site-packages/torch/_dynamo/exc.py", line 634, in u
    raise Unsupported(msg, gb_type, skip_frame)
torch._dynamo.exc.Unsupported: Unsupported Tensor.item() call with capture_scalar_outputs=False
  Explanation: Dynamo does not support tracing `Tensor.item()`
"""


def test_a_break_of_2_13_is_read() -> None:
    """The kind stands behind what was being traced; other paragraphs do not get into a field."""
    found = parse_graph_break(BREAK_2_13)
    assert found.kind == "Unsupported Tensor.item() call with capture_scalar_outputs=False"
    assert found.explanation == (
        "Dynamo does not support tracing `Tensor.item()` with config.capture_scalar_outputs=False."
    )
    assert found.hints == ("Set `torch._dynamo.config.capture_scalar_outputs = True`.",)
    assert found.context == "call_method TensorVariable() item () {}"
    assert found.gb_id == "GB0124"
    assert found.place == StackFrame("/home/user/project/item_branch.py", 9, "gate", "k = t.item()")
    assert [frame.line for frame in found.user_stack] == [16, 9]
    assert found.exception.startswith("torch._dynamo.exc.Unsupported: Unsupported Tensor.item()")
    assert "Traceback" not in found.text
    assert not found.repeated and not found.skipped_frame


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("Unsupported: Tensor.item", "Tensor.item"),
        ("Data-dependent jump", "Data-dependent jump"),
    ],
)
def test_a_break_of_2_6_is_read(reason: str, kind: str) -> None:
    """It has a reason on one line, and no advice."""
    found = parse_graph_break(
        f"Graph break in user code at /p/a.py:9\nReason: {reason}\nUser code traceback:\n"
        '  File "/p/a.py", line 9, in gate\n    k = t.item()\n\n'
    )
    assert (found.kind, found.explanation, found.hints, found.gb_id) == (kind, "", (), None)
    assert found.place == StackFrame("/p/a.py", 9, "gate", "k = t.item()")


def test_an_explanation_can_have_many_lines() -> None:
    """Torch 2.12 and later tell how the condition was computed; a break may lack an exception."""
    found = parse_graph_break(
        "Graph break in user code at /p/a.py:21\n"
        "Graph Break Reason: Data-dependent branching\n"
        "  Explanation: Detected data-dependent branching.\n"
        "\n"
        "      The branch condition involves a tensor computed as follows:\n"
        '        # File "/p/a.py", line 21, in tensor_if, code: if x.sum() > 0:\n'
        "        gt = gt(sum_1, 0)\n"
        "    \n"
        "  Hint: First.\n"
        "  Hint: Second\n"
        "    goes on.\n"
        "\n"
        "  Developer debug context: attempted to jump with TensorVariable()\n"
        "\n"
        "User code traceback:\n"
        '  File "/p/a.py", line 21, in tensor_if\n'
        "    if x.sum() > 0:\n"
        "\n"
        "NoneType: None\n"
    )
    assert found.explanation.endswith("if x.sum() > 0:\n    gt = gt(sum_1, 0)")
    assert found.hints == ("First.", "Second\ngoes on.")
    assert found.exception == ""
    assert found.text.endswith("if x.sum() > 0:")


JOINED = """\
Graph break in user code at /p/a.py:7
Graph Break Reason: Failed to handle graph break gracefully. Skipping the function and falling \
back to eager. Graph break encountered:

Data-dependent branching
  Explanation: Detected data-dependent branching.
  Hint: Use `torch.cond` to express dynamic control flow.

  Developer debug context: attempted to jump with TensorVariable()

 For more details about this graph break, please visit: https://x/gb/gb0170.html

*** While handling this graph break, another graph break occurred: ***

graph break in loop
  Explanation: torch.compile detected a graph break in a for/while loop. Skipping the frame and \
falling back to eager, as graph breaks in loops are not supported.
  Hint: This graph break may have been caused by an earlier graph break.

  Developer debug context: frame skipped: f (a.py line 3)

 For more details about this graph break, please visit: https://x/gb/gb0344.html

User code traceback:
  File "/p/a.py", line 7, in f
    if x.sum() > 0:
"""


def test_the_first_of_two_joined_breaks_is_the_cause() -> None:
    """The second says why the frame is given up, and stays in the text only."""
    found = parse_graph_break(JOINED)
    assert found.kind == "Data-dependent branching"
    assert found.gb_id == "GB0170"
    assert found.context == "attempted to jump with TensorVariable()"
    assert found.hints == ("Use `torch.cond` to express dynamic control flow.",)
    assert found.skipped_frame
    assert "graph break in loop" in found.text


@pytest.mark.parametrize(
    "head",
    [
        "Graph break (details suppressed) in user code at /p/a.py:9",
        "Graph break (user stack suppressed due to duplicate graph break) in user code at "
        "/p/a.py:9",
    ],
)
def test_a_repeated_break_has_no_stack(head: str) -> None:
    """Its place is known by file and line only."""
    found = parse_graph_break(f"{head}\nGraph Break Reason: Dynamic shape operator\n  Hint: H.")
    assert found.repeated
    assert found.kind == "Dynamic shape operator"
    assert found.place == StackFrame("/p/a.py", 9, "<unknown>")
    assert found.user_stack == ()


def test_a_skipped_frame_of_2_8_tells_its_reason_in_the_exception() -> None:
    """Torch 2.6 to 2.9 log no reason of their own there."""
    found = parse_graph_break(
        "Graph break: skip: from user code at:\n"
        '  File "/p/a.py", line 4, in f\n    with ctx:\n\n'
        "Traceback (most recent call last):\n"
        '  File "/v/torch/_dynamo/exc.py", line 1, in u\n    raise\n'
        "torch._dynamo.exc.Unsupported: Missing bytecode handler\n"
        "  Explanation: Dynamo does not know.\n"
    )
    assert found.skipped_frame
    assert (found.kind, found.explanation) == ("Missing bytecode handler", "Dynamo does not know.")
    assert found.place == StackFrame("/p/a.py", 4, "f", "with ctx:")


def test_a_verbose_break_has_two_stacks() -> None:
    """TORCHDYNAMO_VERBOSE splits the callers from the compiled function, and adds remarks."""
    found = parse_graph_break(
        "Graph break in user code at /p/a.py:2\nGraph Break Reason: Tensor.item\n"
        "User code traceback:\n"
        '  File "/p/main.py", line 1, in <module>\n    f(x)\n\n'
        "========== most recent `torch.compile` tracing attempt started here ==========\n\n"
        '  File "/p/a.py", line 2, in f\n    t.item()\n\n'
        "NOTE: the most recent `torch.compile` tracing attempt might not be where\n"
        '  File "/p/no.py", line 3, in g\n'
    )
    assert [frame.file for frame in found.user_stack] == ["/p/main.py", "/p/a.py"]


def test_any_text_is_some_break() -> None:
    """Nothing is known of it, and nothing is raised."""
    assert parse_graph_break("").kind == ""
    assert parse_graph_break("Graph break in user code at /p/a.py:1").kind == ""


@pytest.mark.parametrize("piece", ["L['a'] = ", "# a:", "(", " ", "x.", "u0 Could not guard on "])
def test_hostile_texts_take_no_time(piece: str) -> None:
    """No pattern looks at a text again and again."""
    text = piece * 60_000
    start = time.perf_counter()
    parse_location_comment(text)
    parse_data_dependent("Could not guard on data-dependent expression " + text)
    parse_constraints("Constraints violated (" + text)
    parse_constraints(HEAD.format("x", "The values of " + text))
    parse_graph_break("Graph break in user code at " + text)
    parse_graph_break("Graph break in user code at a:1\nReason: " + text)
    parse_exception("Traceback (most recent call last):\n" + text)
    sources_stripped([parse_entry_failure("0/0: " + text)])
    assert time.perf_counter() - start < 5
