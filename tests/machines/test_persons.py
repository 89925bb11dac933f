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
    """It is shown to anyone who comes back, and holds nothing up."""
    phases = {"a": {"person": person}, "b": {"final": True}}
    place.write("mine.json", small_data(phases=phases))
    place.done("init", "one", "--definition", str(place.path / "mine.json"), "--consent", "trust")
    assert place.done("rehydrate", "one")["phase"]["person"] == person
    assert place.done("transition", "one", "b")["phase"] == "b"


def at_the_plan(place: MachinePlace) -> None:
    """Begin a feature whose plan lies before a person, with all that its review asks for."""
    place.init("f")
    place.write("plan.md", "one step")
    place.done("update", "f", "artifacts.design=d.md")
    place.done("transition", "f", "plan")
    place.done("update", "f", "artifacts.plan=plan.md")
    place.done("transition", "f", "plan-review")
    place.done("update", "f", "planReview.approved=true")


@pytest.mark.parametrize(
    "change", ["artifacts.plan=evil.md", 'tasks=[{"id": "T-1"}]', 'planReview.gaps=["none"]']
)
def test_an_approval_of_a_plan_is_of_what_the_fields_hold(place: MachinePlace, change: str) -> None:
    """Given another plan or other tasks after it, it counts no more; another field does nothing."""
    at_the_plan(place)
    place.done("approve", "f", "plan")
    place.done("update", "f", change)
    if change.startswith("planReview.gaps="):
        place.done("transition", "f", "delegate")
        return
    (unmet,) = place.refused("GUARD_FAILED", 6, "transition", "f", "delegate")["unmet"]
    assert (
        unmet["found"]
        == f"an approval of other values than these: {change.split('=', maxsplit=1)[0]}"
    )
    place.done("approve", "f", "plan")
    place.done("transition", "f", "delegate")


@pytest.mark.parametrize("name", ["plan.md", "./plan.md", "{root}/plan.md"])
def test_an_approval_of_a_plan_is_of_the_file_that_a_field_names(
    place: MachinePlace, name: str
) -> None:
    """Given other content after it, then it counts no more; the statement has the digest."""
    at_the_plan(place)
    place.done("update", "f", "artifacts.plan=" + name.format(root=place.path))
    place.done("approve", "f", "plan")
    data = place.events("f")[-1]["data"]
    assert list(data["files"]) == ["plan.md"]
    assert data["fields"]["planReview.approved"] is True
    place.write("plan.md", "another step")
    (unmet,) = place.refused("GUARD_FAILED", 6, "transition", "f", "delegate")["unmet"]
    assert unmet["found"] == "an approval of other files than these"


def test_the_statement_says_where_the_approval_leads_and_of_which_values_it_is(
    place: MachinePlace,
) -> None:
    """As JSON that a person can read elsewhere."""
    at_the_plan(place)
    line = ("--root", str(place.path), "machine", "approve", "f", "plan", "--statement")
    said = json.loads(call(*line).out)
    assert said["leads_to"] == ["delegate"]
    assert said["fields"] == {"artifacts.plan": "plan.md", "planReview.approved": True}


def test_a_person_takes_an_approval_back(place: MachinePlace) -> None:
    """Then it counts no more until it is given again; without one there is nothing to take."""
    at_the_plan(place)
    assert place.done("approve", "f", "plan", "--withdraw")["events"] == []
    place.done("approve", "f", "plan")
    place.done("approve", "f", "plan", "--withdraw")
    place.refused("GUARD_FAILED", 6, "transition", "f", "delegate")
    place.done("approve", "f", "plan")
    place.done("transition", "f", "delegate")
