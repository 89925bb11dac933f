"""wfctl suggests only next actions that it accepts, or says what they need."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from extensions.machines.service.complete_command import SHIPPED
from tests.machines.place import MachinePlace
from tests.machines.test_lives import LIVES


def actions(place: MachinePlace) -> list[dict[str, Any]]:
    """Return the next actions of the machine."""
    return list(place.call("get", "one").envelope["next_actions"])


def free(place: MachinePlace) -> list[list[str]]:
    """Return the suggested commands that need neither data nor a person."""
    found = [one for one in actions(place) if not (one.get("needs") or one.get("person"))]
    return [shlex.split(one["command"])[2:] for one in found]


def held(place: MachinePlace) -> None:
    """Check that wfctl accepts each suggested command, and that the command records an event."""
    for words in free(place):
        assert words[0] != "cancel", "nothing gives a machine up"
        tried = place.call(*words, "--dry-run") if words[0] != "get" else place.call(*words)
        assert tried.code == 0, (words, tried)
        assert words[0] == "get" or tried.data["events"], words


@pytest.mark.parametrize("type_", SHIPPED)
def test_following_next_actions_is_never_refused(place: MachinePlace, type_: str) -> None:
    """If a caller runs the first action again and again, wfctl accepts each until it needs data."""
    place.done("init", "one", "--type", type_, "--consent", "trust")
    done: list[list[str]] = []
    while steps := free(place):
        if steps[0][0] == "get":
            break
        assert steps[0] not in done, (done, steps)
        done.append(steps[0])
        assert place.call(*steps[0]).code == 0, steps[0]
    assert len(done) < 4, done
    asked = [one for one in actions(place) if one.get("needs") or one.get("person")]
    assert asked, "it says what it waits for"


@pytest.mark.parametrize("type_", sorted(LIVES))
def test_every_phase_offers_the_next_transition(place: MachinePlace, type_: str) -> None:
    """In each phase, the next actions contain the transition that the run takes next."""
    place.done("init", "one", "--type", type_, "--consent", "trust")
    for written, phase in LIVES[type_]:
        if written:
            place.done("update", "one", "--data", json.dumps(written))
        held(place)
        offered = {one["target"] for one in actions(place)}
        left = place.call("transition", "one", phase)
        if left.code == 0:
            assert phase in offered
            continue
        approve = next(one for one in actions(place) if one.get("person"))
        assert place.call(*shlex.split(approve["command"])[2:]).code == 0
        place.done("transition", "one", phase)
    held(place)


def test_action_that_needs_data_names_the_data(place: MachinePlace) -> None:
    """The action of an event names the missing data. A recorded event is not suggested again."""
    place.done("init", "one", "--type", "conductor")
    assert free(place) == [["append", "one", "step.started"]]
    place.done("append", "one", "step.started")
    found = {one["target"]: one for one in actions(place)}
    assert "step.started" not in found
    assert found["step.failed"]["needs"] == ["JSON"]
    assert "notes" in found["step.failed"]["reason"]
    assert "BRAINSTORM" in found["step.passed"]["needs"][0]
    assert found["PLAN"]["needs"] == ["the phase is PASSED"]
