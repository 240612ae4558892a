"""Sources: where in the program's inputs a value comes from, as torch names it.

Torch writes a source in full in its logs of symbols (``L['self'].layers[0]``), but shortens it in
recompile reasons since 2.7: there ``L['x']`` is ``x`` and ``G['T']`` stays. The short form is not
always reversible, since torch replaces every ``L['name']`` it finds in the text: an attribute
``self.L['k']`` becomes ``self.k``, and a key that spells ``L['x']`` loses its brackets too. Take
a source from a log in full form where there is one.
"""

import re
from dataclasses import dataclass
from typing import TypeAlias

from recompile_doctor.model.literal import (
    end_of_balanced,
    end_of_string,
    integer_value,
    string_value,
)

MAX_LENGTH = 20_000
MAX_DEPTH = 40

# The functions by which torch/_dynamo/source.py makes one source of another: each
# `_name_template` of the form "function({0}, ...)".
SOURCE_FUNCTIONS = frozenset(
    {
        "___as_tensor",
        "___dataclass_fields",
        "___from_numpy",
        "___list_reverseiterator_backing_list",
        "___namedtuple_fields",
        "___odict_getitem",
        "___set_getitem",
        "___tuple_iterator_getitem",
        "___unwrap_async_collective_tensor",
        "cast_symbool_to_symint_guardless",
        "dict",
        "dict.__getitem__",
        "dict.keys",
        "getattr",
        "list",
        "list.__getitem__",
        "object.__getattribute__",
        "type",
    }
)

# Roots that are no variable: ImportSource, TorchFunctionModeStackSource, CurrentStreamSource.
_OTHER_ROOTS = frozenset(
    {"__import__", "___get_current_stream", "___get_torch_function_mode_stack_at"}
)

_NAME = re.compile(r"[^\W\d]\w*")
_DOTTED_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_HIDDEN_NAME = re.compile(r"\.\d+")  # the iterator argument of a comprehension
_RESUME_STACK = re.compile(r"___stack\d+\Z")
# strip_local_scope in torch/_dynamo/guards.py
_LOCAL_SCOPE = re.compile(r"L\[\s*['\"](.*?)['\"]\s*\]")
_NOT_NAMES = frozenset({"and", "or", "not", "in", "is", "if", "else", "None", "True", "False"})


@dataclass(frozen=True, slots=True)
class Local:
    """A local variable or argument of the frame: ``L['x']``."""

    name: str

    def __str__(self) -> str:
        return f"L[{self.name!r}]"


@dataclass(frozen=True, slots=True)
class Global:
    """A global of the frame's module: ``G['T']``."""

    name: str

    def __str__(self) -> str:
        return f"G[{self.name!r}]"


@dataclass(frozen=True, slots=True)
class Applied:
    """What a function makes of another source: ``___from_numpy(L['x'])``, ``type(L['o'])``."""

    function: str
    source: "Source"
    arguments: tuple["Key", ...] = ()

    def __str__(self) -> str:
        arguments = "".join(f", {_key_text(each)}" for each in self.arguments)
        return f"{self.function}({self.source}{arguments})"


@dataclass(frozen=True, slots=True)
class Other:
    """A root in torch's words: not a variable (``__import__('os')``), or not understood."""

    text: str

    def __str__(self) -> str:
        return self.text


Root: TypeAlias = Local | Global | Applied | Other


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A key that is neither a string nor an int, in torch's words: ``True``, ``(1, 2)``."""

    text: str


Key: TypeAlias = "int | str | Verbatim | Source"


@dataclass(frozen=True, slots=True)
class Attribute:
    """The step ``.name``."""

    name: str


@dataclass(frozen=True, slots=True)
class Item:
    """The step ``[key]``. The key is a source where torch goes by position in a dict."""

    key: "Key"


@dataclass(frozen=True, slots=True)
class Called:
    """The step ``()``, with the arguments in torch's words."""

    arguments: str = ""


Step: TypeAlias = Attribute | Item | Called


@dataclass(frozen=True, slots=True)
class Source:
    """A path from a root of the frame to a value; ``str()`` gives torch's full name of it."""

    root: Root
    steps: tuple[Step, ...] = ()

    def __str__(self) -> str:
        text = str(self.root)
        for step in self.steps:
            match step:
                case Attribute(name):
                    # AttrSource._name_template
                    text = f"{text}.{name}" if name.isidentifier() else f"getattr({text}, {name!r})"
                case Item(key):
                    text = f"{text}[{_key_text(key)}]"
                case Called(arguments):
                    text = f"{text}({arguments})"
        return text

    @property
    def short(self) -> str:
        """Return the name as recompile reasons show it since 2.7: ``x`` for ``L['x']``."""
        return strip_local_scope(str(self))

    @property
    def is_known(self) -> bool:
        """Return whether the path begins at a variable."""
        match self.root:
            case Other():
                return False
            case Applied(source=source):
                return source.is_known
            case Local() | Global():
                return True

    @property
    def root_name(self) -> str | None:
        """Return the name of the local or global variable that the path begins at."""
        match self.root:
            case Local(name) | Global(name):
                return name
            case Applied(source=source):
                return source.root_name
            case Other():
                return None

    @property
    def is_global(self) -> bool:
        """Return whether the path begins at a global variable."""
        match self.root:
            case Global():
                return True
            case Applied(source=source):
                return source.is_global
            case Local() | Other():
                return False

    @property
    def is_resume_stack(self) -> bool:
        """Return whether it hangs on a stack value that a resume function was handed."""
        name = self.root_name
        return not self.is_global and name is not None and _RESUME_STACK.match(name) is not None

    @property
    def is_parameter(self) -> bool:
        """Return whether it is an entry of a module's ``_parameters``."""
        return self._is_entry_of("_parameters")

    @property
    def is_buffer(self) -> bool:
        """Return whether it is an entry of a module's ``_buffers``."""
        return self._is_entry_of("_buffers")

    @property
    def is_module_attribute(self) -> bool:
        """Return whether it looks like a plain attribute of a module.

        A guess from the path, which shows no types: an attribute below ``_modules[...]``, or a
        direct attribute of ``self``.
        """
        if not self.steps or not isinstance(self.steps[-1], Attribute):
            return False
        if self.steps[-1].name.startswith("_"):
            return False
        return any(step == Attribute("_modules") for step in self.steps) or (
            len(self.steps) == 1 and self.root == Local("self")
        )

    @property
    def is_view_base(self) -> bool:
        """Return whether it is the tensor that another one is a view of (``._base``)."""
        return bool(self.steps) and self.steps[-1] == Attribute("_base")

    def parent(self) -> "Source | None":
        """Return the source that this one is a part of, or None when it is a root."""
        if self.steps:
            return Source(self.root, self.steps[:-1])
        match self.root:
            case Applied(source=source):
                return source
            case Local() | Global() | Other():
                return None

    def _is_entry_of(self, name: str) -> bool:
        match self.steps:
            case (*_, Attribute(attribute), Item()):
                return attribute == name
            case _:
                return False


@dataclass(frozen=True, slots=True)
class SizeSource:
    """One size of a tensor: ``L['x'].size()[0]``."""

    source: Source
    dim: int

    def __str__(self) -> str:
        return f"{self.source}.size()[{self.dim}]"


@dataclass(frozen=True, slots=True)
class StrideSource:
    """One stride of a tensor, in elements: ``L['x'].stride()[0]``."""

    source: Source
    dim: int

    def __str__(self) -> str:
        return f"{self.source}.stride()[{self.dim}]"


@dataclass(frozen=True, slots=True)
class StorageOffset:
    """Where a tensor begins in its storage, in elements: ``L['x'].storage_offset()``."""

    source: Source

    def __str__(self) -> str:
        return f"{self.source}.storage_offset()"


Leaf: TypeAlias = SizeSource | StrideSource | StorageOffset | Source


def parse_source(text: str, *, stripped: bool | None = False) -> Source:
    """Return the source that ``text`` names; its root is ``Other`` when it names none.

    ``stripped`` tells that torch shortened it (recompile reasons since 2.7); None: find out.
    """
    if len(text) <= MAX_LENGTH:
        for form in (False, True) if stripped is None else (stripped,):
            found = read_source(text, 0, stripped=form)
            if found is not None and found[1] == len(text):
                return found[0]
    return Source(Other(text))


def parse_leaf(text: str, *, stripped: bool | None = False) -> Leaf:
    """Return what ``text`` names: a size, a stride, a storage offset, or any other source."""
    return leaf_of(parse_source(text, stripped=stripped))


def leaf_of(source: Source) -> Leaf:
    """Return the size, stride or storage offset that the last steps of ``source`` ask for."""
    match source.steps:
        case (*steps, Attribute("size"), Called(""), Item(int(dim))):
            return SizeSource(Source(source.root, tuple(steps)), dim)
        case (*steps, Attribute("stride"), Called(""), Item(int(dim))):
            return StrideSource(Source(source.root, tuple(steps)), dim)
        case (*steps, Attribute("storage_offset"), Called("")):
            return StorageOffset(Source(source.root, tuple(steps)))
        case _:
            return source


def source_of(leaf: Leaf) -> Source:
    """Return the tensor that a size, stride or offset is taken from, or the source itself."""
    match leaf:
        case SizeSource(source=source) | StrideSource(source=source) | StorageOffset(source=source):
            return source
        case Source():
            return leaf


def strip_local_scope(text: str) -> str:
    """Return ``text`` with each ``L['x']`` shortened to ``x``, as torch does since 2.7."""
    return _LOCAL_SCOPE.sub(r"\1", text)


def read_source(
    text: str, start: int, *, stripped: bool, depth: int = 0
) -> tuple[Source, int] | None:
    """Return the longest source that begins at ``start`` and the position behind it, or None."""
    if depth > MAX_DEPTH:
        return None
    rooted = _read_root(text, start, stripped, depth)
    if rooted is None:
        return None
    source, position = rooted
    root, steps = source.root, list(source.steps)
    while True:
        stepped = _read_step(text, position, stripped, depth)
        if stepped is None:
            return Source(root, tuple(steps)), position
        steps.append(stepped[0])
        position = stepped[1]


def _read_root(text: str, start: int, stripped: bool, depth: int) -> tuple[Source, int] | None:
    if text.startswith("L[", start) and not stripped:
        return _read_scope(text, start, Local)
    if text.startswith("G[", start):
        return _read_scope(text, start, Global)

    name = _DOTTED_NAME.match(text, start)
    if name is not None and text.startswith("(", name.end()):
        if name[0] in SOURCE_FUNCTIONS:
            return _read_applied(text, name[0], name.end() + 1, stripped, depth)
        if name[0] in _OTHER_ROOTS:
            end = end_of_balanced(text, name.end() + 1, ")")
            return None if end is None else (Source(Other(text[start : end + 1])), end + 1)
        if "." not in name[0]:
            return None
    if not stripped:
        return None

    first = _NAME.match(text, start) or _HIDDEN_NAME.match(text, start)
    if first is None or first[0] in _NOT_NAMES:
        return None
    return Source(Local(first[0])), first.end()


def _read_scope(
    text: str, start: int, scope: type[Local] | type[Global]
) -> tuple[Source, int] | None:
    opening = start + 2
    if not text.startswith(("'", '"'), opening):
        return None
    end = end_of_string(text, opening)
    if end is None or not text.startswith("]", end):
        return None
    name = string_value(text[opening:end])
    return None if name is None else (Source(scope(name)), end + 1)


def _read_applied(
    text: str, function: str, start: int, stripped: bool, depth: int
) -> tuple[Source, int] | None:
    inner = read_source(text, start, stripped=stripped, depth=depth + 1)
    if inner is None:
        return None
    source, position = inner
    arguments: list[Key] = []
    while text.startswith(", ", position):
        begin = position + 2
        end = end_of_balanced(text, begin, ",)")
        if end is None or end == begin:
            return None
        arguments.append(_key(text[begin:end], stripped, depth))
        position = end
    if not text.startswith(")", position):
        return None

    match function, arguments:
        case "getattr", [str(name)]:
            return Source(source.root, (*source.steps, Attribute(name))), position + 1
        case _:
            return Source(Applied(function, source, tuple(arguments))), position + 1


def _read_step(text: str, start: int, stripped: bool, depth: int) -> tuple[Step, int] | None:
    match text[start : start + 1]:
        case ".":
            name = _NAME.match(text, start + 1)
            return None if name is None else (Attribute(name[0]), name.end())
        case "[":
            end = end_of_balanced(text, start + 1, "]")
            if end is None or end == start + 1:
                return None
            return Item(_key(text[start + 1 : end], stripped, depth)), end + 1
        case "(":
            end = end_of_balanced(text, start + 1, ")")
            return None if end is None else (Called(text[start + 1 : end]), end + 1)
        case _:
            return None


def _key(text: str, stripped: bool, depth: int) -> Key:
    """Return a key as a typed value; a source only in the form in which torch uses one as key."""
    string = string_value(text)
    if string is not None:
        return string
    integer = integer_value(text)
    if integer is not None and text != "-0":
        return integer
    # ConstDictKeySource
    if text.startswith("list(dict.keys("):
        found = read_source(text, 0, stripped=stripped, depth=depth + 1)
        if found is not None and found[1] == len(text):
            return found[0]
    return Verbatim(text)


def _key_text(key: Key) -> str:
    match key:
        case str():
            return repr(key)
        case Verbatim(text):
            return text
        case int() | Source():
            return str(key)
