"""A dimension was promised to be dynamic, and the program makes it a constant."""

from collections.abc import Iterator

from recompile_doctor.diagnosis.attribution import parse_size
from recompile_doctor.diagnosis.finding import (
    Confidence,
    Disposition,
    Finding,
    LocationRole,
    Severity,
    UserLocation,
)
from recompile_doctor.diagnosis.locate import definition
from recompile_doctor.diagnosis.rule import Examination, Rule, evidence_at
from recompile_doctor.events.user_code import user_frames
from recompile_doctor.events.vocabulary import ConstraintViolated
from recompile_doctor.model.frame import FrameKey, user_function

_Key = tuple[str | None, str]


class ViolatedDynamicMark(Rule):
    """The program fixes a dimension that mark_dynamic promised would vary.

    ## What it finds

    A dimension under `mark_dynamic` for which the program allows one number only.

    ## Why it recompiles

    It does not compile at all: `mark_dynamic` is a promise that torch checks, and
    when the size turns out to be a constant, torch raises
    ConstraintViolationError.

    ## Evidence

    ```
    You marked L['batch'].size()[0] as dynamic but your code specialized it to be
        a constant (6). If you're using mark_dynamic, either remove it or use
        maybe_mark_dynamic. ...
    ```

    The text log of 2.6 and 2.7 does not name the function.

    ## What to do

    - Take the constant out of the program: `torch.ones(batch.shape[0], 3)` in
      place of `torch.ones(6, 3)`: the error is gone and the graph is dynamic
      (torch 2.8, 2.11, 2.13, 2.15).
    - `torch._dynamo.maybe_mark_dynamic(batch, 0)` is a wish and not a promise:
      the error is gone (torch 2.8, 2.11, 2.13, 2.15), and the dimension is a
      constant (see pinned-dimension).

    ## Example

    ```python
    def add_position(batch):
        position = torch.ones(batch.shape[0], 3)  # before: torch.ones(6, 3)
        return batch + position
    ```

    ## When it is wrong

    It is never a false alarm: torch raised the error. A program that catches it
    goes on without a compiled function.
    """

    id = "violated-dynamic-mark"
    title = "a dimension marked dynamic is made a constant"

    def check(self, examination: Examination) -> Iterator[Finding]:
        """Yield one finding for each dimension whose mark was violated."""
        found: dict[_Key, tuple[FrameKey, list[ConstraintViolated]]] = {}
        for compilation in examination.run.compilations:
            for violation in compilation.violations:
                frame = _frame(compilation.frame, violation)
                key = (frame.function, violation.source)
                found.setdefault(key, (frame, []))[1].append(violation)
        for loose in examination.run.loose_errors:
            if isinstance(loose, ConstraintViolated):
                frame = _frame(FrameKey(None, None, None), loose)
                known = any(source == loose.source for _, source in found)
                if not known:
                    found.setdefault((frame.function, loose.source), (frame, []))[1].append(loose)
        for frame, violations in found.values():
            yield self._finding(frame, violations)

    def _finding(self, frame: FrameKey, violations: list[ConstraintViolated]) -> Finding:
        first = violations[0]
        leaf = parse_size(first.source)
        constant = f" to {first.value}" if first.value is not None else ""
        stack = user_frames(first.user_stack)
        return Finding(
            rule=self.id,
            title=self.title,
            frame=frame,
            source=first.source if leaf is None else str(leaf.source),
            dim=None if leaf is None else leaf.dim,
            message=f"{first.source} was marked dynamic, but the program fixes it{constant}; "
            "torch raises ConstraintViolationError instead of compiling",
            why="mark_dynamic is a promise that torch checks; maybe_mark_dynamic is only a wish",
            evidence=tuple(evidence_at(each.origin, each.message) for each in violations[:5]),
            confidence=Confidence.OBSERVED,
            disposition=Disposition.FIXABLE,
            severity=Severity.HIGH,
            values=() if first.value is None else (first.value,),
            location=UserLocation(stack[-1], LocationRole.ASKED) if stack else definition(frame),
        )


def _frame(frame: FrameKey, violation: ConstraintViolated) -> FrameKey:
    """Return the compiled function, named by the stack where the log does not name it."""
    stack = user_frames(violation.user_stack)
    if frame.function is not None or not stack:
        return frame
    return FrameKey(user_function(stack[-1].function), stack[-1].file, None)
