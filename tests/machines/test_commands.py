"""Commands of ``wfctl machine``: their JSON answers, error codes and exit codes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.support import attempt_data, tree, write_plan
from tests.machines.logs import on_every_log
from tests.machines.place import MachinePlace
from tests.machines.support import small_data

pytestmark = on_every_log


def test_init_creates_a_machine_in_an_empty_folder(place: MachinePlace) -> None:
    """`machine init` creates the log and the state file, and its answer has a next action."""
    answer = place.call("init", "login", "--type", "feature")
    assert answer.code == 0
    assert list(answer.envelope) == ["success", "data", "next_actions", "_meta"]
    assert answer.data["phase"] == "ideate"
    assert answer.envelope["_meta"]["machine"] == "login"
    assert place.json("login.state.json")["featureId"] == "login"
    assert {action["verb"] for action in answer.envelope["next_actions"]} == {"work"}


def test_every_answer_lists_next_actions(place: MachinePlace) -> None:
    """The answers of accepted and refused commands list actions with a command and a reason."""
    place.init("login")
    done = place.call("update", "login", "artifacts.design=d.md").envelope
    assert done["next_actions"][0]["verb"] == "transition"
    assert done["next_actions"][0]["target"] == "plan"
    refused = place.refused("INVALID_TRANSITION", 5, "transition", "login", "review")
    fields = {"command", "reason", "verb", "target", "needs"}
    assert {"command", "reason", "verb", "target"} <= set(refused["next_actions"][0]) <= fields


def test_refused_transition_lists_all_unmet_conditions(place: MachinePlace) -> None:
    """The error lists missing values and valid phases, but no value that a caller could copy."""
    place.init("login")
    data = place.refused("GUARD_FAILED", 5, "transition", "login", "plan")
    wanted = "artifacts.design is present, written since the phase started"
    assert data["unmet"][0]["condition"] == wanted
    assert data["validTargets"] == ["plan", "cancelled"]
    assert data["expectedShape"] == {"artifacts": {"design": "text"}}
    assert "artifacts.design=" not in json.dumps(data)


def test_reserved_field_is_refused_with_an_alternative(place: MachinePlace) -> None:
    """wfctl refuses to update a field such as `phase`, and names the command to use instead."""
    place.init("login")
    data = place.refused("RESERVED_FIELD", 5, "update", "login", "phase=review")
    assert data["rejectedPath"] == "phase"
    assert data["alternateWritePath"] == "wfctl machine transition login PHASE"
    place.refused("RESERVED_FIELD", 5, "update", "login", "--data", '{"version": "2"}')
    hidden = place.refused("RESERVED_FIELD", 5, "update", "login", 'reviews={"_x": {}}')
    assert hidden["rejectedPath"] == "reviews._x"


def test_audit_lists_refused_commands(place: MachinePlace) -> None:
    """`wfctl audit refused --machine` lists the command and the error code of each refusal."""
    place.init("login")
    place.refused("GUARD_FAILED", 5, "transition", "login", "plan")
    (refusal,) = place.wfctl("audit", "refused", "--machine", "login").data
    assert (refusal["command"], refusal["code"]) == ("machine.transitioned", "GUARD_FAILED")
    first = place.wfctl("audit", "refused", "--machine", "login", "--at", "2020-01-01")
    assert first.data == []
    assert place.wfctl("audit", "refused", "--machine", "nobody").code == 3


def test_invalid_path_or_value_is_refused(place: MachinePlace) -> None:
    """wfctl refuses paths such as `tasks[id=T-1]`, and values of the wrong type."""
    place.init("login")
    place.refused("INVALID_INPUT", 2, "update", "login", "tasks[id=T-1].status=complete")
    place.refused("INVALID_INPUT", 2, "update", "login", "tasks[1].status=complete")
    place.refused("INVALID_INPUT", 2, "update", "login", "planReview.approved=yes please")
    place.refused("INVALID_INPUT", 2, "update", "login")
    place.refused("INVALID_INPUT", 2, "update", "login", f"tasks[{'9' * 5_000}]=1")
    seen = ("--expected-version", str(place.head("login")))
    place.done("update", "login", 'tasks[0]={"id": "T-1", "status": "pending"}', *seen)
    seen = ("--expected-version", str(place.head("login")))
    place.done("update", "login", "tasks[0].status=complete", *seen)
    assert place.json("login.state.json")["tasks"] == [{"id": "T-1", "status": "complete"}]
    place.refused("INVALID_INPUT", 2, "update", "login", f"x={'[' * 400}{']' * 400}")


def test_path_that_is_too_deep_is_refused(place: MachinePlace) -> None:
    """wfctl accepts a path of 64 parts, and refuses a path of 65 parts."""
    place.init("login")
    deepest = ".".join("a" * 64)
    place.done("update", "login", f"{deepest}={'[' * 90}{']' * 90}")
    place.done("get", "login")
    place.refused("INVALID_INPUT", 2, "update", "login", f"{deepest}.a=1")
    place.refused("INVALID_INPUT", 2, "update", "login", f"{'.'.join('b' * 900)}=1")
    place.refused("INVALID_INPUT", 2, "init", "other", "--type", "feature", f"{deepest}.a=1")


def test_update_merges_objects_and_replaces_arrays(place: MachinePlace) -> None:
    """An updated object keeps its other keys. An updated array loses its previous items."""
    place.init("login")
    place.done("update", "login", 'reviews={"a": {"status": "pass"}}', 'planReview.gaps=["x"]')
    place.done("update", "login", 'reviews={"b": {"status": "fail"}}', 'planReview.gaps=["y"]')
    state = place.done("get", "login")
    assert state["reviews"] == {"a": {"status": "pass"}, "b": {"status": "fail"}}
    assert state["planReview"]["gaps"] == ["y"]


def test_unknown_machine_is_not_found(place: MachinePlace) -> None:
    """wfctl exits with 3 and lists the existing machines."""
    place.refused("STATE_NOT_FOUND", 3, "get", "nothing")
    place.init("login")
    assert place.refused("STATE_NOT_FOUND", 3, "update", "nothing", "x=1")["known"] == ["login"]


def test_second_machine_with_the_same_id_is_a_conflict(place: MachinePlace) -> None:
    """`machine init` refuses an existing id, except if the same command id is repeated."""
    first = place.init("login", "feature", "--command-id", "one")
    again = place.init("login", "feature", "--command-id", "one")
    assert (again["repeated"], again["events"]) == (True, first["events"])
    place.refused("STATE_ALREADY_EXISTS", 4, "init", "login", "--type", "debug")


def test_a_stale_version_is_a_conflict(place: MachinePlace) -> None:
    """An update with an outdated --expected-version is refused, and the error has both versions."""
    place.init("login")
    data = place.refused(
        "VERSION_CONFLICT", 4, "update", "login", "track=x", "--expected-version", "7"
    )
    assert (data["expected"], data["found"]) == (7, 1)
    place.done("update", "login", "track=x", "--expected-version", "1")


def test_command_id_takes_effect_once(place: MachinePlace) -> None:
    """wfctl repeats its answer to a repeated command, and refuses other content with this id."""
    place.init("login")
    for repeated in (False, True):
        data = place.done("update", "login", "artifacts.pr=1", "--command-id", "k")
        assert data["repeated"] is repeated
    assert place.head("login") == 2
    place.refused("command_conflict", 4, "update", "login", "artifacts.pr=2", "--command-id", "k")


def test_machine_can_be_cancelled_only_once(place: MachinePlace) -> None:
    """wfctl refuses to cancel a cancelled machine. A dry run of `cancel` changes nothing."""
    place.init("login")
    dry = place.done("cancel", "login", "--dry-run", "--reason", "no use")
    assert [event["type"] for event in dry["events"]] == ["machine.cancelled"]
    assert dry["files"] == ["login.state.json"]
    assert place.phase("login") == "ideate"
    place.done("cancel", "login")
    assert place.phase("login") == "cancelled"
    place.refused("ALREADY_CANCELLED", 5, "cancel", "login")
    assert place.done("transition", "login", "cancelled")["events"] == []


def test_loop_at_its_limit_leads_to_blocked_until_a_person_approves(place: MachinePlace) -> None:
    """After three revisions of the plan, the fourth one moves the machine to `blocked`."""
    place.init("login")
    place.done("update", "login", "artifacts.design=d")
    place.done("transition", "login", "plan")

    def judged() -> Any:
        place.done("update", "login", "artifacts.plan=p")
        place.done("transition", "login", "plan-review")
        place.refused("GUARD_FAILED", 5, "transition", "login", "plan")
        place.done("update", "login", "planReview.gapsFound=true")
        return place.done("transition", "login", "plan")

    for _ in range(3):
        assert judged()["phase"] == "plan"
    data = judged()
    assert data["phase"] == "blocked"
    assert data["limit_reached"] == {
        "loop": "plan-revision",
        "count": 3,
        "limit": 3,
        "asked": "plan",
        "to": "blocked",
    }
    circuit = place.refused("CIRCUIT_OPEN", 6, "transition", "login", "plan-review")
    assert (circuit["count"], circuit["limit"]) == (3, 3)
    place.done("approve", "login", "unblock")
    place.refused("GUARD_FAILED", 5, "transition", "login", "delegate")
    place.done("transition", "login", "--auto")
    assert place.phase("login") == "plan-review"  # the phase before the limit


def test_auto_transition_takes_the_open_path(place: MachinePlace) -> None:
    """`transition --auto` completes a oneshot, or leads to its pull request if one is requested."""
    for machine, requested, target in (("one", False, "completed"), ("two", True, "synthesize")):
        place.init(machine, "oneshot")
        place.done("update", machine, "artifacts.plan=short")
        place.done("transition", machine, "--auto")
        if requested:
            place.done("append", machine, "synthesize.requested", "--data", '{"reason": "team"}')
        assert place.done("transition", machine, "--auto")["phase"] == target


def test_append_refuses_unknown_events(place: MachinePlace) -> None:
    """`machine append` refuses unknown events, and events that other commands record."""
    place.init("login")
    place.refused("INVALID_INPUT", 2, "append", "login", "nothing.known")
    place.refused("INVALID_INPUT", 2, "append", "login", "state.patched")
    place.refused("INVALID_INPUT", 2, "append", "login", "decision.recorded")


def test_tasks_get_their_times_from_the_status(place: MachinePlace) -> None:
    """If a task gets the status in_progress or complete, wfctl writes its start or end time."""
    place.init("login")
    place.done("task", "login", "T-1", "--title", "Write it")
    place.done("task", "login", "T-1", "--status", "in_progress", "branch=feat/x")
    place.done("task", "login", "T-1", "--status", "complete")
    (task,) = place.json("login.state.json")["tasks"]
    assert (task["id"], task["status"], task["branch"]) == ("T-1", "complete", "feat/x")
    assert task["startedAt"].endswith("Z")
    assert task["completedAt"].endswith("Z")
    place.refused("INVALID_INPUT", 2, "task", "login", "T-1", "--status", "done")


def test_checkpoint_keeps_the_hand_off(place: MachinePlace) -> None:
    """`machine checkpoint` writes its summary and its next steps to the state file."""
    place.init("login")
    place.done("checkpoint", "login", "--summary", "half done", "--next", "the rest")
    kept = place.json("login.state.json")["_checkpoint"]
    assert (kept["summary"], kept["nextSteps"]) == ("half done", ["the rest"])


def test_get_returns_parts_of_the_state(place: MachinePlace) -> None:
    """`machine get` can print one path, several fields, or an earlier version of the state."""
    place.init("login")
    place.done("update", "login", "artifacts.design=d.md")
    assert place.done("get", "login", "--query", "artifacts.design") == "d.md"
    assert place.done("get", "login", "--fields", "phase,artifacts") == {
        "phase": "ideate",
        "artifacts": {"design": "d.md"},
    }
    assert place.done("get", "login", "--query", "artifacts", "--at", "1") == {}


def test_machine_keeps_its_own_definition(place: MachinePlace) -> None:
    """After `machine init --definition FILE`, the machine works even if FILE is deleted."""
    place.write("mine.yaml", json.dumps(small_data()))
    place.done("init", "one", "--definition", str(place.path / "mine.yaml"), "--consent", "trust")
    (place.path / "mine.yaml").unlink()
    place.refused("RESERVED_FIELD", 5, "update", "one", "phase=b")
    assert place.done("transition", "one", "b")["phase"] == "b"
    assert place.done("describe", "one")["id"] == place.done("describe", "small")["id"] == "small"
    place.write("bad.json", small_data(transitions=[]))
    path = str(place.path / "bad.json")
    place.refused("INVALID_DEFINITION", 1, "init", "two", "--definition", path)


def test_machines_and_a_workflow_share_one_root(place: MachinePlace) -> None:
    """Machines and a workflow use one log, and `machine list` lists all of them."""
    place.init("login")
    for command in ("status", "rehydrate"):
        error = place.wfctl(command).error
        assert error["code"] == "no_workflow_yet"
        assert "wfctl machine rehydrate login" in error["message"]
        assert "lost" not in error["message"]
    plan = write_plan(place.path)
    assert place.wfctl("init", str(plan), "--consent", "trust").code == 0
    place.init("crash", "debug")
    rows = {row["id"]: row["type"] for row in place.done("list")}
    assert rows == {
        "melt-2026-03-31": "staged workflow",
        "crash": "debug",
        "login": "feature",
    }
    fsck = place.wfctl("fsck").data
    assert (fsck["findings"], fsck["machines"]) == ([], {"crash": 1, "login": 1})
    assert place.wfctl("replay", "--check").code == 0


def test_machine_list_shows_what_blocks_a_workflow(place: MachinePlace) -> None:
    """`machine list` shows that a person must judge the criteria of a stage."""
    plan = {"id": "stage-1", "name": "Look", "success_criteria": "It looks right."}
    written = write_plan(place.path, {"workflow_id": "melt-2026-03-31", "stages": [plan]})
    assert place.wfctl("init", str(written), "--consent", "trust").code == 0
    assert place.wfctl("append", "attempt.started", "--data", attempt_data()).code == 0
    assert place.wfctl("stage", "compute", "stage-1").code == 0
    (row,) = place.done("list")
    assert row["blockers"] == [
        "stage-1: a person must judge its success criteria (It looks right.)"
    ]


def test_reads_write_nothing(place: MachinePlace) -> None:
    """`get`, `list`, `describe` and a dry run leave all files unchanged."""
    place.init("login")
    before = tree(place.path)
    for line in (
        ["get", "login"],
        ["list"],
        ["describe", "login"],
        ["cancel", "login", "--dry-run"],
    ):
        place.done(*line)
    assert tree(place.path) == before


def test_schema_prints_the_schemas_of_machine_events(place: MachinePlace) -> None:
    """`wfctl schema machine.created` prints a JSON Schema with the properties of the event."""
    assert "machine" in place.wfctl("schema", "machine.created").data["properties"]


def test_full_description_has_all_parts_of_the_definition(place: MachinePlace) -> None:
    """`describe --full` has phases, events, reserved fields, a schema and a diagram."""
    data = place.done("describe", "oneshot", "--full")
    assert data["mermaid"].startswith("stateDiagram-v2")
    assert "phase" in data["reserved"]
    assert "oneshot" in data["schema"]["properties"]
    assert data["events"]["synthesize.requested"]["recorded_by"] == "append"
    assert data["events"]["workflow.transition"]["recorded_by"] == "transition"
    assert set(data["phases"]) == {"plan", "implementing", "synthesize", "completed", "cancelled"}


@pytest.mark.parametrize("data", ['{"x": NaN}', "{", "[1]"])
def test_data_that_is_no_json_object_is_a_usage_error(place: MachinePlace, data: str) -> None:
    """`machine append` and `machine update` exit with 2 and record no event."""
    place.init("login")
    place.refused("invalid_option", 2, "append", "login", "step.passed", "--data", data)
    place.refused("invalid_option", 2, "update", "login", "--data", data)
    assert place.types("login") == ["machine.created"]


@pytest.mark.parametrize("at", ["0", "2020-01-01"])
def test_moment_before_a_machine_existed_has_its_own_error(place: MachinePlace, at: str) -> None:
    """`machine get --at` says that the machine did not exist yet, and exits with 3."""
    place.init("login")
    answer = place.call("get", "login", "--at", at)
    assert (answer.code, answer.error["code"]) == (3, "not_found")
    assert "'login' did not exist yet" in answer.error["message"]
    place.refused("STATE_NOT_FOUND", 3, "get", "logout", "--at", at)


def test_version_unknown_at_a_time_is_not_shown(place: MachinePlace) -> None:
    """`machine get --known-at TIME` ignores versions that were recorded after this time."""
    place.init("login")
    known = place.events("login")[-1]["recorded_at"]
    place.done("update", "login", "notes=later")
    view = ["--known-at", known]
    assert place.call("get", "login", "--at", "2", *view).envelope["_meta"]["version"] == 1
    answer = place.call("get", "login", "--at", "3", *view)
    assert answer.error["message"] == "version 3 does not exist, because the log ends at version 2"


def test_session_is_no_valid_moment_of_a_machine(place: MachinePlace) -> None:
    """Machines have no sessions, so wfctl refuses `--at session:N` as a usage error."""
    place.init("login")
    place.refused("invalid_option", 2, "get", "login", "--at", "session:1")
    answer = place.wfctl("events", "--machine", "login", "--at", "session:1")
    assert (answer.code, answer.error["code"]) == (2, "invalid_option")


def test_only_a_track_resumes_from_a_task(place: MachinePlace) -> None:
    """wfctl refuses `rehydrate --resume-from` for machines of other types."""
    place.init("login")
    place.refused("INVALID_INPUT", 2, "rehydrate", "login", "--resume-from", "t-1")
    line = ("login", "--resume-from", "t-1", "--start-fresh")
    place.refused("INVALID_INPUT", 2, "rehydrate", *line)
    assert place.types("login") == ["machine.created"]


QUESTIONS = [
    *("amendments", "transitions", "retries", "attempts", "times", "queue", "costs"),
    *("refused", "drift"),
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_audits_of_a_workflow_report_that_the_root_has_only_machines(
    place: MachinePlace, question: str
) -> None:
    """Without a workflow, `wfctl audit` fails instead of printing an empty table."""
    place.init("login")
    assert place.wfctl("audit", question).error["code"] == "no_workflow_yet"


def test_audit_of_bypasses_reads_machines(place: MachinePlace) -> None:
    """`audit bypasses` exits with 0 for a root with one machine whose consent was not bypassed."""
    place.init("login")
    answer = place.wfctl("audit", "bypasses")
    assert (answer.code, answer.data) == (0, [])


def test_audit_lists_an_edit_that_an_agent_dismissed(place: MachinePlace) -> None:
    """`audit bypasses` lists that an agent discarded an edit with `machine drift --revert`."""
    place.init("login")
    (file,) = place.path.rglob("login*.state.json")
    file.write_text(file.read_text().replace('"ideate"', '"done"'))
    place.done("update", "login", "artifacts.design=d.md")
    place.wfctl("--actor", "agent:hasty", "machine", "drift", "login", "--revert")
    found = [one for one in place.wfctl("audit", "bypasses").data if one["kind"] == "agent"]
    assert [one["what"].split()[0] for one in found] == ["reverted"]


def test_meta_of_machine_events_has_the_version_of_the_machine(place: MachinePlace) -> None:
    """``_meta`` in the answer has the version and log position of the machine's last event."""
    place.init("login")
    place.init("logout")
    place.done("update", "logout", "artifacts.design=d.md")
    meta = place.wfctl("events", "--machine", "logout").envelope["_meta"]
    last = place.events("logout")[-1]
    where = {"version": last["version"], "position": last["position"]}
    assert meta == {"workflow": None, **where}
    assert place.wfctl("events", "--machine", "logout", "--at", "2").envelope["_meta"] == meta


def test_machine_id_may_have_128_characters(place: MachinePlace) -> None:
    """A machine with the longest allowed id can be created and read."""
    id_ = "m" * 128
    place.init(id_)
    assert place.call("get", id_).data["phase"] == "ideate"
