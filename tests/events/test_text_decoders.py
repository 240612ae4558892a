"""What each kind of message says, in the spellings of all releases."""

import pytest

from recompile_doctor.events.text_decoders import KINDS
from recompile_doctor.events.vocabulary import (
    AssumptionMade,
    ConstraintViolated,
    CudagraphNoted,
    DataDependentError,
    GuardAdded,
    GuardRole,
    MarkKind,
    RecompileLimitHit,
    RecompileReported,
    SourceMarked,
    StackFrame,
    SymbolCreated,
    SymbolSpecialized,
    SymbolTracked,
    UnbackedSymbolCreated,
)
from tests.events.text_samples import RECOMPILES, events, logged, recompile

COMMENT = (
    "return (x * 2.0).sum()  # project/zero_one.py:9 in scale (_dynamo/builder.py:49 in <lambda>)"
)
USER = StackFrame("project/zero_one.py", 9, "scale", "return (x * 2.0).sum()")
TORCH = StackFrame("_dynamo/builder.py", 49, "<lambda>")
ADVICE = (
    ', for more info run with TORCHDYNAMO_EXTENDED_DEBUG_CREATE_SYMBOL="s77" or to suppress this'
)


def test_every_kind_is_found_somewhere() -> None:
    assert all(kind.heads and (kind.files or kind.artifacts) for kind in KINDS)


@pytest.mark.parametrize(
    ("symbol", "hint", "source", "value_range"),
    [
        ("s77", "16", "L['x'].size()[0]", "[2, int_oo]"),
        ("s0", "5", "L['t'].item()", "[-int_oo, int_oo]"),
        ("zf72", "1.5", "L['s']", "[-oo, oo]"),
        ("s3", "4", "L['self']._modules['a, b [1, 2] for c'].w.size()[0]", "[2, 4*s0]"),
        ("s3", "4", "L['it\\'s']", "[0, 9]"),
        ("s3", "4", 'G["it\'s"][0]', "[0, 9]"),
        ("s3", "4", "tuple_iterator_getitem(L['it'], 0).size()[1]", "[2, int_oo]"),
    ],
)
def test_backed_symbols(symbol: str, hint: str, source: str, value_range: str) -> None:
    text = f"create_symbol {symbol} = {hint} for {source} {value_range} {COMMENT}{ADVICE}"
    (event,) = events(logged(text, level="I"))
    assert isinstance(event, SymbolCreated)
    assert (event.symbol, event.hint, event.source) == (symbol, hint, source)
    assert (event.value_range, event.user_stack, event.torch_frame) == (value_range, (USER,), TORCH)


def test_user_code_that_looks_like_a_range_is_no_range() -> None:
    text = "create_symbol s1 = 2 for L['x'].size()[0] [2, int_oo] y = [1, 2] + z  # a.py:9 in f"
    (event,) = events(logged(text))
    assert isinstance(event, SymbolCreated)
    assert event.value_range == "[2, int_oo]"
    assert event.user_stack == (StackFrame("a.py", 9, "f", "y = [1, 2] + z"),)


def test_shared_symbols() -> None:
    (event,) = events(logged("create_symbol s97 duck sized L['b'].size()[0]"))
    assert isinstance(event, SymbolCreated)
    assert (event.symbol, event.source, event.duck_sized) == ("s97", "L['b'].size()[0]", True)


def test_an_unbacked_symbol_has_the_source_of_a_marked_dimension() -> None:
    (event,) = events(logged("create_unbacked_symint u0 [-int_oo, int_oo] L['x'].size()[0]"))
    assert isinstance(event, UnbackedSymbolCreated)
    assert (event.symbol, event.source) == ("u0", "L['x'].size()[0]")
    assert event.value_range == "[-int_oo, int_oo]"


@pytest.mark.parametrize("word", ["symint", "symfloat", "symbool"])
def test_an_unbacked_symbol_of_data_has_a_place(word: str) -> None:
    (event,) = events(logged(f"create_unbacked_{word} u0 [0, 1] {COMMENT}"))
    assert isinstance(event, UnbackedSymbolCreated)
    assert (event.source, event.user_stack, event.torch_frame) == (None, (USER,), TORCH)


@pytest.mark.parametrize(
    ("text", "source", "value"),
    [
        ("L['x'].size()[0] s77 RelaxedUnspecConstraint(warn_only=True)", "L['x'].size()[0]", "s77"),
        ("L['x'].stride()[1] 4 None", "L['x'].stride()[1]", "4"),
        ("L['a b'].size()[0] ((s0//2)) + 1 None", "L['a b'].size()[0]", "((s0//2)) + 1"),
        ("it(L['i'], 0).size()[0] Min(3, s0) None", "it(L['i'], 0).size()[0]", "Min(3, s0)"),
        (
            "L['x'].size()[0] 2*s1 StrictMinMaxConstraint(warn_only=False, vr=VR[2, 5])",
            "L['x'].size()[0]",
            "2*s1",
        ),
    ],
)
def test_tracked_sizes(text: str, source: str, value: str) -> None:
    (event,) = events(logged(f"track_symint {text}"))
    assert event == SymbolTracked(event.origin, source, value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "s77 = 6 (range_refined_to_singleton) VR[6, 6]",
            ("s77", "6", "range_refined_to_singleton"),
        ),
        ("u1 = 2*u0 + (u2) (solve) VR[0, int_oo]", ("u1", "2*u0 + (u2)", "solve")),
        ("u1 = u0 (rename_unbacked_to) VR[0, 8]", ("u1", "u0", "rename_unbacked_to")),
    ],
)
def test_replaced_symbols(text: str, expected: tuple[str, str, str]) -> None:
    (event,) = events(logged(f"set_replacement {text}"))
    assert event == SymbolSpecialized(event.origin, *expected)


@pytest.mark.parametrize(
    ("head", "role"),
    [
        ("eval", GuardRole.GUARD),
        ("eval (forcing_spec)", GuardRole.GUARD),
        ("eval [guard suppressed]", GuardRole.SUPPRESSED),
        ("eval [guard suppressed] (forcing_spec)", GuardRole.SUPPRESSED),
        ("runtime_assert", GuardRole.RUNTIME_ASSERT),
        ("runtime_assert [guard suppressed]", GuardRole.SUPPRESSED),
    ],
)
def test_guards(head: str, role: GuardRole) -> None:
    (event,) = events(logged(f"{head} (s77 % 4) <= 2 [guard added] {COMMENT}{ADVICE}"))
    assert event == GuardAdded(event.origin, "(s77 % 4) <= 2", role, (USER,), TORCH)


@pytest.mark.parametrize(
    "text",
    [
        "eval Eq(s33, 1) == False [statically known]",
        "eval size_oblivious(Ne(s33, 1)) == True [statically known]",
        "eval s33 > 1 [trivial]",
        "runtime_assert u0 >= 0 == True [statically known]",
    ],
)
def test_what_is_known_without_a_guard_is_no_event(text: str) -> None:
    assert events(logged(text)) == []


def test_assumptions_on_data() -> None:
    text = (
        "could not evaluate Eq(u1, 0) due to data dependency, it was assumed to be False with no "
        f"runtime assertions {COMMENT} \nUser Stack (most recent call last):\n"
        '  (snipped, see stack below for prefix)\n  File "/a.py", line 34, in take\n'
        "    return x[:n]\n\nFor C++ stack trace, run with TORCHDYNAMO_EXTENDED_DEBUG_CPP=1"
    )
    (event,) = events(logged(text, level="I"))
    stack = (StackFrame("/a.py", 34, "take", "return x[:n]"),)
    assert event == AssumptionMade(event.origin, "Eq(u1, 0)", "False", stack)


@pytest.mark.parametrize("function", ["evaluate_expr", "size_hint"])
def test_values_of_real_tensors_are_assumptions(function: str) -> None:
    (event,) = events(logged(f"propagate_real_tensors {function}(u0 > (3)) -> True", level="W"))
    assert event == AssumptionMade(event.origin, "u0 > (3)", "True")


@pytest.mark.parametrize(
    ("text", "source", "kind", "cause", "dim"),
    [
        (
            "marking L['x'] as dynamic (from automatic dynamic/PGO)",
            "L['x']",
            MarkKind.DYNAMIC,
            "automatic dynamic/PGO",
            None,
        ),
        (
            "marking L['a (b)'] as dynamic (from mark_dynamic)",
            "L['a (b)']",
            MarkKind.DYNAMIC,
            "mark_dynamic",
            None,
        ),
        (
            "L['x'] was marked dynamic due to dynamic-sources entry: L['x']:0",
            "L['x']",
            MarkKind.DYNAMIC,
            "dynamic-sources entry: L['x']:0",
            0,
        ),
        (
            "L['x'] was marked unbacked due to unbacked source allowlist pattern: L.*",
            "L['x']",
            MarkKind.UNBACKED,
            "unbacked source allowlist pattern: L.*",
            None,
        ),
        (
            "it(L['x'], 0) was marked static due to static-sources entry: it",
            "it(L['x'], 0)",
            MarkKind.STATIC,
            "static-sources entry: it",
            None,
        ),
        (
            "L['x'] dim 2 marked dynamic via dynamic-values list (value=7)",
            "L['x']",
            MarkKind.DYNAMIC,
            "dynamic-values list (value=7)",
            2,
        ),
    ],
)
def test_marks(text: str, source: str, kind: MarkKind, cause: str, dim: int | None) -> None:
    (event,) = events(logged(text, "torch/_dynamo/variables/builder.py:4219", level="I"))
    assert event == SourceMarked(event.origin, source, kind, cause, dim)


def test_other_lines_of_the_builder_are_no_marks() -> None:
    assert events(logged("wrap_to_fake L['x'] (4,)", "torch/_dynamo/variables/builder.py:3")) == []


@pytest.mark.parametrize("limit", ["recompile_limit", "cache_size_limit", "accumulated_x_limit"])
@pytest.mark.parametrize("config", ["config.", ""])
def test_limits(limit: str, config: str) -> None:
    text = (
        f"torch._dynamo hit {config}{limit} (8)\n   function: 'f' (/a (1).py:10)\n"
        "   last reason: 0/2: x == 2\nUser stack trace:\n"
        '  File "/a.py", line 2, in f\nTo log all recompilation reasons, use TORCH_LOGS="x".'
        "\nTo diagnose recompilation issues, see https://pytorch.org"
    )
    (event,) = events(logged(text, "torch/_dynamo/convert_frame.py:1", "0/8", level="W"))
    reason = '0/2: x == 2\nUser stack trace:\n  File "/a.py", line 2, in f'
    assert event == RecompileLimitHit(event.origin, limit, 8, "f", "/a (1).py", 10, reason)


VIOLATION = """Error while creating guard:
Name: ''
Traceback (most recent call last):
  File "/torch/_guards.py", line 377, in create
    return self.create_fn(builder, self)
torch.fx.experimental.symbolic_shapes.ConstraintViolationError: Constraints violated (L['x'].size()\
[0])! For more information, run with TORCH_LOGS="+dynamic".
  - You marked L['x'].size()[0] as dynamic but your code specialized it to be a constant (6). If \
you're using mark_dynamic, either remove it or use maybe_mark_dynamic.
"""


def test_violated_constraints() -> None:
    (event,) = events(logged(VIOLATION, "torch/_guards.py:379", level="E"))
    assert isinstance(event, ConstraintViolated)
    assert (event.source, event.value) == ("L['x'].size()[0]", "6")


def test_guards_that_fail_to_be_made_for_another_reason_are_no_event() -> None:
    text = VIOLATION.replace("ConstraintViolationError", "ValueError")
    assert events(logged(text, "torch/_guards.py:379", level="E")) == []


FAILED = "failed while running evaluate_expr(*(u0 > 3, None), **{'fx_node': False})"


def test_data_dependent_errors_of_old_releases() -> None:
    text = (
        f'{FAILED}\nTraceback (most recent call last):\n  File "/a.py", line 1, in f\n'
        "torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode: Could not guard on "
        "data-dependent expression u0 > 3 (unhinted: u0 > 3).  (Size-like symbols: none)"
    )
    for message in (text, FAILED):
        (event,) = events(logged(message, "torch/fx/experimental/recording.py:299", level="E"))
        assert isinstance(event, DataDependentError)
        assert event.expression == "u0 > 3"


def test_other_failed_evaluations_are_no_data_dependent_errors() -> None:
    place = "torch/fx/experimental/recording.py:299"
    for text in (f"{FAILED}\nTraceback:\nAssertionError", FAILED.replace("u0", "s0")):
        assert events(logged(text, place, level="E")) == []


@pytest.mark.parametrize("artifact", ["perf_hints", "cudagraphs", None])
def test_cudagraph_warnings(artifact: str | None) -> None:
    many = "CUDAGraph supports dynamic shapes by recording a new graph for each distinct input "
    many += "size. We have observed 9 distinct sizes. "
    log = logged(many, "torch/_inductor/cudagraph_utils.py:516", artifact=artifact, level="W")
    skip = "skipping cudagraphs due to cpu device (arg0_1)"
    log += logged(skip, "torch/_inductor/cudagraph_utils.py:380", artifact=artifact, level="W")
    first, second = events(log)
    assert first == CudagraphNoted(first.origin, 9, many.strip())
    assert second == CudagraphNoted(second.origin, None, skip)


@pytest.mark.parametrize(
    ("reason", "stripped"),
    [
        ("tensor 'L['x']' size mismatch at index 0. expected 8, actual 16", False),
        ("tensor 'x' size mismatch at index 0. expected 8, actual 16", True),
        ("2 <= x.size()[0]  # return L['x']  # a.py:9 in f", True),
        ("n == 2   # return x + n  # a.py:9 in f", True),
        ("GLOBAL_STATE changed: grad_mode ", None),
    ],
)
def test_whether_sources_are_stripped_shows_in_the_reasons(
    reason: str, stripped: bool | None
) -> None:
    (event,) = events(recompile(f"0/0: {reason}"))
    assert isinstance(event, RecompileReported)
    assert event.sources_stripped is stripped


def test_verbose_recompiles() -> None:
    text = (
        "Recompiling function f in /a in b.py:7\n    triggered by the following guard failure(s):\n"
        "    guard 0 failures:\n    - 0/1: x == 2; y == 3\n\n"
        "    guard 1 failures:\n    - 0/0: z == 1"
    )
    (event,) = events(logged(text, RECOMPILES, "0/2", artifact="recompiles_verbose"))
    assert isinstance(event, RecompileReported)
    assert [failure.text for failure in event.failures] == ["x == 2; y == 3", "z == 1"]
    assert (event.verbose, event.file) == (True, "/a in b.py")
