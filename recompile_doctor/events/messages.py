"""The bodies of torch's messages, which stand in both logs: stacks, reasons, breaks, errors.

Everything here takes text without log prefixes and never raises: what a text lacks is empty.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from recompile_doctor.events.vocabulary import (
    ConstraintViolated,
    DataDependentError,
    EntryFailure,
    GraphBroke,
    Origin,
    StackFrame,
)
from recompile_doctor.ids import CompileId, parse_compile_id

UNKNOWN = "<unknown>"
_MESSAGE_LIMIT = 20_000

_FRAME_LINE = re.compile(r'\s*File "(?P<file>.*)", line (?P<line>[0-9]{1,9})(?:, in (?P<name>.*))?')
_MARKERS = re.compile(r"[\s^~]*\Z")

_EXCEPTION_CHAIN = re.compile(
    r"^(?:During handling of the above exception, another exception occurred:"
    r"|The above exception was the direct cause of the following exception:)\n",
    re.MULTILINE,
)
_TRACEBACK_HEAD = re.compile(r"^Traceback \(most recent call last\):$", re.MULTILINE)
_EXCEPTION_LINE = re.compile(r"^(?P<type>[^\W\d][\w.]*)(?:: (?P<message>.*))?\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ExceptionText:
    """The exception at the end of a traceback: its qualified type, and its message in full."""

    type: str | None
    message: str


def parse_user_stack(lines: Iterable[str]) -> tuple[StackFrame, ...]:
    """Return the frames of a formatted Python stack, as ordered there; other lines are skipped."""
    frames: list[StackFrame] = []
    wants_code = False
    for line in lines:
        match = _FRAME_LINE.match(line)
        if match is not None:
            frames.append(StackFrame(match["file"], int(match["line"]), match["name"] or UNKNOWN))
            wants_code = True
        elif wants_code and line.startswith("    ") and not _MARKERS.match(line):
            last = frames[-1]
            frames[-1] = StackFrame(last.file, last.line, last.function, line.strip())
            wants_code = False
    return tuple(frames)


def parse_exception(text: str) -> ExceptionText:
    """Return the last exception of a traceback; of other text, all of it as the message."""
    chain = list(_EXCEPTION_CHAIN.finditer(text))
    start = chain[-1].end() if chain else 0
    head = _TRACEBACK_HEAD.search(text, start)
    if head is None:
        return _exception_text(text[start:].strip())
    lines = text[head.end() + 1 :].split("\n")
    for number, line in enumerate(lines):
        if line and not line[0].isspace():
            return _exception_text("\n".join(lines[number:]).strip())
    return ExceptionText(None, "")


def _exception_text(text: str) -> ExceptionText:
    match = _EXCEPTION_LINE.match(text)
    if match is None:
        return ExceptionText(None, text[:_MESSAGE_LIMIT])
    return ExceptionText(match["type"], (match["message"] or "")[:_MESSAGE_LIMIT])


def stack_from_user_code(text: str) -> tuple[StackFrame, ...]:
    """Return the stack that Dynamo appends to an exception under "from user code:"."""
    _, found, rest = text.rpartition("from user code:\n")
    return parse_user_stack(_paragraph(rest.split("\n"))) if found else ()


def _paragraph(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines up to the first blank one."""
    for line in lines:
        if not line.strip():
            return
        yield line


# --- Recompile reasons ---------------------------------------------------------------------------

_ENTRY = re.compile(
    r"(?P<id>(?:![0-9]{1,9}/)?[0-9]{1,9}/[0-9]{1,9}(?:_[0-9]{1,9})?|![0-9]{1,9}): (?P<text>.*)\Z",
    re.DOTALL,
)
_BULLET = re.compile(r"\s*-(?: (?P<text>.*))?\Z", re.DOTALL)
_REASON_STACK = "User stack trace:"


def parse_entry_failures(lines: Iterable[str], verbose: bool) -> tuple[EntryFailure, ...]:
    """Return the failures listed in a recompile record, in torch's order.

    ``lines`` are what follows "triggered by the following guard failure(s):", indented or not.
    With ``verbose``, a blank line or "guard N failures:" ends the failure before it.
    """
    entries: list[list[str]] = []
    open_entry = False
    for line in lines:
        match = _BULLET.match(line)
        if match is None:
            # Without verbose a line without bullet is a blank line inside a reason.
            if verbose:
                open_entry = False
            elif open_entry and not line.strip():
                entries[-1].append("")
            continue
        text = match["text"] or ""
        if _ENTRY.match(text) or not open_entry:
            entries.append([text])
            open_entry = True
        else:
            entries[-1].append(text)
    return tuple(parse_entry_failure("\n".join(entry)) for entry in entries)


def parse_entry_failure(reason: str) -> EntryFailure:
    """Return the failure that one reason tells, e.g. ``0/1: tensor 'x' size mismatch ...``."""
    entry: CompileId | None = None
    match = _ENTRY.match(reason)
    if match is not None:
        entry = parse_compile_id(match["id"])
        reason = match["text"]
    lines = reason.split("\n")
    if _REASON_STACK not in lines:
        return EntryFailure(entry, reason.rstrip("\n"))
    at = lines.index(_REASON_STACK)
    return EntryFailure(entry, "\n".join(lines[:at]), parse_user_stack(lines[at + 1 :]))


_LOCAL_SOURCE = re.compile(r"L\[\s*['\"]")
_BARE_SOURCE = re.compile(
    r"\btensor '(?![LG]\[)"
    r"|(?<![\w\]'\")])(?!G\[)[a-z_][\w.\[\]']{0,200}(?:\.size\(\)| == )"
)


def sources_stripped(failures: Iterable[EntryFailure]) -> bool | None:
    """Tell whether torch wrote ``x`` for ``L['x']`` in the reasons; None where none names either.

    Torch strips all of them or none, so one that is left settles it.
    """
    texts = [failure.text for failure in failures]
    if any(_LOCAL_SOURCE.search(text) for text in texts):
        return False
    return True if any(_BARE_SOURCE.search(text) for text in texts) else None


# --- Where an expression comes from --------------------------------------------------------------

_ADVICE = ", for more info run with TORCHDYNAMO_"
_USER_PLACE = re.compile(r"# (?P<file>\S.{0,1000}?):(?P<line>[0-9]{1,9}) in (?P<name>\S+)")
_TORCH_PLACE = re.compile(r"\((?P<file>[^()]+):(?P<line>[0-9]{1,9}) in (?P<name>[^\s()]+)\)\Z")


def parse_location_comment(text: str) -> tuple[StackFrame | None, StackFrame | None]:
    """Return the user's place and torch's place of ``CODE  # FILE:LINE in f (FILE:LINE in g)``.

    Torch's advice after it is cut off, and either place can be missing. When a reason names
    several places, the last one counts. Torch shortens the file names here.
    """
    cut = text.rfind(_ADVICE)
    text = (text if cut < 0 else text[:cut]).rstrip()
    torch_match = _TORCH_PLACE.search(text[-_MESSAGE_LIMIT:])
    torch_place = None
    if torch_match is not None:
        torch_place = _place(torch_match)
        text = text[: len(text) - len(torch_match.group())]
    return _user_place(text), torch_place


def _user_place(text: str) -> StackFrame | None:
    """Return the place behind the last ``# `` that has one: code may contain ``# `` itself."""
    end = len(text)
    while (at := text.rfind("# ", max(len(text) - _MESSAGE_LIMIT, 0), end)) >= 0:
        match = _USER_PLACE.match(text, at)
        if match is not None:
            code = text[:at].strip()
            return _place(match, None if code in ("", "None") else code)
        end = at
    return None


def _place(match: re.Match[str], code: str | None = None) -> StackFrame:
    return StackFrame(match["file"], int(match["line"]), match["name"], code)


# --- Data-dependent errors -----------------------------------------------------------------------

_DATA_DEPENDENT = re.compile(
    r"Could not (?:guard on|extract specialized integer from) data-dependent expression "
    r"(?P<expression>.{1,4000}?) \(unhinted: "
)
_CAUSED_BY = "Caused by: "
_DATA_DEPENDENT_END = re.compile(
    r"\n(?:For C\+\+ stack trace|C\+\+ stack trace:"
    r"|During handling of the above exception|The above exception was the direct cause)"
)
_USER_STACK = re.compile(r"^User Stack \(most recent call last\):\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DataDependentText:
    """A data-dependent error. ``place`` and ``torch_frame`` are of its "Caused by:" line."""

    expression: str
    message: str
    place: StackFrame | None = None
    torch_frame: StackFrame | None = None
    user_stack: tuple[StackFrame, ...] = ()


def parse_data_dependent(text: str) -> DataDependentText | None:
    """Return the first data-dependent error that an exception's text or traceback tells."""
    match = _DATA_DEPENDENT.search(text)
    if match is None:
        return None
    end = _DATA_DEPENDENT_END.search(text, match.start())
    message = text[match.start() : end.start() if end else None].rstrip()[:_MESSAGE_LIMIT]
    place, torch_frame = _caused_by(message)
    stack_head = _USER_STACK.search(message)
    lines = message[stack_head.end() :].split("\n") if stack_head else []
    user_stack = parse_user_stack(_paragraph(lines))
    if not user_stack and place is not None:
        user_stack = (place,)
    return DataDependentText(match["expression"], message, place, torch_frame, user_stack)


def data_dependent_error(origin: Origin, text: str) -> DataDependentError | None:
    """Return the event for the data-dependent error that a text at ``origin`` tells."""
    found = parse_data_dependent(text)
    if found is None:
        return None
    return DataDependentError(origin, found.expression, found.message, found.user_stack)


def _caused_by(message: str) -> tuple[StackFrame | None, StackFrame | None]:
    # Torch 2.9 forgot the line break before it: "...statically_known_trueCaused by: ...".
    _, found, rest = message.partition(_CAUSED_BY)
    return parse_location_comment(rest.split("\n", 1)[0]) if found else (None, None)


# --- Constraint violations -----------------------------------------------------------------------

_VIOLATION_HEAD = re.compile(r"Constraints violated \((?P<names>.{0,4000})\)!.*\n")
_VIOLATION_ITEM = re.compile(r"^\s{0,8}- (?=\S)", re.MULTILINE)
_VIOLATION_STACK = re.compile(r"^User stack:\n", re.MULTILINE)
# The source is what the user can mark, the value what it became; {} is text of no interest.
_VIOLATION_FORMS = tuple(
    tuple(re.split(r"[{}]", form))
    for form in (
        "You marked {source} as dynamic but your code specialized it to be a constant ({value})",
        "Not all values of RelaxedUnspecConstraint({source}) are valid because {} "
        "was inferred to be a constant ({value})",
        "Not all values of RelaxedUnspecConstraint({source}) are valid because {} "
        "was inferred to be equal to {value}",
        "Not all values of {} = {source} in the specified range{} "
        "was inferred to be a constant ({value})",
        "Not all values of {} = {source} in the specified range{} "
        "was inferred to be equal to {value}",
        "Not all values of {} = {source} in the specified range{} satisfy the generated guard {}",
        "The values of {} = {source} and {} = {value} must always be equal.",
        "The values of {} = {source} must always be related to the values of {} = {} by {} = "
        "{value}",
        "Static shape constraint of {} does not match input size of {value}, for {source}",
        "Expected input {source} to be equal to {}, but got {value}",
        "{source} = {value} is not equal to {}",
    )
)
_VIOLATION_ERROR = re.compile(r"^(?:[\w.]+\.)?ConstraintViolationError: (?P<text>.+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ConstraintText:
    """One violated constraint; ``message`` is torch's sentence without the stacks after it."""

    source: str
    value: str | None
    message: str
    user_stack: tuple[StackFrame, ...] = ()


def parse_constraints(text: str) -> tuple[ConstraintText, ...]:
    """Return the violated constraints that a ConstraintViolationError's text or traceback lists."""
    head = _VIOLATION_HEAD.search(text)
    if head is None:
        error = _VIOLATION_ERROR.search(text)
        return () if error is None else (_constraint(error["text"], ""),)
    body = _until_next_exception(text[head.end() :])
    items = _VIOLATION_ITEM.split(body)[1:]
    if not items:
        return (ConstraintText(head["names"], None, head.group().strip()),)
    return tuple(_constraint(item, head["names"]) for item in items)


def constraint_violations(origin: Origin, text: str) -> Iterator[ConstraintViolated]:
    """Yield the events for the violated constraints that a text at ``origin`` lists."""
    for found in parse_constraints(text):
        yield ConstraintViolated(origin, found.source, found.value, found.message, found.user_stack)


def _until_next_exception(text: str) -> str:
    chain = _EXCEPTION_CHAIN.search(text)
    return text if chain is None else text[: chain.start()]


def _constraint(item: str, names: str) -> ConstraintText:
    message = "\n".join(_paragraph(item.split("\n"))).strip()[:_MESSAGE_LIMIT]
    stack_head = _VIOLATION_STACK.search(item)
    lines = item[stack_head.end() :].split("\n") if stack_head else []
    user_stack = parse_user_stack(_paragraph(lines))
    for form in _VIOLATION_FORMS:
        fields = _match_form(form, message)
        if fields is not None:
            return ConstraintText(fields["source"], fields.get("value"), message, user_stack)
    return ConstraintText(names, None, message, user_stack)


def _match_form(form: Sequence[str], text: str) -> dict[str, str] | None:
    """Return the fields of a text that begins with ``form``: literals and names in turn.

    Not a regex, since several ``.+`` in one can take forever on a hostile text.
    """
    if not text.startswith(form[0]):
        return None
    fields: dict[str, str] = {}
    at = len(form[0])
    for name, literal in zip(form[1::2], form[2::2], strict=True):
        end = text.find(literal, at) if literal else len(text)
        if end < 0:
            return None
        fields[name] = text[at:end] if literal else text[at:end].removesuffix(".")
        at = end + len(literal)
    return fields


# --- Graph breaks --------------------------------------------------------------------------------

_BREAK_HEAD = re.compile(
    r"Graph break(?P<repeated> \([^)]{0,200}suppressed[^)]{0,200}\))? in user code at "
    r"(?P<file>.*):(?P<line>[0-9]{1,9})\Z"
)
_SKIP_HEAD = "Graph break: skip: from user code at:"
_REASON_HEAD = re.compile(r"(?:Graph Break )?Reason: (?P<text>.*)\Z")
_STACK_HEAD = "User code traceback:"
_ATTRIBUTION_HEAD = "Stack variable source attribution:"
_NO_EXCEPTION = "NoneType: None"
_GAVE_UP = re.compile(
    r"Failed to handle graph break gracefully\. .*?Graph break encountered:\s*", re.DOTALL
)
_SKIPS_FRAME = "Skipping the frame and falling back to eager"
_WHILE_TRACING = re.compile(r"Encountered graph break when [^\n]*:\n\s*")
_JOINED = "*** While handling this graph break, another graph break occurred: ***"
_LABEL = re.compile(
    r"\s{1,2}(?P<label>Explanation|Hint|Developer debug context|For more details about this graph "
    r"break, please visit):(?: (?P<text>.*))?\Z"
)
_GB_URL = re.compile(r"/gb(?P<number>[0-9]{1,9})\.html")


@dataclass(frozen=True, slots=True)
class GraphBreakText:
    """A graph break's message; the fields are those of ``GraphBroke``."""

    place: StackFrame | None
    kind: str
    explanation: str = ""
    hints: tuple[str, ...] = ()
    context: str = ""
    gb_id: str | None = None
    user_stack: tuple[StackFrame, ...] = ()
    exception: str = ""
    repeated: bool = False
    skipped_frame: bool = False
    text: str = ""

    def event(self, origin: Origin) -> GraphBroke:
        """Return the event that this message at ``origin`` is."""
        return GraphBroke(
            origin,
            place=self.place,
            kind=self.kind,
            explanation=self.explanation,
            hints=self.hints,
            context=self.context,
            gb_id=self.gb_id,
            user_stack=self.user_stack,
            exception=self.exception,
            repeated=self.repeated,
            skipped_frame=self.skipped_frame,
            text=self.text,
        )


def parse_graph_break(text: str) -> GraphBreakText:
    """Return what a graph break message of either log says.

    Torch joins two breaks when it cannot stop at the first. The first is the cause and gives
    kind, explanation, hints, context and id; the second says why the frame could not be split
    there. Both stay in ``text``, which leaves out the traceback that a trace appends.
    """
    message, traceback = _split_traceback(text)
    lines = message.split("\n")
    exception = parse_exception(traceback)
    exception_text = f"{exception.type}: {exception.message}" if exception.type else ""
    if lines[0].rstrip() == _SKIP_HEAD:
        return _skipped_frame(message, exception, exception_text)
    head = _BREAK_HEAD.match(lines[0].rstrip())
    reason, stack_lines = _split_break(lines[1:] if head else lines)
    user_stack = parse_user_stack(stack_lines)
    cause = _parse_cause(reason)
    return GraphBreakText(
        place=_break_place(head, user_stack),
        kind=cause.kind,
        explanation=cause.explanation,
        hints=cause.hints,
        context=cause.context,
        gb_id=cause.gb_id,
        user_stack=user_stack,
        exception=exception_text,
        repeated=head is not None and head["repeated"] is not None,
        skipped_frame=cause.skipped_frame,
        text=message,
    )


def _split_traceback(text: str) -> tuple[str, str]:
    """Return a break's own message, and the traceback that torch appends in a trace."""
    stack = text.find(f"\n{_STACK_HEAD}")
    head = _TRACEBACK_HEAD.search(text, max(stack, 0))
    if head is not None:
        return text[: head.start()].rstrip(), text[head.start() :]
    return text.rstrip().removesuffix(_NO_EXCEPTION).rstrip(), ""


def _skipped_frame(message: str, exception: ExceptionText, exception_text: str) -> GraphBreakText:
    """Return a frame given up in 2.6 to 2.9: the reason stands in the exception alone."""
    user_stack = parse_user_stack(message.split("\n"))
    cause = _parse_cause(exception.message)
    return GraphBreakText(
        place=user_stack[-1] if user_stack else None,
        kind=cause.kind or "skip",
        explanation=cause.explanation,
        hints=cause.hints,
        context=cause.context,
        gb_id=cause.gb_id,
        user_stack=user_stack,
        exception=exception_text,
        skipped_frame=True,
        text=message,
    )


def _split_break(lines: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the reason of a break, and the lines of its user stack."""
    end = stack = len(lines)
    for number, line in enumerate(lines):
        if line.rstrip() == _STACK_HEAD:
            stack = number + 1
            end = min(end, number)
            break
        if line.rstrip() == _ATTRIBUTION_HEAD:
            end = min(end, number)
    reason = "\n".join(lines[:end])
    match = _REASON_HEAD.match(lines[0]) if lines else None
    if match is not None:
        reason = "\n".join([match["text"], *lines[1:end]])
    return reason.strip(), _stack_region(lines[stack:])


def _stack_region(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines of the stacks; TORCHDYNAMO_VERBOSE writes two, and remarks after them."""
    for number, line in enumerate(lines):
        if line and not line[0].isspace() and not line.startswith("====="):
            return lines[:number]
    return lines


def _break_place(
    head: re.Match[str] | None, user_stack: tuple[StackFrame, ...]
) -> StackFrame | None:
    if head is None:
        return user_stack[-1] if user_stack else None
    file, line = head["file"], int(head["line"])
    for frame in reversed(user_stack):
        if (frame.file, frame.line) == (file, line):
            return frame
    return StackFrame(file, line, UNKNOWN)


def _parse_cause(reason: str) -> GraphBreakText:
    gave_up = _GAVE_UP.match(reason)
    if gave_up is not None:
        reason = reason[gave_up.end() :]
    first, *others = reason.split(_JOINED)
    skips = gave_up is not None or any(_SKIPS_FRAME in part for part in (first, *others))
    tracing = _WHILE_TRACING.match(first)
    lines = (first[tracing.end() :] if tracing else first).strip().split("\n")
    fields = _labelled(lines[1:])
    url = _GB_URL.search(first)
    return GraphBreakText(
        place=None,
        kind=lines[0].strip().removeprefix("Unsupported: "),
        explanation="\n".join(_values(fields, "", "Explanation")),
        hints=tuple(_values(fields, "Hint")),
        context="\n".join(_values(fields, "Developer debug context")),
        gb_id=None if url is None else f"GB{url['number']}",
        skipped_frame=skips,
    )


def _labelled(lines: Iterable[str]) -> list[tuple[str, str]]:
    """Return (label, text) pairs; the lines in front of the first label have the label ""."""
    fields: list[tuple[str, list[str]]] = [("", [])]
    for line in lines:
        match = _LABEL.match(line)
        if match is not None:
            fields.append((match["label"], [match["text"] or ""]))
        else:
            # Torch indents what follows the first line of a field by four.
            fields[-1][1].append(line.removeprefix("    ").rstrip())
    return [(label, "\n".join(parts).strip()) for label, parts in fields]


def _values(fields: Iterable[tuple[str, str]], *labels: str) -> Iterator[str]:
    return (text for label, text in fields if label in labels and text)
