"""A prescription in words and lines: what to paste, what to call, and what each form loses."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath

from recompile_doctor.events.user_code import is_torch_frame
from recompile_doctor.events.vocabulary import MarkKind
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.model.source import Attribute, Called, Item, Local, parse_source
from recompile_doctor.prescription.environment import Environment, environment_for
from recompile_doctor.prescription.marks import Mark, Prescription
from recompile_doctor.prescription.reach import Reach, reach_of
from recompile_doctor.torch_compat import TorchFeatures


@dataclass(frozen=True, slots=True)
class MarkCalls:
    """The calls to write before each call of one compiled function."""

    frame: FrameKey | None
    calls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rendering:
    """A prescription for one torch, in each form.

    ``environment_loses`` says what the variables do not express; ``calls`` and ``settings`` are
    the same in code, and ``code_loses`` names the sources that no call reaches.
    """

    prescription: Prescription
    environment: Environment
    environment_loses: tuple[str, ...]
    calls: tuple[MarkCalls, ...]
    code_loses: tuple[str, ...]
    settings: tuple[str, ...]


def render(
    prescription: Prescription, features: TorchFeatures, sources: Iterable[str] = ()
) -> Rendering:
    """Return the forms of a prescription. ``sources`` are all that were seen in the run."""
    environment = environment_for(prescription.marks, prescription.flags, features, sources)
    return Rendering(
        prescription,
        environment,
        tuple(dict.fromkeys(_environment_loses(prescription, environment, features))),
        tuple(_calls(prescription.marks, features)),
        tuple(
            dict.fromkeys(
                _shown(mark) for mark in prescription.marks if reach_of(mark) is Reach.LIST
            )
        ),
        tuple(f"{flag.name} = {flag.value!r}" for flag in prescription.flags),
    )


def _environment_loses(
    prescription: Prescription, environment: Environment, features: TorchFeatures
) -> Iterator[str]:
    if any(mark.shape_group for mark in prescription.marks):
        yield "which sizes are equal"
    if any(mark.minimum is not None or mark.maximum is not None for mark in prescription.marks):
        yield "bounds"
    for refused in environment.refused:
        yield f"{_shown(refused.mark)} ({refused.why})"
    for flag in environment.code_flags:
        yield f"{flag.name} = {flag.value!r} (torch has no variable for it)"
    yield from environment.warnings


def _calls(marks: Iterable[Mark], features: TorchFeatures) -> Iterator[MarkCalls]:
    by_frame: dict[FrameKey | None, list[str]] = {}
    for mark in marks:
        if reach_of(mark) is Reach.CODE:
            by_frame.setdefault(mark.frame, []).append(mark_call(mark, features))
    for frame, calls in by_frame.items():
        yield MarkCalls(frame, tuple(dict.fromkeys(calls)))


def mark_call(mark: Mark, features: TorchFeatures) -> str:
    """Return the call that marks one dimension, with what the torch of ``features`` takes."""
    expression = argument_expression(mark.source)
    if mark.kind is MarkKind.STATIC:
        return f"torch._dynamo.mark_static({expression}, {mark.dim})"
    if mark.kind is MarkKind.DYNAMIC:
        # mark_dynamic raises an error where the program needs one size; the list does not.
        return f"torch._dynamo.maybe_mark_dynamic({expression}, {mark.dim})"
    options = []
    if mark.shape_group is not None and features.mark_groups:
        options.append(f"shape_id={mark.shape_group!r}")
    if mark.minimum is not None and features.mark_bounds:
        options.append(f"min={mark.minimum}")
    if mark.maximum is not None and features.mark_bounds:
        options.append(f"max={mark.maximum}")
    if mark.hint is not None and features.mark_hints:
        options.append(f"hint_override={mark.hint}")
    arguments = ", ".join([expression, str(mark.dim), *options])
    # torch._dynamo itself has no mark_unbacked in any release.
    return f"torch._dynamo.decorators.mark_unbacked({arguments})"


def argument_expression(source: str) -> str:
    """Return a source as the caller of the function writes it: ``ids['clicks']``."""
    parsed = parse_source(source)
    if not isinstance(parsed.root, Local):
        return source
    text = parsed.root.name
    for step in parsed.steps:
        match step:
            case Attribute(name):
                text += f".{name}"
            case Item(key):
                text += f"[{key!r}]" if isinstance(key, int | str) else f"[{key}]"
            case Called(arguments):
                text += f"({arguments})"
    return text


def frame_words(frame: FrameKey | None) -> str:
    """Return a function with its place, for people."""
    if frame is None or frame.function is None:
        return "the compiled function"
    if frame.file is None:
        return frame.function
    if is_torch_frame(frame.file):
        return f"the compiled object, which torch calls through {frame.function}"
    line = "" if frame.line is None else f":{frame.line}"
    return f"{frame.function} ({PurePath(frame.file).name}{line})"


def _shown(mark: Mark) -> str:
    return mark.source if mark.dim is None else f"{mark.source}:{mark.dim}"
