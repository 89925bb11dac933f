"""Import of machine states that users or agents kept by hand.

All fields stay, and wfctl refuses unknown names of phases and statuses.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from extensions.machines.service.complete_command import load_shipped_definition
from tests.adoption.support import copied
from tests.cli.support import call
from tests.machines.place import MachinePlace
from tests.need import imports

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
    """Write a file, import it, and return the data of the answer."""
    place.write(file, source)
    found: dict[str, Any] = place.done("import", str(place.path / file))
    return found


def kinds(data: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the kind of each finding of an import, and the path of the value."""
    return [(one["kind"], place) for one in data["findings"] for place in one["places"]]


def track(**loop: Any) -> dict[str, Any]:
    """Return the file content of a track with the given changes of its `loop_state`."""
    return {**TRACK, "loop_state": {**TRACK["loop_state"], **loop}}


def test_track_is_imported_with_every_field(place: MachinePlace) -> None:
    """wfctl keeps fields that the protocol does not define at their place in the file."""
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


def test_phase_completed_before_the_import_is_listed_by_the_audit(
    place: MachinePlace,
) -> None:
    """`audit bypasses` lists the phase, because only the imported file claims its completion."""
    imported(place, TRACK)
    tried = place.wfctl("audit", "bypasses")
    assert tried.code == 7
    (one,) = [one for one in tried.data if one["kind"] == "taken over"]
    assert one["what"].startswith("auth: PLAN")


def looked(place: MachinePlace, machine: str) -> None:
    """Record a checkpoint, so that wfctl writes the files of the machine."""
    place.done("checkpoint", machine, "--summary", "went on")


@pytest.mark.parametrize(
    ("loop", "where", "nearest"),
    [
        ({"current_step": "EVALUATE"}, "current_step", "EVALUATE_PLAN"),
        ({"current_step": "GAME_VERIFICATION"}, "current_step", None),
        ({"current_step": "implementation"}, "current_step", None),
        ({"step_status": "passed"}, "step_status", "PASSED"),
        ({"step_status": "In_Progress"}, "step_status", "IN_PROGRESS"),
        ({"step_status": "PASSED_WITHOUT_TESTS"}, "step_status", "PASSED"),
        ({"step_status": "WAITING_FOR_USER"}, "step_status", None),
        ({"checkpoints": {"PLAN": {"status": "SKIPPED"}}}, "checkpoints.PLAN.status", None),
        ({"current_step": ["PLAN"]}, "current_step", "PLAN"),
        ({"current_step": 7}, "current_step", None),
    ],
)
def test_unknown_step_or_status_is_refused(
    place: MachinePlace, loop: dict[str, Any], where: str, nearest: str | None
) -> None:
    """wfctl imports nothing, and names the place of the value and the most similar known name."""
    place.write(FILE, track(**loop))
    data = place.refused("INVALID_INPUT", 2, "import", str(place.path / FILE))
    (one,) = data["unknown"]
    assert (one["machine"], one["place"]) == ("auth", f"loop_state.{where}")
    if nearest is not None:
        assert one["nearest"] == nearest
    assert not (place.path / ".wfctl").exists()


def test_unknown_names_can_be_mapped(place: MachinePlace) -> None:
    """`import --map` replaces an unknown name by a known one, and `--at` sets the phase."""
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
def test_names_used_by_the_agents_of_the_protocol_are_known(
    place: MachinePlace, loop: dict[str, Any], phase: str
) -> None:
    """wfctl imports names that the protocol's own agents write, and incomplete files."""
    assert imported(place, track(**loop))["phase"] == phase


def test_track_can_be_imported_with_its_own_definition(place: MachinePlace) -> None:
    """wfctl accepts a step that only the definition given with `--definition` contains."""
    source = load_shipped_definition("conductor").dumped()
    place.write("own.json", json.dumps(source).replace("BRAINSTORM", "ENRICH"))
    place.write(FILE, track(current_step="ENRICH"))
    how = ("--definition", f"{place.path}/own.json", "--consent", "trust")
    data = place.done("import", str(place.path / FILE), *how)
    assert data["phase"] == "ENRICH"


def test_imported_file_is_unchanged_until_the_first_event(place: MachinePlace) -> None:
    """Reading commands leave the file as it is. The first event replaces it and keeps a copy."""
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


def test_edit_after_an_import_is_adopted(place: MachinePlace) -> None:
    """wfctl records only the change that an agent made after the import, not the whole file."""
    imported(place, track(step_status="NOT_STARTED", mode="a"))
    edited = place.json(FILE)
    edited["loop_state"]["step_status"] = "IN_PROGRESS"
    place.write(FILE, edited)
    looked(place, "auth")
    assert place.types("auth")[1:] == ["machine.recorded", "machine.checkpointed"]
    assert place.call("drift", "auth").code == 0


def test_folder_name_is_the_id_of_the_track(place: MachinePlace) -> None:
    """If the file has another `track_id`, wfctl reports it and keeps it in the file."""
    data = imported(place, {**TRACK, "track_id": "Auth Feature"})
    assert data["machine"] == "auth"
    assert ("track_id", "track_id") in kinds(data)
    looked(place, "auth")
    assert place.json(FILE)["track_id"] == "Auth Feature"
    assert [path.name for path in (place.path / "conductor/tracks").iterdir()] == ["auth"]


def test_impossible_times_are_reported(place: MachinePlace) -> None:
    """wfctl reports invalid times, times in the future, and an end before its start."""
    times = {"started_at": "2026-02-01T10:00:00Z", "completed_at": "2026-01-01T10:00:00Z"}
    odd = {"PLAN": {**CHECKPOINT, **times, "last_updated": "2099-01-01T10:00:00Z"}}
    data = imported(place, {**track(checkpoints=odd), "created_at": "last week"})
    (found,) = [one for one in data["findings"] if one["kind"] == "impossible_time"]
    plan = "loop_state.checkpoints.PLAN"
    assert sorted(found["places"]) == ["created_at", f"{plan}.completed_at", f"{plan}.last_updated"]


def test_import_of_a_repository_imports_all_tracks(place: MachinePlace) -> None:
    """wfctl imports all tracks or none, and skips archived and already imported tracks."""
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


def test_track_below_another_root_gets_its_own_root(place: MachinePlace) -> None:
    """wfctl makes the track's repository a root, and does not change the outer root."""
    place.init("login")
    place.write(f"repository/{FILE}", TRACK)
    answer = call("-o", "json", "machine", "import", str(place.path / "repository" / FILE))
    assert answer.code == 0, answer
    assert (place.path / "repository/.wfctl").is_dir()
    assert not (place.path / "conductor").exists()


def test_track_without_a_limit_uses_the_limit_of_the_repository(place: MachinePlace) -> None:
    """wfctl takes the limit of fixes from config.json if the track does not set one."""
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


def test_tasks_with_other_ids_are_imported(place: MachinePlace) -> None:
    """A task with an id such as T1 can run after the import."""
    tasks = [{"id": "T1", "status": "pending", "attempts": 0}]
    place.write("memory/state/execution.json", {"tasks": tasks})
    source = {"workflow_id": "wf-1", "current_phase": "IMPLEMENTATION", "phase_status": "pending"}
    imported(place, source, "memory/state/phase.json")
    place.done("task", "wf-1", "T1", "--status", "running")
    assert place.json("memory/state/execution.json")["tasks"][0]["status"] == "running"


def test_track_without_a_loop_starts_with_its_plan(place: MachinePlace) -> None:
    """If the file has no `loop_state`, the track starts at PLAN, and wfctl reports this."""
    data = imported(place, {"track_id": "auth", "status": "new"})
    assert data["phase"] == "PLAN"
    assert ("missing", "loop_state") in kinds(data)


def test_ended_phased_development_is_archived(place: MachinePlace) -> None:
    """wfctl imports a complete workflow and archives its files, even if a time is invalid."""
    source = {"workflow_id": "wf-1", "current_phase": "COMPLETE", "started_at": "1/2/2026"}
    imported(place, source, "memory/state/phase.json")
    assert place.done("get", "wf-1", "--query", "current_phase") == "COMPLETE"
    (kept,) = (place.path / "memory/state/.archive").iterdir()
    assert kept.name == "wf-1_122026Z"


@pytest.mark.parametrize("odd", [["PLAN"], {"a": 1}, 7], ids=repr)
def test_phase_that_is_no_string_is_refused(place: MachinePlace, odd: Any) -> None:
    """wfctl shows the invalid value, and `import --at PHASE` replaces it."""
    place.write("memory/state/phase.json", {"workflow_id": "wf-1", "current_phase": odd})
    line = ("import", str(place.path / "memory/state/phase.json"))
    assert place.refused("INVALID_INPUT", 2, *line)["unknown"][0]["found"] == odd
    assert place.done(*line, "--at", "VERIFICATION")["phase"] == "VERIFICATION"


@pytest.mark.parametrize("typed", ["2026-01-02 10:00", "2026-01-02", "last week", ""], ids=repr)
def test_times_typed_by_hand_do_not_stop_a_resume(place: MachinePlace, typed: str) -> None:
    """`rehydrate` compares times without an offset, and ignores text that is no time."""
    begun = {"current_phase": "IMPLEMENTATION", "phase_status": "in_progress"}
    source = {"workflow_id": "wf-1", **begun, "started_at": typed}
    imported(place, source, "memory/state/phase.json")
    found = place.done("rehydrate", "wf-1", "--go-on")["resume"]["findings"]
    assert ("old_state" in [one["check"] for one in found]) == typed.startswith("2026")
    loop = {"current_step": "PLAN", "step_status": "IN_PROGRESS", "step_started_at": typed}
    imported(place, track(**loop, checkpoints={}))
    assert bool(place.done("rehydrate", "auth")["resume"]["stale"]) == typed.startswith("2026")


@pytest.mark.parametrize("odd", ["docs/design.md", ["docs/design.md"]], ids=repr)
def test_artifacts_of_any_shape_are_checked(place: MachinePlace, odd: Any) -> None:
    """`rehydrate` finds missing artifact files, even if `artifacts` is a string or a list."""
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


def test_invalid_json_is_refused_with_its_position(place: MachinePlace) -> None:
    """The error has the line and the column, and nothing is imported."""
    place.write(FILE, '{\\n  "track_id": "auth"\\n}')
    answer = place.call("import", str(place.path / FILE))
    assert (answer.code, answer.error["code"]) == (1, "unreadable_plan")
    assert (answer.error["data"]["line"], answer.error["data"]["column"]) == (1, 2)
    assert not (place.path / ".wfctl").exists()


def test_id_that_is_a_path_is_refused(place: MachinePlace) -> None:
    """The refusal describes a valid id, and no file is created."""
    place.write("odd/metadata.json", {"track_id": "a/b", "loop_state": {"current_step": "PLAN"}})
    answer = place.call("import", str(place.path / "odd/metadata.json"))
    assert (answer.code, answer.error["code"]) == (2, "INVALID_INPUT")
    (problem,) = answer.error["data"]["problems"]
    assert problem.startswith("machine: expected a name of letters, digits")
    assert problem.endswith("found 'a/b'")
    assert "pydantic" not in answer.error["message"]
    assert place.call("get", "a/b").code == 3


def test_feature_is_imported(place: MachinePlace) -> None:
    """wfctl keeps the phase and all fields, and reports unknown or unexpected values."""
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


def test_tasks_that_are_no_list_are_not_overwritten(place: MachinePlace) -> None:
    """wfctl refuses to add a task until a user replaces the imported value with a list."""
    odd = {"featureId": "odd", "workflowType": "feature", "phase": "plan", "tasks": {"a": 1}}
    imported(place, odd, "odd.state.json")
    place.refused("INVALID_INPUT", 2, "task", "odd", "T-1")
    assert place.done("get", "odd", "--query", "tasks") == {"a": 1}
    place.done("update", "odd", "tasks=[]")
    place.done("task", "odd", "T-1")


def test_imported_file_is_kept(place: MachinePlace) -> None:
    """wfctl stores a copy of the original file. A dry run of the import writes nothing."""
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


def test_init_does_not_overwrite_existing_files(place: MachinePlace) -> None:
    """If a hand-kept file exists, `machine init` is refused."""
    place.write(FILE, TRACK)
    place.refused("STATE_ALREADY_EXISTS", 4, "init", "auth", "--type", "conductor")


PLAN_FILE = f"{FOLDER}/plan.md"
BEFORE_LOOPS = {"track_id": "auth", "type": "feature", "created_at": "2026-04-01T12:00:00Z"}


@pytest.mark.parametrize(
    ("status", "plan", "step"),
    [
        ("in_progress", "- [ ] one\n- [ ] two\n", ("EVALUATE_PLAN", "NOT_STARTED")),
        ("in_progress", "- [x] one\n- [ ] two\n", ("EXECUTE", "IN_PROGRESS")),
        ("in_progress", "- [~] one\n- [ ] two\n", ("EXECUTE", "IN_PROGRESS")),
        ("in_progress", "- [x] one\n- [x] two\n", ("EVALUATE_EXECUTION", "NOT_STARTED")),
        ("completed", "- [x] one\n- [x] two\n", ("COMPLETE", "PASSED")),
        ("new", "# Plan\n", ("PLAN", "NOT_STARTED")),
    ],
)
def test_track_without_a_loop_gets_its_step_from_the_plan(
    place: MachinePlace, status: str, plan: str, step: tuple[str, str]
) -> None:
    """wfctl derives the step from the done and open tasks in plan.md."""
    place.write(PLAN_FILE, plan)
    data = imported(place, {**BEFORE_LOOPS, "status": status})
    assert ("missing", "loop_state") in kinds(data)
    assert (data["phase"], data["status"]) == step


def test_completed_track_with_an_open_task_is_refused(place: MachinePlace) -> None:
    """The status contradicts plan.md, so the user must choose the phase with `--at`."""
    copied(imports("conductor-v1") / "conductor", place.path / "conductor")
    file = str(place.path / "conductor/tracks/t_20260401/metadata.json")
    (one,) = place.refused("INVALID_INPUT", 2, "import", file)["contradictions"]
    assert one["why"] == "status is 'completed', but plan.md has 2 of 3 tasks done"
    assert not (place.path / ".wfctl").exists()
    assert place.done("import", file, "--at", "EXECUTE")["phase"] == "EXECUTE"


@pytest.mark.parametrize("status", ["complete", "completed"])
def test_completed_track_with_a_running_loop_is_refused(place: MachinePlace, status: str) -> None:
    """The status contradicts `loop_state`, so the user must choose the phase with `--at`."""
    place.write(FILE, {**TRACK, "status": status})
    (one,) = place.refused("INVALID_INPUT", 2, "import", str(place.path / FILE))["contradictions"]
    assert one["why"] == f"status is '{status}', but loop_state is at EXECUTE / IN_PROGRESS"
    assert place.done("import", str(place.path / FILE), "--at", "EXECUTE")["phase"] == "EXECUTE"


def test_imported_feature_keeps_its_loop_counts(place: MachinePlace) -> None:
    """If the file says that 3 of 3 revisions are used, the next one leads to `blocked`."""
    copied(imports("exarchos-counts"), place.path / "there")
    place.write("f1.state.json", place.json("there/f1.state.json"))
    place.done("import", str(place.path / "f1.state.json"))
    loops = {"plan-revision": 3, "fix-cycle": 3, "synthesis-retry": 3}
    assert place.done("get", "f1", "--query", "_loops") == loops
    place.done("update", "f1", "planReview.gapsFound=true")
    assert place.done("transition", "f1", "plan")["phase"] == "blocked"
    now = place.json("f1.state.json")
    assert (now["planReview"]["revisionCount"], now["synthesis"]["retryCount"]) == (3, 3)
    place.refused("RESERVED_FIELD", 5, "update", "f1", "planReview.revisionCount=0")


def test_imported_track_keeps_its_limit_of_plan_revisions(place: MachinePlace) -> None:
    """If 3 of 3 plan revisions are used, the next one blocks the track until an approval."""
    copied(imports("plan-revisions") / "conductor", place.path / "conductor")
    file = "conductor/tracks/t1/metadata.json"
    place.done("import", str(place.path / file), "--consent", "trust")
    assert place.done("transition", "t1", "PLAN")["phase"] == "BLOCKED"
    loop = place.json(file)["loop_state"]
    assert (loop["plan_revision_count"], loop["max_plan_revisions"]) == (3, 3)
    assert place.json(file)["blockers"][-1]["reason"].startswith("plan revisions used up (3 of 3)")
    place.done("approve", "t1", "unblock")
    assert place.done("transition", "t1", "PLAN")["phase"] == "PLAN"
    assert place.json(file)["loop_state"]["plan_revision_count"] == 0


WORKING = {"status": "IN_PROGRESS", "started_at": "2026-02-01T10:00:00Z", "agent": "a"}


def test_track_without_times_gets_null_times(place: MachinePlace) -> None:
    """For missing times, wfctl writes null instead of an empty string."""
    loop = {"current_step": "EXECUTE", "step_status": "IN_PROGRESS"}
    source = {
        "track_id": "auth",
        "loop_state": {**loop, "checkpoints": {"PLAN": {"status": "PASSED"}}},
    }
    imported(place, source)
    looked(place, "auth")
    now = place.json(FILE)["loop_state"]
    assert now["step_started_at"] is None
    assert "" not in [value for one in now["checkpoints"].values() for value in one.values()]


@pytest.mark.parametrize("listed", [{}, {"EXECUTE": {"status": "NOT_STARTED"}}], ids=len)
def test_parallel_execution_is_imported_as_one_step(
    place: MachinePlace, listed: dict[str, Any]
) -> None:
    """wfctl merges the checkpoints EXECUTE and PARALLEL_EXECUTE, two names of one step."""
    both = {**listed, "PARALLEL_EXECUTE": {**WORKING, "last_task": "1.1"}}
    data = imported(place, track(current_step="PARALLEL_EXECUTE", checkpoints=both))
    assert ("mapped", "loop_state.checkpoints.PARALLEL_EXECUTE") in kinds(data)
    looked(place, "auth")
    now = place.json(FILE)["loop_state"]["checkpoints"]
    assert [(step, one["status"], one["last_task"]) for step, one in now.items()] == [
        ("EXECUTE", "IN_PROGRESS", "1.1")
    ]


def test_edit_of_parallel_execution_updates_one_step(place: MachinePlace) -> None:
    """If an agent adds PARALLEL_EXECUTE to the file, wfctl adds its progress to EXECUTE."""
    imported(place, track(checkpoints={"EXECUTE": WORKING}))
    looked(place, "auth")
    edited = place.json(FILE)
    checkpoints = edited["loop_state"]["checkpoints"]
    checkpoints["PARALLEL_EXECUTE"] = {**checkpoints["EXECUTE"], "last_task": "1.2"}
    place.write(FILE, edited)
    looked(place, "auth")
    now = place.json(FILE)["loop_state"]["checkpoints"]
    assert [(step, one["last_task"]) for step, one in now.items()] == [("EXECUTE", "1.2")]


@pytest.mark.parametrize("path", ["_checkpoint.summary", "_eventHints", "_eventHints.missing"])
def test_refused_hand_off_field_names_the_checkpoint_command(
    place: MachinePlace, path: str
) -> None:
    """wfctl refuses an update of `_checkpoint`, and suggests `machine checkpoint`."""
    place.init("login")
    data = place.refused("RESERVED_FIELD", 5, "update", "login", f"{path}=done")
    way = "wfctl machine checkpoint login --summary TEXT --next TEXT"
    assert data["alternateWritePath"] == way


def test_step_passed_with_warnings_counts_as_passed(place: MachinePlace) -> None:
    """The import replaces PASSED_WITH_WARNINGS by PASSED and reports the replacement."""
    data = imported(place, track(step_status="PASSED_WITH_WARNINGS"))
    assert ("mapped", "loop_state.step_status") in kinds(data)
    assert place.done("transition", "auth", "EVALUATE_EXECUTION")["phase"] == "EVALUATE_EXECUTION"


def test_imported_discovery_runs_to_its_end(place: MachinePlace) -> None:
    """An imported discovery needs sources and then a report, and can be completed."""
    source = {"featureId": "d1", "workflowType": "discovery", "phase": "gathering"}
    place.write("d1.state.json", source)
    place.done("import", str(place.path / "d1.state.json"))
    place.refused("GUARD_FAILED", 5, "transition", "d1", "synthesizing")
    place.done("update", "d1", 'artifacts.sources=["https://example.org"]')
    place.done("transition", "d1", "synthesizing")
    place.done("update", "d1", "artifacts.report=docs/report.md")
    assert place.done("transition", "d1", "completed")["phase"] == "completed"


def test_feature_waiting_for_a_merge_returns_to_its_tasks(place: MachinePlace) -> None:
    """The import maps the phase merge-pending to delegate and keeps the merge data."""
    source = {
        "featureId": "f1",
        "workflowType": "feature",
        "phase": "merge-pending",
        "tasks": [{"id": "001", "title": "One", "status": "complete"}],
        "mergeOrchestrator": {"phase": "executing"},
    }
    data = imported(place, source, "f1.state.json")
    assert ("mapped", "phase") in kinds(data)
    state = place.done("get", "f1")
    assert (state["phase"], state["mergeOrchestrator"]) == ("delegate", {"phase": "executing"})


def test_merge_pending_is_unknown_for_other_types(place: MachinePlace) -> None:
    """wfctl refuses to import a debug machine in the phase merge-pending."""
    place.write(
        "d1.state.json", {"featureId": "d1", "workflowType": "debug", "phase": "merge-pending"}
    )
    place.refused("INVALID_INPUT", 2, "import", str(place.path / "d1.state.json"))
