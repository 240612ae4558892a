"""Messages that are the whole reason: what torch's C++ guards say, and torch's prose.

Torch writes each of these alone, never joined with other checks.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from recompile_doctor.model.expression import Group, StrLiteral, parse_expression
from recompile_doctor.model.failure import (
    AliasingMismatch,
    AttributeMissing,
    BackendMismatch,
    DeadReference,
    GlobalStateMismatch,
    GuardFailure,
    IdentityMismatch,
    KeysMismatch,
    MarkingMismatch,
    RankMismatch,
    SizeMismatch,
    StrideMismatch,
    TensorProperty,
    TensorPropertyMismatch,
    TypeMismatch,
    UnexpectedRecompilation,
)
from recompile_doctor.model.literal import integer_value, split_arguments
from recompile_doctor.model.source import Attribute, parse_source


@dataclass(frozen=True, slots=True)
class _Message:
    pattern: re.Pattern[str]
    build: Callable[[re.Match[str], bool], "GuardFailure | None"]


def parse_message(text: str, *, stripped: bool) -> GuardFailure | None:
    """Return the failure that a message tells, or None when ``text`` is none of them."""
    for message in _MESSAGES:
        match = message.pattern.match(text)
        if match is not None:
            failure = message.build(match, stripped)
            if failure is not None:
                return failure
    return None


def _tensor_numbers(match: re.Match[str], stripped: bool) -> GuardFailure | None:
    numbers = [integer_value(match[name]) for name in ("index", "expected", "actual")]
    source = parse_source(match["source"], stripped=stripped)
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
    source = parse_source(match["source"], stripped=stripped)
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
        source=parse_source(match["source"], stripped=stripped),
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
        source=parse_source(match["source"], stripped=stripped),
        expected=class_name(match["expected"]),
        actual=class_name(match["actual"]),
    )


def class_name(text: str) -> str:
    """Return ``int`` for ``<class 'int'>``, and other texts as they are."""
    return text.removeprefix("<class '").removesuffix("'>")


def _global_state(match: re.Match[str], stripped: bool) -> GuardFailure:
    return GlobalStateMismatch(text=match[0], fields=tuple(match["fields"].split()))


def _missing_item(match: re.Match[str], stripped: bool) -> GuardFailure:
    source = parse_source(match["source"], stripped=stripped)
    return KeysMismatch(text=match[0], source=source, detail=match["error"])


def _type_mismatch(match: re.Match[str], stripped: bool) -> GuardFailure:
    return TypeMismatch(text=match[0], source=parse_source(match["source"], stripped=stripped))


def _not_a(match: re.Match[str], stripped: bool) -> GuardFailure:
    source = parse_source(match["source"], stripped=stripped)
    if match["what"] == "function":
        return IdentityMismatch(text=match[0], source=source, detail="not a function")
    return TypeMismatch(text=match[0], source=source, expected=match["what"])


def _getattr_failed(match: re.Match[str], stripped: bool) -> GuardFailure:
    source = parse_source(match["source"], stripped=stripped)
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
    sources = tuple(parse_source(name, stripped=stripped) for name in names)
    return AliasingMismatch(text=match[0], sources=sources, were_same=False)


def _duplicate_found(match: re.Match[str], stripped: bool) -> GuardFailure:
    source = parse_source(match["source"], stripped=stripped)
    return AliasingMismatch(text=match[0], source=source, sources=(source,), were_same=False)


def _aliasing_unknown(match: re.Match[str], stripped: bool) -> GuardFailure:
    return AliasingMismatch(text=match[0], sources=(), were_same=None)


def _no_aliasing(match: re.Match[str], stripped: bool) -> GuardFailure:
    names = split_arguments(match["names"])
    sources = tuple(parse_source(name, stripped=stripped) for name in names)
    return AliasingMismatch(text=match[0], sources=sources, were_same=False)


def _overlapping(match: re.Match[str], stripped: bool) -> GuardFailure:
    # check_overlapping of StorageOverlap: which of the views share memory has changed
    names = split_arguments(match["first"]) + split_arguments(match["second"])
    sources = tuple(parse_source(name, stripped=stripped) for name in names)
    return AliasingMismatch(text=match[0], sources=sources, were_same=None)


def _backend(match: re.Match[str], stripped: bool) -> GuardFailure:
    return BackendMismatch(
        text=match[0], cached=match["cached"], new=match["new"], hint=match["hint"]
    )


def _unexpected(match: re.Match[str], stripped: bool) -> GuardFailure:
    return UnexpectedRecompilation(text=match[0])


def _deallocated(match: re.Match[str], stripped: bool) -> GuardFailure:
    # CheckFunctionManager.invalidate: the name is a source, or "type(source)"
    source = parse_source(match["object"], stripped=stripped)
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
    _message(r"check_no_aliasing\((?P<names>.*)\)", _no_aliasing),
    # get_guard_fail_reason_helper, 2.10 and later
    _message(
        r"BACKEND_MATCH failure: .*?"
        r"(?: Cached backend: (?P<cached>.*)\. New backend: (?P<new>.*)\.)?"
        r"(?: (?P<hint>If this is unexpected.*))?",
        _backend,
    ),
    _message(r"Unexpected recompilation: .*", _unexpected),
    _message(r"", _unexpected),
    _message(r"Cache line invalidated because (?P<object>.*) got deallocated", _deallocated),
)
