"""The prescription file: YAML that ``run --prescription`` applies without touching the source.

docs/prescriptions.md describes it. It holds the marks that the probe sets on the arguments of
compiled functions, the variables for what only a list can reach, and the settings without a
variable.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import yaml

from recompile_doctor.bundle import Bundle
from recompile_doctor.errors import DoctorError
from recompile_doctor.events.vocabulary import MarkKind
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.model.source import Attribute, Item, Local, parse_source
from recompile_doctor.prescription.environment import (
    DYNAMIC,
    FLAG_VARIABLES,
    STATIC,
    UNBACKED,
    environment_for,
)
from recompile_doctor.prescription.marks import Flag, Mark, Prescription
from recompile_doctor.prescription.reach import Reach, reach_of
from recompile_doctor.prescription.rendering import Rendering, frame_words
from recompile_doctor.torch_compat import TorchFeatures

PRESCRIPTION_VERSION = 1  # 1: the first
FILE_NAME = "prescription.json"
VARIABLE = "RECOMPILE_DOCTOR_PRESCRIPTION"
_LISTS = (UNBACKED, DYNAMIC, STATIC)


@dataclass(frozen=True, slots=True)
class Trial:
    """What a run is to have applied: marks by the probe, variables, settings by the probe."""

    id: str
    marks: tuple[Mark, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    config: tuple[Flag, ...] = ()
    target_torch: str | None = None


def trial_of(
    prescription: Prescription, features: TorchFeatures, sources: tuple[str, ...] = ()
) -> Trial:
    """Return how a prescription is applied to a run on the torch of ``features``.

    As the user would apply it: by variables where they say all of it, and where groups, bounds,
    functions that ask for different kinds, or a release without dimensions in its lists ask for
    calls, by marks on the arguments.
    """
    names = (*sources, *(mark.source for mark in prescription.marks))
    whole = environment_for(prescription.marks, prescription.flags, features, names)
    in_code = not features.source_dims or needs_calls(prescription.marks)
    refused = {each.mark for each in whole.refused}
    marks = tuple(
        mark
        for mark in prescription.marks
        if reach_of(mark) is Reach.CODE and (in_code or mark in refused)
    )
    rest = [mark for mark in prescription.marks if mark not in marks]
    environment = environment_for(rest, prescription.flags, features, names)
    return Trial(
        prescription.id,
        marks,
        environment.variables,
        environment.code_flags,
        f"{features.version[0]}.{features.version[1]}",
    )


def needs_calls(marks: Sequence[Mark]) -> bool:
    """Return whether marks say what no list can: groups, bounds, or one kind for each function."""
    kinds: dict[tuple[str, int | None], set[MarkKind]] = {}
    for mark in marks:
        kinds.setdefault((mark.source, mark.dim), set()).add(mark.kind)
    return any(len(each) > 1 for each in kinds.values()) or any(
        mark.shape_group is not None or mark.minimum is not None or mark.maximum is not None
        for mark in marks
    )


# Writing


def prescription_file(
    rendering: Rendering, target_torch: str, trial: Trial, measured: int | None = None
) -> str:
    """Return a prescription as a file that explains itself.

    ``measured`` is how many recompiles a rerun left.
    """
    lines = _file_lines(rendering, target_torch, trial, measured)
    return "".join(f"{line}\n" for line in lines)


def _file_lines(
    rendering: Rendering, target_torch: str, trial: Trial, measured: int | None
) -> list[str]:
    prescription = rendering.prescription
    after = prescription.estimated_recompiles_after
    left = "unknown" if after is None else f"{after} (estimated)"
    if measured is not None:
        left = f"{measured} (measured)"
    lines = [
        f"# {_comment(prescription.title)}",
        f"# Recompiles left: {left}. Status: {prescription.status.value}.",
        "# Apply it without touching the program:",
        "#     recompile-doctor run --prescription THIS_FILE train.py",
        f"prescription_version: {PRESCRIPTION_VERSION}",
        f"id: {_scalar(prescription.id)}",
        f"target_torch: {_scalar(target_torch)}",
    ]
    lines += [f"# risk: {_comment(risk)}" for risk in prescription.risks]
    if trial.marks:
        lines += ["", "# Set on the arguments of a function just before torch compiles it."]
        lines.append("marks:")
        for mark in trial.marks:
            lines += _mark_lines(mark)
    if trial.environment:
        lines += ["", "# Variables of the program's environment; lists are added to its own."]
        lines.append("environment:")
        lines += [f"  {name}: {_quoted(value)}" for name, value in trial.environment.items()]
    if trial.config:
        lines += ["", "# Settings that torch takes from no variable; set when torch is imported."]
        lines.append("config:")
        lines += [f"  {flag.name}: {_scalar(flag.value)}" for flag in trial.config]
    return lines


def _mark_lines(mark: Mark) -> list[str]:
    values: list[tuple[str, Any]] = [("dim", mark.dim), ("kind", mark.kind.value)]
    options = (
        ("shape_group", mark.shape_group),
        ("min", mark.minimum),
        ("max", mark.maximum),
        ("hint", mark.hint),
    )
    values += [(name, value) for name, value in options if value is not None]
    lines = [f"  - source: {_quoted(mark.source)}  # in {_comment(frame_words(mark.frame))}"]
    lines += [f"    {name}: {_scalar(value)}" for name, value in values]
    frame = mark.frame
    if frame is not None:
        parts = (("function", frame.function), ("file", frame.file), ("line", frame.line))
        inside = ", ".join(
            f"{name}: {_scalar(value)}" for name, value in parts if value is not None
        )
        lines.append(f"    frame: {{{inside}}}")
    return lines


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*\Z")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = str(value)
    return text if _PLAIN.match(text) and text.lower() not in _WORDS else _quoted(text)


def _quoted(text: str) -> str:
    dumped: str = yaml.safe_dump(text, default_style='"', allow_unicode=True, width=1_000_000)
    return dumped.rstrip("\n")


def _comment(text: str) -> str:
    return "".join(each if each.isprintable() else " " for each in text)


# Reading


def read_prescription(path: Path) -> Trial:
    """Return what a prescription file asks for.

    Raises DoctorError, with the line, for what is no prescription: an unknown or repeated key, a
    value of another type, a source that a call cannot reach.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST).decode("utf-8")
        if len(text) >= _LARGEST:
            raise ValueError("it is too large")
    except (OSError, ValueError) as error:
        raise DoctorError(
            f"The prescription {path} cannot be read: {error}.",
            slug="bad-prescription",
            hint="Make one with `recompile-doctor suggest --format yaml --output FILE`.",
        ) from error
    return _Reader(path).read(text)


_T = TypeVar("_T")
_LARGEST = 1 << 20
_LONGEST = 1 << 16  # the system takes 128 KiB for one variable
_LARGEST_NUMBER = 2**62
# PyYAML lets through what its constructors raise: `!!bool x` is a KeyError, `!!int ""` an
# IndexError, `!!timestamp x` an AttributeError.
_RAISED_BY_YAML = (ValueError, LookupError, AttributeError, TypeError, ArithmeticError)


def _is_encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair, written as \ud800
        return False
    return True


class _Reader:
    """Reads one file; knows its name for messages."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self, text: str) -> Trial:
        """Return the content of the file."""
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            mark = getattr(error, "problem_mark", None)
            line = 1 if mark is None else mark.line + 1
            self._fail(line, f"it is no YAML ({str(error).splitlines()[0]})")
        if root is None:
            self._fail(1, "it is empty")
        fields = self._mapping(
            root, ("prescription_version", "id", "target_torch", "marks", "environment", "config")
        )
        if "prescription_version" not in fields:
            self._fail(1, "prescription_version is missing")
        version = self._int(fields["prescription_version"])
        if version != PRESCRIPTION_VERSION:
            self._fail(
                _line(fields["prescription_version"]),
                f"prescription_version is {version}, and this recompile-doctor reads "
                f"{PRESCRIPTION_VERSION}",
            )
        return Trial(
            id=self._optional(fields, "id", self._text) or self._path.stem,
            marks=tuple(map(self._mark, self._items(fields.get("marks")))),
            environment=dict(self._environment(fields.get("environment"))),
            config=tuple(self._config(fields.get("config"))),
            target_torch=self._optional(fields, "target_torch", self._text),
        )

    def _mark(self, node: yaml.Node) -> Mark:
        names = ("source", "dim", "kind", "shape_group", "min", "max", "hint", "frame")
        fields = self._mapping(node, names)
        for name in ("source", "dim", "kind"):
            if name not in fields:
                self._fail(_line(node), f"a mark needs {name}")
        kind = self._text(fields["kind"])
        if kind not in [each.value for each in MarkKind]:
            known = ", ".join(each.value for each in MarkKind)
            self._fail(_line(fields["kind"]), f"kind is {kind!r}, and not one of {known}")
        mark = Mark(
            source=self._text(fields["source"]),
            dim=self._number(fields["dim"]),
            kind=MarkKind(kind),
            shape_group=self._optional(fields, "shape_group", self._text),
            minimum=self._optional(fields, "min", self._number),
            maximum=self._optional(fields, "max", self._number),
            hint=self._optional(fields, "hint", self._number),
            frame=self._frame(fields.get("frame")),
        )
        lowest, highest = mark.minimum, mark.maximum
        if lowest is not None and highest is not None and lowest > highest:
            self._fail(_line(fields["min"]), f"min {lowest} is above max {highest}")
        if reach_of(mark) is not Reach.CODE:
            self._fail(
                _line(fields["source"]),
                f"{mark.source} is no argument of a function: put it under environment, in a list",
            )
        if mark.kind is not MarkKind.UNBACKED:
            for name in ("shape_group", "min", "max", "hint"):
                if name in fields:
                    self._fail(_line(fields[name]), f"{name} is for unbacked marks only")
        return mark

    def _frame(self, node: yaml.Node | None) -> FrameKey | None:
        if node is None:
            return None
        fields = self._mapping(node, ("function", "file", "line"))
        return FrameKey(
            self._optional(fields, "function", self._text),
            self._optional(fields, "file", self._text),
            self._optional(fields, "line", self._number),
        )

    def _environment(self, node: yaml.Node | None) -> list[tuple[str, str]]:
        known = (*_LISTS, *FLAG_VARIABLES.values())
        if node is None:
            return []
        fields = self._mapping(node, known)
        for value in fields.values():
            if "\0" in self._text(value):
                self._fail(_line(value), "no variable can have a NUL in it")
        return [(name, self._text(value)) for name, value in fields.items()]

    def _config(self, node: yaml.Node | None) -> list[Flag]:
        if node is None:
            return []
        flags = []
        for key, value in self._pairs(node):
            name = self._text(key)
            if not _SETTING.match(name):
                self._fail(
                    _line(key), f"{name!r} is no setting of torch, as torch._dynamo.config.X"
                )
            flags.append(Flag(name, self._setting(value)))
        return flags

    def _setting(self, node: yaml.Node) -> bool | int | str:
        value = self._value(node)
        if isinstance(value, int) and abs(value) >= _LARGEST_NUMBER:
            self._fail(_line(node), "the number is too large")
        if isinstance(value, str):
            return self._text(node)
        if isinstance(value, int):
            return value
        self._fail(_line(node), "a setting is true, false, a number or a text")

    def _mapping(self, node: yaml.Node, known: tuple[str, ...]) -> dict[str, yaml.Node]:
        fields: dict[str, yaml.Node] = {}
        for key, value in self._pairs(node):
            name = self._text(key)
            if name not in known:
                self._fail(_line(key), f"{name!r} is not known here; known are {', '.join(known)}")
            if name in fields:
                self._fail(_line(key), f"{name!r} stands there twice")
            fields[name] = value
        return fields

    def _pairs(self, node: yaml.Node) -> list[tuple[yaml.Node, yaml.Node]]:
        if not isinstance(node, yaml.MappingNode):
            self._fail(_line(node), "keys and values are expected here")
        return list(node.value)

    def _items(self, node: yaml.Node | None) -> list[yaml.Node]:
        if node is None:
            return []
        if not isinstance(node, yaml.SequenceNode):
            self._fail(_line(node), "a list is expected here")
        return list(node.value)

    def _optional(
        self, fields: Mapping[str, yaml.Node], name: str, read: Callable[[yaml.Node], _T]
    ) -> _T | None:
        return read(fields[name]) if name in fields else None

    def _text(self, node: yaml.Node) -> str:
        value = self._value(node)
        if not isinstance(value, str):
            self._fail(_line(node), "a text is expected here; write it in quotes")
        if len(value) > _LONGEST or not _is_encodable(value):
            self._fail(_line(node), "the text is too long, or has half of a character")
        return value

    def _int(self, node: yaml.Node) -> int:
        value = self._value(node)
        if isinstance(value, bool) or not isinstance(value, int):
            self._fail(_line(node), "a whole number is expected here")
        if abs(value) >= _LARGEST_NUMBER:
            self._fail(_line(node), "the number is too large")
        return value

    def _number(self, node: yaml.Node) -> int:
        value = self._int(node)
        if value < 0:
            self._fail(_line(node), "a number of 0 or more is expected here")
        return value

    def _value(self, node: yaml.Node) -> Any:
        if not isinstance(node, yaml.ScalarNode):
            self._fail(_line(node), "one value is expected here")
        loader = yaml.SafeLoader("")
        try:
            return loader.construct_object(node)
        except (yaml.YAMLError, *_RAISED_BY_YAML) as error:
            said = str(error).splitlines()
            self._fail(_line(node), said[0] if said else "the value cannot be read")
        finally:
            loader.dispose()

    def _fail(self, line: int, what: str) -> NoReturn:
        raise DoctorError(
            f"{self._path}:{line}: {what}.",
            slug="bad-prescription",
            hint="docs/prescriptions.md describes the file.",
        )


_SETTING = re.compile(r"torch(?:\.\w+)+\Z")


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def prescription_of(path: Path) -> tuple[Prescription, Trial]:
    """Return what a prescription file asks for, also as a prescription; its lists have no marks."""
    trial = read_prescription(path)
    return Prescription(trial.id, f"the file {path.name}", trial.marks, trial.config), trial


# Applying


def content_name(path: Path) -> str:
    """Return what the manifest says of a prescription file: its path, and a hash of its content."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return f"{path} (sha256 {digest[:16]})"


def content_of(trial: Trial) -> str:
    """Return all that a run under ``trial`` has applied as JSON; not its name."""
    return json.dumps(_content(trial), sort_keys=True)


def _content(trial: Trial) -> dict[str, Any]:
    return {
        "marks": [_probe_mark(mark) for mark in trial.marks],
        "environment": dict(trial.environment),
        "config": {flag.name: flag.value for flag in trial.config},
    }


def prepare(trial: Trial, bundle: Bundle, base: Mapping[str, str]) -> dict[str, str]:
    """Leave in ``bundle`` what the probe is to do; return the variables for the program.

    A list that the user has set already is added to, never replaced.
    """
    variables = dict(trial.environment)
    for name in _LISTS:
        if name in variables and base.get(name):
            variables[name] = f"{base[name]},{variables[name]}"
    if trial.marks or trial.config:
        path = bundle.path / FILE_NAME
        content = _content(trial)
        del content["environment"]
        try:
            path.write_text(json.dumps(content, indent=1), encoding="utf-8")
        except OSError as error:
            raise DoctorError(
                f"{path} cannot be written: {error.strerror or error}.",
                slug="bundle-not-writable",
                hint="Free some space, or start the run in a folder that you may write to.",
            ) from error
        variables[VARIABLE] = str(path)
    return variables


def _probe_mark(mark: Mark) -> dict[str, Any]:
    source = parse_source(mark.source)
    assert isinstance(source.root, Local)
    path: list[tuple[str, int | str]] = []
    for step in source.steps:
        match step:
            case Attribute(name):
                path.append(("attribute", name))
            case Item(int() | str() as key):
                path.append(("item", key))
            case _:
                raise ValueError(f"no call reaches {mark.source}")
    frame = mark.frame
    return {
        "source": mark.source,
        "root": source.root.name,
        "path": path,
        "dim": mark.dim,
        "kind": mark.kind.value,
        "shape_group": mark.shape_group,
        "min": mark.minimum,
        "max": mark.maximum,
        "hint": mark.hint,
        "function": None if frame is None else frame.function,
        "file": None if frame is None else frame.file,
        "line": None if frame is None else frame.line,
    }
