"""Where a definition says that a person decides, nobody goes on without one."""

from __future__ import annotations

import json

import pytest

from tests.cli.support import Answer, call
from tests.machines.place import MachinePlace
from tests.machines.support import small_data

#: All that the guards of a feature ask for, from its first phase to its last.
EVERYTHING = {
    "artifacts": {"design": "d.md", "plan": "p.md", "pr": "1"},
    "planReview": {"approved": True},
    "tasks": [{"id": "T-1", "status": "complete"}],
    "reviews": {"spec-review": {"status": "pass"}, "quality-review": {"status": "pass"}},
    "synthesis": {"prUrl": "https://example.org/1"},
}


def as_agent(place: MachinePlace, *words: str) -> Answer:
    """Call ``wfctl machine`` here as an agent."""
    line = ("--root", str(place.path), "-o", "json", "--actor", "agent:bot", "machine", *words)
    return call(*line)


def test_an_agent_alone_stops_at_the_first_phase_of_a_person(place: MachinePlace) -> None:
    """Given all fields written before each step, when it walks on, then it waits for a person."""
    assert as_agent(place, "init", "login", "--type", "feature").code == 0
    for phase in ("plan", "plan-review"):
        as_agent(place, "update", "login", "--data", json.dumps(EVERYTHING))
        assert as_agent(place, "transition", "login", phase).code == 0
    as_agent(place, "update", "login", "--data", json.dumps(EVERYTHING))
    stopped = as_agent(place, "transition", "login", "delegate")
    assert (stopped.code, stopped.error["code"]) == (6, "GUARD_FAILED")
    (unmet,) = stopped.error["data"]["unmet"]
    assert unmet["condition"] == "a person approved: plan"
    assert as_agent(place, "approve", "login", "plan").code == 6
    assert as_agent(place, "transition", "login", "delegate").code == 6
    assert place.phase("login") == "plan-review"


def test_nothing_ends_without_a_person(place: MachinePlace) -> None:
    """Given a pull request, when the end is asked for, then it takes an approval of that phase."""
    place.init("one", "oneshot")
    place.done("update", "one", "artifacts.plan=short", "oneshot.synthesisPolicy=always")
    place.done("transition", "one", "implementing")
    place.done("transition", "one", "synthesize")
    place.done("update", "one", "synthesis.prUrl=https://example.org/1")
    place.refused("GUARD_FAILED", 6, "transition", "one", "completed")
    place.done("approve", "one", "finish")
    assert place.done("transition", "one", "completed")["phase"] == "completed"


def test_a_definition_that_lets_nobody_decide_is_refused(place: MachinePlace) -> None:
    """Given a phase where a person decides and a way on without an approval, then both are said."""
    phases = {"a": {"person": "decides"}, "b": {"final": True}}
    place.write("mine.json", small_data(phases=phases))
    path = str(place.path / "mine.json")
    data = place.refused("INVALID_DEFINITION", 1, "init", "one", "--definition", path)
    assert "a -> b: a person decides in a" in data["problems"][0]
    assert "{approved: NAME}" in data["problems"][0]


@pytest.mark.parametrize("person", ["advises", True, False])
def test_where_a_person_advises_nothing_waits(place: MachinePlace, person: object) -> None:
    """It is shown to whoever comes back, and holds nothing up."""
    phases = {"a": {"person": person}, "b": {"final": True}}
    place.write("mine.json", small_data(phases=phases))
    place.done("init", "one", "--definition", str(place.path / "mine.json"))
    assert place.done("rehydrate", "one")["phase"]["person"] == person
    assert place.done("transition", "one", "b")["phase"] == "b"
