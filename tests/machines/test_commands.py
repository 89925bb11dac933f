"""``wfctl machine …``: the envelope, the codes that clients know, and the exit codes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.support import attempt_data, tree, write_plan
from tests.machines.logs import on_every_log
from tests.machines.place import MachinePlace
from tests.machines.support import small_data

pytestmark = on_every_log


def test_a_machine_begins_in_a_root_of_its_own(place: MachinePlace) -> None:
    """Given an empty folder, when a machine is begun, then it has a log, a file and a next step."""
    answer = place.call("init", "login", "--type", "feature")
    assert answer.code == 0
    assert list(answer.envelope) == ["success", "data", "next_actions", "_meta"]
    assert answer.data["phase"] == "ideate"
    assert answer.envelope["_meta"]["machine"] == "login"
    assert place.json("login.state.json")["featureId"] == "login"
    assert {action["verb"] for action in answer.envelope["next_actions"]} == {"work"}


def test_every_answer_says_what_may_be_done_next(place: MachinePlace) -> None:
    """Verb, target and reason, refusals too."""
    place.init("login")
    done = place.call("update", "login", "artifacts.design=d.md").envelope
    assert done["next_actions"][0]["verb"] == "transition"
    assert done["next_actions"][0]["target"] == "plan"
    refused = place.refused("INVALID_TRANSITION", 5, "transition", "login", "review")
    fields = {"command", "reason", "verb", "target", "needs"}
    assert {"command", "reason", "verb", "target"} <= set(refused["next_actions"][0]) <= fields


def test_a_refused_transition_says_all_that_is_missing(place: MachinePlace) -> None:
    """Every unmet condition, the targets, the shape; no patch that would fake it."""
    place.init("login")
    data = place.refused("GUARD_FAILED", 5, "transition", "login", "plan")
    wanted = "artifacts.design is present, written since the phase began"
    assert data["unmet"][0]["condition"] == wanted
    assert data["validTargets"] == ["plan", "cancelled"]
    assert data["expectedShape"] == {"artifacts": {"design": "text"}}
    assert "artifacts.design=" not in json.dumps(data)


def test_a_reserved_field_is_refused_with_the_right_way(place: MachinePlace) -> None:
    """By path, inside of an object, and in a segment that begins with an underscore."""
    place.init("login")
    data = place.refused("RESERVED_FIELD", 5, "update", "login", "phase=review")
    assert data["rejectedPath"] == "phase"
    assert data["alternateWritePath"] == "wfctl machine transition login PHASE"
    place.refused("RESERVED_FIELD", 5, "update", "login", "--data", '{"version": "2"}')
    hidden = place.refused("RESERVED_FIELD", 5, "update", "login", 'reviews={"_x": {}}')
    assert hidden["rejectedPath"] == "reviews._x"


def test_what_was_refused_can_be_asked_for(place: MachinePlace) -> None:
    """By machine, with the code and the reason."""
    place.init("login")
    place.refused("GUARD_FAILED", 5, "transition", "login", "plan")
    (refusal,) = place.wfctl("audit", "refused", "--machine", "login").data
    assert (refusal["command"], refusal["code"]) == ("machine.transitioned", "GUARD_FAILED")
    first = place.wfctl("audit", "refused", "--machine", "login", "--at", "2020-01-01")
    assert first.data == []
    assert place.wfctl("audit", "refused", "--machine", "nobody").code == 3


def test_what_is_no_path_or_no_value_is_refused(place: MachinePlace) -> None:
    """Numbers in brackets only; one slot past the end appends; known fields keep their shape."""
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


def test_a_path_too_deep_to_be_shown_is_refused(place: MachinePlace) -> None:
    """Given the deepest path with the deepest value, then it is shown; one more part, refused."""
    place.init("login")
    deepest = ".".join("a" * 64)
    place.done("update", "login", f"{deepest}={'[' * 90}{']' * 90}")
    place.done("get", "login")
    place.refused("INVALID_INPUT", 2, "update", "login", f"{deepest}.a=1")
    place.refused("INVALID_INPUT", 2, "update", "login", f"{'.'.join('b' * 900)}=1")
    place.refused("INVALID_INPUT", 2, "init", "other", "--type", "feature", f"{deepest}.a=1")


def test_objects_merge_deep_and_arrays_are_replaced(place: MachinePlace) -> None:
    """As clients of the protocol expect."""
    place.init("login")
    place.done("update", "login", 'reviews={"a": {"status": "pass"}}', 'planReview.gaps=["x"]')
    place.done("update", "login", 'reviews={"b": {"status": "fail"}}', 'planReview.gaps=["y"]')
    state = place.done("get", "login")
    assert state["reviews"] == {"a": {"status": "pass"}, "b": {"status": "fail"}}
    assert state["planReview"]["gaps"] == ["y"]


def test_a_machine_that_is_not_there_is_not_found(place: MachinePlace) -> None:
    """With a root and without one."""
    place.refused("STATE_NOT_FOUND", 3, "get", "nothing")
    place.init("login")
    assert place.refused("STATE_NOT_FOUND", 3, "update", "nothing", "x=1")["known"] == ["login"]


def test_a_second_machine_of_an_id_is_a_conflict(place: MachinePlace) -> None:
    """Unless it is the same command again."""
    first = place.init("login", "feature", "--command-id", "one")
    again = place.init("login", "feature", "--command-id", "one")
    assert (again["repeated"], again["events"]) == (True, first["events"])
    place.refused("STATE_ALREADY_EXISTS", 4, "init", "login", "--type", "debug")


def test_a_stale_version_is_a_conflict(place: MachinePlace) -> None:
    """And the right one is not a mistake."""
    place.init("login")
    data = place.refused(
        "VERSION_CONFLICT", 4, "update", "login", "track=x", "--expected-version", "7"
    )
    assert (data["expected"], data["found"]) == (7, 1)
    place.done("update", "login", "track=x", "--expected-version", "1")


def test_a_command_id_takes_effect_once(place: MachinePlace) -> None:
    """Given again the first answer; with other content a conflict."""
    place.init("login")
    for repeated in (False, True):
        data = place.done("update", "login", "artifacts.pr=1", "--command-id", "k")
        assert data["repeated"] is repeated
    assert place.head("login") == 2
    place.refused("command_conflict", 4, "update", "login", "artifacts.pr=2", "--command-id", "k")


def test_a_cancelled_machine_is_cancelled_once(place: MachinePlace) -> None:
    """A dry run says what it would do and does nothing."""
    place.init("login")
    dry = place.done("cancel", "login", "--dry-run", "--reason", "no use")
    assert [event["type"] for event in dry["events"]] == ["machine.cancelled"]
    assert dry["files"] == ["login.state.json"]
    assert place.phase("login") == "ideate"
    place.done("cancel", "login")
    assert place.phase("login") == "cancelled"
    place.refused("ALREADY_CANCELLED", 5, "cancel", "login")
    assert place.done("transition", "login", "cancelled")["events"] == []


def test_a_limit_leads_out_and_only_a_person_goes_on(place: MachinePlace) -> None:
    """Given three plans with gaps, when the fourth is asked for, then blocked, and it is said."""
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
    assert place.phase("login") == "plan-review"  # the question that was left open


def test_a_choice_state_takes_its_open_way(place: MachinePlace) -> None:
    """A oneshot asks for a pull request by an event, else it is complete without one."""
    for machine, requested, target in (("one", False, "completed"), ("two", True, "synthesize")):
        place.init(machine, "oneshot")
        place.done("update", machine, "artifacts.plan=short")
        place.done("transition", machine, "--auto")
        if requested:
            place.done("append", machine, "synthesize.requested", "--data", '{"reason": "team"}')
        assert place.done("transition", machine, "--auto")["phase"] == target


def test_events_that_no_definition_names_are_refused(place: MachinePlace) -> None:
    """What another command records is said."""
    place.init("login")
    place.refused("INVALID_INPUT", 2, "append", "login", "nothing.known")
    place.refused("INVALID_INPUT", 2, "append", "login", "state.patched")
    place.refused("INVALID_INPUT", 2, "append", "login", "decision.recorded")


def test_tasks_carry_their_times(place: MachinePlace) -> None:
    """They follow from the status, and nobody writes them by hand."""
    place.init("login")
    place.done("task", "login", "T-1", "--title", "Write it")
    place.done("task", "login", "T-1", "--status", "in_progress", "branch=feat/x")
    place.done("task", "login", "T-1", "--status", "complete")
    (task,) = place.json("login.state.json")["tasks"]
    assert (task["id"], task["status"], task["branch"]) == ("T-1", "complete", "feat/x")
    assert task["startedAt"].endswith("Z")
    assert task["completedAt"].endswith("Z")
    place.refused("INVALID_INPUT", 2, "task", "login", "T-1", "--status", "done")


def test_a_handoff_is_kept(place: MachinePlace) -> None:
    """For anyone who comes next."""
    place.init("login")
    place.done("checkpoint", "login", "--summary", "half done", "--next", "the rest")
    kept = place.json("login.state.json")["_checkpoint"]
    assert (kept["summary"], kept["nextSteps"]) == ("half done", ["the rest"])


def test_parts_of_the_state_can_be_had(place: MachinePlace) -> None:
    """By a dot path, or by several fields; and as it was."""
    place.init("login")
    place.done("update", "login", "artifacts.design=d.md")
    assert place.done("get", "login", "--query", "artifacts.design") == "d.md"
    assert place.done("get", "login", "--fields", "phase,artifacts") == {
        "phase": "ideate",
        "artifacts": {"design": "d.md"},
    }
    assert place.done("get", "login", "--query", "artifacts", "--at", "1") == {}


def test_a_definition_of_ones_own_works_the_same(place: MachinePlace) -> None:
    """Given a file, when a machine is begun from it, then it runs by it for ever."""
    place.write("mine.yaml", json.dumps(small_data()))
    place.done("init", "one", "--definition", str(place.path / "mine.yaml"), "--consent", "trust")
    (place.path / "mine.yaml").unlink()
    place.refused("RESERVED_FIELD", 5, "update", "one", "phase=b")
    assert place.done("transition", "one", "b")["phase"] == "b"
    assert place.done("describe", "one")["id"] == place.done("describe", "small")["id"] == "small"
    place.write("bad.json", small_data(transitions=[]))
    path = str(place.path / "bad.json")
    place.refused("INVALID_DEFINITION", 1, "init", "two", "--definition", path)


def test_machines_live_beside_a_staged_workflow(place: MachinePlace) -> None:
    """In one root and one log; whichever came first."""
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


def test_a_listed_workflow_says_everything_that_holds_it_up(place: MachinePlace) -> None:
    """Given a stage whose prose somebody must judge, then that is a blocker of the list too."""
    plan = {"id": "stage-1", "name": "Look", "success_criteria": "It looks right."}
    written = write_plan(place.path, {"workflow_id": "melt-2026-03-31", "stages": [plan]})
    assert place.wfctl("init", str(written), "--consent", "trust").code == 0
    assert place.wfctl("append", "attempt.started", "--data", attempt_data()).code == 0
    assert place.wfctl("stage", "compute", "stage-1").code == 0
    (row,) = place.done("list")
    assert row["blockers"] == [
        "stage-1: somebody must judge its success criteria (It looks right.)"
    ]


def test_reads_write_nothing(place: MachinePlace) -> None:
    """No file changes, none comes."""
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


def test_the_schema_of_every_event_can_be_had(place: MachinePlace) -> None:
    """Those of machines too."""
    assert "machine" in place.wfctl("schema", "machine.created").data["properties"]


def test_a_description_holds_all_that_a_definition_says(place: MachinePlace) -> None:
    """States, transitions, guards, schemas, reserved fields, a diagram."""
    data = place.done("describe", "oneshot", "--full")
    assert data["mermaid"].startswith("stateDiagram-v2")
    assert "phase" in data["reserved"]
    assert "oneshot" in data["schema"]["properties"]
    assert data["events"]["synthesize.requested"]["recorded_by"] == "append"
    assert data["events"]["workflow.transition"]["recorded_by"] == "transition"
    assert set(data["phases"]) == {"plan", "implementing", "synthesize", "completed", "cancelled"}


@pytest.mark.parametrize("data", ['{"x": NaN}', "{", "[1]"])
def test_data_that_is_no_json_object_is_a_usage_error(place: MachinePlace, data: str) -> None:
    """Exit 2, and nothing is recorded."""
    place.init("login")
    place.refused("invalid_option", 2, "append", "login", "step.passed", "--data", data)
    place.refused("invalid_option", 2, "update", "login", "--data", data)
    assert place.types("login") == ["machine.created"]


@pytest.mark.parametrize("at", ["0", "2020-01-01"])
def test_a_machine_that_was_not_yet_is_told_from_one_that_never_was(
    place: MachinePlace, at: str
) -> None:
    """By a moment before it began."""
    place.init("login")
    answer = place.call("get", "login", "--at", at)
    assert (answer.code, answer.error["code"]) == (3, "not_found")
    assert "no machine 'login' yet" in answer.error["message"]
    place.refused("STATE_NOT_FOUND", 3, "get", "logout", "--at", at)


def test_a_version_that_was_not_known_yet_is_not_one_that_is_to_come(place: MachinePlace) -> None:
    """Given both clocks, then what was known of that version is shown."""
    place.init("login")
    known = place.events("login")[-1]["recorded_at"]
    place.done("update", "login", "notes=later")
    view = ["--known-at", known]
    assert place.call("get", "login", "--at", "2", *view).envelope["_meta"]["version"] == 1
    answer = place.call("get", "login", "--at", "3", *view)
    assert answer.error["message"] == "no version 3: the log ends at version 2"


def test_a_session_is_no_moment_of_a_machine(place: MachinePlace) -> None:
    """Wherever one is asked for: a usage error."""
    place.init("login")
    place.refused("invalid_option", 2, "get", "login", "--at", "session:1")
    answer = place.wfctl("events", "--machine", "login", "--at", "session:1")
    assert (answer.code, answer.error["code"]) == (2, "invalid_option")


def test_only_a_track_is_resumed_from_a_task(place: MachinePlace) -> None:
    """Elsewhere the option is refused, and beside --start-fresh."""
    place.init("login")
    place.refused("INVALID_INPUT", 2, "rehydrate", "login", "--resume-from", "t-1")
    line = ("login", "--resume-from", "t-1", "--start-fresh")
    place.refused("INVALID_INPUT", 2, "rehydrate", *line)
    assert place.types("login") == ["machine.created"]


QUESTIONS = [
    *("amendments", "bypasses", "transitions", "retries", "attempts", "times", "queue", "costs"),
    *("refused", "drift"),
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_audit_of_a_root_without_a_staged_workflow_finds_nothing(
    place: MachinePlace, question: str
) -> None:
    """Exit 0 and no records."""
    place.init("login")
    answer = place.wfctl("audit", question)
    assert (answer.code, answer.data) == (0, [])


def test_an_edit_that_an_agent_dismisses_is_told_by_the_audit(place: MachinePlace) -> None:
    """With its machine's file."""
    place.init("login")
    (file,) = place.path.rglob("login*.state.json")
    file.write_text(file.read_text().replace('"ideate"', '"done"'))
    place.done("update", "login", "artifacts.design=d.md")
    place.wfctl("--actor", "agent:hasty", "machine", "drift", "login", "--revert")
    found = [one for one in place.wfctl("audit", "bypasses").data if one["kind"] == "agent"]
    assert [one["what"].split()[0] for one in found] == ["reverted"]


def test_the_events_of_a_machine_are_those_of_no_workflow(place: MachinePlace) -> None:
    """Their ``_meta`` has the version and the position of its own stream."""
    place.init("login")
    place.init("logout")
    place.done("update", "logout", "artifacts.design=d.md")
    meta = place.wfctl("events", "--machine", "logout").envelope["_meta"]
    last = place.events("logout")[-1]
    where = {"version": last["version"], "position": last["position"]}
    assert meta == {"workflow": None, **where}
    assert place.wfctl("events", "--machine", "logout", "--at", "2").envelope["_meta"] == meta


def test_a_machine_may_have_the_longest_id_that_its_type_takes(place: MachinePlace) -> None:
    """As the declaration of ids says: 128 letters, and not those of a stage."""
    id_ = "m" * 128
    place.init(id_)
    assert place.call("get", id_).data["phase"] == "ideate"
