"""What a patch of a prescription asks for: marks by function, its calls, and files to look into."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from recompile_doctor.events.vocabulary import StackFrame
from recompile_doctor.model.frame import FrameKey, resume_point
from recompile_doctor.model.run import Compilation, Run
from recompile_doctor.prescription.call_sites import FrameMarks, NotPatched, why_not_editable
from recompile_doctor.prescription.marks import Mark
from recompile_doctor.prescription.reach import Reach, reach_of

# Files beside those that the log names may call the function too; a folder with more of them
# than this is a library rather than a program.
_MOST_NEIGHBOURS = 300


def frame_marks(
    marks: Iterable[Mark], run: Run
) -> tuple[tuple[FrameMarks, ...], tuple[NotPatched, ...]]:
    """Return the marks of each compiled function with its calls, and those that no call reaches."""
    by_frame: dict[FrameKey, list[Mark]] = {}
    unreached: list[Mark] = []
    for mark in marks:
        frame = mark.frame
        if (
            reach_of(mark) is Reach.LIST
            or frame is None
            or frame.function is None
            or resume_point(frame.function) is not None
        ):
            unreached.append(mark)
        else:
            by_frame.setdefault(frame, []).append(mark)
    requests = tuple(
        FrameMarks(
            frame,
            tuple(replace(each, frame=None) for each in found),
            _calls(frame, run.compilations),
            _ranks(frame, run.compilations),
        )
        for frame, found in by_frame.items()
    )
    if not unreached:
        return requests, ()
    why = "no argument of a call reaches " + ", ".join(dict.fromkeys(m.source for m in unreached))
    return requests, (NotPatched(why, marks=tuple(unreached)),)


def _compiles(frame: FrameKey, compilations: Iterable[Compilation]) -> Iterable[Compilation]:
    return (each for each in compilations if each.frame == frame)


def _calls(frame: FrameKey, compilations: Iterable[Compilation]) -> tuple[StackFrame, ...]:
    found = (each.callers[-1] for each in _compiles(frame, compilations) if each.callers)
    return tuple(dict.fromkeys(found))


def _ranks(frame: FrameKey, compilations: Iterable[Compilation]) -> tuple[tuple[str, int], ...]:
    """Return the number of dimensions of each input that has the same number in all compiles."""
    ranks: dict[str, set[int]] = {}
    for compilation in _compiles(frame, compilations):
        for each in compilation.inputs:
            ranks.setdefault(each.source, set()).add(len(each.sizes))
    return tuple((source, min(found)) for source, found in ranks.items() if len(found) == 1)


def program_files(run: Run) -> tuple[Path, ...]:
    """Return the files that the log names as the user's, and the Python files beside them."""
    named = [
        path
        for compilation in run.compilations
        for path in (compilation.frame.file, *(each.file for each in compilation.callers))
        if path is not None and why_not_editable(path) is None
    ]
    files = [Path(each) for each in dict.fromkeys(named)]
    for folder in dict.fromkeys(each.parent for each in files):
        files += _neighbours(folder)
    return tuple(dict.fromkeys(files))


def _neighbours(folder: Path) -> list[Path]:
    try:
        found = sorted(folder.glob("*.py"))
    except OSError:
        return []
    return found if len(found) <= _MOST_NEIGHBOURS else []
