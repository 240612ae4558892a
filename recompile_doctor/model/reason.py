"""Recompile reasons as typed values: which check of a cached entry failed.

A reason is text, not one grammar: C++ messages of torch/csrc/dynamo/guards.cpp, Python
expressions of torch/_dynamo/guards.py, guards of torch/fx/experimental/symbolic_shapes.py, texts
of exceptions and prose. ``recompiles_verbose`` joins several Python checks with "; ".
"""

import re
from dataclasses import dataclass, replace

from recompile_doctor.events.vocabulary import StackFrame
from recompile_doctor.model.expression import (
    ComparisonOperator,
    FloatLiteral,
    StrLiteral,
    Unparsed,
    iter_sources,
    parse_expression,
    parse_literal,
)
from recompile_doctor.model.failure import (
    AliasingMismatch,
    AttributeMissing,
    BackendMismatch,
    ConstantValue,
    DeadReference,
    GlobalStateMismatch,
    GuardFailure,
    IdentityMismatch,
    KeysMismatch,
    LengthMismatch,
    MarkingMismatch,
    OtherConstant,
    RankMismatch,
    ShapeGuardFailure,
    SizeMismatch,
    StrideMismatch,
    TensorProperty,
    TensorPropertyMismatch,
    TypeMismatch,
    UnexpectedRecompilation,
    UnrecognizedReason,
    ValueMismatch,
)
from recompile_doctor.model.guard import classify
from recompile_doctor.model.literal import end_of_balanced, integer_value, split_arguments
from recompile_doctor.model.message import class_name, parse_message
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

# The kinds of failure are imported from here too: they are what this module returns.
__all__ = [
    "AliasingMismatch",
    "AttributeMissing",
    "BackendMismatch",
    "ConstantValue",
    "DeadReference",
    "GlobalStateMismatch",
    "GuardFailure",
    "IdentityMismatch",
    "KeysMismatch",
    "LengthMismatch",
    "MarkingMismatch",
    "OtherConstant",
    "RankMismatch",
    "ShapeGuardFailure",
    "SizeMismatch",
    "StrideMismatch",
    "TensorProperty",
    "TensorPropertyMismatch",
    "TypeMismatch",
    "UnexpectedRecompilation",
    "UnrecognizedReason",
    "ValueMismatch",
    "parse_reason",
    "strip_object_ids",
]

# A longer message or expression is not looked at closely, more checks are left as one: a hostile
# log must not take minutes.
MAX_LENGTH = 20_000
MAX_CHECKS = 200
MAX_JOINTS = 20


def parse_reason(text: str, *, stripped: bool | None = None) -> tuple[GuardFailure, ...]:
    """Return the checks that failed, in torch's order; never empty.

    ``text`` is a reason without the entry's id. ``stripped`` tells that torch shortened the
    sources (2.7 and later); None: find out from the text.
    """
    text = text.split("\nUser stack trace:", 1)[0].strip()
    if stripped is None:
        stripped = _LOCAL_SCOPE.search(text) is None
    whole = parse_message(text, stripped=stripped) if len(text) <= MAX_LENGTH else None
    if whole is not None:
        return (whole,)
    failures = tuple(_parse_check(part, stripped) for part in _split(text))
    if all(isinstance(each, UnrecognizedReason) for each in failures):
        return (UnrecognizedReason(text=text),)
    return failures


def strip_object_ids(text: str) -> str:
    """Return ``text`` without the ids and addresses that differ between two runs."""
    text = _ADDRESS.sub("0xID", text)
    for pattern in _NAMED_IDS:
        text = pattern.sub(r"\1ID", text)
    return _LONG_NUMBER.sub("ID", text)


_LOCAL_SCOPE = re.compile(r"\bL\[\s*['\"]")

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")
_NAMED_IDS = (
    re.compile(r"(_check_(?:obj_id|type_id|fake_script_type)\(.*?, )\d+(?=\))"),
    re.compile(r"(___check_(?:metadata|opaque_guard_fn)_|__dtensor_spec_)\d+"),
    re.compile(r"(___dict_version\(.*?\) == )\d+"),
)
# id() of CPython on 64-bit systems has 12 to 15 digits; torch also puts it into global names.
_LONG_NUMBER = re.compile(r"(?<!\d)\d{12,16}(?!\d)")


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
_HINT = " (HINT: "
_COMMENT = "  # "
_SEPARATOR = "; "
_JOINT = ") and "  # of the two bounds of one value

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
    while len(parts) < MAX_CHECKS and (end := _end_of_check(text, start)) is not None:
        parts.append(text[start:end])
        start = end + len(_SEPARATOR)
    parts.append(text[start:])
    return [part for part in parts if part.strip()] or [text]


def _end_of_check(text: str, start: int) -> int | None:
    """Return where the "; " behind the check that begins at ``start`` stands, if there is one."""
    position = _end_of_head(text, start)
    if position is None or text.startswith(_SEPARATOR, position):
        return position
    comment = position
    while (position := text.find(_SEPARATOR, position)) != -1:
        window = text[max(comment, position - _COMMENT_END_WINDOW) : position]
        if _COMMENT_END.search(window) is not None:
            return position
        position += len(_SEPARATOR)
    return None


def _end_of_head(text: str, start: int) -> int | None:
    """Return where the expression of a check ends: at its comment, or at the next check."""
    limit = min(len(text), start + MAX_LENGTH)
    position = start
    while (stop := end_of_balanced(text, position, " ;", limit)) is not None:
        if text.startswith((_COMMENT, _SEPARATOR), stop):
            return stop
        position = stop + 1
    if end_of_balanced(text[position:limit] + "\0", 0, "\0") is not None:
        return None
    # a repr with an odd quote, or a bracket that is never closed
    plain = text.find(_COMMENT, position)
    return None if plain == -1 else plain


def _parse_check(text: str, stripped: bool) -> GuardFailure:
    text = text.strip()
    body, hint = _split_hint(text)
    end = _end_of_head(body, 0)
    head = (body if end is None else body[:end]).strip()
    comment = _Comment() if end is None else _parse_comment(body[end + len(_COMMENT) :])
    failure = _parse_head(text, head, comment, stripped)
    return replace(
        failure,
        user_frame=comment.user_frame,
        torch_frame=comment.torch_frame,
        hint=hint if hint is not None else comment.note,
    )


def _split_hint(text: str) -> tuple[str, str | None]:
    """Return a check without the advice that torch appends, and the advice."""
    begin = text.find(_HINT)
    if begin == -1 or not text.endswith(")"):
        return text, None
    return text[:begin].rstrip(), text[begin + len(_HINT) : -1]


def _parse_comment(text: str) -> _Comment:
    """Read ``CODE  # FILE:LINE in f (TORCHFILE:LINE in g)`` and the other forms of a comment."""
    text = text.strip()
    if text.startswith(_SHAPE_NOTES):
        return _Comment(note=text)
    joint = text.find(_JOINT)
    for _ in range(MAX_JOINTS):
        if joint == -1:
            break
        lower = _parse_location(text[: joint + 1])
        upper = _parse_location(text[joint + len(_JOINT) :])
        if lower is not None and upper is not None:
            return replace(
                lower, upper_user_frame=upper.user_frame, upper_torch_frame=upper.torch_frame
            )
        joint = text.find(_JOINT, joint + 1)
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
    if len(head) > MAX_LENGTH:
        return _parse_value(text, head, stripped) or UnrecognizedReason(text=text)
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
            expected = None if kind is None else class_name(kind["type"])
            return TypeMismatch(
                text=text, source=parse_source(name, stripped=stripped), expected=expected
            )
        case "___check_obj_id" | "__check_obj_id", [name, _], _:
            kind = _TYPE.match(rest)
            detail = "object id" if kind is None else class_name(kind["type"])
            return IdentityMismatch(
                text=text, source=parse_source(name, stripped=stripped), detail=detail
            )
        case "hasattr", [name, attribute], _ if (mark := _mark(attribute)) is not None:
            return MarkingMismatch(
                text=text, source=parse_source(name, stripped=stripped), attribute=mark, detail=head
            )
        case "hasattr", [name, attribute], "":
            return AttributeMissing(
                text=text,
                source=parse_source(name, stripped=stripped),
                attribute=_string(attribute),
                appeared=negated,
            )
        case "___dict_contains", [key, name], "":
            source = parse_source(name, stripped=stripped)
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
            return KeysMismatch(
                text=text, source=parse_source(name, stripped=stripped), detail=head
            )
        case "___dict_version", [name], _:
            return KeysMismatch(
                text=text, source=parse_source(name, stripped=stripped), detail="dict version"
            )
        case "list", [inner], _ if rest.startswith(" == ["):
            # DICT_KEYS_MATCH list(dict.keys(d)), MAPPING_KEYS_CHECK list(d.keys())
            name = inner.removeprefix("dict.keys(").removesuffix(")")
            name = name if inner.startswith("dict.keys(") else inner.removesuffix(".keys()")
            return KeysMismatch(
                text=text, source=parse_source(name, stripped=stripped), detail=head
            )
        case _ if function in _LENGTH_FUNCTIONS and len(arguments) == 1:
            return _length(text, arguments[0], rest, stripped)
        case "___cow_tensor_matches", [name, expected_text], "":
            return TensorPropertyMismatch(
                text=text,
                source=parse_source(name, stripped=stripped),
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
    return LengthMismatch(text=text, source=parse_source(name, stripped=stripped), expected=number)


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
    return negated, name["function"], split_arguments(head[name.end() : end]), head[end + 1 :]


_FUNCTION = re.compile(r"(?P<function>[\w.]+)\(")


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
        source = parse_source(stream["source"], stripped=stripped)
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
            return TypeMismatch(
                text=text, source=parse_source(name, stripped=stripped), expected=expected
            )
    left, operator, right = head.partition(" is ")
    if operator:
        # DUPLICATE_INPUT names the later source first
        pair = parse_source(left, stripped=stripped), parse_source(right, stripped=stripped)
        if all(each.is_known for each in pair):
            return AliasingMismatch(text=text, source=pair[0], sources=pair, were_same=True)

    marking = _MARKING_EXPRESSION.match(head)
    if marking is not None:
        source = parse_source(marking["source"], stripped=stripped)
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
            source=parse_source(keys["source"], stripped=stripped),
            property=TensorProperty.DISPATCH_KEYS,
            expected=keys["expected"],
        )
    # SEQUENCE_LENGTH of an empty container
    name = head.removeprefix("not ")
    source = parse_source(name, stripped=stripped)
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
            source = parse_source(match["source"], stripped=stripped)
            return ValueMismatch(text=text, source=source, expected=FloatLiteral(float("nan")))
    match = _NOT_NAN.match(head)
    if match is not None:
        return ValueMismatch(
            text=text,
            source=parse_source(match["source"], stripped=stripped),
            expected=FloatLiteral(float("nan")),
            operator=ComparisonOperator.NOT_EQUAL,
        )
    return None


_EQUALS = " == "
_CONVERTED = re.compile(r"(?:int|float|str|bool|complex)\((?P<source>.*)\)\Z", re.DOTALL)
_ITERATOR = re.compile(r"___normalize_(?:range|count)_iter\((?P<source>.*)\)\Z", re.DOTALL)


def _top_level_equality(head: str) -> int | None:
    position = 0
    while (stop := end_of_balanced(head, position, " ")) is not None:
        if head.startswith(_EQUALS, stop):
            return stop
        position = stop + 1
    return None


def _parse_value(text: str, head: str, stripped: bool) -> GuardFailure | None:
    """Read ``source == constant`` (EQUALS_MATCH, CONSTANT_MATCH, BOOL_MATCH, and the like)."""
    position = _top_level_equality(head)
    if position is None:
        return None
    name, constant = head[:position], head[position + len(_EQUALS) :]
    # CONSTANT_SUBCLASS_MATCH, the iterators, and export, which compares the text of a dtype
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
