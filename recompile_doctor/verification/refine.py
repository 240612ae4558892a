"""From what a trial taught to the next candidate: tie, bound, weaken or drop a mark."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from recompile_doctor.events.vocabulary import MarkKind
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.model.source import parse_source
from recompile_doctor.prescription.marks import Flag, Mark, Prescription
from recompile_doctor.prescription.observed import INT, ObservedFrame, Place
from recompile_doctor.prescription.reach import Reach, reach_of
from recompile_doctor.prescription.suggest import (
    BOUND_RISK,
    EMPTY_RISK,
    GROUP_RISK,
    UNBACKED_RISK,
)
from recompile_doctor.torch_compat import TorchFeatures
from recompile_doctor.verification.lessons import Lesson, LessonKind


@dataclass(frozen=True, slots=True)
class Candidate:
    """A prescription to try, and why."""

    prescription: Prescription
    reason: str


def refined(
    prescription: Prescription,
    lessons: Sequence[Lesson],
    frames: Sequence[ObservedFrame],
    features: TorchFeatures,
) -> Candidate | None:
    """Return the prescription after what its trial taught; None when that tells nothing new.

    ``frames`` are the calls of the program as it is: a tie or a bound is promised only where all
    of them kept it. What they did not keep makes the mark weaker instead.
    """
    editing = _Editing(list(prescription.marks), frames, features)
    for lesson in lessons:
        editing.learn(lesson)
    marks = tuple(each for each in editing.marks if each is not None)
    if marks == prescription.marks or not (marks or prescription.flags):
        return None
    return Candidate(with_marks(prescription, marks), "; ".join(dict.fromkeys(editing.steps)))


def spared(prescription: Prescription, blamed: Iterable[FrameKey]) -> Candidate | None:
    """Return a prescription that asks less of some functions; None when it asks nothing of them.

    For a trial that torch gives no reason for: the functions that got worse, or whose compile
    ended the program, get dynamic marks in the place of unbacked ones, and then none at all.
    """
    frames = {(each.function, each.file) for each in blamed}
    own = [
        mark
        for mark in prescription.marks
        if mark.frame is not None and (mark.frame.function, mark.frame.file) in frames
    ]
    if not own:
        return None
    names = ", ".join(dict.fromkeys(mark.frame.function or "?" for mark in own if mark.frame))
    if any(mark.kind is MarkKind.UNBACKED for mark in own):
        weaker = {
            mark: Mark(mark.source, mark.dim, MarkKind.DYNAMIC, frame=mark.frame) for mark in own
        }
        marks = tuple(weaker.get(mark, mark) for mark in prescription.marks)
        reason = f"only dynamic in {names}, which got worse"
        return Candidate(with_marks(prescription, marks), reason)
    rest = without(prescription, own)
    if not (rest.marks or rest.flags):
        return None
    return Candidate(rest, f"no mark in {names}, which got worse")


def merged(prescription: Prescription, more: Prescription) -> Prescription:
    """Return a prescription with the marks and flags of another added; those of ``more`` win."""
    marks = {_key(mark): mark for mark in prescription.marks}
    marks.update((_key(mark), mark) for mark in more.marks)
    both = replace(
        prescription,
        flags=tuple(dict.fromkeys((*prescription.flags, *more.flags))),
        explains=tuple(dict.fromkeys((*prescription.explains, *more.explains))),
        risks=tuple(dict.fromkeys((*prescription.risks, *more.risks))),
    )
    return with_marks(both, tuple(marks.values()))


def _key(mark: Mark) -> tuple[FrameKey | None, str, int | None]:
    return (mark.frame, mark.source, mark.dim)


def without_promises(prescription: Prescription) -> Prescription:
    """Return the same marks without groups, bounds and hints: what a variable can say."""
    marks = tuple(
        replace(mark, shape_group=None, minimum=None, maximum=None, hint=None)
        for mark in prescription.marks
    )
    return with_marks(prescription, marks)


def without(prescription: Prescription, marks: Iterable[Mark]) -> Prescription:
    """Return a prescription without some of its marks; a group of one is no group."""
    gone = set(marks)
    kept = [mark for mark in prescription.marks if mark not in gone]
    groups = [mark.shape_group for mark in kept]
    marks = (
        replace(mark, shape_group=None) if groups.count(mark.shape_group) == 1 else mark
        for mark in kept
    )
    return with_marks(prescription, tuple(marks))


def with_marks(prescription: Prescription, marks: tuple[Mark, ...]) -> Prescription:
    """Return a prescription with other marks, and with the title and the risks that fit these."""
    kept = {
        GROUP_RISK: any(mark.shape_group is not None for mark in marks),
        EMPTY_RISK: any(mark.minimum == 1 for mark in marks),
        BOUND_RISK: any(mark.maximum is not None for mark in marks),
        UNBACKED_RISK: any(mark.kind is MarkKind.UNBACKED for mark in marks),
    }
    risks = [
        risk
        for risk in prescription.risks
        if all(there for start, there in kept.items() if risk.startswith(start))
    ]
    for start in (GROUP_RISK, EMPTY_RISK):
        if kept[start] and not any(risk.startswith(start) for risk in risks):
            risks.append(_NEW_RISKS[start])
    return replace(
        prescription,
        title=_title(marks, prescription.flags),
        marks=marks,
        risks=tuple(risks),
        estimated_recompiles_after=None,
    )


_NEW_RISKS = {
    GROUP_RISK: f"{GROUP_RISK} all calls seen; a call where they differ raises an error",
    EMPTY_RISK: EMPTY_RISK,
}


def _title(marks: Iterable[Mark], flags: Iterable[Flag]) -> str:
    """Return what a prescription does, in few words."""
    marks = list(marks)
    kinds = [kind for kind in MarkKind if any(mark.kind is kind for mark in marks)]
    words = " and ".join(kind.value for kind in kinds)
    parts = [f"{words} dimensions"] if words else []
    if any(mark.shape_group is not None for mark in marks):
        parts.append("equal sizes tied together")
    if any(flags):
        parts.insert(0, "capture what depends on data")
    return ", ".join(parts)


@dataclass(slots=True)
class _Editing:
    """The marks of a prescription while lessons change them; None is one that was dropped."""

    marks: list[Mark | None]
    frames: Sequence[ObservedFrame]
    features: TorchFeatures
    steps: list[str] = field(default_factory=list)

    def learn(self, lesson: Lesson) -> None:
        """Change the marks so that what torch asked is answered, or not asked any more."""
        numbers = list(self._numbers(lesson))
        if not numbers:
            return
        match lesson.kind:
            case LessonKind.MINIMUM:
                if not self._bound(numbers, lesson):
                    self._weaken(numbers, lesson, "size 0 occurs, so no bound can be promised")
            case LessonKind.TIE | LessonKind.TIE_AND_MINIMUM:
                self._answer_tie(numbers, lesson)
            case LessonKind.UNDECIDED:
                self._weaken(numbers, lesson, "no bound or tie answers that")
            case LessonKind.OWN_GUARD:
                self._drop(self._broadcast(numbers), lesson)
            case LessonKind.ASSERTION:
                self._free(numbers, lesson)
            case LessonKind.ASSUMED:
                self._weaken(numbers, lesson, "the outputs differ")

    def _answer_tie(self, numbers: list[int], lesson: Lesson) -> None:
        tied = self._tie(numbers, lesson)
        if tied and lesson.kind is LessonKind.TIE_AND_MINIMUM:
            tied = self._bound(numbers, lesson)
        if not tied:
            self._weaken(numbers, lesson, "they are not equal in all calls, or no call can say it")

    def _numbers(self, lesson: Lesson) -> Iterator[int]:
        """Yield which marks a lesson is about; a resume function's inputs count by name."""
        for exact in (True, False):
            found = [
                number
                for number, mark in enumerate(self.marks)
                if mark is not None
                and _place(mark) in lesson.places
                and (not exact or mark.frame in (None, lesson.frame))
            ]
            if found:
                yield from found
                return

    def _columns(self, mark: Mark) -> tuple[ObservedFrame, Place] | None:
        place = _place(mark)
        for frame in self.frames:
            if mark.frame in (None, frame.key) and place in frame.columns:
                return frame, place
        return None

    def _bound(self, numbers: list[int], lesson: Lesson) -> bool:
        """Promise at least 1 where no call had 0; return whether that changed something."""
        if not self.features.mark_bounds:
            return False
        todo = []
        for number in self._with_groups(numbers):
            mark = self.marks[number]
            assert mark is not None
            seen = self._columns(mark)
            if reach_of(mark) is not Reach.CODE or seen is None or 0 in seen[0].values(seen[1]):
                return False
            if mark.kind is MarkKind.UNBACKED and not mark.minimum:
                todo.append((number, replace(mark, minimum=1)))
        for number, mark in todo:
            self.marks[number] = mark
        if todo:
            self._say(f"promise min=1 for {_names(m for _, m in todo)}", lesson)
        return bool(todo)

    def _tie(self, numbers: list[int], lesson: Lesson) -> bool:
        """Put marks in one group where all calls had them equal; return whether they are now."""
        marks = [mark for number in numbers if (mark := self.marks[number]) is not None]
        if len(marks) < len(lesson.places) or not self.features.mark_groups:
            return False
        if any(reach_of(mark) is not Reach.CODE for mark in marks):
            return False
        if len({mark.shape_group for mark in marks}) == 1 and marks[0].shape_group is not None:
            return lesson.kind is LessonKind.TIE_AND_MINIMUM  # tied already, and it did not help
        seen = [self._columns(mark) for mark in marks]
        if not _are_tied([each for each in seen if each is not None], len(marks)):
            return False
        named = {mark.shape_group for mark in marks} - {None}
        group = next((mark.shape_group for mark in marks if mark.shape_group), None)
        group = group or _group_name(marks[0])
        for number, mark in enumerate(self.marks):
            if mark is not None and (number in numbers or mark.shape_group in named):
                self.marks[number] = replace(mark, shape_group=group)
        self._say(f"tie {_names(marks)} together", lesson)
        return True

    def _with_groups(self, numbers: Iterable[int]) -> list[int]:
        chosen = list(numbers)
        groups = {
            mark.shape_group
            for number in chosen
            if (mark := self.marks[number]) is not None and mark.shape_group is not None
        }
        chosen += [
            number
            for number, mark in enumerate(self.marks)
            if mark is not None and mark.shape_group in groups and number not in chosen
        ]
        return chosen

    def _weaken(self, numbers: list[int], lesson: Lesson, why: str) -> None:
        """Make marks dynamic, with all that is tied to them: half unbacked they cannot be equal."""
        changed = []
        for number in self._tied(self._with_groups(numbers)):
            mark = self.marks[number]
            assert mark is not None
            if mark.kind is MarkKind.UNBACKED:
                weaker = Mark(mark.source, mark.dim, MarkKind.DYNAMIC, frame=mark.frame)
                self.marks[number] = weaker
                changed.append(weaker)
        if changed:
            self._say(f"only dynamic for {_names(changed)}, since {why}", lesson)

    def _tied(self, numbers: Iterable[int]) -> list[int]:
        """Return marks and those whose sizes were equal to theirs in all calls."""
        chosen = list(numbers)
        places = set()
        for number in chosen:
            mark = self.marks[number]
            seen = None if mark is None else self._columns(mark)
            if seen is not None:
                frame, place = seen
                places |= {
                    (frame.key, other) for tie in frame.ties if place in tie for other in tie
                }
        for number, mark in enumerate(self.marks):
            if mark is None or number in chosen:
                continue
            seen = self._columns(mark)
            if seen is not None and (seen[0].key, seen[1]) in places:
                chosen.append(number)
        return chosen

    def _broadcast(self, numbers: list[int]) -> list[int]:
        """Return the marks whose size was 1 where another of them was larger; else all."""
        marks = [(number, mark) for number in numbers if (mark := self.marks[number]) is not None]
        ones = []
        for number, mark in marks:
            seen = self._columns(mark)
            if seen is None:
                continue
            mine = seen[0].columns[seen[1]]
            others = [
                seen[0].columns[_place(other)]
                for _, other in marks
                if other is not mark and _place(other) in seen[0].columns
            ]
            if any(
                a == 1 and b is not None and b > 1
                for column in others
                for a, b in zip(mine, column, strict=True)
            ):
                ones.append(number)
        return ones or numbers

    def _drop(self, numbers: list[int], lesson: Lesson) -> None:
        dropped = [mark for number in numbers if (mark := self.marks[number]) is not None]
        for number in numbers:
            self.marks[number] = None
        if dropped:
            self._say(f"no mark for {_names(dropped)}", lesson)

    def _free(self, numbers: list[int], lesson: Lesson) -> None:
        """Take back the promises that did not hold; without any, the mark itself."""
        for number in numbers:
            mark = self.marks[number]
            assert mark is not None
            if mark.shape_group is None and mark.minimum is None and mark.maximum is None:
                self._weaken([number], lesson, "it is checked at run time, and fails")
                continue
            self.marks[number] = replace(mark, shape_group=None, minimum=None, maximum=None)
            self._say(f"promise nothing for {_names([mark])}", lesson)

    def _say(self, what: str, lesson: Lesson) -> None:
        at = ""
        if lesson.line is not None:
            at = f" at {lesson.line.file.rpartition('/')[2]}:{lesson.line.line}"
        asked = f" ({lesson.expression}{at})" if lesson.expression else at
        self.steps.append(f"{what}: {lesson.kind.value}{asked}")


def _are_tied(seen: Sequence[tuple[ObservedFrame, Place]], count: int) -> bool:
    """Return whether places of one function were equal in all calls."""
    if len(seen) != count or len({id(frame) for frame, _ in seen}) != 1:
        return False
    frame = seen[0][0]
    places = {place for _, place in seen}
    return any(places <= set(group) for group in frame.groups)


def _place(mark: Mark) -> Place:
    return Place(mark.source, INT if mark.dim is None else mark.dim)


def _group_name(mark: Mark) -> str:
    short = "".join(each if each.isalnum() else "_" for each in parse_source(mark.source).short)
    return f"{short.strip('_')}_{mark.dim}"


def _names(marks: Iterable[Mark]) -> str:
    return ", ".join(dict.fromkeys(str(_place(mark)) for mark in marks))
