"""Read the truth file: which steps were computed, when, and from which inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Run:
    """One computation of a step; times are seconds of the monotonic clock."""

    name: str
    process: int
    digest: str  # of the parameter and the inputs
    started: float
    ended: float | None = None  # None if the computation did not reach its end


def read_runs(path: Path) -> list[Run]:
    """Return every run that the truth file at `path` records, in order of their starts.

    An absent file contains no runs. Raises ValueError if an end has no start.
    """
    runs: list[Run] = []
    lines = path.read_text().splitlines() if path.exists() else []
    for line in lines:
        word, name, process, time, digest = line.split()
        if word == "start":
            runs.append(Run(name, int(process), digest, float(time)))
            continue
        open_runs = [run for run in runs if (run.name, run.process) == (name, int(process))]
        if not open_runs:
            raise ValueError(f"expected a start before this end: {line}")
        open_runs[-1].ended = float(time)
    return runs


def find_repetitions(runs: Iterable[Run]) -> list[str]:
    """Return the names of steps that were computed to their end twice from the same inputs."""
    counts = Counter((run.name, run.digest) for run in runs if run.ended is not None)
    return sorted({name for (name, _), count in counts.items() if count > 1})


def find_overlaps(runs: Iterable[Run]) -> list[str]:
    """Return the names of steps of which two runs overlapped, both computed to their end."""
    ended = sorted((r for r in runs if r.ended is not None), key=lambda run: run.started)
    return sorted(
        {
            later.name
            for number, later in enumerate(ended)
            for earlier in ended[:number]
            if earlier.name == later.name
            and earlier.ended is not None
            and later.started < earlier.ended
        }
    )
