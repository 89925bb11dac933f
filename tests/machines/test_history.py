"""The history of machines, by the commands that workflows have too."""

from __future__ import annotations

import pytest

from tests.cli.support import call
from tests.machines.place import MachinePlace


@pytest.fixture
def two(place: MachinePlace) -> MachinePlace:
    """Give a root with two machines and no workflow, both with a history."""
    place.init("login")
    place.done("task", "login", "T-1", "--status", "in_progress")
    place.init("pay", "debug")
    place.done("update", "login", "artifacts.design=d.md")
    place.done("transition", "login", "plan", "--reason", "the design stands")
    return place


def test_the_log_of_a_root_of_machines_tells_of_all(two: MachinePlace) -> None:
    """Given no workflow, then the entries of every machine come in the order of the log."""
    found = two.wfctl("log", "--grep", "begins").data
    assert [one["machine"] for one in found] == ["login", "pay"]
    whole = two.wfctl("log").data
    assert [one["position"] for one in whole] == sorted(one["position"] for one in whole)
    text = call("--root", str(two.path), "log").out
    assert "login: ideate -> plan: the design stands" in text
    assert two.wfctl("log", "--at", "2").code == 2
    assert two.wfctl("log", "--follow").code == 2


def test_the_log_of_one_machine(two: MachinePlace) -> None:
    """By name, to a moment, by type and the newest; an unknown one is not found."""
    assert [one["version"] for one in two.wfctl("log", "--machine", "login").data] == [1, 2, 3, 4]
    assert len(two.wfctl("log", "--machine", "login", "--at", "2").data) == 2
    (last,) = two.wfctl("log", "--machine", "login", "-n", "1").data
    assert last["type"] == "machine.transitioned"
    assert two.wfctl("log", "--machine", "nobody").code == 3
    assert two.wfctl("log", "--machine", "login", "--at", "99").code == 3


def test_the_difference_of_two_moments_of_a_machine(two: MachinePlace) -> None:
    """Field by field, exit 7; nothing between a moment and itself."""
    answer = two.wfctl("diff", "--machine", "login", "3", "4", "--field", "phase")
    assert answer.code == 7
    (one,) = answer.data["differences"]
    assert (one["field"], one["a"], one["b"]) == ("phase", "ideate", "plan")
    assert answer.data["a"] == {"machine": "login", "version": 3}
    assert two.wfctl("diff", "--machine", "login", "4").code == 0
    assert two.wfctl("diff", "--machine", "nobody").code == 3


def test_who_changed_a_field_of_a_machine(two: MachinePlace) -> None:
    """A field by its path, one of a task by the task's id; what never was is not found."""
    (phase,) = two.wfctl("blame", "--machine", "login", "phase").data
    assert (phase["version"], phase["old"], phase["value"]) == (4, "ideate", "plan")
    assert (phase["actor"], phase["why"]) == ("user:ada", "the design stands")
    (status,) = two.wfctl("blame", "--machine", "login", "tasks.T-1.status").data
    assert (status["version"], status["value"]) == (2, "in_progress")
    (then,) = two.wfctl("blame", "--machine", "login", "phase", "--at", "3").data
    assert (then["version"], then["value"]) == (1, "ideate")
    assert two.wfctl("blame", "--machine", "login", "nothing.here").code == 3


def test_why_a_machine_stands_in_its_phase(two: MachinePlace) -> None:
    """The event that led there, and what each way out lacks; of the past without the ways."""
    found = two.wfctl("why", "--machine", "login").data
    assert (found["phase"], found["since"]["version"]) == ("plan", 4)
    assert found["since"]["message"] == "ideate -> plan: the design stands"
    (way,) = found["ways"]
    assert way["to"] == "plan-review"
    assert "artifacts.plan" in way["lacks"][0]
    then = two.wfctl("why", "--machine", "login", "--at", "2").data
    assert (then["phase"], then["since"]["version"]) == ("ideate", 1)
    assert "ways" not in then
    assert two.wfctl("why", "stage-1", "--machine", "login").code == 2
    text = call("--root", str(two.path), "why", "--machine", "login").out
    assert "to plan-review: not yet" in text


def test_machines_are_listed_by_phase_and_the_newest(two: MachinePlace) -> None:
    """Only of a phase; only so many, those that changed last first."""
    assert [row["id"] for row in two.done("list", "--phase", "plan")] == ["login"]
    assert two.done("list", "--phase", "nowhere") == []
    two.done("update", "pay", "triage.symptom=slow")
    assert len(two.done("list", "-n", "1")) == 1


def test_a_dry_run_of_cancelling_names_what_is_left(place: MachinePlace) -> None:
    """Branches are spelt as branches, and the pull request is named; nothing is written."""
    place.init("login")
    place.done("update", "login", "artifacts.pr=https://example.org/pull/7")
    before = place.head("login")
    found = place.done("cancel", "login", "--dry-run")
    assert found["left"]["pull_request"] == "https://example.org/pull/7"
    text = call("--root", str(place.path), "machine", "cancel", "login", "--dry-run").out
    assert "left: pull request https://example.org/pull/7" in text
    assert place.head("login") == before


@pytest.mark.slow
def test_a_phase_that_is_late_is_told_and_goes_nowhere(place: MachinePlace) -> None:
    """Given a phase with a time, when that has passed, then list, why and rehydrate say so."""
    definition = {
        "id": "paper",
        "title": "A paper",
        "initial": "review",
        "phases": {"review": {"due": "1s"}, "out": {"final": True}},
        "transitions": [{"from": "review", "to": "out"}],
        "files": {"state": "{id}.state.json"},
    }
    place.write("paper.json", definition)
    path = str(place.path / "paper.json")
    place.done("init", "first", "--definition", path, "--consent", "trust")
    while not (held := place.done("list")[0]["blockers"]):
        pass
    assert "review is late" in held[0]
    assert "expected within 1s" in held[0]
    assert place.wfctl("why", "--machine", "first").data["blockers"] == held
    assert place.done("rehydrate", "first")["blockers"][0]["says"] == held[0]
    assert place.done("list", "--at", "2030-01-01T00:00:00Z")[0]["blockers"] == []
    assert (place.phase("first"), place.head("first")) == ("review", 1)
    definition["phases"]["review"]["due"] = "soon"  # type: ignore[index]
    place.write("paper.json", definition)
    file = str(place.path / "paper.json")
    problems = place.refused("INVALID_DEFINITION", 1, "check", file)["problems"]
    assert "phases.review.due" in str(problems)
