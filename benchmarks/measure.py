"""Runs commands side by side and measures each: wall seconds, CPU seconds, peak memory."""

import os
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Measured:
    """One run of a command. Times are seconds, ``peak`` is resident memory in MB."""

    wall: float
    cpu: float
    peak: float


def run_once(
    command: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> Measured:
    """Return what one run of ``command`` cost, its children included. Fails if the command does."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=cwd, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    words = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[0]} failed: {words.decode(errors='replace')[-2000:]}")
    return Measured(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def side_by_side(
    commands: Mapping[str, Sequence[str]],
    rounds: int,
    *,
    cwd: Path | None = None,
    envs: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, list[Measured]]:
    """Return the runs of each command, taken in turn, so that a slow minute hits all alike."""
    results: dict[str, list[Measured]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            env = None if envs is None else envs.get(name)
            results[name].append(run_once(command, cwd=cwd, env=env))
    return results


def table(results: Mapping[str, Sequence[Measured]], base: str) -> str:
    """Return the medians as a markdown table, with the ratio of each to ``base``."""
    lines = [
        "| command | wall s | CPU s | peak MB | wall ratio | CPU ratio |",
        "|---|---|---|---|---|---|",
    ]
    reference = _medians(results[base])
    for name, runs in results.items():
        each = _medians(runs)
        lines.append(
            f"| {name} | {each.wall:.2f} ({_spread(runs)}) | {each.cpu:.2f} | {each.peak:.0f} "
            f"| {each.wall / reference.wall:.2f} | {each.cpu / reference.cpu:.2f} |"
        )
    return "\n".join(lines)


def _medians(runs: Sequence[Measured]) -> Measured:
    return Measured(
        statistics.median(each.wall for each in runs),
        statistics.median(each.cpu for each in runs),
        statistics.median(each.peak for each in runs),
    )


def _spread(runs: Sequence[Measured]) -> str:
    return f"{min(each.wall for each in runs):.2f}-{max(each.wall for each in runs):.2f}"
