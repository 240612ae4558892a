"""Torch gave up compiling a function."""

from collections.abc import Iterator

from recompile_doctor.diagnosis.finding import (
    Confidence,
    Disposition,
    Finding,
    Severity,
)
from recompile_doctor.diagnosis.locate import definition
from recompile_doctor.diagnosis.rule import Examination, Rule, evidence_at
from recompile_doctor.model.frame import FrameKey
from recompile_doctor.model.run import Compilation


class RecompileLimitHit(Rule):
    """Torch refused to compile a function once more; from then on it runs eagerly.

    ## What it finds

    A function that reached `recompile_limit` (8 graphs by default), or the
    accumulated limit.

    ## Why it recompiles

    It no longer does, which is the trouble. Calls that no cached graph fits run
    without torch.compile, and the log says nothing of them: counts stop growing
    although the cause goes on.

    ## Evidence

    ```
    torch._dynamo hit config.recompile_limit (3)
       function: 'tagged' (program.py:11)
       last reason: 0/2: label == 'eval-a'
    ```

    Torch 2.6 calls it `cache_size_limit`. With `fullgraph=True` it is an error.

    ## What to do

    Cure the cause of the recompiles before: it is the finding for the same
    function. Then run again, as the limit hid what would have come after it.

    - Measured with the example: a bool in place of the whole label takes 2
      recompiles and a limit hit to 1 recompile and none (torch 2.8, 2.11, 2.13,
      2.15).
    - A higher limit shows the whole cost and cures nothing: with 16 the example
      has 4 recompiles (torch 2.13, 2.15). Use it to diagnose, or where the number
      of graphs is known and wanted.

    ## Example

    ```python
    tagged(x, label.startswith("train"))  # before: tagged(x, label)
    ```

    ## When it is wrong

    A limit that was set low on purpose, to run rare inputs eagerly, does what it
    should.
    """

    id = "recompile-limit-hit"
    title = "the recompile limit was hit"

    def check(self, examination: Examination) -> Iterator[Finding]:
        """Yield one finding for each function that hit the limit."""
        refused: dict[tuple[str | None, str | None], list[Compilation]] = {}
        for each in examination.run.compilations:
            if each.refused is not None:
                refused.setdefault((each.frame.function, each.frame.file), []).append(each)
        for group in refused.values():
            yield self._finding(group[0].frame, group)

    def _finding(self, frame: FrameKey, group: list[Compilation]) -> Finding:
        hit = group[0].refused
        assert hit is not None
        setting = hit.limit or "recompile_limit"
        number = "" if hit.limit_value is None else f" ({hit.limit_value})"
        name = frame.function or "this function"
        title, consequence = _consequence(name, group)
        last = group[0].failures[0].text if group[0].failures else "the recompile limit was hit"
        return Finding(
            rule=self.id,
            title=title,
            frame=frame,
            source=None,
            dim=None,
            message=f"{setting}{number} was reached: {consequence}",
            why="torch stops compiling a function that it has compiled this many times",
            evidence=tuple(
                evidence_at(each.refused.origin, last) for each in group if each.refused
            ),
            confidence=Confidence.OBSERVED,
            disposition=Disposition.FIXABLE,
            severity=Severity.HIGH,
            location=definition(frame),
        )


# fail_type of a compile refused under fullgraph=True: torch/_dynamo/exc.py, all releases.
_RAISED = ("FailOnRecompileLimitHit", "FailOnCacheLimitHit")


def _consequence(name: str, group: list[Compilation]) -> tuple[str, str]:
    """Return the title and what the refusal means: eager calls, or an error with fullgraph."""
    if all(each.finished and each.finished.fail_type in _RAISED for each in group):
        return (
            f"{name} stops with an error: recompile limit hit",
            f"compiled with fullgraph=True, {name} raises an error for inputs that no cached "
            "graph fits",
        )
    return (
        f"from here on {name} runs eagerly: recompile limit hit",
        f"from here on {name} runs eagerly for inputs that no cached graph fits, and the log is "
        "silent about them",
    )
