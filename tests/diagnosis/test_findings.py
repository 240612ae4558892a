"""What a failed guard is called, and what a finding says of its cost."""

import pytest

from recompile_doctor.diagnosis.diagnose import diagnose
from recompile_doctor.diagnosis.finding import (
    Confidence,
    Disposition,
    Finding,
    LocationRole,
    Severity,
)
from recompile_doctor.events.vocabulary import LogKind
from recompile_doctor.model.frame import FrameKey
from tests.diagnosis.handmade import ZERO_ONE_NOTE, Maker
from tests.diagnosis.logs import FIXTURES, read_run

X = "L['x'].size()[0]"
MERGED = (
    f"2 <= {X} <= 64  # y = x + 1  # project/train.py:8 in f {ZERO_ONE_NOTE} and if n > 64:  "
    "# project/train.py:9 in f (_dynamo/variables/tensor.py:1 in evaluate_expr)"
)


def size_mismatch(expected: int, actual: int, source: str = "L['x']", dim: int = 0) -> str:
    """Return torch's words for a size that differs."""
    return f"tensor '{source}' size mismatch at index {dim}. expected {expected}, actual {actual}"


@pytest.mark.parametrize(
    ("expected", "actual", "rule"),
    [
        (8, 16, "unmarked-dynamic-dim"),
        (8, 1, "zero-one-specialization"),
        (1, 8, "zero-one-specialization"),
        (0, 5, "zero-one-specialization"),
        (8, 0, "zero-one-specialization"),
    ],
)
def test_a_plain_size_mismatch_is_named_by_its_values(
    expected: int, actual: int, rule: str
) -> None:
    """The first 0 or 1 is often told in these words, not by the guard on 2 and more."""
    maker = Maker()
    maker.compile("0/0", sizes={"L['x']": (expected,)})
    maker.compile(
        "0/1", failed={"0/0": size_mismatch(expected, actual)}, sizes={"L['x']": (actual,)}
    )
    assert list(maker.findings()) == [rule]


@pytest.mark.parametrize(
    ("actual", "rule", "line", "role"),
    [
        (1, "zero-one-specialization", 8, LocationRole.FIRST_USE),
        (0, "zero-one-specialization", 8, LocationRole.FIRST_USE),
        (100, "range-guard", 9, LocationRole.ASKED),
    ],
)
def test_of_two_bounds_the_size_tells_which_failed(
    actual: int, rule: str, line: int, role: LocationRole
) -> None:
    """Torch leaves its note on 0 and 1 there also when the upper bound failed."""
    maker = Maker()
    maker.compile("0/0", sizes={"L['x']": (8,)}, symbols={X: 8})
    maker.compile("0/1", failed={"0/0": MERGED}, sizes={"L['x']": (actual,)})
    (finding,) = maker.findings().values()
    assert (finding.rule, finding.confidence) == (rule, Confidence.OBSERVED)
    assert finding.location is not None
    assert (finding.location.frame.line, finding.location.role) == (line, role)


def test_without_the_size_a_bound_is_a_guess() -> None:
    """A text log has no size for a compile that made no symbol: inferred, not observed."""
    maker = Maker(LogKind.TEXT)
    maker.compile("0/0", symbols={X: 8})
    maker.compile("0/1", failed={"0/0": MERGED})
    (finding,) = maker.findings().values()
    assert finding.rule == "zero-one-specialization"
    assert finding.confidence is Confidence.INFERRED


def test_the_hint_of_a_symbol_tells_the_size_in_a_text_log() -> None:
    """A compile for another size makes a symbol with that size."""
    maker = Maker(LogKind.TEXT)
    maker.compile("0/0", symbols={X: 8})
    maker.compile("0/1", failed={"0/0": MERGED}, symbols={X: 100})
    (finding,) = maker.findings().values()
    assert (finding.rule, finding.values) == ("range-guard", ("8", "100"))


def test_a_symbol_that_became_a_constant_is_a_pinned_dimension() -> None:
    """Whatever the sizes: the dimension could vary until the program pinned it."""
    maker = Maker()
    maker.compile("0/0", sizes={"L['x']": (6,)}, symbols={X: 6}, constants={X: 6})
    maker.compile("0/1", failed={"0/0": size_mismatch(6, 1)}, sizes={"L['x']": (1,)})
    assert list(maker.findings()) == ["pinned-dimension"]


def test_a_warm_up_recompile_is_a_one_off() -> None:
    """The dimension is dynamic from then on."""
    maker = Maker()
    maker.compile("0/0", sizes={"L['x']": (8,)}, seconds=1.0)
    maker.compile(
        "0/1",
        failed={"0/0": size_mismatch(8, 16)},
        sizes={"L['x']": (16,)},
        symbols={X: 16},
        seconds=9.0,
    )
    (finding,) = maker.findings().values()
    assert finding.disposition is Disposition.ONE_OFF
    assert finding.severity is Severity.INFO
    assert finding.seconds == 9.0


def test_a_size_that_stays_constant_can_come_again() -> None:
    """With dynamic=False the second compile makes no symbol."""
    maker = Maker()
    maker.compile("0/0", sizes={"L['x']": (8,)})
    maker.compile("0/1", failed={"0/0": size_mismatch(8, 16)}, sizes={"L['x']": (16,)})
    (finding,) = maker.findings().values()
    assert finding.disposition is Disposition.FIXABLE


@pytest.mark.parametrize(
    ("reason", "rule"),
    [
        ("GLOBAL_STATE changed: grad_mode ", "global-state-change"),
        ("tensor 'L['x']' dtype mismatch. expected Float, actual Double", "tensor-property-change"),
        ('Duplicate tensors found: ["x", "y"]', "aliasing-change"),
    ],
)
def test_what_a_program_needs_is_expected(reason: str, rule: str) -> None:
    """It is counted apart and never costly."""
    maker = Maker()
    maker.compile("0/0", seconds=1.0)
    maker.compile("0/1", failed={"0/0": reason}, seconds=50.0)
    (finding,) = maker.findings().values()
    assert (finding.rule, finding.disposition) == (rule, Disposition.EXPECTED)
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    ("seconds", "severity"),
    [(30.0, Severity.HIGH), (8.0, Severity.MEDIUM), (1.0, Severity.LOW)],
)
def test_severity_is_the_share_of_the_compile_time(seconds: float, severity: Severity) -> None:
    """A quarter is high, a twentieth medium."""
    maker = Maker()
    maker.compile("0/0", seconds=90.0 - seconds)
    maker.compile("1/0", seconds=10.0, function="other")
    maker.compile("0/1", failed={"0/0": "L['n'] == 2  # f(n)  # a.py:3 in f"}, seconds=seconds)
    (finding,) = maker.findings().values()
    assert (finding.seconds, finding.severity) == (seconds, severity)


def test_without_times_the_share_of_the_recompiles_counts() -> None:
    """One of eight recompiles is medium, seven of eight are high."""
    maker = Maker(LogKind.TEXT)
    maker.compile("0/0")
    for number in range(1, 8):
        reason = f"L['mode'] == 'm{number}'  # f(mode)  # a.py:3 in f"
        maker.compile(f"0/{number}", failed={f"0/{number - 1}": reason})
    maker.compile("1/0", function="other")
    maker.compile("1/1", failed={"1/0": "L['n'] == 2  # f(n)  # a.py:3 in f"}, function="other")
    found = maker.findings()
    assert found["constant-value-change"].severity is Severity.HIGH
    assert found["int-value-change"].severity is Severity.MEDIUM
    assert found["int-value-change"].seconds is None


@pytest.mark.parametrize(
    ("rule", "log"), [("recompile-limit-hit", "dynamic.log.gz"), ("violated-dynamic-mark", "trace")]
)
def test_what_stops_compilation_is_costly_whatever_the_times(rule: str, log: str) -> None:
    """The time that eager calls cost is in no log."""
    folder = FIXTURES / "logs" / rule / "torch-2.13.0"
    found = {each.rule: each for each in diagnose(read_run(folder / log)).findings}
    assert found[rule].severity is Severity.HIGH


def test_an_error_that_ends_a_compile_is_costly_and_no_graph_break() -> None:
    """With fullgraph the same line is an error."""
    folder = FIXTURES / "logs" / "data-dependent-guard" / "torch-2.13.0"
    found = {each.frame.function: each for each in diagnose(read_run(folder / "trace")).findings}
    assert found["pad_count_strict"].severity is Severity.HIGH
    assert found["pad_count_strict"].graph_breaks == 0
    assert found["pad_count"].graph_breaks == 1


@pytest.mark.parametrize(
    ("rule", "values"),
    [
        ("stride-change", ("4", "1")),
        ("int-value-change", ("2", "5", "3")),
        ("float-value-change", ("0.5", "0.25")),
        ("module-attribute-change", ("2", "3", "4", "?")),
        ("container-length-change", ("2", "3")),
        ("zero-one-specialization", ("12", "20", "1", "0")),
        ("parameter-shape-change", ("10", "15", "22")),
        ("range-guard", ("16", "100")),
        ("rank-change", ("2", "3")),
    ],
)
def test_the_values_are_those_of_what_changed(rule: str, values: tuple[str, ...]) -> None:
    """Strides are no sizes, and the number that a graph was compiled for is a value too."""
    folder = FIXTURES / "logs" / rule / "torch-2.13.0"
    found = [each for each in diagnose(read_run(folder / "trace")).findings if each.rule == rule]
    assert [each.values for each in found] == [values]


def test_a_finding_without_evidence_cannot_be_made() -> None:
    """Each claim points to a line of a log."""
    with pytest.raises(ValueError, match="without evidence"):
        Finding(
            rule="range-guard",
            title="",
            frame=FrameKey(None, None, None),
            source=None,
            dim=None,
            message="",
            why="",
            evidence=(),
            confidence=Confidence.OBSERVED,
            disposition=Disposition.FIXABLE,
        )


def test_ids_are_the_same_in_every_run_of_a_program() -> None:
    """They have no line and no compile id, so that two runs can be compared."""
    ids = {
        tuple(sorted(each.id for each in diagnose(read_run(folder)).findings))
        for folder in sorted((FIXTURES / "scenarios").glob("*/auto_dynamic/trace"))
    }
    assert len(ids) == 1


def test_what_no_rule_knows_is_shown_in_torchs_words() -> None:
    """A recompile is never dropped."""
    maker = Maker()
    maker.compile("0/0")
    maker.compile("0/1", failed={"0/0": "the moon is in another phase"})
    (finding,) = maker.findings().values()
    assert finding.rule == "unattributed-recompile"
    assert "the moon is in another phase" in finding.message


def test_an_empty_reason_is_said_to_be_empty() -> None:
    """Torch 2.8 writes nothing when only the backend object differs."""
    folder = FIXTURES / "logs" / "backend-change" / "torch-2.8.0"
    (finding,) = diagnose(read_run(folder / "trace")).findings
    assert finding.rule == "unattributed-recompile"
    assert finding.message == "torch gives no reason for this recompile"
    assert finding.evidence[0].text == "(torch gives no reason)"


@pytest.mark.parametrize(
    ("rule", "disposition"),
    [
        ("float-value-change", Disposition.ONE_OFF),
        ("unmarked-dynamic-dim", Disposition.ONE_OFF),
        ("module-attribute-change", Disposition.FIXABLE),
        ("int-value-change", Disposition.FIXABLE),
    ],
)
@pytest.mark.parametrize("log", ["trace", "dynamic.log.gz"])
def test_what_became_a_symbol_after_one_change_asks_for_nothing(
    rule: str, disposition: Disposition, log: str
) -> None:
    """A number that torch hands in as an input since is a one-off, like a size."""
    folder = FIXTURES / "logs" / rule / "torch-2.13.0" / log
    found = [each for each in diagnose(read_run(folder)).findings if each.rule == rule]
    assert [each.disposition for each in found] == [disposition]


def test_a_graph_for_one_is_not_what_a_new_size_misses() -> None:
    """4, 1, 5: the third compile is the warm-up of the dimension, not the fault of the 1."""
    maker = Maker()
    for number, size in enumerate((4, 1, 5)):
        failed = {
            f"0/{entry}": size_mismatch(expected, size)
            for entry, expected in reversed(list(enumerate((4, 1, 5)[:number])))
        }
        maker.compile(f"0/{number}", failed=failed, sizes={"L['x']": (size,)})
    found = maker.findings()
    assert [str(ref.key) for ref in found["unmarked-dynamic-dim"].recompiles] == ["0/2"]
    assert [str(ref.key) for ref in found["zero-one-specialization"].recompiles] == ["0/1"]
