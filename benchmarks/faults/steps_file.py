"""The file of steps that the generated programs of several contenders read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.faults.work import Step


def write_steps(steps: Sequence[Step], folder: Path) -> None:
    """Write the steps to the file `steps.json` in the folder."""
    text = json.dumps([step._asdict() for step in steps], indent=1)
    (folder / "steps.json").write_text(text + "\n")


def group_by_level(steps: Sequence[Step]) -> list[list[Step]]:
    """Return the steps in groups, so that a step only needs steps of earlier groups."""
    levels: dict[str, int] = {}
    for step in steps:
        levels[step.name] = 1 + max((levels[need] for need in step.needs), default=-1)
    return [
        [step for step in steps if levels[step.name] == level]
        for level in range(1 + max(levels.values()))
    ]
