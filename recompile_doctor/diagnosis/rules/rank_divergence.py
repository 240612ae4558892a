"""Ranks that compile differently."""

from collections import Counter
from collections.abc import Iterator

from recompile_doctor.diagnosis.finding import Confidence, Disposition, Finding
from recompile_doctor.diagnosis.locate import definition
from recompile_doctor.diagnosis.rule import Examination, Rule, evidence_at, ref_of
from recompile_doctor.model.run import Compilation


class RankDivergence(Rule):
    """One rank compiles a function more often than another; the others wait for it.

    ## What it finds

    A function that was recompiled more often in one rank of a distributed program
    than in another.

    ## Why it recompiles

    Ranks see other data: other lengths, an empty part, another branch. Each
    compiles for itself. They meet in collective operations, so while one compiles
    the others wait; a long compile can run into the time-out of the process
    group.

    ## Evidence

    ```
    tensor 'rows' size mismatch at index 0. expected 6, actual 9
    ```

    This line stands in the log of rank 1 alone.

    The recompiles of the rank that has most of them are the evidence; the finding
    lists the counts of all ranks. A log of one rank only cannot show it.

    ## What to do

    Cure the cause on the rank that recompiles, in all ranks alike:

    - Measured with the example: `mark_dynamic(rows, 0)` on both ranks takes the
      recompiles of rank 1 from 1 to 0 (torch 2.13, 2.15).

    ## Example

    ```python
    rows = torch.full((6 if rank == 0 else rows_of_rank_1, 2), 1.0 + rank)
    torch._dynamo.mark_dynamic(rows, 0)  # on every rank
    local_loss(rows)
    ```

    ## When it is wrong

    Ranks that do different work on purpose (pipeline stages) compile differently.
    Only functions of the same name and file are compared.
    """

    id = "rank-divergence"
    title = "ranks compile differently"

    def check(self, examination: Examination) -> Iterator[Finding]:
        """Yield one finding for each function that ranks recompile differently often."""
        ranks = examination.run.ranks
        if len(ranks) < 2:
            return
        frames: dict[tuple[str | None, str | None], list[Compilation]] = {}
        for each in examination.run.compilations:
            if each.rank is not None:
                frames.setdefault((each.frame.function, each.frame.file), []).append(each)
        for compilations in frames.values():
            counts = Counter(each.rank for each in compilations if each.is_recompile)
            by_rank = {rank: counts.get(rank, 0) for rank in ranks}
            if len(set(by_rank.values())) > 1:
                yield self._finding(compilations, by_rank)

    def _finding(self, compilations: list[Compilation], by_rank: dict[int, int]) -> Finding:
        most = max(by_rank, key=lambda rank: by_rank[rank])
        alone = [each for each in compilations if each.is_recompile and each.rank == most]
        frame = alone[0].frame
        counts = ", ".join(f"rank {rank}: {count}" for rank, count in by_rank.items())
        return Finding(
            rule=self.id,
            title=self.title,
            frame=frame,
            source=None,
            dim=None,
            message=f"recompiles of {frame.function or 'this function'} differ by rank ({counts})",
            why="ranks meet in collective operations, so while one compiles the others wait; in "
            "the worst case they time out",
            evidence=tuple(
                evidence_at(each.failures_origin or each.origin, each.failures[0].text)
                for each in alone
            ),
            confidence=Confidence.OBSERVED,
            disposition=Disposition.FIXABLE,
            recompiles=tuple(ref_of(each) for each in alone),
            location=definition(frame),
        )
