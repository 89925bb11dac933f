"""A machine with a user's own definition waits until a person has approved the definition."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Answer, call
from tests.cli.terminal import answered, typed
from tests.machines.place import MachinePlace
from tests.machines.support import small_data

LINE = "wfctl machine approve one definition"
STATE = {"version": "1.1", "featureId": "one", "workflowType": "small", "phase": "a"}


def as_agent(place: MachinePlace, *words: str) -> Answer:
    """Run wfctl in this root as an agent."""
    return call("--root", str(place.path), "-o", "json", "--actor", "agent:bot", *words)


def file_of(place: MachinePlace, **more: Any) -> str:
    """Write a definition file, and return its path."""
    place.write("own.json", small_data(**more))
    return str(place.path / "own.json")


def begun(place: MachinePlace, way: str, *policy: str) -> None:
    """As an agent, create or import a machine with its own definition."""
    place.write("one.state.json", STATE)
    source = "one" if way == "init" else str(place.path / "one.state.json")
    if way == "init":
        (place.path / "one.state.json").unlink()
    answer = as_agent(place, "machine", way, source, "--definition", file_of(place), *policy)
    assert answer.code == 0, answer


@pytest.mark.parametrize("way", ["init", "import"])
def test_own_definition_of_an_agent_blocks_all_transitions(place: MachinePlace, way: str) -> None:
    """The machine cannot leave its phase until a person approves, and wfctl says so everywhere."""
    begun(place, way)
    refused = as_agent(place, "machine", "transition", "one", "b")
    assert (refused.code, refused.error["code"]) == (6, "GUARD_FAILED")
    (unmet,) = refused.error["data"]["unmet"]
    assert unmet["condition"] == "a person approved: definition"
    assert as_agent(place, "machine", "approve", "one", "definition").code == 6
    assert place.phase("one") == "a"
    actions = as_agent(place, "machine", "get", "one").envelope["next_actions"]
    assert actions[0]["command"] == LINE
    waiting = as_agent(place, "inbox").data
    (waits,) = [one for one in waiting if one["root"] == str(place.path)]
    assert waits["subject"] == "one definition"
    (listed,) = as_agent(place, "machine", "list").data
    assert LINE in listed["blockers"][0]
    (way_out,) = as_agent(place, "why", "--machine", "one").data["ways"]
    assert way_out["lacks"] == ["a person approved: definition"]


@pytest.mark.parametrize("way", ["init", "import"])
def test_own_definition_needs_no_approval_under_trust(place: MachinePlace, way: str) -> None:
    """Under the policy trust, the machine can change its phase immediately."""
    begun(place, way, "--consent", "trust")
    assert place.done("transition", "one", "b")["phase"] == "b"


@pytest.mark.slow
@pytest.mark.parametrize("way", ["init", "import"])
def test_person_approves_the_text_of_a_definition(place: MachinePlace, way: str) -> None:
    """wfctl shows the full definition and its digest. The approval cannot be withdrawn."""
    begun(place, way)
    line = ["--root", str(place.path), "--actor", "user:ada", "machine", "approve", "one"]
    code, shown = answered("y\n", *line, "definition")
    assert code == 0, shown
    assert '"title": "Small"' in shown.replace("\r", "")
    said = json.loads(call(*line, "definition", "--statement").out)
    assert said["sha256"] in shown
    assert said["definition"]["transitions"] == [{"from": "a", "to": "b"}]
    assert place.done("approve", "one", "definition")["events"] == []
    place.refused("INVALID_INPUT", 2, "approve", "one", "definition", "--withdraw")
    assert place.done("transition", "one", "b")["phase"] == "b"
    assert place.wfctl("fsck").data["findings"] == []


@pytest.mark.slow
def test_person_who_starts_the_machine_approves_its_definition(place: MachinePlace) -> None:
    """If a person types `machine init` at a terminal, this is the approval."""
    line = ["--root", str(place.path), "--actor", "user:ada", "machine", "init", "one"]
    typed(*line, "--definition", file_of(place))
    approved = place.events("one")[-1]
    assert approved["data"]["proof"]["typed"] == "wfctl machine init one"
    assert place.done("transition", "one", "b")["phase"] == "b"


def test_shipped_definition_needs_no_approval(place: MachinePlace) -> None:
    """An exact copy of a shipped definition needs no approval, but a changed copy does."""
    source = call("-o", "json", "machine", "describe", "feature", "--source").data
    place.write("copy.json", source)
    for id_, how in (("one", ["--type", "feature"]), ("two", ["--definition", "copy.json"])):
        how[1] = str(place.path / "copy.json") if id_ == "two" else how[1]
        assert as_agent(place, "machine", "init", id_, *how).code == 0
        place.done("update", id_, "artifacts.design=d.md")
        assert place.done("transition", id_, "plan")["phase"] == "plan"
    source["transitions"][1]["guard"] = None
    place.write("copy.json", source)
    path = str(place.path / "copy.json")
    as_agent(place, "machine", "init", "three", "--definition", path)
    place.done("update", "three", "artifacts.design=d.md")
    place.refused("GUARD_FAILED", 6, "transition", "three", "plan")


def test_approval_named_definition_is_refused(place: MachinePlace) -> None:
    """wfctl reserves the name `definition` for the approval of the definition itself."""
    approvals = {"definition": {"phase": "a", "asks": "Shall it go on?"}}
    data = place.refused(
        *("INVALID_DEFINITION", 1, "init", "one"),
        *("--definition", file_of(place, approvals=approvals)),
    )
    assert data["problems"][0].startswith("approvals.definition: ")


@pytest.mark.forged
def test_forged_approval_of_a_definition_is_ignored(place: MachinePlace, tmp_path: Path) -> None:
    """Forged events without a proof of consent neither approve anything nor change the phase."""
    from tests.adversary.test_machines import raw

    begun(place, "init")
    data = {"approval": "definition", "choice": None, "phase": "a", "approved_by": "user"}
    raw(place, "machine.approved", {**data, "proof": {}, "files": {}, "fields": {}}, form=3)
    raw(place, "machine.transitioned", {"left": "a", "to": "b"})
    assert place.phase("one") == "a"
