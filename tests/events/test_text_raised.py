"""Errors on stderr, which are torch's words without torch's prefix."""

import pytest

from recompile_doctor.events.vocabulary import (
    ConstraintViolated,
    DataDependentError,
    Event,
    ForeignLines,
    StackFrame,
)
from tests.events.text_samples import events, logged, read

ERROR = """Traceback (most recent call last):
  File "/home/user/a.py", line 25, in <module>
    gate(torch.randn(4), t)
{type}: {advice}Could not {what} data-dependent expression u0 > 3 (unhinted: u0 > 3).  (Size-like \
symbols: none)

Caused by: if u > 3:  # a.py:6 in gate (_dynamo/variables/tensor.py:2606 in evaluate_expr)
For more information, run with TORCH_LOGS="dynamic"

User Stack (most recent call last):
  (snipped, see stack below for prefix)
  File "/home/user/a.py", line 6, in gate
    if u > 3:
       ^^^^^

For C++ stack trace, run with TORCHDYNAMO_EXTENDED_DEBUG_CPP=1

from user code:
   File "/home/user/a.py", line 6, in gate
    if u > 3:

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace
"""
USER_ERROR = ERROR.format(
    type="torch._dynamo.exc.UserError",
    advice="Consider annotating your code using torch._check*(). ",
    what="guard on",
)
SYMBOL_ERROR = ERROR.format(
    type="torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode",
    advice="",
    what="extract specialized integer from",
)
STACK = (StackFrame("/home/user/a.py", 6, "gate", "if u > 3:"),)
VIOLATION = """torch.fx.experimental.symbolic_shapes.ConstraintViolationError: Constraints \
violated (L['x'].size()[0], L['y'].size()[1])! For more information, run with TORCH_LOGS="+dynamic".
  - You marked L['x'].size()[0] as dynamic but your code specialized it to be a constant (6). If
  - You marked L['y'].size()[1] as dynamic but your code specialized it to be a constant (7). If
"""


def with_lead(lead: str, text: str) -> str:
    return "".join(f"{lead}{line}\n" for line in text.splitlines())


def only_error(log: str) -> DataDependentError:
    (event,) = events(log)
    assert isinstance(event, DataDependentError)
    return event


@pytest.mark.parametrize("text", [USER_ERROR, SYMBOL_ERROR])
@pytest.mark.parametrize("lead", ["", "E   ", "2026-01-01T00:00:07.1234567Z ", "trainer-1  | "])
def test_a_raised_error_is_an_event(text: str, lead: str) -> None:
    error = only_error(with_lead(lead, text))
    assert (error.expression, error.user_stack) == ("u0 > 3", STACK)
    assert (error.origin.compile_id, error.origin.process) == (None, "?")
    assert error.origin.position.line == 4


def test_an_error_that_the_program_prints_is_an_event() -> None:
    assert only_error(USER_ERROR.partition("UserError: ")[2]).expression == "u0 > 3"


def test_errors_of_ranks_merged_line_by_line_are_kept_apart() -> None:
    """Torch puts the rank in front of each line but the blank ones."""
    texts = [
        with_lead(f"[rank{rank}]: ", USER_ERROR.replace("u0", f"u{rank}")).splitlines()
        for rank in (0, 1)
    ]
    mixed = "".join(f"{line}\n" for lines in zip(*texts, strict=True) for line in lines)
    found = events(mixed)
    assert [event.origin.rank for event in found] == [0, 1]
    expressions = [e.expression for e in found if isinstance(e, DataDependentError)]
    assert expressions == ["u0 > 3", "u1 > 3"]


@pytest.mark.parametrize(
    "joint",
    [
        "The above exception was the direct cause of the following exception:",
        "During handling of the above exception, another exception occurred:",
    ],
)
def test_a_chain_of_exceptions_is_one_error(joint: str) -> None:
    only_error(f"{SYMBOL_ERROR}\n{joint}\n\n{USER_ERROR}")


def test_an_error_raised_twice_is_two_errors() -> None:
    assert len(events(USER_ERROR + USER_ERROR)) == 2


def test_an_error_that_torch_logged_is_not_counted_again() -> None:
    """Torch 2.6 and 2.7 log the error, and then raise it."""
    text = "failed while running evaluate_expr(*(u0 > 3, None), **{'fx_node': False})"
    log = logged(text, "torch/fx/experimental/recording.py:299", level="E")
    error = only_error(log + USER_ERROR)
    assert error.origin.compile_id is not None


def test_violated_constraints_are_events() -> None:
    found = [event for event in events(VIOLATION) if isinstance(event, ConstraintViolated)]
    assert [(event.source, event.value) for event in found] == [
        ("L['x'].size()[0]", "6"),
        ("L['y'].size()[1]", "7"),
    ]


def test_torch_logging_again_ends_an_error() -> None:
    log = USER_ERROR.partition("Set TORCHDYNAMO")[0] + logged("create_env")
    kinds = [type(event) for event in events(log)]
    assert kinds[0] is DataDependentError and len(kinds) == 2


@pytest.mark.parametrize(
    "text",
    [
        "raise ConstraintViolationError(",
        "except ConstraintViolationError:",
        "ValueError: a data-dependent expression is bad",
        "Could not guard on data-dependent expression",
    ],
)
def test_other_texts_are_no_errors(text: str) -> None:
    items = read(f"{text}\n")
    assert [type(item) for item in items] == [ForeignLines]


def test_events_are_those_of_the_vocabulary() -> None:
    assert all(isinstance(event, Event) for event in events(USER_ERROR + VIOLATION))
