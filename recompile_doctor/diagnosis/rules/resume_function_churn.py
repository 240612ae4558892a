"""Recompiles in the code after a graph break."""

from collections.abc import Iterator

from recompile_doctor.diagnosis.attribution import Cause
from recompile_doctor.diagnosis.finding import (
    Confidence,
    Disposition,
    Finding,
    LocationRole,
    UserLocation,
)
from recompile_doctor.diagnosis.rule import Examination, Rule, recompile_evidence, ref_of
from recompile_doctor.events.vocabulary import StackFrame
from recompile_doctor.model.frame import FrameKey, resume_point

_Key = tuple[str, str | None, int]


class ResumeFunctionChurn(Rule):
    """The code after a graph break recompiles, on its own because of the break.

    ## What it finds

    Recompiles of the functions that torch makes for what follows a graph break.

    ## Why it recompiles

    After a break the rest of the function is compiled by itself, with guards on
    everything that is alive there: locals, and values on the stack, which torch
    calls `___stack0`, `___stack1`. What a call that was not traced returns is new
    in each call, and no caller can mark it.

    ## Evidence

    ```
    Recompiling function torch_dynamo_resume_in_encode_at_16 in program.py:16
        tensor '___stack0' size mismatch at index 0. expected 5, actual 9
    ```

    The cause of each recompile has a finding of its own; this one tells that they
    hang on one break.

    ## What to do

    - Take the break away: do what cannot be traced outside, and pass the result.
      In the example this leaves 3 recompiles, as the lengths still vary, but they
      can be marked now: with `mark_unbacked(tokens, 0)` 3 recompiles and 1 break
      -> 0 and 0 (torch 2.8, 2.11, 2.13, 2.15). (Torch 2.8 and 2.11 start from 8
      recompiles: they also guard on the text.)
    - Or leave the break and mark the stack value, which only the environment can:
      `TORCH_COMPILE_UNBACKED_SOURCES="L['___stack0']:0"` (2.13 and later): 3 -> 0
      (torch 2.13, 2.15). Such an entry names no function: it hits the first stack
      value of every resume function.

    ## Example

    ```python
    tokens = tokenize(text)  # before: inside encode
    torch._dynamo.decorators.mark_unbacked(tokens, 0)
    encode(tokens, scale)
    ```

    ## When it is wrong

    Recompiles in a resume function can have causes that have nothing to do with
    the break; they would be there in the whole function, too. See what the other
    findings say of them.
    """

    id = "resume-function-churn"
    title = "the code after a graph break recompiles"

    def check(self, examination: Examination) -> Iterator[Finding]:
        """Yield one finding for each break whose resume functions recompile."""
        groups: dict[_Key, list[Cause]] = {}
        for cause in examination.causes:
            name = cause.recompile.code_name
            point = None if name is None else resume_point(name)
            if point is not None:
                key = (point.function, cause.recompile.frame.file, point.line)
                groups.setdefault(key, []).append(cause)
        for (function, file, line), causes in groups.items():
            yield self._finding(function, file, line, causes, examination)

    def _finding(
        self,
        function: str,
        file: str | None,
        line: int,
        causes: list[Cause],
        examination: Examination,
    ) -> Finding:
        frame = causes[0].recompile.frame
        place = examination.breaks.at(file, line)
        times = len(causes)
        again = "once" if times == 1 else f"{times} times"
        kind = place.title if place else ""
        cause_of_break = f" The break: {kind}." if kind else ""
        known = [cause.recompile.seconds for cause in causes if cause.recompile.seconds is not None]
        cost = f" ({sum(known):.2f} s, counted with their causes)" if known else ""
        return Finding(
            rule=self.id,
            title=self.title,
            frame=frame if frame.function else FrameKey(function, file, None),
            source=None,
            dim=None,
            message=f"what follows the graph break at line {line} was compiled again {again}{cost}."
            f"{cause_of_break}",
            why="after a graph break torch compiles the rest as a function of its own, with guards "
            "on everything that is alive there; without the break these recompiles would not be",
            evidence=tuple(recompile_evidence(cause) for cause in causes),
            confidence=Confidence.OBSERVED,
            disposition=Disposition.FIXABLE,
            graph_breaks=1,
            break_times=place.times if place else 0,
            recompiles=tuple(ref_of(cause.recompile) for cause in causes),
            location=None
            if file is None
            else UserLocation(StackFrame(file, line, function), LocationRole.BREAK),
        )
