"""A scripted agent drives six stages; runner, loop and agent are killed at random moments."""

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
from tests.rounds import first

#: Events of a round in which nobody is killed, about; a blow falls anywhere among them.
_WHOLE = 85
#: What the fold of every round is, no matter who was killed when.
FINER = {"parameters": {"tolerance": {"old": "coarse", "new": "fine"}}}


def expected(root: Path) -> dict[str, Any]:
    """Return the final fold that every round must come to."""
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
    """Drive it under blows, and check that nothing of them is to be seen in the end."""
    print(falling)
    began = time.monotonic()
    drive(workflow, key, falling)
    print(f"completed after {time.monotonic() - began:.1f} s")
    check(workflow)
    assert fold(workflow) == expected(workflow.root)


def dice(number: int) -> random.Random:
    """Return the dice of a round; WFCTL_CRASH_SEED makes them fall as they fell before."""
    seed = os.environ.get("WFCTL_CRASH_SEED") or str(time.time_ns())
    print(f"WFCTL_CRASH_SEED={seed}")
    return random.Random(f"{seed} {number}")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", first([1, 0, 2]))
@pytest.mark.long
def test_whoever_is_killed_the_agent_brings_it_to_the_same_end(
    workflow: Workflow, key: Path, number: int
) -> None:
    """Up to three blows; the first round is left alone."""
    check_round(workflow, key, blows(dice(number), _WHOLE) if number else [])
    report = json.loads(workflow.succeed("events", "--type", "workflow.completed", "-o", "json"))
    text = (workflow.root / report["data"][0]["data"]["report"]).read_text()
    for part in ("mended it, try 2", "it says 'five'", "amend-1 parameter_change", "signature"):
        assert part in text


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", range(3, 30))
def test_in_thirty_runs_it_comes_to_the_same_end(
    workflow: Workflow, key: Path, number: int
) -> None:
    """With the three above; each with blows of its own."""
    check_round(workflow, key, blows(dice(number), _WHOLE))
