"""Python literals inside torch's texts: read by hand, never evaluated."""

import re

# int() refuses longer numbers since Python 3.11 (sys.set_int_max_str_digits), and takes long.
MAX_DIGITS = 1000

_OPENING = "([{"
_CLOSING = ")]}"
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|(.))", re.DOTALL
)
_SIMPLE_ESCAPES = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\n": "",
}
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)\Z")


def end_of_string(text: str, start: int) -> int | None:
    """Return the position behind the string literal that opens at ``start``, None if it is open."""
    quote = text[start]
    position = start + 1
    while position < len(text):
        character = text[position]
        if character == quote:
            return position + 1
        position += 2 if character == "\\" else 1
    return None


def string_value(literal: str) -> str | None:
    """Return what a quoted string literal stands for, or None when ``literal`` is not one."""
    if len(literal) < 2 or literal[0] not in "'\"" or end_of_string(literal, 0) != len(literal):
        return None

    body = literal[1:-1]
    if "\\" not in body:
        return body
    try:
        return _ESCAPE.sub(_unescape, body)
    except (ValueError, OverflowError):  # \U beyond the last code point
        return None


def _unescape(match: re.Match[str]) -> str:
    short, medium, long, octal, simple = match.groups()
    if octal is not None:
        return chr(int(octal, 8))
    if simple is not None:
        return _SIMPLE_ESCAPES.get(simple, simple if simple in "\\'\"" else f"\\{simple}")
    return chr(int(short or medium or long, 16))


def integer_value(text: str) -> int | None:
    """Return the int that ``text`` spells in decimal, or None."""
    if len(text) > MAX_DIGITS or _INTEGER.match(text) is None:
        return None
    return int(text)


def end_of_balanced(text: str, start: int, stops: str, end: int | None = None) -> int | None:
    """Return where the first of ``stops`` stands outside of brackets and string literals.

    None when it does not stand before ``end``, and when the text is not balanced.
    """
    limit = len(text) if end is None else end
    depth = 0
    position = start
    while position < limit:
        character = text[position]
        if depth == 0 and character in stops:
            return position
        if character in "'\"":
            behind = end_of_string(text, position)
            if behind is None:
                return None
            position = behind
            continue
        if character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
            if depth < 0:
                return None
        position += 1
    return None


def split_arguments(text: str) -> list[str]:
    """Return the arguments that stand between the brackets of a call."""
    arguments: list[str] = []
    start = 0
    while (comma := end_of_balanced(text, start, ",")) is not None:
        arguments.append(text[start:comma].strip())
        start = comma + 1
    last = text[start:].strip()
    return [*arguments, last] if last or arguments else []
