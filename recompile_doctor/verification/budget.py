"""The budget: how much a run may spend, and which findings are allowed, and why."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from difflib import get_close_matches
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Any

from recompile_doctor.config import Keys, Place, Settings, parse_yaml
from recompile_doctor.diagnosis.finding import Finding
from recompile_doctor.errors import DoctorError
from recompile_doctor.model.frame import FrameKey


class Metric(Enum):
    """What a limit counts."""

    RECOMPILES = "recompiles"
    GRAPH_BREAKS = "graph_breaks"
    LIMIT_HITS = "recompile_limit_hits"
    COMPILATIONS = "compilations"

    @property
    def noun(self) -> str:
        """Return what one of it is called."""
        return _NOUNS[self]


_NOUNS = {
    Metric.RECOMPILES: "recompile",
    Metric.GRAPH_BREAKS: "graph break",
    Metric.LIMIT_HITS: "recompile-limit hit",
    Metric.COMPILATIONS: "compilation",
}


class Scope(Enum):
    """What a limit holds for: the run, each function of a name, or each rule."""

    TOTAL = "total"
    FRAMES = "frames"
    RULES = "rules"


class Counting(Enum):
    """Which recompiles count: FIXABLE leaves out expected ones and those that happen once."""

    FIXABLE = "fixable"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Limit:
    """At most so many of one thing. ``name`` is a rule or a pattern of functions, or empty.

    ``keys`` are those of the number in the file; ``place`` is None for the limit that always
    holds: no hits of the recompile limit.
    """

    metric: Metric
    most: int
    scope: Scope = Scope.TOTAL
    name: str = ""
    keys: Keys = ()
    place: Place | None = None

    def __str__(self) -> str:
        """Return what is limited: ``recompiles``, or ``recompiles in model.py:forward``."""
        joint = {Scope.TOTAL: "", Scope.FRAMES: " in ", Scope.RULES: " of "}[self.scope]
        return f"{self.metric.noun}s{joint}{self.name}"


@dataclass(frozen=True, slots=True)
class Allowance:
    """Findings that do not count: by their id, or by rule and function. ``until`` is inclusive."""

    id: str | None
    rule: str | None
    frame: str | None
    reason: str
    until: date | None
    place: Place

    def covers(self, finding: Finding) -> bool:
        """Return whether a finding is meant, whatever the date."""
        if self.id is not None:
            return finding.id == self.id
        frame_fits = self.frame is None or frame_matches(self.frame, finding.frame)
        return finding.rule == self.rule and frame_fits

    def __str__(self) -> str:
        if self.id is not None:
            return self.id
        return f"{self.rule}{f' in {self.frame}' if self.frame else ''}"


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may spend. Without limits only hits of the recompile limit fail."""

    limits: tuple[Limit, ...] = ()
    allow: tuple[Allowance, ...] = ()
    count: Counting = Counting.FIXABLE

    def limits_that_hold(self) -> tuple[Limit, ...]:
        """Return the limits, with the one on hits of the recompile limit that always holds."""
        stated = any(
            each.metric is Metric.LIMIT_HITS and each.scope is Scope.TOTAL for each in self.limits
        )
        return self.limits if stated else (*self.limits, Limit(Metric.LIMIT_HITS, 0))


def frame_matches(pattern: str, frame: FrameKey) -> bool:
    """Return whether a pattern means a function: ``forward``, ``model.py:forward``, ``*:train_*``.

    The part before the colon is the end of the file's path, the part after it the function; `*`
    and `?` stand for any text and any character.
    """
    file, colon, function = pattern.rpartition(":")
    if not fnmatchcase(frame.function or "", function):
        return False
    if not colon:
        return True
    path = PurePath(frame.file or "").as_posix()
    return fnmatchcase(path, file) or fnmatchcase(path, f"*/{file}")


_KEYS = ("count", "total", "frames", "rules", "allow")
_RULE_METRICS = (Metric.RECOMPILES, Metric.GRAPH_BREAKS)
_ALLOW_KEYS = ("id", "rule", "frame", "reason", "until")


def read_budget(settings: Settings) -> Budget:
    """Return the budget that settings state. Raises DoctorError, with the line, on any mistake."""
    content = settings.check_keys((), settings.content, dict.fromkeys(_KEYS))
    return Budget(
        tuple(_limits(settings, content)),
        tuple(_allowances(settings, content.get("allow"))),
        _counting(settings, content),
    )


def _counting(settings: Settings, content: Mapping[str, Any]) -> Counting:
    words = [each.value for each in Counting]
    value = content.get("count", Counting.FIXABLE.value)
    if value not in words:
        raise settings.problem(("count",), f"count is one of {', '.join(words)}")
    return Counting(value)


def _limits(settings: Settings, content: Mapping[str, Any]) -> Iterator[Limit]:
    if "total" in content:
        yield from _numbers(settings, ("total",), content["total"], tuple(Metric))
    for scope, metrics in ((Scope.FRAMES, tuple(Metric)), (Scope.RULES, _RULE_METRICS)):
        key = scope.value
        table = content.get(key)
        if table is None:
            continue
        for name, value in settings.check_keys((key,), table, table).items():
            if scope is Scope.RULES:
                _check_rule(settings, (key, name), name)
            yield from _numbers(settings, (key, name), value, metrics)


def _numbers(
    settings: Settings, keys: Keys, value: Any, metrics: tuple[Metric, ...]
) -> Iterator[Limit]:
    known = {each.value: each for each in metrics}
    for key, most in settings.check_keys(keys, value, known).items():
        if type(most) is not int or most < 0:
            raise settings.problem((*keys, key), f"{key} must be a whole number from 0")
        here = (*keys, key)
        scope = Scope(str(keys[0]))
        name = str(keys[1]) if len(keys) > 1 else ""
        yield Limit(known[key], most, scope, name, here, settings.place(here))


def _check_rule(settings: Settings, keys: Keys, name: Any) -> None:
    # Imported when a budget names a rule: all rules take longer to import than all else here.
    from recompile_doctor.diagnosis.all_rules import ALL_RULES

    ids = [each.id for each in ALL_RULES]
    if name not in ids:
        near = get_close_matches(str(name), ids, n=1, cutoff=0.5)
        hint = f"Did you mean {near[0]}?" if near else "`recompile-doctor explain` lists the rules."
        raise settings.problem(keys, f"there is no rule {name!r}", hint)


def _allowances(settings: Settings, value: Any) -> Iterator[Allowance]:
    if value is None:
        return
    if not isinstance(value, list):
        raise settings.problem(("allow",), "allow must be a list")
    for number, each in enumerate(value):
        keys = ("allow", number)
        entry = settings.check_keys(keys, each, dict.fromkeys(_ALLOW_KEYS))
        texts = {key: _text(settings, keys, entry, key) for key in ("id", "rule", "frame")}
        if (texts["id"] is None) == (texts["rule"] is None):
            raise settings.problem(keys, "an allowance names either an id or a rule")
        if texts["rule"] is not None:
            _check_rule(settings, (*keys, "rule"), texts["rule"])
        elif texts["frame"] is not None:
            raise settings.problem((*keys, "frame"), "an id names its function already")
        reason = _text(settings, keys, entry, "reason")
        if reason is None:
            raise settings.problem(keys, "an allowance needs a reason")
        until = _date(settings, keys, entry.get("until"))
        place = settings.place(keys)
        yield Allowance(texts["id"], texts["rule"], texts["frame"], reason, until, place)


def _text(settings: Settings, keys: Keys, entry: Mapping[str, Any], key: str) -> str | None:
    value = entry.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip():
        raise settings.problem((*keys, key), f"{key} must be a text")
    return value


def _date(settings: Settings, keys: Keys, value: Any) -> date | None:
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    elif isinstance(value, date) and not isinstance(value, datetime):
        return value
    raise settings.problem((*keys, "until"), "until must be a date such as 2026-01-31")


@dataclass(frozen=True, slots=True)
class Update:
    """A budget's file with new numbers, and what changed: the limit, the old and the new one."""

    text: str
    changes: tuple[tuple[Limit, int], ...]


def updated(settings: Settings, present: Mapping[Limit, int], *, loosen: bool) -> Update:
    """Return a budget's file with the present numbers: lower ones only, unless ``loosen``.

    Only the numbers that the file states are replaced; all else stays byte for byte.
    """
    changes = [
        (limit, number)
        for limit, number in present.items()
        if number < limit.most or (loosen and number > limit.most)
    ]
    text = settings.text
    for limit, number in sorted(
        changes, key=lambda each: settings.spans[each[0].keys], reverse=True
    ):
        start, end = settings.spans[limit.keys]
        if not text[start:end].strip("+-").replace("_", "").isalnum():
            raise DoctorError(
                f"{limit.place}: this number cannot be replaced without changing more.",
                slug="bad-setting",
                hint="Write it as a plain whole number, without an anchor or a tag.",
            )
        text = f"{text[:start]}{number}{text[end:]}"
    return Update(text, tuple(changes))


_HEAD = """\
# What a run may spend before `recompile-doctor check` fails; docs/ci.md explains it.
# `recompile-doctor check --update-budget` lowers the numbers to what a run needs.
"""


def first_budget(present: Mapping[Metric, int], frames: Mapping[str, Mapping[Metric, int]]) -> str:
    """Return the text of a new budget that allows exactly what a run spent."""
    lines = [f"{_HEAD}count: fixable", "total:"]
    lines += [f"  {metric.value}: {number}" for metric, number in present.items()]
    if frames:
        lines.append("frames:")
    for name, numbers in frames.items():
        inner = ", ".join(f"{metric.value}: {number}" for metric, number in numbers.items())
        lines.append(f"  {json.dumps(name)}: {{{inner}}}")
    text = "\n".join(lines) + "\n"
    read_budget(parse_yaml(text, Path("recompile-budget.yaml")))  # what we write, we can read
    return text


def frame_pattern(frame: FrameKey) -> str:
    """Return a pattern that means a function: its file's name and its own."""
    name = glob_escaped(frame.function or "")
    return name if frame.file is None else f"{glob_escaped(PurePath(frame.file).name)}:{name}"


def glob_escaped(text: str) -> str:
    """Return text in which no character stands for others."""
    return "".join(f"[{each}]" if each in "*?[" else each for each in text)
