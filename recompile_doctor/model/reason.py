"""Recompile reasons as typed values: which check of a cached entry failed.

A reason is text, not one grammar: C++ messages of torch/csrc/dynamo/guards.cpp, Python
expressions of torch/_dynamo/guards.py, guards of torch/fx/experimental/symbolic_shapes.py, texts
of exceptions and prose. ``recompiles_verbose`` joins several Python checks with "; ".
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from recompile_doctor.events.vocabulary import StackFrame
from recompile_doctor.model.expression import (
    ComparisonOperator,
    Expression,
    FloatLiteral,
    Group,
    Literal,
    StrLiteral,
    Unparsed,
    iter_sources,
    parse_expression,
    parse_literal,
)
from recompile_doctor.model.guard import ShapeGuard, ShapeGuardKind, Variable, classify
from recompile_doctor.model.literal import end_of_balanced, integer_value
from recompile_doctor.model.source import (
    Applied,
    Attribute,
    Item,
    Leaf,
    SizeSource,
    Source,
    StorageOffset,
    StrideSource,
    leaf_of,
    parse_source,
    read_source,
    source_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """What every failed check has.

    ``text`` is torch's words of this check. ``source`` is what was checked, where torch names
    it. ``user_frame`` is the line that torch shows for it: with its code from 2.10 on, for
    shapes in all versions; the frame can lie in torch's own ``nn`` modules. ``torch_frame`` is
    torch's line that asked. ``hint`` is torch's own advice.
    """

    text: str
    source: Source | None = None
    user_frame: StackFrame | None = None
    torch_frame: StackFrame | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeMismatch(_Check):
    """A size that was compiled as static has changed. Torch names the first such dimension."""

    source: Source
    dim: int
    expected: int
    actual: int
    on_parameter: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StrideMismatch(_Check):
    """A stride, in elements, that was compiled as static has changed."""

    source: Source
    dim: int
    expected: int
    actual: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMismatch(_Check):
    """A tensor has another number of dimensions."""

    source: Source
    expected: int
    actual: int


class TensorProperty(Enum):
    """A property of a tensor other than its sizes and strides."""

    DTYPE = "dtype"
    DEVICE = "device"
    DEVICE_INDEX = "device index"
    REQUIRES_GRAD = "requires_grad"
    LAYOUT = "layout"
    DISPATCH_KEYS = "dispatch key set"
    METADATA = "subclass metadata"
    COPY_ON_WRITE = "copy on write"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorPropertyMismatch(_Check):
    """A property of a tensor has changed. The values are torch's words, None where untold."""

    property: TensorProperty
    expected: str | None = None
    actual: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeGuardFailure(_Check):
    """A guard on symbolic sizes (or on a symbolic int) failed.

    ``zero_one_note`` tells that torch says it is 0/1 specialization; on a merged bound
    (``2 <= x <= 10``) that is said of the lower bound alone, and ``upper_user_frame`` and
    ``upper_torch_frame`` belong to the upper one. ``duck_note``: torch tied two sizes because
    they were equal. ``exclusion_note``: the guard only leaves the sizes of an older entry to it
    (``automatic_dynamic_exclusion_guard``).
    """

    guard: ShapeGuard
    zero_one_note: bool = False
    duck_note: bool = False
    exclusion_note: bool = False
    upper_user_frame: StackFrame | None = None
    upper_torch_frame: StackFrame | None = None

    @property
    def expression(self) -> Expression:
        """Return the guard's expression."""
        return self.guard.expression

    @property
    def kind(self) -> ShapeGuardKind:
        """Return what the guard asks for."""
        return self.guard.kind

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Return what the guard is about, each once."""
        return self.guard.variables

    @property
    def sizes(self) -> tuple[SizeSource, ...]:
        """Return the tensor sizes that the guard is about, each once."""
        return self.guard.sizes


@dataclass(frozen=True, slots=True)
class OtherConstant:
    """A constant that is no literal, in torch's words: ``<Color.RED: 1>``, ``torch.float32``."""

    text: str

    @property
    def is_enum(self) -> bool:
        """Return whether it looks like a member of an Enum."""
        return _ENUM.match(self.text) is not None


ConstantValue: TypeAlias = Literal | OtherConstant


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueMismatch(_Check):
    """A value that was compiled as a constant has changed; torch does not tell the new value.

    ``module_int_hint``: torch says that it is an int attribute of a module.
    """

    expected: ConstantValue
    operator: ComparisonOperator = ComparisonOperator.EQUAL
    module_int_hint: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthMismatch(_Check):
    """A list, tuple, dict, set or iterator has another length."""

    source: Source
    expected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysMismatch(_Check):
    """A container lacks a key, has a new one, or has its keys in another order.

    ``source`` is the container where the check names it, otherwise the missing item.
    """

    source: Source
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeMismatch(_Check):
    """A value has another type, or is or is not None. The types are torch's words."""

    expected: str | None = None
    actual: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityMismatch(_Check):
    """Another object stands where torch guarded on this very one (a function, its code, ...)."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalStateMismatch(_Check):
    """A setting of the process or thread has changed; ``fields`` in torch's words.

    Torch's names of ``GLOBAL_STATE`` (``grad_mode``, ``autocast(cpu)_enabled``, or ``autocast``
    up to 2.8, ``num_threads``, ...), and ours for what torch checks apart:
    ``torch_function_mode_stack``, ``default_device``, ``forward_ad_level``, ``functorch_stack``,
    ``saved_tensors_hooks``, ``current_stream``.
    """

    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendMismatch(_Check):
    """The function was compiled by another backend object; both in torch's words."""

    cached: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasingMismatch(_Check):
    """Arguments are the same object, or share storage, where they did not before, or the reverse.

    ``were_same`` tells what the entry was compiled for: True from ``a is b``, which torch also
    writes of objects that are no tensors; None where torch does not say.
    """

    sources: tuple[Source, ...]
    were_same: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeMissing(_Check):
    """An attribute that was there is missing, or one that was absent is there (``appeared``).

    ``source`` is the object, or the attribute itself where torch names only that, and None for
    a bare exception text. ``'NoneType' object has no attribute 'size'`` comes from a guard on
    the base of a view: the argument is no view any more.
    """

    attribute: str | None
    type_name: str | None = None
    appeared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkingMismatch(_Check):
    """A tensor's marks (``mark_dynamic``, ``mark_unbacked``, ...) are not those compiled for.

    ``attribute`` is where torch keeps the mark, e.g. ``_dynamo_dynamic_indices``. Torch 2.13 and
    later do not name the tensor.
    """

    attribute: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadReference(_Check):
    """The entry was dropped because an object that it was made for has died."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnexpectedRecompilation(_Check):
    """Every guard passed when torch looked for the reason.

    Torch up to 2.9 then writes nothing at all (``text`` is empty), also for another backend
    object; 2.10 and later say which it is.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrecognizedReason(_Check):
    """A text of no known form."""


GuardFailure: TypeAlias = (
    SizeMismatch
    | StrideMismatch
    | RankMismatch
    | TensorPropertyMismatch
    | ShapeGuardFailure
    | ValueMismatch
    | LengthMismatch
    | KeysMismatch
    | TypeMismatch
    | IdentityMismatch
    | GlobalStateMismatch
    | BackendMismatch
    | AliasingMismatch
    | AttributeMissing
    | MarkingMismatch
    | DeadReference
    | UnexpectedRecompilation
    | UnrecognizedReason
)


def parse_reason(text: str, *, stripped: bool | None = None) -> tuple[GuardFailure, ...]:
    """Return the checks that failed, in torch's order; never empty.

    ``text`` is a reason without the entry's id. ``stripped`` tells that torch shortened the
    sources (2.7 and later); None: find out from the text.
    """
    text = text.split("\nUser stack trace:", 1)[0].strip()
    if stripped is None:
        stripped = _LOCAL_SCOPE.search(text) is None
    whole = _parse_message(text, stripped)
    if whole is not None:
        return (whole,)
    return tuple(_parse_check(part, stripped) for part in _split(text))


def strip_object_ids(text: str) -> str:
    """Return ``text`` without the ids and addresses that differ between two runs."""
    text = _ADDRESS.sub("0xID", text)
    for pattern in _NAMED_IDS:
        text = pattern.sub(r"\1ID", text)
    return _LONG_NUMBER.sub("ID", text)


_LOCAL_SCOPE = re.compile(r"\bL\[\s*['\"]")
_ENUM = re.compile(r"<[^\W\d][\w.]*\.[^\W\d]\w*: .*>\Z", re.DOTALL)

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")
_NAMED_IDS = (
    re.compile(r"(_check_(?:obj_id|type_id|fake_script_type)\([^,]*, )\d+"),
    re.compile(r"(___check_(?:metadata|opaque_guard_fn)_|__dtensor_spec_)\d+"),
    re.compile(r"(___dict_version\(.*?\) == )\d+"),
)
# id() of CPython on 64-bit systems has 12 to 15 digits; torch also puts it into global names.
_LONG_NUMBER = re.compile(r"(?<!\d)\d{12,16}(?!\d)")


# --- Messages that are the whole reason: torch returns a C++ message alone, never joined.


@dataclass(frozen=True, slots=True)
class _Message:
    pattern: re.Pattern[str]
    build: Callable[[re.Match[str], bool], "GuardFailure | None"]


def _parse_message(text: str, stripped: bool) -> GuardFailure | None:
    for message in _MESSAGES:
        match = message.pattern.match(text)
        if match is not None:
            failure = message.build(match, stripped)
            if failure is not None:
                return failure
    return None


def _source(text: str, stripped: bool) -> Source:
    return parse_source(text, stripped=stripped)


def _tensor_numbers(match: re.Match[str], stripped: bool) -> GuardFailure | None:
    numbers = [integer_value(match[name]) for name in ("index", "expected", "actual")]
    source = _source(match["source"], stripped)
    match match["what"], numbers:
        case "size", [int(dim), int(expected), int(actual)]:
            return SizeMismatch(
                text=match[0],
                source=source,
                dim=dim,
                expected=expected,
                actual=actual,
                on_parameter=" on a parameter" in match["rest"],
                hint=match["rest"].removeprefix(". ") or None,
            )
        case "stride", [int(dim), int(expected), int(actual)]:
            return StrideMismatch(
                text=match[0], source=source, dim=dim, expected=expected, actual=actual
            )
        case _:
            return None


def _rank(match: re.Match[str], stripped: bool) -> GuardFailure | None:
    expected, actual = integer_value(match["expected"]), integer_value(match["actual"])
    if expected is None or actual is None:
        return None
    source = _source(match["source"], stripped)
    return RankMismatch(text=match[0], source=source, expected=expected, actual=actual)


def _tensor_property(match: re.Match[str], stripped: bool) -> GuardFailure:
    groups = match.groupdict()
    what, expected, actual = groups["what"], groups["expected"], groups.get("actual")
    kind = {
        "dtype": TensorProperty.DTYPE,
        "Tensor device index": TensorProperty.DEVICE_INDEX,
        "requires_grad": TensorProperty.REQUIRES_GRAD,
    }.get(what)
    return TensorPropertyMismatch(
        text=match[0],
        source=_source(match["source"], stripped),
        property=_dispatch_property(expected, actual or "") if kind is None else kind,
        expected=expected,
        actual=actual,
    )


_LAYOUT_KEY = re.compile(r"(?:SparseCsr|Sparse|Mkldnn|NestedTensor|Quantized)")


def _dispatch_property(expected: str, actual: str) -> TensorProperty:
    """Return what really changed when two dispatch key sets differ.

    TensorCheck::check_verbose compares the key sets before anything else, so a tensor of another
    device or layout shows up as another key set; its first key is the backend's.
    """
    first, second = (
        text.removeprefix("DispatchKeySet(").split(",")[0].rstrip(")")
        for text in (expected, actual)
    )
    if first == second:
        return TensorProperty.DISPATCH_KEYS
    if _LAYOUT_KEY.sub("", first) == _LAYOUT_KEY.sub("", second):
        return TensorProperty.LAYOUT
    return TensorProperty.DEVICE


def _expected_type(match: re.Match[str], stripped: bool) -> GuardFailure:
    return TypeMismatch(
        text=match[0],
        source=_source(match["source"], stripped),
        expected=_class_name(match["expected"]),
        actual=_class_name(match["actual"]),
    )


def _class_name(text: str) -> str:
    """Return ``int`` for ``<class 'int'>``, and other texts as they are."""
    return text.removeprefix("<class '").removesuffix("'>")


def _global_state(match: re.Match[str], stripped: bool) -> GuardFailure:
    return GlobalStateMismatch(text=match[0], fields=tuple(match["fields"].split()))


def _missing_item(match: re.Match[str], stripped: bool) -> GuardFailure:
    source = _source(match["source"], stripped)
    return KeysMismatch(text=match[0], source=source, detail=match["error"])


def _type_mismatch(match: re.Match[str], stripped: bool) -> GuardFailure:
    return TypeMismatch(text=match[0], source=_source(match["source"], stripped))


def _not_a(match: re.Match[str], stripped: bool) -> GuardFailure:
    source = _source(match["source"], stripped)
    if match["what"] == "function":
        return IdentityMismatch(text=match[0], source=source, detail="not a function")
    return TypeMismatch(text=match[0], source=source, expected=match["what"])


def _getattr_failed(match: re.Match[str], stripped: bool) -> GuardFailure:
    source = _source(match["source"], stripped)
    match source.steps:
        case (*_, Attribute(name)):
            return AttributeMissing(text=match[0], source=source, attribute=name)
        case _:
            return AttributeMissing(text=match[0], source=source, attribute=None)


def _attribute_error(match: re.Match[str], stripped: bool) -> GuardFailure:
    return AttributeMissing(text=match[0], attribute=match["name"], type_name=match["type"])


def _marking(match: re.Match[str], stripped: bool) -> GuardFailure:
    return MarkingMismatch(text=match[0], attribute=match["attribute"], detail=match["detail"])


def _duplicates(match: re.Match[str], stripped: bool) -> GuardFailure | None:
    groups = parse_expression(f"[{match['groups']}]")
    if not isinstance(groups, Group):
        return None
    names = [
        item.value
        for group in groups.items
        if isinstance(group, Group)
        for item in group.items
        if isinstance(item, StrLiteral)
    ]
    sources = tuple(_source(name, stripped) for name in names)
    return AliasingMismatch(text=match[0], sources=sources, were_same=False)


def _duplicate_found(match: re.Match[str], stripped: bool) -> GuardFailure:
    source = _source(match["source"], stripped)
    return AliasingMismatch(text=match[0], source=source, sources=(source,), were_same=False)


def _aliasing_unknown(match: re.Match[str], stripped: bool) -> GuardFailure:
    return AliasingMismatch(text=match[0], sources=(), were_same=None)


def _overlapping(match: re.Match[str], stripped: bool) -> GuardFailure:
    # check_overlapping of StorageOverlap: which of the views share memory has changed
    names = _arguments(match["first"]) + _arguments(match["second"])
    sources = tuple(_source(name, stripped) for name in names)
    return AliasingMismatch(text=match[0], sources=sources, were_same=None)


def _backend(match: re.Match[str], stripped: bool) -> GuardFailure:
    return BackendMismatch(
        text=match[0], cached=match["cached"], new=match["new"], hint=match["hint"] or None
    )


def _unexpected(match: re.Match[str], stripped: bool) -> GuardFailure:
    return UnexpectedRecompilation(text=match[0])


def _deallocated(match: re.Match[str], stripped: bool) -> GuardFailure:
    # CheckFunctionManager.invalidate: the name is a source, or "type(source)"
    source = _source(match["object"], stripped)
    return DeadReference(
        text=match[0], source=source if source.is_known else None, detail=match["object"]
    )


def _message(pattern: str, build: Callable[[re.Match[str], bool], GuardFailure | None]) -> _Message:
    return _Message(re.compile(pattern + r"\Z", re.DOTALL), build)


_MESSAGES = (
    # TensorCheck::check_verbose, TENSOR_MATCH::check_verbose_nopybind
    _message(
        r"tensor '(?P<source>.*)' (?P<what>size|stride) mismatch at index (?P<index>\d+)\."
        r" expected (?P<expected>[^,]+), actual (?P<actual>[^,.]+)(?P<rest>(?:\. .*)?)",
        _tensor_numbers,
    ),
    _message(
        r"tensor '(?P<source>.*)' rank mismatch\. expected (?P<expected>\d+),"
        r" actual (?P<actual>\d+)(?:\. .*)?",
        _rank,
    ),
    _message(
        r"tensor '(?P<source>.*)' (?P<what>dtype|dispatch key set) mismatch\."
        r" expected (?P<expected>.*?), actual (?P<actual>[^.]*)(?:\. .*)?",
        _tensor_property,
    ),
    _message(
        r"tensor '(?P<source>.*)' (?P<what>Tensor device index) mismatch\. Expected device index"
        r" to be (?P<expected>-?\d+), actual (?P<actual>-?\d+)(?:\. .*)?",
        _tensor_property,
    ),
    _message(
        r"tensor '(?P<source>.*)' (?P<what>requires_grad) mismatch\."
        r" expected requires_grad=(?P<expected>[01])(?:\. .*)?",
        _tensor_property,
    ),
    # 2.15 names the type; before, the text has an odd quote
    _message(
        r"expected type of '(?P<source>.*)' to be (?P<expected>a tensor type), '"
        r" but found (?P<actual>.*)",
        _expected_type,
    ),
    _message(
        r"expected type of '(?P<source>.*)' to be (?P<expected>.*), but found (?P<actual>.*)",
        _expected_type,
    ),
    # GlobalStateGuard::reason
    _message(r"GLOBAL_STATE changed:(?P<fields>.*)", _global_state),
    # DictGetItemGuardAccessor, ListGetItemGuardAccessor, TupleGetItemGuardAccessor
    _message(r"(?P<error>KeyError|IndexError) on (?P<source>.*)", _missing_item),
    # DictGuardManager
    _message(r"TYPE_MISMATCH\((?P<source>.*)\)", _type_mismatch),
    # FuncDefaultsGuardAccessor, FuncKwDefaultsGuardAccessor, CodeGuardAccessor, ...
    _message(r"(?:\w+: )?Not a (?P<what>function) on (?P<source>.*)", _not_a),
    _message(r"Not a (?P<what>callable|weakref) (?:obj )?(?P<source>.*)", _not_a),
    # GradGuardAccessor
    _message(r"not a (?P<what>tensor) - grad field is accessed (?P<source>.*)", _not_a),
    # GetAttrGuardAccessor
    _message(r"getattr failed on source (?P<source>.*)", _getattr_failed),
    # text of an exception inside a guard; the shape guards read `._base` without a check
    _message(
        r"(?:AttributeError: )?'(?P<type>[^']*)' object has no attribute '(?P<name>[^']*)'",
        _attribute_error,
    ),
    # DIMENSION_DYNAMIC_MARKING_GUARD, 2.12 and later
    _message(
        r"(?P<attribute>_(?:has_)?dynamo_\w+) (?P<detail>(?:is present on runtime tensor|not a"
        r" subset:|mismatch:|should be absent|expected) ?.*)",
        _marking,
    ),
    # recompilation_reason_for_no_tensor_aliasing_guard
    _message(
        r"Duplicate tensors found: (?P<groups>\[.*\])"
        r"(?:; NO_TENSOR_ALIASING guard source\(s\) no longer evaluate: .*)?",
        _duplicates,
    ),
    _message(r"NO_TENSOR_ALIASING guard.*", _aliasing_unknown),
    # NO_TENSOR_ALIASING::check_verbose_nopybind
    _message(
        r"Duplicate tensor found where not expected! (?P<source>.*?) ?should not alias to anything,"
        r" but is aliased.*",
        _duplicate_found,
    ),
    _message(
        r"check_overlapping\(overlapping=\[(?P<first>.*)\], non_overlapping=\[(?P<second>.*)\]\)",
        _overlapping,
    ),
    _message(r"check_no_aliasing\((?P<first>.*)(?P<second>)\)", _overlapping),
    # get_guard_fail_reason_helper, 2.10 and later
    _message(
        r"BACKEND_MATCH failure: .*? Cached backend: (?P<cached>.*)\. New backend: (?P<new>.*)\."
        r"(?: (?P<hint>If this is unexpected.*))?",
        _backend,
    ),
    _message(r"BACKEND_MATCH failure(?P<cached>)(?P<new>)(?P<hint>).*", _backend),
    _message(r"Unexpected recompilation: .*", _unexpected),
    _message(r"", _unexpected),
    _message(r"Cache line invalidated because (?P<object>.*) got deallocated", _deallocated),
)


# --- Checks that are Python expressions, with torch's comment.


@dataclass(frozen=True, slots=True)
class _Comment:
    """What stands behind ``  # `` in a check."""

    user_frame: StackFrame | None = None
    torch_frame: StackFrame | None = None
    note: str | None = None
    upper_user_frame: StackFrame | None = None
    upper_torch_frame: StackFrame | None = None


_ZERO_ONE_NOTE = "due to 0/1 specialization in the framework"
_DUCK_NOTE = "duck sizing added this equality"
_EXCLUSION_NOTE = "exclusion guard for automatic dynamic"
_SHAPE_NOTES = (_DUCK_NOTE, _EXCLUSION_NOTE, "(unknown var ", "(unknown source ")
_MODULE_INT_HINT = "torch.compile considers integer attributes of the nn.Module to be static"
_HINT = re.compile(r"\s+\(HINT: (?P<hint>.*)\)\Z", re.DOTALL)
_COMMENT = "  # "

# What a comment ends with. The code that it quotes may hold "; " as well, so a check ends there
# only behind one of these: format_frame, SLoc.__str__, the notes of produce_guards_verbose.
_COMMENT_END = re.compile(
    r"(?::\d+ in [^\s()]+(?:\)| \((?:[^()]|\([^()]*\))*\))?"
    r"|please file a bug\)|use_duck_shape = False\)"
    r"|NaN specialization in the framework|exclusion guard for automatic dynamic|<unknown>)"
    r"(?: \(HINT: .*\))?\Z",
    re.DOTALL,
)
_COMMENT_END_WINDOW = 2000
_PLACE = re.compile(r"(?P<file>.+):(?P<line>\d{1,9}) in (?P<function>\S+)\Z", re.DOTALL)


def _split(text: str) -> list[str]:
    """Return the checks that torch joined with "; "."""
    parts: list[str] = []
    start = 0
    while (end := _end_of_check(text, start)) is not None:
        parts.append(text[start:end])
        start = end + 2
    parts.append(text[start:])
    return [part for part in parts if part.strip()] or [text]


def _end_of_check(text: str, start: int) -> int | None:
    """Return where the "; " behind the check that begins at ``start`` stands, if there is one."""
    comment = _comment_start(text, start)
    head_end = len(text) if comment is None else comment
    separator = _find_outside(text, start, head_end, "; ")
    if separator is not None:
        return separator
    if comment is None:
        return None
    position = comment
    while (position := text.find("; ", position)) != -1:
        window = text[max(comment, position - _COMMENT_END_WINDOW) : position]
        if _COMMENT_END.search(window) is not None:
            return position
        position += 2
    return None


def _comment_start(text: str, start: int) -> int | None:
    """Return where the comment of a check begins: not inside a string of the check itself."""
    found = _find_outside(text, start, len(text), _COMMENT)
    if found is not None:
        return found
    # a repr with an odd quote, or a bracket that is never closed
    plain = text.find(_COMMENT, start)
    return None if plain == -1 else plain


def _find_outside(text: str, start: int, end: int, wanted: str) -> int | None:
    """Return where ``wanted`` stands outside of strings and brackets, up to ``end``."""
    first = wanted[0]
    position = start
    while True:
        stop = end_of_balanced(text, position, first)
        if stop is None or stop >= end:
            return None
        if text.startswith(wanted, stop):
            return stop
        position = stop + 1


def _parse_check(text: str, stripped: bool) -> GuardFailure:
    text = text.strip()
    body, hint = text, None
    hinted = _HINT.search(text)
    if hinted is not None:
        body, hint = text[: hinted.start()], hinted["hint"]
    start = _comment_start(body, 0)
    head = (body if start is None else body[:start]).strip()
    comment = _Comment() if start is None else _parse_comment(body[start + len(_COMMENT) :])
    failure = _parse_head(text, head, comment, stripped)
    return replace(
        failure,
        user_frame=comment.user_frame,
        torch_frame=comment.torch_frame,
        hint=hint if hint is not None else comment.note,
    )


def _parse_comment(text: str) -> _Comment:
    """Read ``CODE  # FILE:LINE in f (TORCHFILE:LINE in g)`` and the other forms of a comment."""
    text = text.strip()
    if text.startswith(_SHAPE_NOTES):
        return _Comment(note=text)
    joint = text.find(") and ")
    while joint != -1:
        lower = _parse_location(text[: joint + 1])
        upper = _parse_location(text[joint + len(") and ") :])
        if lower is not None and upper is not None and upper.user_frame != upper.torch_frame:
            return replace(
                lower, upper_user_frame=upper.user_frame, upper_torch_frame=upper.torch_frame
            )
        joint = text.find(") and ", joint + 1)
    return _parse_location(text) or _Comment(note=text)


def _parse_location(text: str) -> _Comment | None:
    """Read one ``SLoc`` of torch/_guards.py, or one frame without torch's."""
    place, bracket = text, None
    if text.endswith(")"):
        opening = _opening_bracket(text)
        if opening is not None:
            place, bracket = text[:opening].rstrip(), text[opening + 1 : -1]
    user_frame = _parse_frame(place)
    torch_frame = None if bracket is None else _parse_frame(bracket)
    if user_frame is None and torch_frame is None:
        return None
    if user_frame is None and place:
        return None
    note = bracket if bracket and torch_frame is None else None
    # Guard.stack: torch's own frame stands alone, and without code, when no user frame is known
    if user_frame is not None and bracket is None and user_frame.file.startswith("_dynamo/"):
        return _Comment(torch_frame=user_frame)
    return _Comment(user_frame=user_frame, torch_frame=torch_frame, note=note)


def _opening_bracket(text: str) -> int | None:
    """Return where the bracket opens that the last character closes."""
    depth = 0
    for position in range(len(text) - 1, -1, -1):
        if text[position] == ")":
            depth += 1
        elif text[position] == "(":
            depth -= 1
            if depth == 0:
                return position
    return None


def _parse_frame(text: str) -> StackFrame | None:
    """Read ``CODE  # FILE:LINE in f`` or ``FILE:LINE in f``; the code may hold comments."""
    code, separator, place = text.rpartition(_COMMENT)
    match = _PLACE.match(place)
    if match is None:
        return None
    return StackFrame(
        match["file"], int(match["line"]), match["function"], code.strip() if separator else None
    )


def _parse_head(text: str, head: str, comment: _Comment, stripped: bool) -> GuardFailure:
    """Return the failure that the expression of a check tells."""
    for parse in (_parse_call, _parse_global, _parse_none, _parse_nan):
        failure = parse(text, head, stripped)
        if failure is not None:
            return failure

    note = comment.note or ""
    if comment.torch_frame is None and not note:
        failure = _parse_value(text, head, stripped)
        if failure is not None:
            return failure

    expression = parse_expression(head, stripped=stripped)
    leaves = tuple(iter_sources(expression))
    about_shapes = comment.torch_frame is not None or (
        note.startswith(_SHAPE_NOTES) or _ZERO_ONE_NOTE in note
    )
    if not about_shapes and not any(_is_shape(leaf) for leaf in leaves):
        return UnrecognizedReason(text=text)
    if isinstance(expression, Unparsed) and not about_shapes:
        return UnrecognizedReason(text=text)
    return ShapeGuardFailure(
        text=text,
        source=source_of(leaves[0]) if leaves else None,
        guard=classify(expression),
        zero_one_note=_ZERO_ONE_NOTE in note,
        duck_note=note.startswith(_DUCK_NOTE),
        exclusion_note=note.startswith(_EXCLUSION_NOTE),
        upper_user_frame=comment.upper_user_frame,
        upper_torch_frame=comment.upper_torch_frame,
    )


def _is_shape(leaf: Leaf) -> bool:
    return isinstance(leaf, SizeSource | StrideSource | StorageOffset)


_CALL = re.compile(r"(?P<negated>not )?(?P<function>[\w.]+)\((?P<arguments>.*)\)(?P<rest>.*)", re.S)
_TYPE = re.compile(r", type=(?P<type>.*)", re.DOTALL)
_EQUALS_NUMBER = re.compile(r" == (?P<number>\d+)")
_LENGTH_FUNCTIONS = frozenset(
    {
        "len",
        "set.__len__",
        "frozenset.__len__",
        "___tuple_iterator_len",
        "___list_reverseiterator_len",
    }
)
_MARKS = re.compile(r"_dynamo_\w+|_has_dynamo_\w+")


def _parse_call(text: str, head: str, stripped: bool) -> GuardFailure | None:
    """Read the checks that are a call of one of torch's functions."""
    called = _split_call(head)
    if called is None:
        return None
    negated, function, arguments, rest = called
    match function, arguments, rest:
        case "___check_type_id" | "___check_fake_script_type", [name, _], _:
            kind = _TYPE.match(rest)
            expected = None if kind is None else _class_name(kind["type"])
            return TypeMismatch(text=text, source=_source(name, stripped), expected=expected)
        case "___check_obj_id" | "__check_obj_id", [name, _], _:
            kind = _TYPE.match(rest)
            detail = "object id" if kind is None else _class_name(kind["type"])
            return IdentityMismatch(text=text, source=_source(name, stripped), detail=detail)
        case "hasattr", [name, attribute], _ if (mark := _mark(attribute)) is not None:
            return MarkingMismatch(
                text=text, source=_source(name, stripped), attribute=mark, detail=head
            )
        case "hasattr", [name, attribute], "":
            return AttributeMissing(
                text=text,
                source=_source(name, stripped),
                attribute=_string(attribute),
                appeared=negated,
            )
        case "___dict_contains", [key, name], "":
            source = _source(name, stripped)
            match source.steps:
                # NOT_PRESENT_IN_GENERIC_DICT: the object itself got an attribute of that name
                case (*steps, Attribute("__dict__")):
                    return AttributeMissing(
                        text=text,
                        source=Source(source.root, tuple(steps)),
                        attribute=_string(key),
                        appeared=negated,
                    )
                case _:
                    return KeysMismatch(text=text, source=source, detail=head)
        case "set.__contains__", [name, _], "":
            return KeysMismatch(text=text, source=_source(name, stripped), detail=head)
        case "___dict_version", [name], _:
            return KeysMismatch(text=text, source=_source(name, stripped), detail="dict version")
        case "list", [inner], _ if rest.startswith(" == ["):
            # DICT_KEYS_MATCH list(dict.keys(d)), MAPPING_KEYS_CHECK list(d.keys())
            name = inner.removeprefix("dict.keys(").removesuffix(")")
            name = name if inner.startswith("dict.keys(") else inner.removesuffix(".keys()")
            return KeysMismatch(text=text, source=_source(name, stripped), detail=head)
        case _ if function in _LENGTH_FUNCTIONS and len(arguments) == 1:
            return _length(text, arguments[0], rest, stripped)
        case "___cow_tensor_matches", [name, expected_text], "":
            return TensorPropertyMismatch(
                text=text,
                source=_source(name, stripped),
                property=TensorProperty.COPY_ON_WRITE,
                expected=expected_text,
            )
        case _:
            return None


def _length(text: str, name: str, rest: str, stripped: bool) -> GuardFailure | None:
    """Read ``len(x) == 2`` (LENGTH_CHECK) or ``len(x) != 2``.

    The second is DictGuardManager's message: the length is not the 2 that it should be.
    """
    number = integer_value(rest.removeprefix(" == ").removeprefix(" != "))
    if number is None:
        return None
    return LengthMismatch(text=text, source=_source(name, stripped), expected=number)


def _mark(argument: str) -> str | None:
    name = _string(argument)
    return name if name is not None and _MARKS.fullmatch(name) else None


def _string(text: str) -> str | None:
    literal = parse_literal(text)
    return literal.value if isinstance(literal, StrLiteral) else None


def _split_call(head: str) -> tuple[bool, str, list[str], str] | None:
    """Return whether it is negated, function, arguments, and what follows the call."""
    negated = head.startswith("not ")
    start = len("not ") if negated else 0
    name = _FUNCTION.match(head, start)
    if name is None:
        return None
    end = end_of_balanced(head, name.end(), ")")
    if end is None:
        return None
    return negated, name["function"], _arguments(head[name.end() : end]), head[end + 1 :]


_FUNCTION = re.compile(r"(?P<function>[\w.]+)\(")


def _arguments(text: str) -> list[str]:
    """Return the arguments between the brackets of a call."""
    arguments: list[str] = []
    start = 0
    while (comma := end_of_balanced(text, start, ",")) is not None:
        arguments.append(text[start:comma].strip())
        start = comma + 1
    last = text[start:].strip()
    return [*arguments, last] if last or arguments else []


# What torch checks apart from GLOBAL_STATE: DEFAULT_DEVICE, DUAL_LEVEL, FUNCTORCH_STACK_MATCH,
# AUTOGRAD_SAVED_TENSORS_HOOKS, TORCH_FUNCTION_STATE, GLOBAL_STATE, CURRENT_STREAM_MATCH.
_GLOBAL_CHECKS = (
    ("___check_global_state()", ()),
    ("___check_torch_function_mode_stack()", ("torch_function_mode_stack",)),
    ("utils_device.CURRENT_DEVICE ", ("default_device",)),
    ("___check_current_device()", ("default_device",)),
    ("torch.autograd.forward_ad._current_level ", ("forward_ad_level",)),
    ("torch._functorch.pyfunctorch.compare_functorch_state(", ("functorch_stack",)),
    ("torch._functorch.aot_autograd.utils.top_saved_tensors_hooks ", ("saved_tensors_hooks",)),
)
_CURRENT_STREAM = re.compile(r"(?P<source>.*) [=!]= ___get_current_stream\(.*\)\Z", re.DOTALL)


def _parse_global(text: str, head: str, stripped: bool) -> GuardFailure | None:
    for beginning, fields in _GLOBAL_CHECKS:
        if head.startswith(beginning):
            return GlobalStateMismatch(text=text, fields=fields)
    stream = _CURRENT_STREAM.match(head)
    if stream is not None:
        source = _source(stream["source"], stripped)
        return GlobalStateMismatch(text=text, source=source, fields=("current_stream",))
    return None


_MARKING_EXPRESSION = re.compile(
    r"\(\((?:getattr\()?(?P<source>.*?)(?:\.|, ')(?P<attribute>_dynamo_\w+)\b.* else True\)\Z",
    re.DOTALL,
)
_METADATA = re.compile(r"(?:___check_metadata_|__dtensor_spec_)\d+\w*(?:/\d+\w*)?\Z")
_OPAQUE = re.compile(r"___check_opaque_guard_fn_\d+\w*(?:/\d+\w*)?\Z")
_RAW_KEYS = re.compile(
    r"(?P<source>.*)\.raw_repr\(\) == (?P<expected>.*)\.raw_repr\(\)\Z", re.DOTALL
)


def _parse_none(text: str, head: str, stripped: bool) -> GuardFailure | None:
    """Read ``x is None``, ``a is b``, and the checks that are no comparison with a constant."""
    for operator, expected in ((" is not None", "not None"), (" is None", "None")):
        if head.endswith(operator):
            name = head.removesuffix(operator)
            return TypeMismatch(text=text, source=_source(name, stripped), expected=expected)
    left, operator, right = head.partition(" is ")
    if operator:
        # DUPLICATE_INPUT names the later source first
        pair = _source(left, stripped), _source(right, stripped)
        if all(each.is_known for each in pair):
            return AliasingMismatch(text=text, source=pair[0], sources=pair, were_same=True)

    marking = _MARKING_EXPRESSION.match(head)
    if marking is not None:
        source = _source(marking["source"], stripped)
        return MarkingMismatch(
            text=text, source=source, attribute=marking["attribute"], detail=head
        )
    if _METADATA.match(head):
        return TensorPropertyMismatch(text=text, property=TensorProperty.METADATA)
    if _OPAQUE.match(head):
        return IdentityMismatch(text=text, detail="values of an opaque object")
    keys = _RAW_KEYS.match(head)
    if keys is not None:
        return TensorPropertyMismatch(
            text=text,
            source=_source(keys["source"], stripped),
            property=TensorProperty.DISPATCH_KEYS,
            expected=keys["expected"],
        )
    # SEQUENCE_LENGTH of an empty container
    name = head.removeprefix("not ")
    source = _source(name, stripped)
    if name != head and source.is_known:
        return LengthMismatch(text=text, source=source, expected=0)
    return None


_NAN_CHECKS = (
    re.compile(r"\(type\((?P<source>.*)\) is (?:float|complex) and __\w+_isnan\(.*\)\)\Z", re.S),
    re.compile(r"__(?:math|numpy)_isnan\((?P<source>.*)\)\Z", re.S),
)
_NOT_NAN = re.compile(r"not math\.isnan\((?P<source>.*)\)\Z", re.DOTALL)


def _parse_nan(text: str, head: str, stripped: bool) -> GuardFailure | None:
    """Read FLOAT_IS_NAN and COMPLEX_IS_NAN, and the implicit guard that a float is no NaN."""
    for pattern in _NAN_CHECKS:
        match = pattern.match(head)
        if match is not None:
            source = _source(match["source"], stripped)
            return ValueMismatch(text=text, source=source, expected=FloatLiteral(float("nan")))
    match = _NOT_NAN.match(head)
    if match is not None:
        return ValueMismatch(
            text=text,
            source=_source(match["source"], stripped),
            expected=FloatLiteral(float("nan")),
            operator=ComparisonOperator.NOT_EQUAL,
        )
    return None


_CONVERTED = re.compile(r"(?:int|float|str|bool|complex)\((?P<source>.*)\)\Z", re.DOTALL)
_ITERATOR = re.compile(r"___normalize_(?:range|count)_iter\((?P<source>.*)\)\Z", re.DOTALL)


def _parse_value(text: str, head: str, stripped: bool) -> GuardFailure | None:
    """Read ``source == constant`` (EQUALS_MATCH, CONSTANT_MATCH, BOOL_MATCH, and the like)."""
    position = _find_outside(head, 0, len(head), " == ")
    if position is None:
        return None
    name, constant = head[:position], head[position + len(" == ") :]
    # CONSTANT_SUBCLASS_MATCH, RANGE_ITERATOR_MATCH, COUNT_ITERATOR_MATCH; export: str(x.dtype)
    for pattern in (_CONVERTED, _ITERATOR):
        wrapped = pattern.match(name)
        if wrapped is not None:
            name = wrapped["source"]
    read = read_source(name, 0, stripped=stripped)
    if read is None or read[1] != len(name) or _is_shape(leaf_of(read[0])):
        return None
    source = read[0]

    match source.root, source.steps:
        # guard_on_dict_keys_and_order
        case Applied("list", Source(Applied("dict.keys", keys_of), ())), (Item(),):
            return KeysMismatch(text=text, source=keys_of, detail=head)
        case _:
            pass
    expected = parse_literal(constant) or OtherConstant(constant)
    return ValueMismatch(
        text=text,
        source=source,
        expected=expected,
        module_int_hint=_MODULE_INT_HINT in text,
    )
