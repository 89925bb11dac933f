"""State kept by hand: every field kept, what is unknown reported, only non-JSON refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.machines.place import MachinePlace

FOLDER = "conductor/tracks/auth"
FILE = f"{FOLDER}/metadata.json"

CHECKPOINT = {
    "status": "PASSED",
    "started_at": "2026-02-01T10:00:00Z",
    "completed_at": "2026-02-01T11:00:00Z",
    "agent": "superpowers:writing-plans",
    "last_updated": "2026-02-01T11:00:00Z",
    "notes": ["one", "two"],
}
TRACK: dict[str, Any] = {
    "version": 3,
    "track_id": "auth",
    "name": "Auth",
    "status": "in_progress",
    "superpower_enhanced": True,
    "blockers": ["waits for the design"],
    "loop_state": {
        "current_step": "EXECUTE",
        "step_status": "IN_PROGRESS",
        "fix_cycle_count": 1,
        "checkpoints": {"PLAN": CHECKPOINT, "GAME_VERIFICATION": {"status": "COMPLETED"}},
        "parallel_state": {"workers": 2},
    },
}


def imported(place: MachinePlace, source: Any, file: str = FILE) -> dict[str, Any]:
    """Take a file over and return the answer's data."""
    place.write(file, source)
    found: dict[str, Any] = place.done("import", str(place.path / file))
    return found


def kinds(data: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what was found, and where."""
    return [(one["kind"], one["place"]) for one in data["findings"]]


def track(**loop: Any) -> dict[str, Any]:
    """Return a track with other parts of its loop."""
    return {**TRACK, "loop_state": {**TRACK["loop_state"], **loop}}


def test_a_track_is_taken_over_with_every_field(place: MachinePlace) -> None:
    """What nobody specified stays where it was."""
    data = imported(place, TRACK)
    assert ("unknown_step", "loop_state.checkpoints.GAME_VERIFICATION") in kinds(data)
    assert ("unknown_field", "superpower_enhanced") in kinds(data)
    assert ("unexpected_value", "blockers") in kinds(data)
    now = place.json(FILE)
    assert list(now) == list(TRACK)
    assert now["blockers"] == TRACK["blockers"]
    assert now["loop_state"]["parallel_state"] == {"workers": 2}
    assert now["loop_state"]["checkpoints"]["PLAN"] == CHECKPOINT
    assert now["loop_state"]["checkpoints"]["GAME_VERIFICATION"] == {"status": "COMPLETED"}
    assert now["loop_state"]["fix_cycle_count"] == 1
    assert place.done("append", "auth", "step.passed")["status"] == "PASSED"


@pytest.mark.parametrize(
    ("loop", "phase", "status"),
    [
        ({"current_step": "EVALUATE"}, "EVALUATE_EXECUTION", "IN_PROGRESS"),
        ({"current_step": "ENRICH"}, "PLAN", "IN_PROGRESS"),
        ({"step_status": "COMPLETED"}, "EXECUTE", "PASSED"),
        ({"step_status": "WAITING_FOR_USER"}, "EXECUTE", "BLOCKED"),
        ({"step_status": "PENDING"}, "EXECUTE", "NOT_STARTED"),
        ({"checkpoints": None}, "EXECUTE", "IN_PROGRESS"),
        ({"checkpoints": {"PLAN": {"status": "PASSED"}}}, "EXECUTE", "IN_PROGRESS"),
    ],
)
def test_what_real_tracks_hold_is_mapped_and_reported(
    place: MachinePlace, loop: dict[str, Any], phase: str, status: str
) -> None:
    """Unknown steps and statuses, checkpoints and times that are missing."""
    data = imported(place, track(**loop))
    assert (data["phase"], data["status"]) == (phase, status)
    assert any("loop_state" in where for _, where in kinds(data))


def test_a_track_without_a_loop_begins_with_its_plan(place: MachinePlace) -> None:
    """It is a track all the same."""
    data = imported(place, {"track_id": "auth", "status": "new"})
    assert data["phase"] == "PLAN"
    assert ("missing", "loop_state") in kinds(data)


def test_phased_development_that_has_ended_is_taken_over(place: MachinePlace) -> None:
    """Given a complete workflow with a start typed by hand, then it is archived, as it ended."""
    source = {"workflow_id": "wf-1", "current_phase": "COMPLETE", "started_at": "1/2/2026"}
    imported(place, source, "memory/state/phase.json")
    assert place.done("get", "wf-1", "--query", "current_phase") == "COMPLETE"
    (kept,) = (place.path / "memory/state/.archive").iterdir()
    assert kept.name == "wf-1_122026Z"


@pytest.mark.parametrize("odd", [["PLAN"], {"a": 1}, 7], ids=repr)
def test_a_phase_of_any_json_is_reported(place: MachinePlace, odd: Any) -> None:
    """Given a phase or step that is no text, then it is said, and the protocol's first is taken."""
    data = imported(place, track(current_step=odd))
    assert ("unknown_step", "loop_state.current_step") in kinds(data)
    source = {"workflow_id": "wf-1", "current_phase": odd}
    data = imported(place, source, "memory/state/phase.json")
    assert ("unknown_phase", "current_phase") in kinds(data)


@pytest.mark.parametrize("typed", ["2026-01-02 10:00", "2026-01-02", "last week", ""], ids=repr)
def test_times_typed_by_hand_are_compared_as_far_as_they_are_times(
    place: MachinePlace, typed: str
) -> None:
    """Given times without an offset or none at all, then both protocols are resumed."""
    begun = {"current_phase": "IMPLEMENTATION", "phase_status": "in_progress"}
    source = {"workflow_id": "wf-1", **begun, "started_at": typed}
    imported(place, source, "memory/state/phase.json")
    found = place.done("rehydrate", "wf-1", "--go-on")["resume"]["findings"]
    assert ("old_state" in [one["check"] for one in found]) == typed.startswith("2026")
    loop = {"current_step": "PLAN", "step_status": "IN_PROGRESS", "step_started_at": typed}
    imported(place, track(**loop, checkpoints={}))
    assert bool(place.done("rehydrate", "auth")["resume"]["stale"]) == typed.startswith("2026")


@pytest.mark.parametrize("odd", ["docs/design.md", ["docs/design.md"]], ids=repr)
def test_artifacts_of_any_shape_are_looked_for(place: MachinePlace, odd: Any) -> None:
    """Given artifacts that are no object and a task without an id, then each is looked for."""
    place.write(
        "login.state.json",
        {
            "featureId": "login",
            "workflowType": "feature",
            "artifacts": odd,
            "tasks": [{"branch": "b"}],
        },
    )
    place.done("import", str(place.path / "login.state.json"))
    found = [one["kind"] for one in place.done("rehydrate", "login")["drift"]]
    assert found == ["artifact_missing", "no_repository"]


def test_what_is_not_json_is_refused_with_the_place(place: MachinePlace) -> None:
    """Such as a file whose newlines are written out."""
    place.write(FILE, '{\\n  "track_id": "auth"\\n}')
    answer = place.call("import", str(place.path / FILE))
    assert (answer.code, answer.error["code"]) == (1, "unreadable_plan")
    assert (answer.error["data"]["line"], answer.error["data"]["column"]) == (1, 2)
    assert not (place.path / ".wfctl").exists()


def test_an_id_that_cannot_be_used_is_refused(place: MachinePlace) -> None:
    """Given a track whose id is a path, then it is said what an id is, and nothing is made."""
    place.write("odd/metadata.json", {"track_id": "a/b", "loop_state": {"current_step": "PLAN"}})
    answer = place.call("import", str(place.path / "odd/metadata.json"))
    assert (answer.code, answer.error["code"]) == (2, "INVALID_INPUT")
    (problem,) = answer.error["data"]["problems"]
    assert problem.startswith("machine: expected a name of letters, digits")
    assert problem.endswith("found 'a/b'")
    assert "pydantic" not in answer.error["message"]
    assert place.call("get", "a/b").code == 3


def test_a_feature_is_taken_over(place: MachinePlace) -> None:
    """Its phase and fields; an unknown phase and a misfit are said."""
    state = {
        "version": "1.1",
        "featureId": "login",
        "workflowType": "feature",
        "createdAt": "2026-02-01T10:00:00Z",
        "updatedAt": "2026-02-02T10:00:00Z",
        "phase": "delegate",
        "tasks": [{"id": "T-1", "title": "x", "status": "doing"}],
        "artifacts": {"design": "d.md", "plan": "p.md", "pr": None},
        "julesSessions": {"a": 1},
        "_history": {"feature": "delegate"},
        "_checkpoint": {"summary": "theirs"},
    }
    data = imported(place, state, "login.state.json")
    assert data["phase"] == "delegate"
    assert kinds(data) == [
        ("unknown_field", "julesSessions"),
        ("unexpected_value", "tasks[0].status"),
    ]
    now = place.json("login.state.json")
    assert {key: now[key] for key in state if key != "updatedAt"} == {
        key: value for key, value in state.items() if key != "updatedAt"
    }
    seen = ("--expected-version", str(place.head("login")))
    place.done("update", "login", "tasks[0].title=y", *seen)
    place.refused("INVALID_INPUT", 2, "update", "login", "tasks[0].status=finished")
    place.done("task", "login", "T-1", "--status", "complete")
    assert place.done("transition", "login", "review")["phase"] == "review"


def test_tasks_that_are_no_list_are_not_written_over(place: MachinePlace) -> None:
    """Given tasks of another shape, when one is added, then they stay until somebody says."""
    odd = {"featureId": "odd", "workflowType": "feature", "phase": "plan", "tasks": {"a": 1}}
    imported(place, odd, "odd.state.json")
    place.refused("INVALID_INPUT", 2, "task", "odd", "T-1")
    assert place.done("get", "odd", "--query", "tasks") == {"a": 1}
    place.done("update", "odd", "tasks=[]")
    place.done("task", "odd", "T-1")


def test_the_file_as_it_was_is_kept(place: MachinePlace) -> None:
    """Nothing is lost by taking it over; a dry run takes nothing over."""
    place.write(FILE, TRACK)
    before = (place.path / FILE).read_bytes()
    dry = place.done("import", str(place.path / FILE), "--dry-run")
    assert dry["dry_run"] is True
    assert not (place.path / ".wfctl").exists()
    place.done("import", str(place.path / FILE))
    (kept,) = (place.path / ".wfctl/drift").iterdir()
    assert kept.read_bytes() == before
    assert place.call("drift", "auth").code == 0
    assert place.wfctl("replay", "--check").code == 0


def test_a_machine_is_not_begun_over_files_kept_by_hand(place: MachinePlace) -> None:
    """They are taken over, or moved away."""
    place.write(FILE, TRACK)
    place.refused("STATE_ALREADY_EXISTS", 4, "init", "auth", "--type", "conductor")
