"""Recompile reasons of torch 2.6 to 2.15, in torch's words, and what they are read as."""

import dataclasses
from enum import Enum
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from recompile_doctor.events.vocabulary import StackFrame
from recompile_doctor.model.expression import (
    BoolLiteral,
    FloatLiteral,
    IntLiteral,
    NoneLiteral,
    StrLiteral,
    expression_text,
)
from recompile_doctor.model.failure import (
    AliasingMismatch,
    GuardFailure,
    OtherConstant,
    ShapeGuardFailure,
    SizeMismatch,
    TypeMismatch,
    UnexpectedRecompilation,
    UnrecognizedReason,
    ValueMismatch,
)
from recompile_doctor.model.guard import ShapeGuard
from recompile_doctor.model.reason import parse_reason, strip_object_ids
from recompile_doctor.model.source import Source

CASES = yaml.safe_load(Path(__file__).with_name("reasons.yaml").read_text(encoding="utf-8"))


def _plain(value: object) -> object:
    match value:
        case Source():
            return str(value)
        case StackFrame(file, line, function, code):
            return f"{file}:{line} in {function}" + ("" if code is None else f": {code}")
        case IntLiteral() | FloatLiteral() | BoolLiteral() | StrLiteral():
            return f"{type(value).__name__} {value.value!r}"
        case NoneLiteral():
            return "NoneLiteral"
        case OtherConstant(text):
            return f"OtherConstant {text}"
        case Enum():
            return value.name
        case tuple():
            return [_plain(each) for each in value]
        case _:
            return value


def describe(failure: GuardFailure) -> dict[str, dict[str, object]]:
    """Return the fields that are not what they are by default, but for torch's words."""
    fields: dict[str, object] = {}
    for field in dataclasses.fields(failure):
        value = getattr(failure, field.name)
        if field.name == "text" or value is None or value is field.default:
            continue
        if isinstance(value, ShapeGuard):
            fields["guard"] = expression_text(value.expression)
            fields["kind"] = value.kind.name
            fields["variables"] = [str(each) for each in value.variables]
            numbers = {
                name: getattr(value, name) for name in ("lower", "upper", "value", "modulus")
            }
            fields |= {name: number for name, number in numbers.items() if number is not None}
        elif field.name == "hint":
            fields["hint"] = f"{value[:40]}..." if len(value) > 40 else value
        else:
            fields[field.name] = _plain(value)
    return {type(failure).__name__: fields}


@pytest.mark.parametrize("case", CASES, ids=[case["text"][:60] for case in CASES])
def test_real_texts(case: dict[str, object]) -> None:
    """Each text that torch writes is read as the failure that it tells."""
    text, stripped = str(case["text"]), bool(case["stripped"])
    assert [describe(each) for each in parse_reason(text, stripped=stripped)] == case["failures"]


@pytest.mark.parametrize("case", CASES, ids=[case["text"][:60] for case in CASES])
def test_full_names_are_noticed(case: dict[str, object]) -> None:
    """Whether torch shortened the sources can be seen in the text."""
    text, stripped = str(case["text"]), bool(case["stripped"])
    failures = parse_reason(text)
    assert [describe(each) for each in failures] == [
        describe(each) for each in parse_reason(text, stripped=stripped)
    ]


@pytest.mark.parametrize("case", CASES, ids=[case["text"][:60] for case in CASES])
def test_words_are_kept(case: dict[str, object]) -> None:
    """The words of the checks are those of the reason."""
    text = str(case["text"])
    words = "; ".join(failure.text for failure in parse_reason(text))
    assert "".join(words.split()) == "".join(text.split())


def test_cut_stack_is_no_reason() -> None:
    """A user stack that was left in the text is not part of the reason."""
    text = 'n == 2\nUser stack trace:\n  File "a.py", line 3, in f\n    g(n)'
    (failure,) = parse_reason(text, stripped=True)
    assert isinstance(failure, ValueMismatch)
    assert failure.text == "n == 2"


def test_semicolon_in_user_code() -> None:
    """A "; " in the quoted line of code does not end a check."""
    text = (
        "(x.size()[0] % 2) != 0  # n = x.shape[0]; m = y.shape[0]  # p.py:4 in g (t.py:1 in e);"
        " 2 <= x.size()[0]  # a(); b()  # p.py:5 in <lambda> (t.py:2 in e)"
    )
    first, second = parse_reason(text, stripped=True)
    assert first.user_frame == StackFrame("p.py", 4, "g", "n = x.shape[0]; m = y.shape[0]")
    assert second.user_frame == StackFrame("p.py", 5, "<lambda>", "a(); b()")
    assert second.torch_frame == StackFrame("t.py", 2, "e")


@pytest.mark.parametrize(
    "value", ["me; an's # x", "a  # b", "; x == 3", "]", "(", '"', "\\", "L['x']", "\n- 0/0: y"]
)
def test_hostile_strings_as_values(value: str) -> None:
    """A string constant is read whole, whatever stands in it."""
    code = "return f(mode)  # see; that  # p.py:3 in f"
    (failure,) = parse_reason(f"L['mode'] == {value!r:<40}  # {code}", stripped=False)
    assert isinstance(failure, ValueMismatch)
    assert failure.expected == StrLiteral(value)
    assert failure.user_frame == StackFrame("p.py", 3, "f", "return f(mode)  # see; that")


def test_odd_quote_in_a_repr() -> None:
    """A repr with an unbalanced quote does not hide the comment."""
    (failure,) = parse_reason("m == <Mode it's>  # run(m)  # p.py:3 in f", stripped=True)
    assert isinstance(failure, ValueMismatch)
    assert failure.expected == OtherConstant("<Mode it's>")
    assert failure.user_frame == StackFrame("p.py", 3, "f", "run(m)")


def test_merged_bound_has_two_lines() -> None:
    """A bound that torch merged names a line for each end; the 0/1 note belongs to the lower."""
    (failure,) = parse_reason(
        "2 <= x.size()[0] <= 10  # y = x * 2  # p.py:3 in f (user code shown is first use of this"
        " value--the guard itself is not due user code but due to 0/1 specialization in the"
        " framework; to avoid specialization try torch._dynamo.decorators.mark_unbacked(tensor,"
        " dim)) and if x.size(0) > 10:  # p.py:4 in f (_dynamo/t.py:9 in evaluate_expr)",
        stripped=True,
    )
    assert isinstance(failure, ShapeGuardFailure)
    assert (failure.guard.lower, failure.guard.upper, failure.zero_one_note) == (2, 10, True)
    assert failure.user_frame == StackFrame("p.py", 3, "f", "y = x * 2")
    assert failure.upper_user_frame == StackFrame("p.py", 4, "f", "if x.size(0) > 10:")
    assert failure.upper_torch_frame == StackFrame("_dynamo/t.py", 9, "evaluate_expr")


def test_enum_members_are_told_from_other_constants() -> None:
    """The repr of an Enum's member is recognized."""
    (failure,) = parse_reason("c == <Color.RED: 1>", stripped=True)
    assert isinstance(failure, ValueMismatch)
    assert failure.expected == OtherConstant("<Color.RED: 1>")
    assert failure.expected.is_enum
    assert not OtherConstant("torch.float32").is_enum


def test_literal_kinds_are_kept() -> None:
    """An int, a float and a bool that are equal stay apart."""
    kinds = [parse_reason(f"n == {value}")[0] for value in ("1", "1.0", "True")]
    assert [type(each.expected) for each in kinds if isinstance(each, ValueMismatch)] == [
        IntLiteral,
        FloatLiteral,
        BoolLiteral,
    ]


def test_unknown_texts_are_kept() -> None:
    """A text of no known form is kept in torch's words."""
    text = "something new happened; really"
    assert parse_reason(text) == (UnrecognizedReason(text=text),)
    assert parse_reason("") == (UnexpectedRecompilation(text=""),)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("___check_obj_id(f.__code__, 139643155874464)", "___check_obj_id(f.__code__, 4378132)"),
        ("___check_type_id(d['a, b'], 93)", "___check_type_id(d['a, b'], 94)"),
        ("f at 0x7f2de4b37b50>", "f at 0x7efd57f6e610>"),
        ("___check_metadata_139643155874464_c0/0", "___check_metadata_12_c0/0"),
        (
            "G['__optimizer_139643155874464_c1'].x == 1",
            "G['__optimizer_139643155874465_c1'].x == 1",
        ),
        ("___dict_version(L['d']) == 17", "___dict_version(L['d']) == 8"),
        (
            "saved_tensors_hooks ids == (139643155874464,)",
            "saved_tensors_hooks ids == (139643155874465,)",
        ),
    ],
)
def test_object_ids_are_stripped(one: str, other: str) -> None:
    """What differs between two runs of one program is taken out."""
    assert strip_object_ids(one) == strip_object_ids(other)


def test_numbers_that_are_no_ids_stay() -> None:
    """Sizes and lines stay in the text."""
    text = "tensor 'x' size mismatch at index 0. expected 8, actual 1048576"
    assert strip_object_ids(text) == text


@given(st.text())
def test_any_text(text: str) -> None:
    """Any text gives at least one failure, and no exception."""
    for stripped in (True, False, None):
        assert parse_reason(text, stripped=stripped)


@given(
    st.sampled_from([case["text"] for case in CASES]),
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 40), st.text(max_size=5)), max_size=4),
)
def test_damaged_texts(text: str, edits: list[tuple[int, int, str]]) -> None:
    """Damaged reasons of torch give failures, and no exception."""
    for position, length, inserted in edits:
        text = text[:position] + inserted + text[position + length :]
    for failure in parse_reason(text):
        assert strip_object_ids(failure.text) is not None
        assert describe(failure)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "'" * 99_999,
        "a; " * 50_000,
        "(  # a.py:1 in f; " * 10_000,
        "x == 1" + " " * 100_000 + "(HINT: y",
        "2 <= x.size()[0] <= 9  # " + "a:1 in b (c:1 in d) and " * 10_000,
        "expected type of '" + "' to be " * 20_000,
        "BACKEND_MATCH failure: " + " Cached backend: . New backend: ." * 5_000,
        "n == [" + "1, " * 100_000 + "]",
    ],
    ids=lambda text: text[:20],
)
def test_hostile_lengths(text: str) -> None:
    """A text made to be expensive is read within the time limit of the test run."""
    assert parse_reason(text)


def test_long_constants_are_read() -> None:
    """A long list that is compared as a constant is still a value that changed."""
    numbers = list(range(30_000))
    (failure,) = parse_reason(f"n == {numbers}  # f(n)  # p.py:2 in f", stripped=True)
    assert isinstance(failure, ValueMismatch)
    assert failure.expected == OtherConstant(str(numbers))


def test_shared_fields() -> None:
    """Every failure has words and may have a source, so that callers need not ask for the kind."""
    (size,) = parse_reason("tensor 'x' size mismatch at index 0. expected 8, actual 16")
    (kind,) = parse_reason("expected type of 'x' to be a tensor type, ' but found <class 'int'>")
    (twins,) = parse_reason('Duplicate tensors found: ["k", "q"]')
    assert isinstance(size, SizeMismatch)
    assert isinstance(kind, TypeMismatch)
    assert isinstance(twins, AliasingMismatch)
    assert size.source == kind.source
    assert twins.source is None
    assert [each.short for each in twins.sources] == ["k", "q"]
