"""CUDA graphs recorded again and again for new sizes."""

from collections.abc import Iterator

from recompile_doctor.diagnosis.finding import Confidence, Disposition, Finding
from recompile_doctor.diagnosis.rule import Examination, Rule, evidence_at
from recompile_doctor.model.frame import FrameKey


class CudagraphRerecord(Rule):
    """A dynamic graph is recorded as a CUDA graph once for each distinct size."""

    id = "cudagraph-rerecord"
    title = "CUDA graphs are recorded again for each new size"

    def check(self, examination: Examination) -> Iterator[Finding]:
        """Yield one finding when torch warned about the number of recordings."""
        noted = [each for each in examination.run.cudagraphs if each.distinct_sizes is not None]
        if not noted:
            return
        sizes = max(each.distinct_sizes or 0 for each in noted)
        yield Finding(
            rule=self.id,
            title=self.title,
            frame=FrameKey(None, None, None),
            source=None,
            dim=None,
            message=f"torch recorded CUDA graphs for {sizes} distinct sizes",
            why="a CUDA graph replays fixed sizes, so a graph with dynamic sizes is recorded once "
            "for each; recompiles do not count this cost",
            evidence=tuple(evidence_at(each.origin, each.message) for each in noted[:5]),
            confidence=Confidence.OBSERVED,
            disposition=Disposition.FIXABLE,
            values=(str(sizes),),
        )
