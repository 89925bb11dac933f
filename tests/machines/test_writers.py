"""Agents may edit a machine's files. wfctl records edits that the rules allow as events."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from tests.machines.logs import on_every_log
from tests.machines.place import MachinePlace

pytestmark = on_every_log

TRACK = "conductor/tracks/auth/metadata.json"
PHASE, TASKS = "memory/state/phase.json", "memory/state/execution.json"


def now() -> str:
    """Return the current time in the format that agents write."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def edit(place: MachinePlace, file: str, **fields: Any) -> dict[str, Any]:
    """Change fields of a JSON file like another program.

    ``__`` in a keyword stands for a dot in the path of the field.
    """
    document: dict[str, Any] = place.json(file)
    for name, value in fields.items():
        here = document
        *way, last = name.split("__")
        for step in way:
            here = here.setdefault(step, {})
        here[last] = value
    place.write(file, document)
    return document


def start(place: MachinePlace, step: str, **more: Any) -> None:
    """Write the start of a step into the track file, like an agent of the protocol."""
    begun = {"status": "IN_PROGRESS", "started_at": now(), "agent": "loop-agent", **more}
    edit(
        place,
        TRACK,
        loop_state__current_step=step,
        loop_state__step_status="IN_PROGRESS",
        loop_state__step_started_at=now(),
        **{f"loop_state__checkpoints__{step}": begun},
    )


def finish(place: MachinePlace, step: str, following: str, **more: Any) -> None:
    """Write the end of a step and the next step into the track file, like an agent."""
    done = {"status": "PASSED", "completed_at": now(), **more}
    edit(
        place,
        TRACK,
        loop_state__current_step=following,
        loop_state__step_status="NOT_STARTED",
        **{f"loop_state__checkpoints__{step}__{k}": v for k, v in done.items()},
        **{f"loop_state__checkpoints__{following}": {"status": "NOT_STARTED"}},
    )


def names(place: MachinePlace, machine: str) -> list[str]:
    """Return the names of all events of a machine after its creation."""
    return [e["data"].get("name") or e["type"] for e in place.events(machine)][1:]


def looked(place: MachinePlace, machine: str) -> None:
    """Record a checkpoint, so that wfctl reads and writes the files."""
    place.done("checkpoint", machine, "--summary", "went on")


@pytest.fixture
def track(place: MachinePlace) -> MachinePlace:
    """Create a track (a piece of work in the conductor protocol)."""
    place.init("auth", "conductor")
    return place


def test_step_passed_in_the_file_is_recorded(track: MachinePlace) -> None:
    """wfctl records the steps in the edited file as events, and names the file as the actor."""
    start(track, "BRAINSTORM")
    looked(track, "auth")
    finish(track, "BRAINSTORM", "PLAN", output_files=["spec.md"])
    looked(track, "auth")
    assert names(track, "auth") == [
        *("step.started", "machine.checkpointed", "step.passed", "machine.transitioned"),
        "machine.updated",
        "machine.checkpointed",
    ]
    theirs = [e for e in track.events("auth") if e["actor"]["kind"] == "import"]
    assert {e["actor"]["name"] for e in theirs} == {TRACK}
    loop = track.json(TRACK)["loop_state"]
    assert (loop["current_step"], loop["step_status"]) == ("PLAN", "NOT_STARTED")
    assert loop["checkpoints"]["BRAINSTORM"]["agent"] == "loop-agent"
    assert loop["checkpoints"]["BRAINSTORM"]["output_files"] == ["spec.md"]
    assert track.call("drift", "auth").code == 0


def test_all_steps_between_two_commands_are_recorded(track: MachinePlace) -> None:
    """If an agent writes four steps before the next command, wfctl records all four."""
    ways = ["BRAINSTORM", "PLAN", "EVALUATE_PLAN", "EXECUTE", "EVALUATE_EXECUTION"]
    for step, following in pairwise(ways):
        start(track, step)
        finish(track, step, following, commits=[{"sha": "a1"}], verdict="PASS")
    looked(track, "auth")
    assert track.done("list")[0]["phase"] == "EVALUATE_EXECUTION"
    assert names(track, "auth").count("step.passed") == 4
    done = track.json(TRACK)["loop_state"]["checkpoints"]
    assert done["EXECUTE"]["commits"] == [{"sha": "a1"}]
    assert track.call("drift", "auth").code == 0
    assert track.wfctl("replay", "--check").code == 0


@pytest.mark.parametrize("said", ["2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z", "soon"])
def test_impossible_start_time_is_replaced_by_the_current_time(
    track: MachinePlace, said: str
) -> None:
    """wfctl accepts a step whose start time is too old, in the future, or no time."""
    start(track, "BRAINSTORM", started_at=said)
    looked(track, "auth")
    assert names(track, "auth") == ["step.started", "machine.checkpointed"]
    began = track.json(TRACK)["loop_state"]["checkpoints"]["BRAINSTORM"]["started_at"]
    assert "2020" < began[:4] < "2099"
    assert track.call("drift", "auth").code in (0, 7 * (said == "soon"))


def test_failed_evaluation_in_the_file_starts_a_fix_cycle(track: MachinePlace) -> None:
    """wfctl copies the failure items to the notes, and increases the count of fixes."""
    for step in ("PLAN", "EVALUATE_PLAN", "EXECUTE", "EVALUATE_EXECUTION"):
        track.done("append", "auth", "step.started")
        track.done("append", "auth", "step.passed")
        track.done("transition", "auth", step)
    start(track, "EVALUATE_EXECUTION")
    edit(
        track,
        TRACK,
        loop_state__current_step="FIX",
        loop_state__step_status="NOT_STARTED",
        loop_state__fix_cycle_count=1,
        loop_state__checkpoints__EVALUATE_EXECUTION__status="FAILED",
        loop_state__checkpoints__EVALUATE_EXECUTION__completed_at=now(),
        loop_state__checkpoints__EVALUATE_EXECUTION__failure_items=["no tests"],
        loop_state__checkpoints__FIX={"status": "NOT_STARTED", "cycle": 1},
    )
    looked(track, "auth")
    loop = track.json(TRACK)["loop_state"]
    assert (loop["current_step"], loop["fix_cycle_count"]) == ("FIX", 1)
    assert loop["checkpoints"]["EVALUATE_EXECUTION"]["notes"] == "ERROR: no tests"
    assert loop["checkpoints"]["FIX"] == {"status": "NOT_STARTED", "cycle": 1}
    assert track.call("drift", "auth").code == 0


def test_forbidden_part_of_an_edit_stays_drift(track: MachinePlace) -> None:
    """If an edit skips steps, wfctl keeps this part as drift and adopts the other fields."""
    edit(track, TRACK, loop_state__current_step="EXECUTE", loop_state__mode="fast")
    told = track.call("drift", "auth")
    assert told.code == 7
    assert told.data["changes"][0]["becomes"] == ['set loop_state.mode = "fast"']
    looked(track, "auth")
    assert track.json(TRACK)["loop_state"]["current_step"] == "BRAINSTORM"
    assert track.json(TRACK)["loop_state"]["mode"] == "fast"
    (change,) = track.call("drift", "auth").data["changes"]
    (one,) = change["differences"]
    assert one["path"] == ["loop_state", "current_step"]
    assert "EXECUTE" in one["rule"]
    track.refused("INVALID_TRANSITION", 5, "drift", "auth", "--adopt")


def test_edit_cannot_unblock_a_track(track: MachinePlace) -> None:
    """If a user removes the block in the file, the track stays blocked, and the edit is drift."""
    for step in ("PLAN", "EVALUATE_PLAN", "EXECUTE", "EVALUATE_EXECUTION"):
        track.done("append", "auth", "step.started")
        track.done("append", "auth", "step.passed")
        track.done("transition", "auth", step)
    for _ in range(4):
        track.done("append", "auth", "step.started")
        track.done("append", "auth", "step.failed", "--data", '{"notes": "bad"}')
        if track.done("transition", "auth", "FIX")["phase"] == "BLOCKED":
            break
        track.done("append", "auth", "step.started")
        track.done("append", "auth", "step.passed")
        track.done("transition", "auth", "EVALUATE_EXECUTION")
    edit(
        track,
        TRACK,
        blockers=[],
        loop_state__current_step="FIX",
        loop_state__step_status="IN_PROGRESS",
        loop_state__fix_cycle_count=0,
    )
    looked(track, "auth")
    shown = track.json(TRACK)
    assert shown["loop_state"]["step_status"] == "BLOCKED"
    assert shown["loop_state"]["fix_cycle_count"] == 3
    assert shown["blockers"]
    assert track.call("drift", "auth").code == 7


def test_removed_field_is_adopted_separately(track: MachinePlace) -> None:
    """If a user removes two fields, `drift --adopt --field` removes only the named one."""
    track.done("update", "auth", "name=Auth", "type=feature")
    document = track.json(TRACK)
    del document["name"], document["type"]
    track.write(TRACK, document)
    looked(track, "auth")
    assert track.json(TRACK)["name"] == "Auth"
    track.done("drift", "auth", "--adopt", "--field", "name")
    looked(track, "auth")
    shown = track.json(TRACK)
    assert ("name" in shown, shown["type"]) == (False, "feature")
    assert track.wfctl("replay", "--check").code == 0


def test_stale_edit_does_not_undo_newer_values(track: MachinePlace) -> None:
    """If an agent writes an outdated copy of the file, wfctl adopts only the agent's own change."""
    before = track.json(TRACK)
    track.done("update", "auth", "name=New")
    before["extra"] = 1
    track.write(TRACK, before)
    looked(track, "auth")
    shown = track.json(TRACK)
    assert (shown.get("name"), shown["extra"]) == ("New", 1)


def test_resume_reads_the_last_task_from_the_file(track: MachinePlace) -> None:
    """`rehydrate` names the task after the last task in the edited file, and records nothing."""
    for step in ("PLAN", "EVALUATE_PLAN", "EXECUTE"):
        track.done("append", "auth", "step.started")
        track.done("append", "auth", "step.passed")
        track.done("transition", "auth", step)
    track.write("conductor/tracks/auth/plan.md", "- [x] 1.1 One\n- [ ] 1.2 Two\n")
    start(track, "EXECUTE", last_task="1.1", tasks_total=2)
    head = track.head("auth")
    resume = track.done("rehydrate", "auth")["resume"]
    assert (resume["last_task"], resume["next_task"]) == ("1.1", "1.2")
    assert track.head("auth") == head


@pytest.fixture
def flow(place: MachinePlace) -> MachinePlace:
    """Create a dotagent machine in its implementation phase, with a running task."""
    place.init("wf-1", "dotagent")
    for report, approval, phase in (
        ("demand", "requirements", "ARCHITECTURE"),
        ("final_design", "architecture", "IMPLEMENTATION"),
    ):
        place.done("append", "wf-1", "phase.started")
        place.write(f"memory/reports/{report}.json", {"a": report})
        place.done("approve", "wf-1", approval)
        place.done("transition", "wf-1", phase)
    place.done("task", "wf-1", "task-001", "--status", "running")
    return place


def with_task(place: MachinePlace, **fields: Any) -> None:
    """Change fields of the first task in the file execution.json."""
    document = place.json(TASKS)
    document["tasks"][0] |= fields
    place.write(TASKS, document)


def test_output_of_an_executor_is_adopted_before_a_repair(flow: MachinePlace) -> None:
    """If an agent marks its task as `pre_complete`, `rehydrate` does not reset the task."""
    flow.write("memory/reports/task-001.json", {"task_id": "task-001", "status": "pre_complete"})
    with_task(flow, status="pre_complete", output="memory/reports/task-001.json")
    recorded = flow.done("rehydrate", "wf-1")["resume"]["recorded"]
    assert recorded == []
    (task,) = flow.json(TASKS)["tasks"]
    assert (task["status"], task.get("attempts")) == ("pre_complete", None)
    last = [e for e in flow.events("wf-1") if e["type"] == "machine.task_changed"][-1]
    assert last["actor"] == {"kind": "import", "name": TASKS}
    assert flow.call("drift", "wf-1").code == 0


@pytest.mark.parametrize("output", [None, '{"task_id":"task-001","status":"pre_c'])
def test_missing_or_torn_output_is_no_evidence(flow: MachinePlace, output: str | None) -> None:
    """Without a complete output file, wfctl does not adopt the status `pre_complete`."""
    if output is not None:
        flow.write("memory/reports/task-001.json", output)
    with_task(flow, status="pre_complete", output="memory/reports/task-001.json")
    looked(flow, "wf-1")
    assert flow.json(TASKS)["tasks"][0]["status"] == "running"
    (change,) = flow.call("drift", "wf-1").data["changes"]
    assert "memory/reports/task-001.json" in change["differences"][0]["rule"]


def test_edited_phase_is_adopted_only_if_its_output_exists(flow: MachinePlace) -> None:
    """wfctl adopts the next phase in phase.json only if the output of the last phase exists."""
    with_task(flow, status="verified")
    edit(flow, PHASE, current_phase="VERIFICATION", phase_status="in_progress")
    looked(flow, "wf-1")
    assert flow.json(PHASE)["current_phase"] == "VERIFICATION"
    edit(flow, PHASE, current_phase="REFLECTION", phase_status="in_progress")
    looked(flow, "wf-1")
    assert flow.json(PHASE)["current_phase"] == "VERIFICATION"
    assert "verification.json" in json.dumps(flow.call("drift", "wf-1").data)
    flow.done("drift", "wf-1", "--revert")
    flow.write("memory/reports/verification.json", {"ok": True})
    edit(flow, PHASE, current_phase="REFLECTION", phase_status="in_progress")
    looked(flow, "wf-1")
    assert flow.json(PHASE)["current_phase"] == "REFLECTION"
    assert flow.call("drift", "wf-1").code == 0


def test_edit_cannot_approve_a_phase(place: MachinePlace) -> None:
    """An approval written into phase.json has no proof, so wfctl keeps the edit as drift."""
    place.init("wf-1", "dotagent")
    place.write("memory/reports/demand.json", {"a": 1})
    given = [{"phase": "REQUIREMENTS", "approved_at": now()}]
    edit(place, PHASE, current_phase="ARCHITECTURE", user_checkpoints=given)
    looked(place, "wf-1")
    shown = place.json(PHASE)
    assert (shown["current_phase"], shown["user_checkpoints"]) == ("REQUIREMENTS", [])
    (change,) = place.call("drift", "wf-1").data["changes"]
    rules = {one["path"][0]: one["rule"] for one in change["differences"]}
    assert set(rules) == {"current_phase", "user_checkpoints"}
    assert "approve" in rules["user_checkpoints"]
    assert "machine.approved" not in place.types("wf-1")
