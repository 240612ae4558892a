"""What a run under marks teaches: torch's own words on what it could not decide, by input.

Unbacked sizes have no value while torch compiles. Where the program or a library asks for one,
torch says which expression it could not decide (``Eq(u1, 0)``), and the log says which input each
symbol stands for. What would answer the expression is found by trying: a lower bound of 1 does
when the truth of the expression is the same for all sizes from 1 on, a tie when it is the same
for all equal sizes.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product

from recompile_doctor.diagnosis.attribution import parse_size
from recompile_doctor.events.vocabulary import AssumptionMade, StackFrame
from recompile_doctor.model.expression import (
    Expression,
    iter_symbols,
    parse_expression,
)
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.model.guard import Variable, fails_for
from recompile_doctor.model.reason import ShapeGuardFailure, SizeMismatch, parse_reason
from recompile_doctor.model.run import Compilation, Run
from recompile_doctor.prescription.observed import (
    INT,
    ObservedFrame,
    Place,
    is_int_source,
    size_place,
)

# Sizes that tell most expressions apart: small ones, a prime, a power of two, an odd large one.
_SAMPLES = (1, 2, 3, 5, 8, 33)
_MOST_SYMBOLS = 4
_EXPRESSION = re.compile(
    r"Could not (?:guard on|extract specialized integer from) data-dependent expression "
    r"(?P<text>.*?) \(unhinted:",
    re.DOTALL,
)
_OWN_GUARD = "Guard failed on the same frame it was created"
_REASON = re.compile(r"Guard fail reasons?:\s*(?P<reason>.*)", re.DOTALL)
_ASSERTED = re.compile(r"Runtime assertion failed for expression (?P<text>.+?)(?: on node|\n|\Z)")


class LessonKind(Enum):
    """What a size was asked, and so what would answer."""

    MINIMUM = "it was asked whether a size is 0"
    TIE = "it was asked whether two sizes are equal"
    TIE_AND_MINIMUM = "it was asked whether equal sizes are 0"
    UNDECIDED = "the program or a library branches on a size"
    OWN_GUARD = "the graph's own guard failed on the call that it was made for"
    ASSERTION = "what was promised of a size did not hold"
    ASSUMED = "torch assumed an answer and does not check it"


@dataclass(frozen=True, slots=True)
class Lesson:
    """One thing that torch said of a trial.

    ``places`` are the inputs that it is about, none where the size came from data. ``frame`` is
    the code object. ``sentence`` is torch's own; ``line`` is the line of the program or library.
    """

    kind: LessonKind
    places: tuple[Place, ...]
    frame: FrameKey | None
    expression: str
    sentence: str
    line: StackFrame | None = None
    assumed: bool | None = None


def lessons_of(run: Run, errors: str = "") -> tuple[Lesson, ...]:
    """Return what torch could not decide in a run; ``errors`` is the end of its standard error."""
    found: dict[tuple[LessonKind, tuple[Place, ...], str], Lesson] = {}
    for lesson in _in_order(run, errors):
        found.setdefault((lesson.kind, lesson.places, lesson.expression), lesson)
    return tuple(found.values())


def assumptions_of(run: Run) -> tuple[Lesson, ...]:
    """Return what torch assumed of the sizes of inputs and does not check.

    Read when outputs differ: there the graph can be right for most sizes and wrong for 0 or 1.
    """
    found: dict[tuple[tuple[Place, ...], str], Lesson] = {}
    for compilation in run.compilations:
        places = _places(compilation)
        for made in compilation.assumptions:
            lesson = _assumption(made, places, _code(compilation))
            if lesson is not None:
                found.setdefault((lesson.places, lesson.expression), lesson)
    return tuple(found.values())


def _in_order(run: Run, errors: str) -> Iterator[Lesson]:
    for compilation in run.compilations:
        places = _places(compilation)
        frame = _code(compilation)
        for error in compilation.data_dependent:
            line = error.user_stack[-1] if error.user_stack else None
            yield _undecided(error.expression, error.message, places, frame, line)
        for failed in compilation.errors:
            yield from _from_text(failed.message, places, frame)
    # What ended the program is often in no record: the last compile is the one to blame.
    last = run.compilations[-1] if run.compilations else None
    if last is not None and errors:
        yield from _from_text(errors, _places(last), _code(last))


def _code(compilation: Compilation) -> FrameKey:
    """Return the code object, a resume function by its own name, as marks name it."""
    frame = compilation.frame
    return FrameKey(compilation.code_name or frame.function, frame.file, frame.line)


def _places(compilation: Compilation) -> Mapping[str, Place]:
    """Return which input each unbacked symbol of a compile stands for."""
    found = {}
    for symbol in compilation.unbacked:
        if symbol.source is None:
            continue
        size = parse_size(symbol.source)
        if size is not None:
            found[symbol.symbol] = Place(str(size.source), size.dim)
        elif is_int_source(symbol.source):
            found[symbol.symbol] = Place(symbol.source, INT)
    return found


def _undecided(
    text: str,
    message: str,
    places: Mapping[str, Place],
    frame: FrameKey,
    line: StackFrame | None,
) -> Lesson:
    expression = parse_expression(text)
    names = tuple(dict.fromkeys(each.name for each in iter_symbols(expression)))
    known = tuple(dict.fromkeys(places[name] for name in names if name in places))
    kind = LessonKind.UNDECIDED
    if known and len(known) == len(names):
        kind = what_answers(expression, names)
    return Lesson(kind, known, frame, text, first_sentence(message), line)


def what_answers(expression: Expression, names: Sequence[str]) -> LessonKind:
    """Return what makes an expression over the symbols ``names`` the same for all sizes left."""
    if len(names) > _MOST_SYMBOLS:
        return LessonKind.UNDECIDED
    if _is_settled(expression, names, product(_SAMPLES, repeat=len(names))):
        return LessonKind.MINIMUM
    if len(names) > 1:
        if _is_settled(expression, names, ((each,) * len(names) for each in (0, *_SAMPLES))):
            return LessonKind.TIE
        if _is_settled(expression, names, ((each,) * len(names) for each in _SAMPLES)):
            return LessonKind.TIE_AND_MINIMUM
    return LessonKind.UNDECIDED


def _is_settled(
    expression: Expression, names: Sequence[str], samples: Iterable[Sequence[int]]
) -> bool:
    by_name = {each.name: each for each in iter_symbols(expression)}
    answers = {
        fails_for(
            expression, {by_name[name]: size for name, size in zip(names, sizes, strict=True)}
        )
        for sizes in samples
    }
    return len(answers) == 1 and None not in answers


def _from_text(text: str, places: Mapping[str, Place], frame: FrameKey) -> Iterator[Lesson]:
    """Yield what an error message says; most end the program and are in no other record."""
    for match in _EXPRESSION.finditer(text):
        yield _undecided(match["text"], text[match.start() :], places, frame, None)
    if _OWN_GUARD in text:
        reason = _REASON.search(text)
        said = "" if reason is None else reason["reason"].strip().split("\n", 1)[0]
        yield Lesson(
            LessonKind.OWN_GUARD, tuple(_named(said)), frame, said, f"{_OWN_GUARD}: {said}"
        )
    for match in _ASSERTED.finditer(text):
        names = dict.fromkeys(
            each.name for each in iter_symbols(parse_expression(match["text"].strip()))
        )
        about = tuple(places[name] for name in names if name in places)
        yield Lesson(
            LessonKind.ASSERTION, about, frame, match["text"], first_sentence(match[0]), None
        )


def _named(reason: str) -> Iterator[Place]:
    """Yield the dimensions that a guard's reason names."""
    text = _ENTRY.sub("", reason)
    for failure in parse_reason(text, stripped=True):
        match failure:
            case SizeMismatch(source=source, dim=dim):
                yield Place(str(source), dim)
            case ShapeGuardFailure():
                for size in failure.sizes:
                    yield size_place(size)
            case _:
                pass


_ENTRY = re.compile(r"\A\d+/\d+: ")


def _assumption(
    made: AssumptionMade, places: Mapping[str, Place], frame: FrameKey
) -> Lesson | None:
    """Return an assumption on one size of an input, or None when it is of no consequence."""
    expression = parse_expression(made.expression)
    names = tuple(dict.fromkeys(each.name for each in iter_symbols(expression)))
    known = tuple(places[name] for name in names if name in places)
    if not known or len(known) != len(names):
        return None
    line = made.user_stack[-1] if made.user_stack else None
    sentence = f"could not evaluate {made.expression}: it was assumed to be {made.assumed}"
    answer = {"True": True, "False": False}.get(made.assumed)
    return Lesson(LessonKind.ASSUMED, known, frame, made.expression, sentence, line, answer)


def is_contradicted(lesson: Lesson, frames: Iterable[ObservedFrame]) -> bool:
    """Return whether some call had sizes for which what torch assumed is not so."""
    expression = parse_expression(lesson.expression)
    symbols = tuple(dict.fromkeys(iter_symbols(expression)))
    for frame in frames:
        if lesson.assumed is None or not all(place in frame.columns for place in lesson.places):
            continue
        for sizes in zip(*(frame.columns[place] for place in lesson.places), strict=True):
            if None in sizes:
                continue
            known: dict[Variable, int] = {
                name: size for name, size in zip(symbols, sizes, strict=True) if size is not None
            }
            fails = fails_for(expression, known)
            if fails is not None and fails is lesson.assumed:
                return True
    return False


def first_sentence(text: str) -> str:
    """Return the first line of what torch says, without runs of blanks."""
    return " ".join(text.strip().split("\n", 1)[0].split())
