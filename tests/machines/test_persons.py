"""Phases in which a person decides cannot be left without an approval."""

from __future__ import annotations

import json

import pytest

from tests.cli.support import Answer, call
from tests.machines.place import MachinePlace
from tests.machines.support import small_data

#: Values of all fields that a feature requires, from its first to its last phase.
EVERYTHING = {
    "artifacts": {"design": "d.md", "plan": "p.md", "pr": "1"},
    "planReview": {"approved": True},
    "tasks": [{"id": "T-1", "status": "complete"}],
    "reviews": {"spec-review": {"status": "pass"}, "quality-review": {"status": "pass"}},
    "synthesis": {"prUrl": "https://example.org/1"},
}


def as_agent(place: MachinePlace, *words: str) -> Answer:
    """Run ``wfctl machine`` in this root as an agent."""
    line = ("--root", str(place.path), "-o", "json", "--actor", "agent:bot", "machine", *words)
    return call(*line)


def test_agent_stops_at_the_first_decision_of_a_person(place: MachinePlace) -> None:
    """An agent writes all required fields, but cannot leave the plan review without an approval."""
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


def test_completion_requires_an_approval(place: MachinePlace) -> None:
    """A pull request alone does not complete the machine."""
    place.init("one", "oneshot")
    place.done("update", "one", "artifacts.plan=short", "oneshot.synthesisPolicy=always")
    place.done("transition", "one", "implementing")
    place.done("transition", "one", "synthesize")
    place.done("update", "one", "synthesis.prUrl=https://example.org/1")
    place.refused("GUARD_FAILED", 6, "transition", "one", "completed")
    place.done("approve", "one", "finish")
    assert place.done("transition", "one", "completed")["phase"] == "completed"


def test_definition_must_require_the_approval_of_a_deciding_person(place: MachinePlace) -> None:
    """If a person decides in a phase, its transitions must require an approval."""
    phases = {"a": {"person": "decides"}, "b": {"final": True}}
    place.write("mine.json", small_data(phases=phases))
    path = str(place.path / "mine.json")
    data = place.refused("INVALID_DEFINITION", 1, "init", "one", "--definition", path)
    assert "a -> b: a person decides in a" in data["problems"][0]
    assert "{approved: NAME}" in data["problems"][0]


@pytest.mark.parametrize("person", ["advises", True, False])
def test_advising_person_blocks_nothing(place: MachinePlace, person: object) -> None:
    """`rehydrate` shows that a person advises, but no approval is needed."""
    phases = {"a": {"person": person}, "b": {"final": True}}
    place.write("mine.json", small_data(phases=phases))
    place.done("init", "one", "--definition", str(place.path / "mine.json"), "--consent", "trust")
    assert place.done("rehydrate", "one")["phase"]["person"] == person
    assert place.done("transition", "one", "b")["phase"] == "b"


def at_the_plan(place: MachinePlace) -> None:
    """Create a feature with all required fields, whose plan waits for a person's approval."""
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
def test_approval_of_a_plan_covers_the_values_of_its_fields(
    place: MachinePlace, change: str
) -> None:
    """If the plan or task list changes after the approval, wfctl requires a new approval."""
    at_the_plan(place)
    place.done("approve", "f", "plan")
    place.done("update", "f", change)
    if change.startswith("planReview.gaps="):
        place.done("transition", "f", "delegate")
        return
    (unmet,) = place.refused("GUARD_FAILED", 6, "transition", "f", "delegate")["unmet"]
    assert unmet["found"] == f"the approval names other values: {change.split('=', maxsplit=1)[0]}"
    place.done("approve", "f", "plan")
    place.done("transition", "f", "delegate")


@pytest.mark.parametrize("name", ["plan.md", "./plan.md", "{root}/plan.md"])
def test_approval_of_a_plan_covers_the_content_of_its_file(place: MachinePlace, name: str) -> None:
    """If the plan file changes after the approval, a new approval is needed."""
    at_the_plan(place)
    place.done("update", "f", "artifacts.plan=" + name.format(root=place.path))
    place.done("approve", "f", "plan")
    data = place.events("f")[-1]["data"]
    assert list(data["files"]) == ["plan.md"]
    assert data["fields"]["planReview.approved"] is True
    place.write("plan.md", "another step")
    (unmet,) = place.refused("GUARD_FAILED", 6, "transition", "f", "delegate")["unmet"]
    assert unmet["found"] == "the approval names other files"


def test_statement_names_the_next_phase_and_the_approved_values(
    place: MachinePlace,
) -> None:
    """The text to sign is JSON, so that a person can read it on another computer."""
    at_the_plan(place)
    line = ("--root", str(place.path), "machine", "approve", "f", "plan", "--statement")
    said = json.loads(call(*line).out)
    assert said["leads_to"] == ["delegate"]
    assert said["fields"] == {"artifacts.plan": "plan.md", "planReview.approved": True}


def test_approval_can_be_withdrawn(place: MachinePlace) -> None:
    """After `approve --withdraw`, wfctl refuses the transition until the next approval."""
    at_the_plan(place)
    assert place.done("approve", "f", "plan", "--withdraw")["events"] == []
    place.done("approve", "f", "plan")
    place.done("approve", "f", "plan", "--withdraw")
    place.refused("GUARD_FAILED", 6, "transition", "f", "delegate")
    place.done("approve", "f", "plan")
    place.done("transition", "f", "delegate")
