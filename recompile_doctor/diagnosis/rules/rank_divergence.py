"""Ranks that compile differently."""

from collections import Counter
from collections.abc import Iterator

from recompile_doctor.diagnosis.finding import Confidence, Disposition, Finding
from recompile_doctor.diagnosis.locate import definition
from recompile_doctor.diagnosis.rule import Examination, Rule, evidence_at, ref_of
from recompile_doctor.model.run import Compilation


class RankDivergence(Rule):
    """One rank compiles a function more often than another; the others wait for it."""

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
            values=tuple(f"rank {rank}: {count}" for rank, count in by_rank.items()),
            recompiles=tuple(ref_of(each) for each in alone),
            location=definition(frame),
        )
