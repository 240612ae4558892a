"""Results of the gate, made by hand."""

from dataclasses import replace
from datetime import date
from pathlib import Path

from recompile_doctor.config import parse_yaml
from recompile_doctor.verification.budget import read_budget
from recompile_doctor.verification.facts import Doubt, RunFacts
from recompile_doctor.verification.gate import GateResult, check_run
from tests.verification import runs
from tests.verification.runs import cause, doubtful, graph_break

PROJECT = Path("/home/user/project")
HOSTILE = "x\n::error file=a::b\x1b[31m%0A]]><script>&amp;\u202e@user|`"


def result(facts: RunFacts, text: str = "") -> GateResult:
    return check_run(
        facts, read_budget(parse_yaml(text, Path("budget.yaml"))), today=date(2026, 1, 15)
    )


def failed() -> GateResult:
    text = """\
total:
  recompiles: 1
  graph_breaks: 1
frames:
  forwrd: {recompiles: 0}
allow:
  - rule: stride-change
    reason: the cache is transposed on purpose
    until: 2026-01-20
"""
    return result(
        runs.run(
            cause(recompiles=(1, 2)),
            cause("rank-change", (3,), source="L['mask']", dim=None),
            cause("stride-change", (4,)),
            graph_break(),
        ),
        text,
    )


def passed() -> GateResult:
    return result(runs.run(cause(recompiles=(1,))), "total: {recompiles: 1}")


def implausible() -> GateResult:
    return result(doubtful(runs.run(frames=[]), Doubt.NOTHING_COMPILED))


def hostile() -> GateResult:
    found = replace(cause(recompiles=(1,)), source=HOSTILE, message=HOSTILE, title=HOSTILE)
    facts = replace(runs.run(found), subject=HOSTILE)
    return result(facts, "total: {recompiles: 0}")


ALL = {"failed": failed, "passed": passed, "implausible": implausible, "hostile": hostile}
