"""Marks and flags as environment variables: escaped for torch, and quoted for each shell.

Torch takes a list as follows (torch/_dynamo/variables/builder.py): spaces are removed, it is split
at commas, ``:N`` at the end of an entry is a dimension, and an entry hits a source that it equals
or that it matches as a regular expression, anchored at the start only. An entry that is no valid
regular expression makes every compile of the program raise an error.
"""

import re
import shlex
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import yaml

from recompile_doctor.events.vocabulary import MarkKind
from recompile_doctor.model.source import parse_source
from recompile_doctor.prescription.marks import Flag, Mark
from recompile_doctor.prescription.observed import ALL_MEMBERS, is_module_tensor
from recompile_doctor.torch_compat import TorchFeatures

DYNAMIC = "TORCH_COMPILE_DYNAMIC_SOURCES"
UNBACKED = "TORCH_COMPILE_UNBACKED_SOURCES"
STATIC = "TORCH_COMPILE_STATIC_SOURCES"

# The config settings that torch reads from the environment (torch/_dynamo/config.py), all
# releases; value "1".
FLAG_VARIABLES = {
    "torch._dynamo.config.capture_scalar_outputs": "TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS",
    "torch._dynamo.config.capture_dynamic_output_shape_ops": (
        "TORCHDYNAMO_CAPTURE_DYNAMIC_OUTPUT_SHAPE_OPS"
    ),
}
# What makes a parameter more than a constant; the second is for those of torch's own modules.
FREE_PARAMETERS = (
    Flag("torch._dynamo.config.force_parameter_static_shapes", False),
    Flag("torch._dynamo.config.force_nn_module_property_static_shapes", False),
)


@dataclass(frozen=True, slots=True)
class Refused:
    """A mark that the environment of this torch cannot express, and why."""

    mark: Mark
    why: str


@dataclass(frozen=True, slots=True)
class Environment:
    """Variables to set, in order, and what they cannot say.

    ``code_flags`` are settings without a variable: they need a line in the program. ``warnings``
    say what the variables do beyond the marks.
    """

    variables: Mapping[str, str]
    refused: tuple[Refused, ...] = ()
    code_flags: tuple[Flag, ...] = ()
    warnings: tuple[str, ...] = ()


class Shell(Enum):
    """The forms in which variables can be written."""

    SH = "sh"
    FISH = "fish"
    POWERSHELL = "powershell"
    ENV = "env"
    YAML = "yaml"


def environment_for(
    marks: Sequence[Mark],
    flags: Sequence[Flag],
    features: TorchFeatures,
    sources: Iterable[str] = (),
) -> Environment:
    """Return the variables that say ``marks`` and ``flags`` to the torch of ``features``.

    ``sources`` are all sources seen in the run: an entry is written so that it hits none of them
    but its own.
    """
    writer = _Writer(features, frozenset(sources) | {mark.source for mark in marks}, tuple(flags))
    for mark in _merged(marks, writer):
        writer.add(mark)
    variables = {name: ",".join(entries) for name, entries in writer.lists.items() if entries}
    code_flags = []
    for flag in flags:
        variable = FLAG_VARIABLES.get(flag.name)
        if variable is None or flag.value is not True:
            code_flags.append(flag)
        else:
            variables[variable] = "1"
    return Environment(
        variables, tuple(writer.refused), tuple(code_flags), tuple(dict.fromkeys(writer.warnings))
    )


def _merged(marks: Sequence[Mark], writer: "_Writer") -> list[Mark]:
    """Return one mark for each source and dimension: a list knows no functions.

    Where two functions ask for different kinds the safer one is taken: dynamic never breaks a
    graph.
    """
    merged: dict[tuple[str, int | None], Mark] = {}
    for mark in marks:
        key = (mark.source, mark.dim)
        other = merged.setdefault(key, mark)
        if other.kind is mark.kind:
            continue
        if MarkKind.STATIC in (other.kind, mark.kind):
            static = mark if mark.kind is MarkKind.STATIC else other
            merged[key] = other if static is mark else mark
            writer.refused.append(
                Refused(static, "another function needs the same source to be dynamic")
            )
            continue
        merged[key] = mark if mark.kind is MarkKind.DYNAMIC else other
        writer.warnings.append(
            f"{_shown(mark)} is dynamic here for all functions, though one could have it unbacked"
        )
    return list(merged.values())


class _Writer:
    """Collects the entries of the three lists."""

    def __init__(
        self, features: TorchFeatures, sources: frozenset[str], flags: tuple[Flag, ...]
    ) -> None:
        self.features = features
        self.lists: dict[str, list[str]] = {UNBACKED: [], DYNAMIC: [], STATIC: []}
        self.refused: list[Refused] = []
        self.warnings: list[str] = []
        self._sources = sources
        self._free_parameters = FREE_PARAMETERS[0] in flags

    def add(self, mark: Mark) -> None:
        """Add an entry for a mark, or refuse it."""
        names = self._lists_for(mark)
        why = self._obstacle(mark, names)
        if why is not None:
            self.refused.append(Refused(mark, why))
            return
        entry = self._entry(mark)
        for name in names:
            if entry not in self.lists[name]:
                self.lists[name].append(entry)

    def _lists_for(self, mark: Mark) -> tuple[str, ...]:
        if mark.kind is MarkKind.STATIC:
            return (STATIC,)
        if mark.kind is MarkKind.DYNAMIC:
            return (DYNAMIC,)
        if is_module_tensor(parse_source(mark.source)) and not self._free_parameters:
            both = self.features.parameters_need_both_lists
            return (UNBACKED, DYNAMIC) if both else (DYNAMIC,)
        return (UNBACKED,)

    def _obstacle(self, mark: Mark, names: tuple[str, ...]) -> str | None:
        """Return why this torch cannot take a mark from the environment, or None."""
        features = self.features
        torch = f"torch {features.version[0]}.{features.version[1]}"
        there = {
            DYNAMIC: features.dynamic_sources,
            UNBACKED: features.unbacked_sources,
            STATIC: features.static_sources,
        }
        for name in names:
            if not there[name]:
                return f"{torch} has no {name}"
        if features.source_patterns:
            return None
        if mark.source.endswith(ALL_MEMBERS):
            return f"{torch} takes exact names only"
        if " " in mark.source or "," in mark.source:
            return f"{torch} takes exact names only, without spaces and commas"
        return None

    def _entry(self, mark: Mark) -> str:
        name = (
            entry_for(mark.source, self._sources) if self.features.source_patterns else mark.source
        )
        if mark.dim is None:
            return name
        if self.features.source_dims:
            return f"{name}:{mark.dim}"
        self.warnings.append(
            f"torch {self.features.version[0]}.{self.features.version[1]} takes no dimension in "
            f"its lists: all dimensions of {mark.source} become {mark.kind.value}"
        )
        return name


def idle_entries(variables: Mapping[str, str], sources: Iterable[str]) -> tuple[str, ...]:
    """Return the entries of lists that hit none of ``sources``, as torch would match them.

    torch says nothing of such an entry: a bare name, a wrong one, an unescaped pattern.
    """
    known = tuple(sources)
    found = []
    for name in (UNBACKED, DYNAMIC, STATIC):
        for entry in variables.get(name, "").replace(" ", "").split(","):
            pattern = _ENDS_AS_DIMENSION.sub("", entry)
            if pattern and not any(_hits(pattern, source) for source in known):
                found.append(f"{entry} in {name}")
    return tuple(dict.fromkeys(found))


def _hits(pattern: str, source: str) -> bool:
    """Return whether an entry hits a source; what is no pattern is no miss: it ends the program."""
    if pattern == source:
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.match(pattern, source) is not None
    except (re.error, RecursionError, OverflowError):
        return True


def entry_for(source: str, others: Iterable[str] = ()) -> str:
    """Return the list entry that hits exactly ``source``: its plain name where that is safe.

    A source that stands for all members of a container hits all of them, and nothing else.
    """
    if source.endswith(ALL_MEMBERS):
        return _escaped_text(source.removesuffix(ALL_MEMBERS)) + r"\[.*\]\Z"
    if _plain_is_safe(source, others):
        return source
    return escaped_entry(source)


def _plain_is_safe(source: str, others: Iterable[str]) -> bool:
    if " " in source or "," in source or _ENDS_AS_DIMENSION.search(source):
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # "possible nested set": torch would print it
            pattern = re.compile(source)
    except (re.error, RecursionError, OverflowError, Warning):
        return False
    return not any(pattern.match(each) for each in others if each != source)


_ENDS_AS_DIMENSION = re.compile(r":\d+$")


def escaped_entry(source: str) -> str:
    r"""Return a regular expression that matches ``source`` alone: ``L\['a\x2cb'\]\Z``."""
    return _escaped_text(source) + r"\Z"


def _escaped_text(text: str) -> str:
    return "".join(_escaped(character) for character in text)


def _escaped(character: str) -> str:
    if character.isascii() and (character.isalnum() or character == "_"):
        return character
    if character == "," or not character.isprintable() or character == " ":
        return _by_number(ord(character))
    return f"\\{character}" if character.isascii() else character


def _by_number(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _shown(mark: Mark) -> str:
    return mark.source if mark.dim is None else f"dimension {mark.dim} of {mark.source}"


def lines_for(variables: Mapping[str, str], shell: Shell) -> Iterator[str]:
    """Yield the lines that set ``variables`` in a shell or a file."""
    for name, value in variables.items():
        match shell:
            case Shell.SH:
                yield f"export {name}={quoted_for_sh(value)}"
            case Shell.FISH:
                yield f"set -gx {name} {quoted_for_fish(value)}"
            case Shell.POWERSHELL:
                yield f"$env:{name} = {quoted_for_powershell(value)}"
            case Shell.ENV:
                yield f"{name}={quoted_for_env_file(value)}"
            case Shell.YAML:
                text: str = yaml.safe_dump(
                    {name: value}, allow_unicode=True, width=1_000_000, default_style=None
                )
                yield text.rstrip("\n")


# In double quotes none of these does anything in sh, in fish, or in an .env file.
_PLAIN_IN_DOUBLE_QUOTES = re.compile(r"[^\"$`\\!\n\r\0]*\Z")


def quoted_for_sh(value: str) -> str:
    """Return ``value`` as a word of sh, bash or zsh; in double quotes where that is the same."""
    return f'"{value}"' if _PLAIN_IN_DOUBLE_QUOTES.match(value) else shlex.quote(value)


def quoted_for_fish(value: str) -> str:
    """Return ``value`` as a word of fish, where only backslash and quote are special in quotes."""
    if _PLAIN_IN_DOUBLE_QUOTES.match(value):
        return f'"{value}"'
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quoted_for_powershell(value: str) -> str:
    """Return ``value`` as a literal string of PowerShell.

    PowerShell takes the typographic quotes for ``'`` as well.
    """
    return "'" + re.sub("(['\u2018\u2019\u201a\u201b])", r"\1\1", value) + "'"


def quoted_for_env_file(value: str) -> str:
    """Return ``value`` for an .env file as python-dotenv reads it."""
    if _PLAIN_IN_DOUBLE_QUOTES.match(value):
        return f'"{value}"'
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
