"""From findings to prescriptions: which marks and flags, in which order, and what to rewrite."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from recompile_doctor.capture.calls import CalledFunction
from recompile_doctor.diagnosis.attribution import parse_size
from recompile_doctor.diagnosis.breaks import BreakMeaning, BreakPlace
from recompile_doctor.diagnosis.diagnose import Diagnosis
from recompile_doctor.diagnosis.finding import Confidence, Disposition, Finding
from recompile_doctor.events.user_code import is_torch_frame
from recompile_doctor.events.vocabulary import GuardAdded, MarkKind, StackFrame
from recompile_doctor.model.expression import iter_symbols, parse_expression
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.model.reason import ShapeGuardFailure
from recompile_doctor.model.run import Compilation, CompileKey
from recompile_doctor.model.source import parse_source
from recompile_doctor.prescription.advice import advice_for
from recompile_doctor.prescription.environment import FREE_PARAMETERS
from recompile_doctor.prescription.marks import Advice, Flag, Mark, Prescription
from recompile_doctor.prescription.observed import (
    ALL_MEMBERS,
    ObservedFrame,
    Place,
    container_of,
    is_module_tensor,
    observe,
    size_place,
)
from recompile_doctor.prescription.reach import Reach, reach_of
from recompile_doctor.prescription.replay import estimated_recompiles
from recompile_doctor.torch_compat import TorchFeatures

CAPTURE_SCALARS = Flag("torch._dynamo.config.capture_scalar_outputs", True)
CAPTURE_SHAPES = Flag("torch._dynamo.config.capture_dynamic_output_shape_ops", True)

# What can go wrong with promises; a prescription that loses one loses its risk.
GROUP_RISK = "sizes in one group were equal in"
EMPTY_RISK = "size 0 was never seen where min=1 is promised; an empty input raises an error"
BOUND_RISK = "a size outside the promised bounds raises an error"
UNBACKED_RISK = "an unbacked size takes the general path everywhere"

# Findings about sizes and ints: what a mark can do something about.
_MARKABLE = frozenset(
    {
        "zero-one-specialization",
        "unmarked-dynamic-dim",
        "equal-sizes-guard",
        "pinned-dimension",
        "divisibility-guard",
        "range-guard",
        "parameter-shape-change",
        "int-value-change",
        "module-attribute-change",
        "stride-change",
    }
)
_CONTAINERS = frozenset({"container-keys-change", "container-length-change"})
_FLAGS_FOR = {
    BreakMeaning.SCALAR: (CAPTURE_SCALARS,),
    BreakMeaning.SHAPE: (CAPTURE_SHAPES,),
}
_MOST_STATIC_VALUES = 4
_SPECIAL = (0, 1)


def suggest(
    diagnosis: Diagnosis,
    features: TorchFeatures,
    *,
    bounds: bool = False,
    called: Iterable[CalledFunction] = (),
) -> tuple[Prescription, ...]:
    """Return what to change, the most plausible first; empty when there is nothing to do.

    ``features`` is the torch that the program will run on. ``bounds`` adds the smallest and the
    largest size seen as promised bounds. ``called`` are the calls that the probe saw, which a log
    does not tell. None of it is verified: the estimates come from a replay.
    """
    frames = observe(diagnosis.run, called)
    plans = [_planned(frame, diagnosis) for frame in frames]
    return _Suggesting(diagnosis, features, frames, tuple(plans), bounds).prescriptions()


@dataclass(frozen=True, slots=True)
class _Plan:
    """What to do about the places of one code object, and what may go wrong.

    ``growing`` are the containers whose members change: a mark is for all of them.
    """

    frame: ObservedFrame
    kinds: Mapping[Place, MarkKind] = field(default_factory=dict)
    growing: frozenset[str | None] = frozenset()
    risks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Suggesting:
    diagnosis: Diagnosis
    features: TorchFeatures
    frames: tuple[ObservedFrame, ...]
    plans: tuple[_Plan, ...]
    bounds: bool

    def prescriptions(self) -> tuple[Prescription, ...]:
        found = [*self._with_flags(), *self._marks_only()]
        advice = tuple(advice_for(self.diagnosis, self.frames))
        found = [replace(each, advice=_left(advice, each)) for each in found]
        if not found and advice:
            found.append(
                Prescription(
                    id="code",
                    title="change the program: no mark or flag helps here",
                    advice=advice,
                )
            )
        return tuple(found)

    def _marks_only(self) -> Iterator[Prescription]:
        """Yield the strongest marks, the same for the environment, and the safe ones."""
        frames = self.frames
        strongest = self._marks(self.plans, full=True)
        plain = self._marks(self.plans, full=False)
        dynamic = _made_dynamic(plain)
        made: list[Prescription] = []
        if any(mark.kind is MarkKind.UNBACKED for mark in plain):
            if _has_groups_or_bounds(strongest):
                made.append(
                    self._prescription(
                        "strongest",
                        "unbacked dimensions, equal sizes tied together",
                        strongest,
                        (),
                        frames,
                    )
                )
                made.append(
                    self._prescription(
                        "environment",
                        "unbacked dimensions, without touching the program",
                        plain,
                        (),
                        frames,
                    )
                )
            else:
                made.append(
                    self._prescription("strongest", "unbacked dimensions", strongest, (), frames)
                )
        if dynamic:
            made.append(
                self._prescription("dynamic-only", "dynamic, nothing unbacked", dynamic, (), frames)
            )
        before = len(self.diagnosis.run.recompiles)
        for each in made:
            if each.estimated_recompiles_after is None or each.estimated_recompiles_after < before:
                yield each

    def _with_flags(self) -> Iterator[Prescription]:
        """Yield what captures data-dependent values, together with the marks that then remain."""
        places = [
            place
            for place in self.diagnosis.breaks.places()
            if place.meaning in _FLAGS_FOR and not place.fatal
        ]
        if not places:
            return
        flags = tuple(dict.fromkeys(flag for place in places for flag in _FLAGS_FOR[place.meaning]))
        left = _left_without(places, self.diagnosis, self.frames)
        moved = _moved_to_callers(self.frames, left)
        plans = (
            *(plan for plan in self.plans if plan.frame in left),
            *(_planned(frame, self.diagnosis) for frame in moved),
        )
        left = (*left, *moved)
        marks = self._marks(plans, full=True)
        alone = self._prescription(
            "flags", "capture what depends on data in the graph", (), flags, left, places
        )
        if marks:
            yield self._prescription(
                "flags-and-marks",
                "capture what depends on data, and mark the inputs",
                marks,
                flags,
                left,
                places,
            )
        yield alone

    def _prescription(
        self,
        name: str,
        title: str,
        marks: tuple[Mark, ...],
        flags: tuple[Flag, ...],
        frames: Sequence[ObservedFrame],
        places: Sequence[BreakPlace] = (),
    ) -> Prescription:
        if self._needs_free_parameters(marks):
            flags = (*flags, *FREE_PARAMETERS)
        return Prescription(
            id=name,
            title=title,
            marks=marks,
            flags=flags,
            explains=tuple(self._explained(marks, frames, places)),
            estimated_recompiles_after=estimated_recompiles(frames, marks, self._limit()),
            risks=tuple(self._risks(marks, places)),
        )

    def _limit(self) -> int | None:
        return next(
            (hit.limit_value for _, hit in self.diagnosis.run.limit_hits if hit.limit_value), None
        )

    def _needs_free_parameters(self, marks: Iterable[Mark]) -> bool:
        """Return whether a parameter can only be unbacked with torch's settings for it (2.15)."""
        return not self.features.parameters_need_both_lists and any(
            mark.kind is MarkKind.UNBACKED and is_module_tensor(parse_source(mark.source))
            for mark in marks
        )

    def _marks(self, plans: Iterable[_Plan], *, full: bool) -> tuple[Mark, ...]:
        return tuple(mark for plan in plans for mark in self._marks_of(plan, full=full))

    def _marks_of(self, plan: _Plan, *, full: bool) -> Iterator[Mark]:
        groups = _group_names(plan)
        made: set[Mark] = set()
        for place, kind in plan.kinds.items():
            source = place.source
            container = container_of(source)
            if container in plan.growing and self.features.source_patterns:
                source = f"{container}{ALL_MEMBERS}"
            mark = Mark(source, None if place.is_int else place.dim, kind, frame=plan.frame.key)
            if mark in made:
                continue
            made.add(mark)
            if full and kind is MarkKind.UNBACKED and reach_of(mark) is Reach.CODE:
                mark = self._completed(mark, place, plan, groups.get(place))
            yield mark

    def _completed(self, mark: Mark, place: Place, plan: _Plan, group: str | None) -> Mark:
        """Return a mark with the group, bounds and hint that this torch understands."""
        features = self.features
        values = plan.frame.seen(place)
        typical = plan.frame.typical(place)
        minimum = 1 if group is not None and 1 in values and 0 not in values else None
        if self.bounds and min(values) > 0:
            minimum = min(values)
        return replace(
            mark,
            shape_group=group if features.mark_groups else None,
            minimum=minimum if features.mark_bounds else None,
            maximum=max(values) if features.mark_bounds and self.bounds else None,
            hint=typical if features.mark_hints and typical > 1 else None,
        )

    def _explained(
        self, marks: Sequence[Mark], frames: Sequence[ObservedFrame], places: Sequence[BreakPlace]
    ) -> Iterator[str]:
        """Yield the ids of the findings that a prescription is for."""
        marked = {(mark.source, mark.dim) for mark in marks}
        containers = {
            (mark.source.removesuffix(ALL_MEMBERS), mark.dim)
            for mark in marks
            if mark.source.endswith(ALL_MEMBERS)
        }
        keys = {
            call.compilation.key
            for frame in frames
            if any(mark.frame == frame.key for mark in marks)
            for call in frame.calls
        }
        gone = {
            call.compilation.key
            for frame in self.frames
            if frame not in frames
            for call in frame.calls
        }
        lines = {(place.place.file, place.place.line) for place in places}
        for finding in self.diagnosis.findings:
            if finding.disposition is Disposition.EXPECTED:
                continue
            recompiles = {ref.key for ref in finding.recompiles}
            at = finding.location.frame if finding.location is not None else None
            if (
                ((finding.source, finding.dim) in marked and recompiles & keys)
                or (
                    finding.source is not None
                    and (container_of(finding.source), finding.dim) in containers
                    and recompiles & keys
                )
                or (recompiles and recompiles <= gone)
                or (finding.graph_breaks and at is not None and (at.file, at.line) in lines)
                or (finding.rule == "recompile-limit-hit" and _is_of(finding, marks))
            ):
                yield finding.id

    def _risks(self, marks: Sequence[Mark], places: Sequence[BreakPlace]) -> Iterator[str]:
        unbacked = [mark for mark in marks if mark.kind is MarkKind.UNBACKED]
        if unbacked:
            yield (
                f"{UNBACKED_RISK}: code that branches on it, or "
                "broadcasts it when it is 1, ends in a graph break or an error, and a result for "
                "size 1 may get another shape (squeeze); compare the outputs"
            )
        if any(mark.shape_group for mark in marks):
            yield (
                f"{GROUP_RISK} {self._calls_of(marks)}; a call where they differ raises an error"
            )
        if any(mark.minimum == 1 for mark in marks):
            yield EMPTY_RISK
        if self.bounds and any(mark.maximum is not None for mark in marks):
            yield BOUND_RISK
        if places:
            yield (
                "what depends on data becomes an unbacked size or number: code that branches on "
                "it fails instead of breaking the graph (a tolist() in a comprehension ends the "
                "program)"
            )
        if self.diagnosis.run.limit_hits:
            yield "the recompile limit hid later calls: run again, and diagnose again"
        used = {mark.frame for mark in marks}
        for plan in self.plans:
            if plan.frame.key in used:
                yield from plan.risks

    def _calls_of(self, marks: Iterable[Mark]) -> str:
        """Return what is known of the calls of the functions that have groups of sizes."""
        grouped = {mark.frame for mark in marks if mark.shape_group}
        observed = [frame.observed_calls for frame in self.frames if frame.key in grouped]
        if not observed or not all(observed):
            return "every call that the log has"
        return f"all {sum(observed)} calls that were observed"


def _left(advice: tuple[Advice, ...], prescription: Prescription) -> tuple[Advice, ...]:
    """Return the advice for what a prescription does not do."""
    if prescription.flags and not prescription.marks:
        return advice
    explained = set(prescription.explains)
    return tuple(
        each for each in advice if each.finding not in explained or each.rule in _STILL_ADVISED
    )


# Worth reading although a mark touches the same dimension.
_STILL_ADVISED = frozenset({"range-guard", "divisibility-guard", "recompile-limit-hit"})


def _is_of(finding: Finding, marks: Iterable[Mark]) -> bool:
    return any(
        mark.frame is not None
        and (mark.frame.file, mark.frame.line) == (finding.frame.file, finding.frame.line)
        for mark in marks
    )


def _has_groups_or_bounds(marks: Iterable[Mark]) -> bool:
    return any(
        mark.shape_group is not None or mark.minimum is not None or mark.maximum is not None
        for mark in marks
    )


def _made_dynamic(marks: Iterable[Mark]) -> tuple[Mark, ...]:
    return tuple(
        replace(mark, kind=MarkKind.DYNAMIC) if mark.kind is MarkKind.UNBACKED else mark
        for mark in marks
    )


def _group_names(plan: _Plan) -> dict[Place, str]:
    """Return the shape group of each unbacked place that was always equal to another."""
    names: dict[Place, str] = {}
    for group in plan.frame.groups:
        members = [
            place
            for place in group
            if plan.kinds.get(place) is MarkKind.UNBACKED
            and reach_of(Mark(place.source, place.dim, MarkKind.UNBACKED, frame=plan.frame.key))
            is Reach.CODE
        ]
        members = [each for each in members if container_of(each.source) not in plan.growing]
        if len(members) > 1:
            first = members[0]
            short = "".join(
                each if each.isalnum() else "_" for each in parse_source(first.source).short
            )
            name = f"{short.strip('_')}_{first.dim}"
            names.update(dict.fromkeys(members, name))
    return names


# What to mark


def _planned(frame: ObservedFrame, diagnosis: Diagnosis) -> _Plan:
    """Return what to do about the places of a frame; nothing when no finding asks for it."""
    keys = {call.compilation.key for call in frame.calls}
    findings = [
        each
        for each in diagnosis.findings
        if each.rule in _MARKABLE and any(ref.key in keys for ref in each.recompiles)
    ]
    if not any(each.disposition is Disposition.FIXABLE for each in findings):
        return _Plan(frame)
    places = _places_to_mark(frame, findings, keys)
    branches = {place: line for place, line in _branched_on(frame).items() if place in places}
    dynamic = set(branches) | _tied_to(branches, frame)
    risks = []
    if _has_batch_norm(frame):
        dynamic |= {place for place in places if not place.is_int}
        risks.append(
            "a batch norm in training mode checks the batch size, which an unbacked size does not "
            "survive: dynamic is prescribed instead"
        )
    for place, line in branches.items():
        risks.append(
            f"{place} is branched on ({_line(line)}): it stays dynamic, with one compile for each "
            "branch"
        )
    for place in places:
        if place in frame.broadcast:
            risks.append(
                f"{place} looks like it is 1 to broadcast, so it gets no mark: unbacked it would "
                "raise an error"
            )
    if any("_hooks[" in place.source for place in frame.columns):
        risks.append(
            "a hook of a module is part of the graph, and torch does not guard on hooks: with "
            "fewer recompiles a hook that was added later may never run; compare the outputs"
        )
    marked = [place for place in places if place not in frame.broadcast]
    unbacked = any(
        not place.is_int and place not in dynamic and _touches_special(frame, place)
        for place in marked
    )
    pinned = _pinned(findings)
    kinds: dict[Place, MarkKind] = {}
    for place in marked:
        if place in pinned:
            if len(frame.seen(place)) <= _MOST_STATIC_VALUES:
                kinds[place] = MarkKind.STATIC
        elif not unbacked or place in dynamic or _is_general_parameter(frame, place):
            kinds[place] = MarkKind.DYNAMIC
        elif place.is_int:
            tied = any(
                frame.always_equal(place, other)
                for other in marked
                if not other.is_int and other not in dynamic
            )
            kinds[place] = MarkKind.UNBACKED if tied else MarkKind.DYNAMIC
        else:
            kinds[place] = MarkKind.UNBACKED
    growing = frozenset(
        each.source
        for each in diagnosis.findings
        if each.rule in _CONTAINERS and any(ref.key in keys for ref in each.recompiles)
    )
    return _Plan(frame, kinds, growing, tuple(risks))


def _places_to_mark(
    frame: ObservedFrame, findings: Sequence[Finding], keys: set[CompileKey]
) -> list[Place]:
    """Return all places that vary: also those that no guard named, since they may be tied.

    A parameter counts only where it is what kept an entry from serving; else the code serves
    several modules, and each is right to have graphs of its own. Dimensions that follow such a
    parameter are left alone with it.
    """
    parameters_at_fault = any(
        each.rule == "parameter-shape-change" and any(key in keys for key in each.leading)
        for each in findings
    )
    if parameters_at_fault:
        return list(frame.varying)
    own = {place for place in frame.varying if place.source in frame.parameters}
    following = {
        place
        for place in frame.varying
        if place not in own and any(frame.always_equal(place, each) for each in own)
    }
    return [place for place in frame.varying if place not in own | following]


def _is_general_parameter(frame: ObservedFrame, place: Place) -> bool:
    """Return whether it belongs to a parameter and is 2 or more always: dynamic is enough then."""
    return place.source in frame.parameters and not _touches_special(frame, place)


def _touches_special(frame: ObservedFrame, place: Place) -> bool:
    return any(each in _SPECIAL for each in frame.seen(place))


def _tied_to(places: Iterable[Place], frame: ObservedFrame) -> set[Place]:
    wanted = set(places)
    return {each for tie in frame.ties if wanted & set(tie) for each in tie}


def _pinned(findings: Iterable[Finding]) -> set[Place]:
    return {
        Place(each.source, each.dim)
        for each in findings
        if each.rule == "pinned-dimension"
        and each.confidence is Confidence.OBSERVED
        and each.source is not None
        and each.dim is not None
    }


def _has_batch_norm(frame: ObservedFrame) -> bool:
    """Return whether a batch norm counts its batches in one of the calls: it is in training."""
    return any(
        each.source.endswith("['num_batches_tracked']")
        for call in frame.calls
        for each in call.compilation.inputs
    )


# Branches of the user's code


def _branched_on(frame: ObservedFrame) -> dict[Place, StackFrame]:
    """Return the dimensions that the user's own code branches on, with the line.

    Dynamo evaluates an ``if`` of the traced code itself; a check of an operation has another
    line of torch below it.
    """
    found: dict[Place, StackFrame] = {}
    for call in frame.calls:
        for candidate in call.candidates:
            for failure in candidate.failures:
                if isinstance(failure, ShapeGuardFailure):
                    line = _branch_of_failure(failure)
                    if line is not None:
                        for size in failure.sizes:
                            found.setdefault(size_place(size), line)
        for place, line in _branches_of_compile(call.compilation):
            found.setdefault(place, line)
    return found


def _branch_of_failure(failure: ShapeGuardFailure) -> StackFrame | None:
    for user, torch in (
        (failure.user_frame, failure.torch_frame),
        (failure.upper_user_frame, failure.upper_torch_frame),
    ):
        if user is not None and torch is not None and _is_branch(user, torch):
            return user
    return None


def _branches_of_compile(compilation: Compilation) -> Iterator[tuple[Place, StackFrame]]:
    places = {
        symbol.symbol: size_place(size)
        for symbol in compilation.symbols
        if (size := parse_size(symbol.source)) is not None
    }
    for guard in compilation.guards:
        user = guard.user_stack[-1] if guard.user_stack else None
        if user is None or guard.torch_frame is None or not _is_branch(user, guard.torch_frame):
            continue
        for name in _symbols_in(guard):
            if name in places:
                yield places[name], user


# Where Dynamo decides an `if` or `while` of the traced code on a symbolic size: on a comparison,
# on the truth of an expression (torch/_dynamo/variables/tensor.py and symbolic_convert.py).
_BRANCHES = (("variables/tensor.py", "evaluate_expr"), ("symbolic_convert.py", "inner"))


def _is_branch(user: StackFrame, torch: StackFrame) -> bool:
    if is_torch_frame(user.file):
        return False
    return any(
        torch.file.endswith(f"_dynamo/{file}") and torch.function == function
        for file, function in _BRANCHES
    )


def _line(frame: StackFrame) -> str:
    return frame.code or f"line {frame.line}"


def _symbols_in(guard: GuardAdded) -> Iterator[str]:
    for symbol in iter_symbols(parse_expression(guard.expression)):
        yield symbol.name


# What captured breaks leave


def _left_without(
    places: Sequence[BreakPlace], diagnosis: Diagnosis, frames: Sequence[ObservedFrame]
) -> tuple[ObservedFrame, ...]:
    """Return the frames that are still compiled by themselves when breaks are captured.

    The resume functions behind a captured break go, and so does the function that holds its line
    where another one called it: it becomes part of that one's graph.
    """
    fixed = {id(place) for place in places}
    broken: dict[FrameKey, list[BreakPlace]] = {}
    for place in diagnosis.breaks.places():
        for key in dict.fromkeys(each.frame for each in place.compilations):
            broken.setdefault(key, []).append(place)
    captured = {key for key, breaks in broken.items() if all(id(each) in fixed for each in breaks)}
    inlined = set()
    for place in places:
        holders = {each.frame for each in place.compilations}
        holder = _holding(place.place, holders)
        if holder is not None and len(holders) > 1 and holder in captured:
            inlined.add(holder)
    return tuple(
        frame
        for frame in frames
        if frame.frame not in inlined and not (frame.is_resume and frame.frame in captured)
    )


def _moved_to_callers(
    frames: Sequence[ObservedFrame], left: Sequence[ObservedFrame]
) -> tuple[ObservedFrame, ...]:
    """Return what captured breaks leave of their resume functions: sizes of the caller's inputs.

    A break hides from the function before it what only the code behind it looks at. Once it is
    captured, these inputs are the function's own, and vary there. Values that the break itself
    left behind (``___stack0``) are gone.
    """
    seen = {(frame.frame, place) for frame in left for place in frame.varying}
    callers = {frame.frame: frame for frame in left if not frame.is_resume}
    moved = []
    for frame in frames:
        if frame in left or not frame.is_resume or frame.frame not in callers:
            continue
        kept = [
            place
            for place in frame.varying
            if not parse_source(place.source).is_resume_stack and (frame.frame, place) not in seen
        ]
        if kept:
            seen.update((frame.frame, place) for place in kept)
            rows = callers[frame.frame].rows
            moved.append(replace(frame.restricted_to(kept), rows=rows))
    return tuple(moved)


def _holding(line: StackFrame, frames: Iterable[FrameKey]) -> FrameKey | None:
    """Return the function that holds a line: the last one that begins before it."""
    before = [
        each
        for each in frames
        if each.file == line.file and each.line is not None and each.line <= line.line
    ]
    return max(before, key=lambda each: each.line or 0, default=None)
