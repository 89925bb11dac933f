"""A scripted agent runs six stages while runner, loop and agent are killed at random."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.agents.support import ATTEMPTS, Blow, blows, check, drive, fold
from tests.crash.support import Workflow
from tests.rounds import first, rounds

#: The approximate number of events in a run without kills, over which the kills are spread.
_WHOLE = 85
#: The amendment that the final state of every run must contain.
FINER = {"parameters": {"tolerance": {"old": "coarse", "new": "fine"}}}


def expected(root: Path) -> dict[str, Any]:
    """Return the final state that every round must reach."""
    plan = json.loads((root / "plan.json").read_text())
    found = [
        {
            "id": stage["id"],
            "status": "completed",
            "retry_count": ATTEMPTS[number] - 1,
            "parameters": stage["parameters"],
            "outputs": stage["outputs"],
            "attempts": ["failed"] * (ATTEMPTS[number] - 1) + ["completed"],
        }
        for number, stage in enumerate(plan["stages"], 1)
    ]
    found[2]["parameters"]["tolerance"] = "fine"
    amendment = {
        "id": "amend-1",
        "version": 2,
        "type": "parameter_change",
        "stage_id": "stage-3",
        "changes": FINER,
    }
    return {"version": 2, "stages": found, "amendments": [amendment]}


def check_round(workflow: Workflow, key: Path, falling: list[Blow]) -> None:
    """Run a round with the given kills, and check that the result is unaffected."""
    print(falling)
    began = time.monotonic()
    drive(workflow, key, falling)
    print(f"completed after {time.monotonic() - began:.1f} s")
    check(workflow)
    assert fold(workflow) == expected(workflow.root)


def dice(number: int) -> random.Random:
    """Return the random generator of a round; WFCTL_CRASH_SEED repeats an earlier run."""
    seed = os.environ.get("WFCTL_CRASH_SEED") or str(time.time_ns())
    print(f"WFCTL_CRASH_SEED={seed}")
    return random.Random(f"{seed} {number}")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", first([1, 0, 2]))
@pytest.mark.long
def test_workflow_has_the_same_result_after_kills(
    workflow: Workflow, key: Path, number: int
) -> None:
    """The workflow reaches the same final state without kills and with up to three kills."""
    check_round(workflow, key, blows(dice(number), _WHOLE) if number else [])
    report = json.loads(workflow.succeed("events", "--type", "workflow.completed", "-o", "json"))
    text = (workflow.root / report["data"][0]["data"]["report"]).read_text()
    for part in ("mended it, try 2", "it says 'five'", "amend-1 parameter_change", "signature"):
        assert part in text


@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", rounds(range(3, 30), few=0, daily=5))
def test_thirty_rounds_have_the_same_result(workflow: Workflow, key: Path, number: int) -> None:
    """Thirty runs with different random kills reach the same final state."""
    check_round(workflow, key, blows(dice(number), _WHOLE))
