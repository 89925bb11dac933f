"""An agent without memory chooses the points of a loop through its tools."""

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
    """Read the request, try forbidden points, and propose the next point."""
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
    # Repeat the call with the same request id, like a client that lost the answer.
    # Then repeat the call with a new id, like a client that forgot it.
    again = await one.call("propose", **following, reason="the next one", request_id=f"r{number}")
    assert again.data["repeated"]
    assert (await one.call("propose", **following, reason="the next one")).is_error
    assert "asks_for" not in (await one.call("get", loop="walk")).data


@pytest.mark.long
def test_ten_agents_in_turn_complete_a_loop(tmp_path: Path) -> None:
    """No point or round occurs twice, and each round has its proposer and reason."""
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
