"""Settings: `[tool.recompile-doctor]` of pyproject.toml, or recompile-doctor.yaml.

The nearest file upwards from the working folder counts. Command line options win over it. A key
that is not known is an error which names the file and the line, so that a typing mistake does not
silently switch a setting off.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from recompile_doctor.errors import DoctorError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

YAML_NAME = "recompile-doctor.yaml"
TOML_NAME = "pyproject.toml"
TABLE = ("tool", "recompile-doctor")

Keys = tuple[str | int, ...]

_MANY_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Place:
    """Where a setting stands. ``line`` counts from 1."""

    file: Path
    line: int

    def __str__(self) -> str:
        return f"{_shown(self.file)}:{self.line}"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a file of settings says, and where in it each key stands.

    ``spans`` are the first and the last offset of each whole number in ``text``, so that one can
    be changed without touching anything else; for TOML there are none.
    """

    path: Path
    text: str
    content: dict[str, Any]
    lines: Mapping[Keys, int] = field(default_factory=dict)
    spans: Mapping[Keys, tuple[int, int]] = field(default_factory=dict)

    def place(self, keys: Keys) -> Place:
        """Return where a key stands, or the nearest one around it."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return Place(self.path, self.lines.get(keys, 1))

    def problem(self, keys: Keys, what: str, hint: str = "") -> DoctorError:
        """Return an error that says what is wrong with a key."""
        return DoctorError(
            f"{self.place(keys)}: {what}.",
            slug="bad-setting",
            hint=hint or "docs/configuration.md lists the settings.",
        )

    def below(self, key: str) -> "Settings | None":
        """Return the settings of the table ``key``, or None when there is none."""
        if key not in self.content:
            return None
        if not isinstance(self.content[key], dict):
            raise self.problem((key,), f"{key} must be a table of settings")
        return Settings(
            self.path,
            self.text,
            self.content[key],
            {keys[1:]: line for keys, line in self.lines.items() if keys[:1] == (key,)},
            {keys[1:]: span for keys, span in self.spans.items() if keys[:1] == (key,)},
        )

    def check_keys(self, keys: Keys, value: Any, known: Mapping[str, Any]) -> dict[str, Any]:
        """Return ``value``, which must be a table with no other keys than those ``known``."""
        if not isinstance(value, dict):
            raise self.problem(keys, f"{_name(keys)} must be a table, not {_type_name(value)}")
        for key in value:
            if key not in known:
                near = get_close_matches(str(key), known, n=1, cutoff=0.5)
                hint = f"Did you mean {near[0]}?" if near else f"Known are: {', '.join(known)}."
                raise self.problem((*keys, key), f"there is no setting {key!r} here", hint)
        return value


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of a project: defaults of the commands' options, and its budget."""

    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    budget_file: Path | None = None
    budget: Settings | None = None
    path: Path | None = None


_FORMATS = ("terminal", "json", "markdown", "github", "sarif")
# Command: option: its type, or the words that it takes. A test holds it against the commands.
OPTIONS: dict[str, dict[str, type | tuple[str, ...]]] = {
    "run": {
        "format": _FORMATS,
        "fail_on": ("none", "findings"),
        "python": str,
        "use_caches": bool,
        "no_probe": bool,
        "tlparse": bool,
        "quiet": bool,
        "check": bool,
    },
    "analyze": {
        "format": _FORMATS,
        "fail_on": ("none", "findings"),
        "tlparse": bool,
    },
    "diff": {
        "format": ("terminal", "json", "markdown"),
        "fail_on": ("none", "worse"),
    },
    "check": {
        "format": (*_FORMATS, "junit"),
        "baseline": str,
    },
}
_OTHER_KEYS = ("budget", "budget_file")


def find_config(start: Path) -> Config:
    """Return the settings that hold in the folder ``start``; without a file, none are set."""
    for folder in (start.absolute(), *start.absolute().parents):
        settings = _in_folder(folder)
        if settings is not None:
            return _config(settings)
    return Config()


def _in_folder(folder: Path) -> Settings | None:
    path = folder / YAML_NAME
    if path.is_file():
        return read_yaml(path)
    path = folder / TOML_NAME
    if not path.is_file():
        return None
    return _read_toml(path)


def _config(settings: Settings) -> Config:
    known = {**OPTIONS, **dict.fromkeys(_OTHER_KEYS)}
    content = settings.check_keys((), settings.content, known)
    options = {
        command: dict(_options(command, settings, content[command]))
        for command in OPTIONS
        if command in content
    }
    budget_file = content.get("budget_file")
    if budget_file is not None and not isinstance(budget_file, str):
        raise settings.problem(("budget_file",), "budget_file must be the name of a file")
    if budget_file is not None and "budget" in content:
        raise settings.problem(("budget",), "give either budget or budget_file, not both")
    return Config(
        options,
        None if budget_file is None else settings.path.parent / budget_file,
        settings.below("budget"),
        settings.path,
    )


def _options(command: str, settings: Settings, value: Any) -> Iterator[tuple[str, Any]]:
    for key, given in settings.check_keys((command,), value, OPTIONS[command]).items():
        wanted = OPTIONS[command][key]
        if isinstance(wanted, tuple):
            if given not in wanted:
                raise settings.problem((command, key), f"{key} is one of {', '.join(wanted)}")
        elif type(given) is not wanted:
            raise settings.problem(
                (command, key), f"{key} must be {_TYPE_NAMES[wanted]}, not {_type_name(given)}"
            )
        yield key, _from_here(settings.path.parent, given) if key == "baseline" else given


def _from_here(folder: Path, name: str) -> str:
    """Return the file that a setting names, seen from its own folder; else the name of a bundle."""
    return str(folder / name) if (folder / name).exists() else name


_TYPE_NAMES: dict[type, str] = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a table",
    date: "a date",
    datetime: "a time",
    type(None): "empty",
}


def _type_name(value: Any) -> str:
    return _TYPE_NAMES.get(type(value), type(value).__name__)


def _name(keys: Keys) -> str:
    return ".".join(map(str, keys)) or "the file"


def _shown(path: Path) -> str:
    cwd = Path.cwd()
    return str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)


def _read_text(path: Path) -> str:
    try:
        if path.stat().st_size > _MANY_BYTES:
            raise _unreadable(path, "it is too large for a file of settings")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise _unreadable(path, "it is not UTF-8 text") from error


def _unreadable(path: Path, reason: str) -> DoctorError:
    return DoctorError(
        f"{_shown(path)} cannot be read: {reason}.",
        slug="settings-unreadable",
        hint="docs/configuration.md shows a whole file.",
    )


def read_yaml(path: Path) -> Settings:
    """Return the settings of a YAML file. Doubled keys and aliases are errors."""
    return parse_yaml(_read_text(path), path)


def parse_yaml(text: str, path: Path) -> Settings:
    """Return the settings of YAML text; ``path`` is what errors name."""
    try:
        for token in yaml.scan(text, Loader=yaml.SafeLoader):
            if isinstance(token, yaml.AliasToken):
                raise _unreadable(path, f"line {_line(token)} has an alias (*); write it out")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        content = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise _unreadable(path, " ".join(str(error).split())) from error
    settings = Settings(path, text, {} if content is None else content, {}, {})
    lines: dict[Keys, int] = {}
    spans: dict[Keys, tuple[int, int]] = {}
    if node is not None:
        for keys, each in _walk(node, (), settings):
            lines[keys] = each.start_mark.line + 1
            if each.tag == "tag:yaml.org,2002:int":
                spans[keys] = (each.start_mark.index, each.end_mark.index)
    settings = Settings(path, text, settings.content, lines, spans)
    if not isinstance(settings.content, dict):
        raise settings.problem((), "the file must be a table of settings")
    return settings


def _line(token: Any) -> int:
    return int(token.start_mark.line) + 1


def _walk(node: Any, keys: Keys, settings: Settings) -> Iterator[tuple[Keys, Any]]:
    """Yield each value of a YAML document with its keys; the line of a table is its key's."""
    yield keys, node
    if isinstance(node, yaml.SequenceNode):
        for number, each in enumerate(node.value):
            yield from _walk(each, (*keys, number), settings)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                raise DoctorError(
                    f"{Place(settings.path, _line(key))}: {key.value} stands here twice.",
                    slug="bad-setting",
                    hint="Only one of the two would count; remove the other.",
                )
            seen.add(key.value)
            below = (*keys, key.value)
            for inner, each in _walk(value, below, settings):
                yield inner, key if inner == below and not _is_scalar(each) else each


def _is_scalar(node: Any) -> bool:
    return isinstance(node, yaml.ScalarNode)


def _read_toml(path: Path) -> Settings | None:
    """Return the tool's own table of a pyproject.toml, or None when it has none."""
    text = _read_text(path)
    if TABLE[1] not in text:  # someone else's broken file is not ours to complain about
        return None
    try:
        content: Any = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _unreadable(path, str(error)) from error
    for key in TABLE:
        content = content.get(key) if isinstance(content, dict) else None
    if content is None:
        return None
    lines = {
        keys[len(TABLE) :]: line for keys, line in _toml_lines(text) if keys[: len(TABLE)] == TABLE
    }
    return Settings(path, text, content, lines)


_TOML_HEADER = re.compile(r"\s*(?P<list>\[)?\[(?P<keys>[^\]\[]+)\]")
_TOML_KEY = re.compile(
    r"\s*(?P<keys>(?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"|'[^']*'))*)\s*="
)
_TOML_PART = re.compile(r"[\w-]+|\"[^\"]*\"|'[^']*'")


def _toml_lines(text: str) -> Iterator[tuple[Keys, int]]:
    """Yield the keys of TOML text with their lines, as far as they begin one.

    Only for messages: a line inside of a long string that looks like a key does no harm.
    """
    table: Keys = ()
    numbers: dict[Keys, int] = {}
    for line, content in enumerate(text.splitlines(), start=1):
        header = _TOML_HEADER.match(content)
        key = _TOML_KEY.match(content)
        if header:
            table = _toml_keys(header["keys"])
            if header["list"]:
                numbers[table] = numbers.get(table, -1) + 1
                table = (*table, numbers[table])
            yield table, line
        elif key:
            yield (*table, *_toml_keys(key["keys"])), line


def _toml_keys(text: str) -> Keys:
    return tuple(part.strip("\"'") for part in _TOML_PART.findall(text))
