"""State kept by hand: every field kept, the file as it is, names of no meaning refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from service.machines.completing import shipped
from tests.cli.support import call
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
    return [(one["kind"], place) for one in data["findings"] for place in one["places"]]


def track(**loop: Any) -> dict[str, Any]:
    """Return a track with other parts of its loop."""
    return {**TRACK, "loop_state": {**TRACK["loop_state"], **loop}}


def test_a_track_is_taken_over_with_every_field(place: MachinePlace) -> None:
    """What nobody specified stays where it was."""
    data = imported(place, TRACK)
    assert ("unknown_step", "loop_state.checkpoints.GAME_VERIFICATION") in kinds(data)
    assert ("unknown_field", "superpower_enhanced") not in kinds(data)
    assert ("unexpected_value", "blockers") in kinds(data)
    looked(place, "auth")
    now = place.json(FILE)
    assert list(now) == list(TRACK)
    assert now["blockers"] == TRACK["blockers"]
    assert now["loop_state"]["parallel_state"] == {"workers": 2}
    assert now["loop_state"]["checkpoints"]["PLAN"] == CHECKPOINT
    assert now["loop_state"]["checkpoints"]["GAME_VERIFICATION"] == {"status": "COMPLETED"}
    assert now["loop_state"]["fix_cycle_count"] == 1
    assert place.done("append", "auth", "step.passed")["status"] == "PASSED"


def test_a_phase_that_was_completed_before_its_import_is_told_as_taken_over(
    place: MachinePlace,
) -> None:
    """By the audit: the record alone says so."""
    imported(place, TRACK)
    tried = place.wfctl("audit", "bypasses")
    assert tried.code == 7
    (one,) = [one for one in tried.data if one["kind"] == "taken over"]
    assert one["what"].startswith("auth: PLAN")


def looked(place: MachinePlace, machine: str) -> None:
    """Record something, so that the files are written."""
    place.done("checkpoint", machine, "--summary", "went on")


@pytest.mark.parametrize(
    ("loop", "where", "nearest"),
    [
        ({"current_step": "EVALUATE"}, "current_step", "EVALUATE_PLAN"),
        ({"current_step": "GAME_VERIFICATION"}, "current_step", None),
        ({"current_step": "implementation"}, "current_step", None),
        ({"step_status": "passed"}, "step_status", "PASSED"),
        ({"step_status": "In_Progress"}, "step_status", "IN_PROGRESS"),
        ({"step_status": "PASSED_WITH_WARNINGS"}, "step_status", "PASSED"),
        ({"step_status": "WAITING_FOR_USER"}, "step_status", None),
        ({"checkpoints": {"PLAN": {"status": "SKIPPED"}}}, "checkpoints.PLAN.status", None),
        ({"current_step": ["PLAN"]}, "current_step", "PLAN"),
        ({"current_step": 7}, "current_step", None),
    ],
)
def test_a_name_of_no_meaning_is_never_guessed_at(
    place: MachinePlace, loop: dict[str, Any], where: str, nearest: str | None
) -> None:
    """Given a step or status of somebody's own, then it is refused, with the nearest."""
    place.write(FILE, track(**loop))
    data = place.refused("INVALID_INPUT", 2, "import", str(place.path / FILE))
    (one,) = data["unknown"]
    assert (one["machine"], one["place"]) == ("auth", f"loop_state.{where}")
    if nearest is not None:
        assert one["nearest"] == nearest
    assert not (place.path / ".wfctl").exists()


def test_a_person_says_what_a_name_means(place: MachinePlace) -> None:
    """Given --map and --at, then the names mean that, and the import says so."""
    odd = track(current_step="GAME_VERIFICATION", step_status="passed")
    place.write(FILE, odd)
    line = ("import", str(place.path / FILE), "--map", "passed=PASSED")
    data = place.done(*line, "--map", "GAME_VERIFICATION=EVALUATE_EXECUTION", "--dry-run")
    assert (data["phase"], data["findings"][0]["kind"]) == ("EVALUATE_EXECUTION", "mapped")
    assert data["findings"][0]["count"] == 2
    assert place.done(*line, "--at", "FIX")["phase"] == "FIX"
    assert place.call(*line, "--at", "GAME_VERIFICATION").code == 2
    assert place.call("import", str(place.path / FILE), "--map", "passed").code == 2


@pytest.mark.parametrize(
    ("loop", "phase"),
    [
        ({"current_step": "PARALLEL_EXECUTE"}, "EXECUTE"),
        ({"current_step": "NOT_STARTED", "step_status": "NOT_STARTED"}, "PLAN"),
        ({"checkpoints": None}, "EXECUTE"),
        ({"checkpoints": {"PLAN": {"status": "PASSED"}}}, "EXECUTE"),
    ],
)
def test_what_the_formats_own_writers_write_is_known(
    place: MachinePlace, loop: dict[str, Any], phase: str
) -> None:
    """Names that the protocol's own agents use, and parts that older files lack."""
    assert imported(place, track(**loop))["phase"] == phase


def test_a_definition_of_ones_own_is_taken(place: MachinePlace) -> None:
    """Given a step that it has, then the track is at that step."""
    source = shipped("conductor").dumped()
    place.write("own.json", json.dumps(source).replace("BRAINSTORM", "ENRICH"))
    place.write(FILE, track(current_step="ENRICH"))
    how = ("--definition", f"{place.path}/own.json", "--consent", "trust")
    data = place.done("import", str(place.path / FILE), *how)
    assert data["phase"] == "ENRICH"


def test_the_file_stays_as_it_is_until_the_first_step(place: MachinePlace) -> None:
    """Byte for byte, whatever only looks; then it is the log's, and the first one is kept."""
    text = (
        '{"track_id":"auth",\n "loop_state": {"current_step":"PLAN", "step_status":"NOT_STARTED"}}'
    )
    place.write(FILE, text)
    place.done("import", str(place.path / FILE))
    for look in (("get", "auth"), ("rehydrate", "auth"), ("drift", "auth")):
        assert place.call(*look).code == 0
    assert place.wfctl("replay", "--check").code == 0
    assert (place.path / FILE).read_text("utf-8") == text
    place.done("append", "auth", "step.started")
    assert place.json(FILE)["loop_state"]["step_status"] == "IN_PROGRESS"
    assert place.wfctl("replay", "--check").code == 0
    (kept,) = (place.path / ".wfctl/drift").iterdir()
    assert kept.read_text("utf-8") == text


def test_what_an_agent_writes_after_an_import_is_taken_over(place: MachinePlace) -> None:
    """Given a step that it began before anything was recorded here, then only that is news."""
    imported(place, track(step_status="NOT_STARTED", mode="a"))
    edited = place.json(FILE)
    edited["loop_state"]["step_status"] = "IN_PROGRESS"
    place.write(FILE, edited)
    looked(place, "auth")
    assert place.types("auth")[1:] == ["machine.recorded", "machine.checkpointed"]
    assert place.call("drift", "auth").code == 0


def test_the_folder_names_the_track(place: MachinePlace) -> None:
    """Given another track_id in the file, then the agents' own file is the one that is kept."""
    data = imported(place, {**TRACK, "track_id": "Auth Feature"})
    assert data["machine"] == "auth"
    assert ("track_id", "track_id") in kinds(data)
    looked(place, "auth")
    assert place.json(FILE)["track_id"] == "Auth Feature"
    assert [path.name for path in (place.path / "conductor/tracks").iterdir()] == ["auth"]


def test_times_that_cannot_be_are_findings(place: MachinePlace) -> None:
    """An end before its beginning, one that is yet to come, and one that is not valid."""
    times = {"started_at": "2026-02-01T10:00:00Z", "completed_at": "2026-01-01T10:00:00Z"}
    odd = {"PLAN": {**CHECKPOINT, **times, "last_updated": "2099-01-01T10:00:00Z"}}
    data = imported(place, {**track(checkpoints=odd), "created_at": "last week"})
    (found,) = [one for one in data["findings"] if one["kind"] == "impossible_time"]
    plan = "loop_state.checkpoints.PLAN"
    assert sorted(found["places"]) == ["created_at", f"{plan}.completed_at", f"{plan}.last_updated"]


def test_all_tracks_of_a_repository_are_taken_over_at_once(place: MachinePlace) -> None:
    """All or none; archived ones stay archived, and those that are here stay as they are."""
    for name in ("auth", "login", "mail"):
        place.write(f"conductor/tracks/{name}/metadata.json", {**TRACK, "track_id": name})
    place.write("conductor/archive/old/metadata.json", TRACK)
    place.write("conductor/tracks/mail/metadata.json", track(step_status="ok"))
    data = place.refused("INVALID_INPUT", 2, "import", str(place.path))
    assert [one["machine"] for one in data["unknown"]] == ["mail"]
    line = ("import", str(place.path), "--map", "ok=PASSED")
    assert len(place.done(*line, "--dry-run")["machines"]) == 3
    assert not (place.path / ".wfctl").exists()
    assert [one["new"] for one in place.done(*line)["machines"]] == [True, True, True]
    assert [one["new"] for one in place.done(*line)["machines"]] == [False, False, False]
    assert [one["id"] for one in place.done("list")] == ["auth", "login", "mail"]


def test_a_track_below_another_root_keeps_its_own_file(place: MachinePlace) -> None:
    """Given a root further up, then the repository of the track is a root of its own."""
    place.init("login")
    place.write(f"repository/{FILE}", TRACK)
    answer = call("-o", "json", "machine", "import", str(place.path / "repository" / FILE))
    assert answer.code == 0, answer
    assert (place.path / "repository/.wfctl").is_dir()
    assert not (place.path / "conductor").exists()


def test_the_limit_is_the_repositorys(place: MachinePlace) -> None:
    """Given one in its configuration, then it holds where a track has none of its own."""
    place.write("conductor/config.json", {"mode": "agentic", "max_fix_cycles": 5})
    imported(place, track(fix_cycle_count=4))
    looked(place, "auth")
    assert place.json(FILE)["loop_state"]["max_fix_cycles"] == 5
    place.init("login", "conductor")
    assert place.json("conductor/tracks/login/metadata.json")["loop_state"]["max_fix_cycles"] == 5
    own = {**track(max_fix_cycles=2), "track_id": "mail"}
    imported(place, own, "conductor/tracks/mail/metadata.json")
    looked(place, "mail")
    assert place.json("conductor/tracks/mail/metadata.json")["loop_state"]["max_fix_cycles"] == 2


def test_tasks_with_ids_of_peoples_own_work(place: MachinePlace) -> None:
    """Such as T1."""
    tasks = [{"id": "T1", "status": "pending", "attempts": 0}]
    place.write("memory/state/execution.json", {"tasks": tasks})
    source = {"workflow_id": "wf-1", "current_phase": "IMPLEMENTATION", "phase_status": "pending"}
    imported(place, source, "memory/state/phase.json")
    place.done("task", "wf-1", "T1", "--status", "running")
    assert place.json("memory/state/execution.json")["tasks"][0]["status"] == "running"


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
def test_a_phase_of_any_json_is_refused(place: MachinePlace, odd: Any) -> None:
    """Given a phase that is no text, then it is said, and --at says where the machine is."""
    place.write("memory/state/phase.json", {"workflow_id": "wf-1", "current_phase": odd})
    line = ("import", str(place.path / "memory/state/phase.json"))
    assert place.refused("INVALID_INPUT", 2, *line)["unknown"][0]["found"] == odd
    assert place.done(*line, "--at", "VERIFICATION")["phase"] == "VERIFICATION"


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
        ("unexpected_value", "tasks[0].status"),
        ("unknown_field", "julesSessions"),
    ]
    place.done("append", "login", "synthesize.requested")
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
