"""wfctl accepts a field name of a machine's protocol only at its own path."""

from __future__ import annotations

import json

import pytest

from tests.machines.place import MachinePlace

WRONG = [
    ("oneshot", "extra.synthesisPolicy", "oneshot.synthesisPolicy"),
    ("oneshot", "synthesisPolicy", "oneshot.synthesisPolicy"),
    ("oneshot", "oneshot.extra.synthesisPolicy", "oneshot.synthesisPolicy"),
    ("feature", "extra.synthesisPolicy", "oneshot.synthesisPolicy"),
    ("feature", "extra.gapsFound", "planReview.gapsFound"),
    ("feature", "reviews.one.testsPass", "validation.testsPass"),
    ("feature", "extra.phase", "machine transition one PHASE"),
    ("debug", "x.y.commitSha", "resolution.commitSha"),
    ("refactor", "x.scopeAssessment", "explore.scopeAssessment"),
    ("dotagent", "extra.user_checkpoints", "machine approve one APPROVAL"),
    ("dotagent", "execution.phase_status", "machine append one phase.started"),
    ("conductor", "extra.fix_cycle_count", "wfctl counts"),
    ("conductor", "max_fix_cycles", "limit"),
]


@pytest.mark.parametrize(("type_", "path", "instead"), WRONG)
def test_known_name_is_refused_at_another_place(
    place: MachinePlace, type_: str, path: str, instead: str
) -> None:
    """wfctl refuses such a path in an update or at the start, and names the right path."""
    place.init("one", type_)
    above, _, name = path.rpartition(".")
    lines = [(f"{path}=1",), ("--data", json.dumps({path: 1}))]
    if above:
        lines.append((f"{above}={json.dumps({'deep': [{name: 1}]})}",))
    for line in lines:
        data = place.refused("RESERVED_FIELD", 5, "update", "one", *line)
        assert instead in data["alternateWritePath"]
    assert place.head("one") == 1
    place.done("cancel", "one")
    place.refused("RESERVED_FIELD", 5, "init", "two", "--type", type_, f"{path}=1")


def test_task_refuses_a_known_name_of_another_place(place: MachinePlace) -> None:
    """wfctl also refuses such a name in the data of an event."""
    place.init("one", "oneshot")
    place.refused("RESERVED_FIELD", 5, "task", "one", "T-1", "synthesisPolicy=always")
    place.init("track", "conductor")
    place.done("append", "track", "step.started")
    data = json.dumps({"current_step": "COMPLETE"})
    place.refused("INVALID_INPUT", 2, "append", "track", "step.progressed", "--data", data)


@pytest.mark.parametrize(
    ("type_", "path"),
    [
        ("feature", "oneshot.synthesisPolicy"),
        ("feature", "brief.plan"),
        ("feature", "deploy.status"),
        ("debug", "investigation.plan"),
        ("conductor", "enrich.started_at"),
        ("oneshot", "tasks[+].note"),
    ],
)
def test_own_place_and_common_names_are_allowed(place: MachinePlace, type_: str, path: str) -> None:
    """wfctl accepts a field at its own path, and common names such as `status` anywhere."""
    place.init("one", type_)
    value = '{"id": "T-1", "note": "always"}' if path.startswith("tasks") else "always"
    place.done("update", "one", f"{path.removesuffix('.note')}={value}")


def test_edit_with_a_misplaced_known_name_is_not_adopted(place: MachinePlace) -> None:
    """If a user's edit has the name at another path, `machine drift --adopt` refuses the edit."""
    place.init("one", "oneshot")
    edited = place.json("one.state.json")
    place.write("one.state.json", {**edited, "extra": {"synthesisPolicy": "always"}})
    place.done("checkpoint", "one", "--summary", "went on")
    place.refused("RESERVED_FIELD", 5, "drift", "one", "--adopt")
