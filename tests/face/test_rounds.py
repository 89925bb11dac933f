"""An agent chooses the points of a loop through its tools, and remembers nothing in between."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.amendments.support import make
from tests.face.support import Agent, drive

pytestmark = pytest.mark.slow

ROUNDS = 11
PLAN: dict[str, Any] = {
    "workflow_id": "walk",
    "stages": [
        {
            "id": "run",
            "name": "Run",
            "outputs": ["run/tasks.csv"],
            "parameters": {"command": "true", "map": {"points": [{"x": 1}]}},
        }
    ],
    "rounds": {
        "walk": {
            "stages": ["run"],
            "points": "run",
            "ask": "agent",
            "each": 1,
            "at_most": ROUNDS,
            "within": {"x": {"from": 1, "to": 20, "step": 1}},
        }
    },
}


async def choose(one: Agent) -> None:
    """Ask what is asked for, try what is not allowed, and propose the next point."""
    asked = (await one.call("get", loop="walk")).data
    known = [point["x"] for point in asked["points_so_far"]]
    number = asked["asks_for"]
    assert number == len(known) + 1
    for wrong in ([{"x": 99}], [{"x": known[0]}], [{"x": 20}, {"x": 19}], [{"y": 2}], []):
        refused = await one.call("propose", loop="walk", points=json.dumps(wrong), reason="why not")
        assert refused.error["code"] == "outside_envelope", wrong
    following = {"loop": "walk", "points": json.dumps([{"x": max(known) + 1}])}
    done = await one.call("propose", **following, reason="the next one", request_id=f"r{number}")
    assert [event["type"] for event in done.data["events"]] == ["round.begun"]
    # Once more, as one does whose answer was lost; then as somebody who forgot it.
    again = await one.call("propose", **following, reason="the next one", request_id=f"r{number}")
    assert again.data["repeated"]
    assert (await one.call("propose", **following, reason="the next one")).is_error
    assert "asks_for" not in (await one.call("get", loop="walk")).data


def test_ten_agents_one_after_another_walk_through_a_loop(tmp_path: Path) -> None:
    """No point twice, none outside, no round twice; each proposal with its reason and proposer."""
    place = make(tmp_path / "root", "--consent", "trust", plan=PLAN)
    for _ in range(ROUNDS - 1):
        place.finish("run")
        drive(place.path, choose)
    place.finish("run")
    assert place.done("status")["status"] == "completed"
    rounds = place.done("round", "show", "walk")["rounds"]
    assert [one["round"] for one in rounds] == [*range(1, ROUNDS + 1)]
    assert [one["points"] for one in rounds[1:]] == [[{"x": x}] for x in range(2, ROUNDS + 1)]
    assert {one["reason"] for one in rounds[1:]} == {"the next one"}
    assert all(one["by"].startswith("agent:") for one in rounds[1:])
    refused = [one for one in place.bypasses() if "walk" in str(one)]
    assert len(refused) >= 5 * (ROUNDS - 1)
    place.done("fsck", "--protocol")
