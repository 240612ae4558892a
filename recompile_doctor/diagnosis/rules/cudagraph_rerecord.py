"""CUDA graphs recorded again and again for new sizes."""

from collections.abc import Iterator

from recompile_doctor.diagnosis.finding import Confidence, Disposition, Finding
from recompile_doctor.diagnosis.rule import Examination, Rule, evidence_at
from recompile_doctor.model.frame import FrameKey


class CudagraphRerecord(Rule):
    """A dynamic graph is recorded as a CUDA graph once for each distinct size.

    ## What it finds

    Torch's warning that it recorded CUDA graphs for many sizes
    (`mode="reduce-overhead"` and "max-autotune").

    ## Why it recompiles

    It does not recompile, and no count of recompiles shows it. A CUDA graph
    replays fixed addresses and sizes, so one compiled graph with dynamic sizes is
    recorded again for each size, with its own memory.

    ## Evidence

    ```
    CUDAGraph supports dynamic shapes by recording a new graph for each distinct
        input size. Recording too many CUDAGraphs may lead to extra overhead. We
        have observed 9 distinct sizes. ...
    ```

    The warning is in the text log only (TORCH_LOGS=perf_hints shows it); a trace
    has no word of it.

    ## What to do

    Pad to a few sizes before the call. Torch's other proposal,
    `torch._inductor.config.triton.cudagraph_skip_dynamic_graphs = True`, gives
    CUDA graphs up for dynamic graphs.

    - Measured without a GPU, with the function of torch that gives the warning:
      12 sizes padded to multiples of 8 leave 2 sizes and no warning (torch 2.13,
      2.15). What this saves on a GPU is not measured here.

    ## Example

    ```python
    padded = -(-size // 8) * 8
    step(torch.ones(padded))  # before: torch.ones(size)
    ```

    ## When it is wrong

    Few sizes that come again and again are recorded once each; the warning may
    then only tell of the warm-up.
    """

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
