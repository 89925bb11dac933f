"""The steps of a track (a piece of work in the conductor protocol): events, file, lock, resume."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from extensions.machines.service.errors import LockLost
from extensions.machines.service.files import hold_track_lock
from tests.cli.support import call
from tests.machines.logs import on_every_log
from tests.machines.place import MachinePlace

pytestmark = on_every_log

FOLDER = "conductor/tracks/auth"
FILE = f"{FOLDER}/metadata.json"
LOCK = f"{FOLDER}/.metadata.lock"
PLAN = """# Plan
- [x] **Task 1.1**: Read
- [x] Task 1.2: Write
- [ ] Task 2.1: Test
- [ ] Task 2.2: Ship
"""


@pytest.fixture
def track(place: MachinePlace) -> MachinePlace:
    """Create a track and move it to the step PLAN."""
    place.init("auth", "conductor", "name=Auth", "type=feature")
    passed(place)
    place.done("transition", "auth", "PLAN")
    return place


def passed(place: MachinePlace, **data: object) -> None:
    """Record that the current step started and passed."""
    place.done("append", "auth", "step.started")
    place.done("append", "auth", "step.passed", "--data", json.dumps(data))


def failed(place: MachinePlace) -> None:
    """Record that the current step started and failed."""
    place.done("append", "auth", "step.started")
    place.done("append", "auth", "step.failed", "--data", '{"notes": "it does not build"}')


def to_execution(place: MachinePlace) -> None:
    """Move the track to the step EXECUTE, and start this step."""
    passed(place)
    place.done("transition", "auth", "--auto")
    passed(place)
    place.done("transition", "auth", "--auto")
    place.done("append", "auth", "step.started")


def test_events_of_a_step_update_the_track_file(track: MachinePlace) -> None:
    """wfctl writes the status and checkpoint of a step to the track file at each event."""
    track.done("append", "auth", "step.started")
    loop = track.json(FILE)["loop_state"]
    assert (loop["current_step"], loop["step_status"]) == ("PLAN", "IN_PROGRESS")
    assert loop["checkpoints"]["PLAN"]["agent"] == "superpowers:writing-plans"
    assert loop["step_started_at"] == loop["checkpoints"]["PLAN"]["started_at"]
    progress = {"progress": {"tasks_completed": 1, "tasks_total": 4}, "notes": "going well"}
    track.done("append", "auth", "step.progressed", "--data", json.dumps(progress))
    assert track.json(FILE)["loop_state"]["checkpoints"]["PLAN"]["progress"]["tasks_total"] == 4
    track.done("append", "auth", "step.blocked", "--data", '{"notes": "no access"}')
    shown = track.json(FILE)
    assert shown["loop_state"]["step_status"] == "BLOCKED"
    assert shown["blockers"] == [{"step": "PLAN", "reason": "no access", "recorded": "wfctl"}]
    failed(track)
    shown = track.json(FILE)
    assert shown["loop_state"]["checkpoints"]["PLAN"]["notes"] == "ERROR: it does not build"
    assert shown["loop_state"]["step_status"] == "FAILED"
    passed(track, output_files=["plan.md"])
    checkpoint = track.json(FILE)["loop_state"]["checkpoints"]["PLAN"]
    assert (checkpoint["status"], checkpoint["output_files"]) == ("PASSED", ["plan.md"])
    assert checkpoint["completed_at"]
    assert {"status", "started_at", "agent", "last_updated"} <= set(checkpoint)


def test_blocked_step_states_its_reason(track: MachinePlace) -> None:
    """`machine rehydrate` prints the reason that the event step.blocked recorded."""
    track.done("append", "auth", "step.started")
    track.done("append", "auth", "step.blocked", "--data", '{"notes": "no access"}')
    answer = call("--root", str(track.path), "machine", "rehydrate", "auth")
    assert "blocked: the step is blocked: no access" in answer.out


def test_step_can_pass_only_after_its_start(track: MachinePlace) -> None:
    """wfctl refuses step.passed before step.started, and lists the allowed events."""
    data = track.refused("INVALID_TRANSITION", 5, "append", "auth", "step.passed")
    assert data["validTargets"] == ["step.started", "step.blocked"]


def test_fourth_fix_cycle_blocks_the_track(track: MachinePlace) -> None:
    """After three fixes, the next failed evaluation blocks the track until a person approves."""
    to_execution(track)
    track.done("append", "auth", "step.passed")
    track.done("transition", "auth", "--auto")
    for number in (1, 2, 3):
        failed(track)
        assert track.done("transition", "auth", "--auto")["phase"] == "FIX"
        assert track.json(FILE)["loop_state"]["fix_cycle_count"] == number
        passed(track)
        track.done("transition", "auth", "--auto")
    failed(track)
    assert track.done("transition", "auth", "FIX")["phase"] == "BLOCKED"
    shown = track.json(FILE)
    assert shown["loop_state"]["current_step"] == "EVALUATE_EXECUTION"
    assert shown["loop_state"]["step_status"] == "BLOCKED"
    assert "3 of 3" in shown["blockers"][0]["reason"]
    track.refused("CIRCUIT_OPEN", 6, "transition", "auth", "FIX")
    track.done("approve", "auth", "unblock")
    track.done("transition", "auth", "FIX")
    assert track.json(FILE)["loop_state"]["fix_cycle_count"] == 0
    assert not track.json(FILE).get("blockers")


def test_business_sync_runs_only_if_required(track: MachinePlace) -> None:
    """With business_sync_required, the track visits BUSINESS_SYNC before COMPLETE."""
    track.done("update", "auth", "business_sync_required=true")
    to_execution(track)
    track.done("append", "auth", "step.passed")
    for step in ("EVALUATE_EXECUTION", "BUSINESS_SYNC", "COMPLETE"):
        assert track.done("transition", "auth", "--auto")["phase"] == step
        if step != "COMPLETE":
            passed(track)
    assert track.json(FILE)["loop_state"]["step_status"] == "PASSED"


def test_foreign_fields_of_the_track_file_are_kept(track: MachinePlace) -> None:
    """wfctl records fields that other programs add to the file, and keeps them there."""
    shown = track.json(FILE)
    theirs = {
        **shown,
        "parallel": {"workers": 3},
        "blockers": ["waits for design"],
        "name": "Login",
    }
    track.write(FILE, theirs)
    track.done("append", "auth", "step.started")
    now = track.json(FILE)
    assert (now["parallel"], now["name"]) == ({"workers": 3}, "Login")
    assert now["blockers"] == ["waits for design"]
    assert "drift.detected" not in track.types("auth")
    (track.path / FILE).unlink()
    track.done("append", "auth", "step.progressed", "--data", '{"notes": "x"}')
    assert track.json(FILE)["parallel"] == {"workers": 3}


@pytest.mark.parametrize(
    "value", [f"{'[' * 400}{']' * 400}", "1" + "0" * 30, '"\\ud800"'], ids=["deep", "large", "half"]
)
def test_foreign_value_that_the_log_cannot_hold_is_drift(track: MachinePlace, value: str) -> None:
    """wfctl keeps a copy of the edited file as drift, and all commands continue to work."""
    shown = json.dumps(track.json(FILE))
    theirs = f'{shown[:-1]}, "odd": {value}}}'
    track.write(FILE, theirs)
    track.done("append", "auth", "step.started")
    assert "odd" not in track.json(FILE)
    (kept,) = track.call("drift", "auth").data["changes"]
    assert (track.path / kept["kept_as"]).read_text("utf-8") == theirs
    assert track.call("drift", "auth", "--adopt").code == 2
    track.write("old/metadata.json", theirs.replace('"auth"', '"old"'))
    # The exit code differs, because a value that is nested too deeply cannot even be read.
    assert track.call("import", str(track.path / "old/metadata.json")).code in (1, 2)
    track.done("drift", "auth", "--revert")


def test_loop_state_cannot_be_overwritten(track: MachinePlace) -> None:
    """wfctl refuses an update of `loop_state`, so that no update can remove the limit of fixes."""
    (track.path / "old.json").write_text(
        '{"track_id": "old", "loop_state": {"current_step": "PLAN", "max_fix_cycles": 1}}', "utf-8"
    )
    track.done("import", str(track.path / "old.json"))
    track.refused("RESERVED_FIELD", 5, "update", "old", "loop_state=null")


def test_skipped_steps_in_the_file_are_drift(track: MachinePlace) -> None:
    """wfctl ignores an edit that skips steps, keeps it as drift, and refuses to adopt it."""
    shown = track.json(FILE)
    shown["loop_state"]["current_step"] = "COMPLETE"
    track.write(FILE, shown)
    track.done("append", "auth", "step.started")
    assert track.json(FILE)["loop_state"]["current_step"] == "PLAN"
    answer = track.call("drift", "auth")
    assert answer.code == 7
    assert answer.data["changes"][0]["differences"][0]["path"] == ["loop_state", "current_step"]
    data = track.refused("INVALID_TRANSITION", 5, "drift", "auth", "--adopt")
    assert data["validTargets"] == ["EVALUATE_PLAN", "cancelled"]
    track.done("drift", "auth", "--revert")
    assert track.call("drift", "auth").code == 0


def test_lock_older_than_thirty_seconds_is_broken(track: MachinePlace) -> None:
    """wfctl removes a lock that another program left behind, and records the removal in the log."""
    (track.path / LOCK).mkdir()
    old = time.time() - 45
    os.utime(track.path / LOCK, (old, old))
    track.done("append", "auth", "step.started")
    assert not (track.path / LOCK).exists()
    notes = [e["data"]["name"] for e in track.events("auth") if e["type"] == "machine.recorded"]
    assert notes[-1] == "lock.broken"
    assert track.json(FILE)["loop_state"]["step_status"] == "IN_PROGRESS"


def test_wfctl_waits_for_a_held_lock(track: MachinePlace) -> None:
    """wfctl writes nothing to the track file while another program holds its lock."""
    (track.path / LOCK).mkdir()
    before = (track.path / FILE).read_bytes()
    seen: list[bool] = []

    def give_back() -> None:
        seen.append((track.path / FILE).read_bytes() == before)
        (track.path / LOCK).rmdir()

    other = threading.Timer(1.0, give_back)
    other.start()
    track.done("append", "auth", "step.started")
    other.join()
    assert seen == [True]
    assert track.json(FILE)["loop_state"]["step_status"] == "IN_PROGRESS"


@contextmanager
def breaker(lock: Path) -> Iterator[threading.Event]:
    """Remove the next lock that appears in the track folder, and set the event when done."""
    has_broken, is_over = threading.Event(), threading.Event()

    def wait_and_break() -> None:
        while not (has_broken.is_set() or is_over.is_set()):
            with suppress(FileNotFoundError):
                lock.rmdir()
                has_broken.set()
            time.sleep(0.0002)

    other = threading.Thread(target=wait_and_break)
    other.start()
    yield has_broken
    is_over.set()
    other.join()


def test_lock_broken_by_another_program_does_not_stop_a_command(track: MachinePlace) -> None:
    """If another program removes wfctl's lock, the command still writes the complete file."""
    track.done("append", "auth", "step.started")
    number = 0
    with breaker(track.path / LOCK) as has_broken:
        while number < 100 and not has_broken.is_set():
            number += 1
            data = json.dumps({"notes": f"note {number}"})
            track.done("append", "auth", "step.progressed", "--data", data)
    assert has_broken.is_set()
    assert track.json(FILE)["loop_state"]["checkpoints"]["PLAN"]["notes"] == f"note {number}"
    assert not (track.path / LOCK).exists()


def test_lock_taken_by_another_program_is_not_released(track: MachinePlace) -> None:
    """If another program took over wfctl's lock, wfctl does not remove the lock."""
    lock = track.path / LOCK

    def break_and_take() -> None:
        with hold_track_lock(lock.parent, lambda _: None):
            lock.rmdir()
            time.sleep(0.01)
            lock.mkdir()

    with pytest.raises(LockLost, match="another program"):
        break_and_take()
    assert lock.exists()


def test_resume_names_the_task_after_the_last_completed_task(track: MachinePlace) -> None:
    """`rehydrate --resume-from TASK` names the next open task if this task is completed."""
    to_execution(track)
    track.write(f"{FOLDER}/plan.md", PLAN)
    track.done("append", "auth", "step.progressed", "--data", '{"last_task": "Task 1.2"}')
    resume = track.done("rehydrate", "auth")["resume"]
    assert (resume["step"], resume["last_task"], resume["next_task"]) == (
        "EXECUTE",
        "Task 1.2",
        "2.1",
    )
    assert resume["differences"] == []
    for named, expected in (("1.2", "2.1"), ("task-2.1", "task-2.1"), ("Task 1.1", "2.1")):
        found = track.done("rehydrate", "auth", "--resume-from", named)["resume"]
        assert found["next_task"] == expected


SPELLED = [
    "# Plan\n\n### [x] Task 1: Write\n- [ ] a step\n\n### [ ] Task 2: Read\n- [x] a step\n",
    "### Task 1: Write\n\n**Status:** [x]\n- [ ] a step\n\n### Task 2: Read\n**Status:** [ ]\n",
    "- [x] Task 1: Write\n- [ ] Task 2: Read\n",
]


@pytest.mark.parametrize("plan", SPELLED)
def test_tasks_of_a_plan_are_read_in_each_notation(track: MachinePlace, plan: str) -> None:
    """wfctl reads the tasks of plan.md from lists, and from headings with or without a marker."""
    to_execution(track)
    track.write(f"{FOLDER}/plan.md", plan)
    track.done("append", "auth", "step.progressed", "--data", '{"last_task": "1"}')
    resume = track.done("rehydrate", "auth")["resume"]
    assert (resume["next_task"], resume["differences"]) == ("2", [])
    data = track.refused("INVALID_INPUT", 2, "rehydrate", "auth", "--resume-from", "Task 9")
    assert data["known"] == ["1", "2"]


def test_checkpoint_keeps_extra_data_of_an_event(track: MachinePlace) -> None:
    """wfctl keeps unknown keys of an event's data, and refuses keys that wfctl writes itself."""
    said = {"tasks_total": 4, "plan_version": 2, "commits": ["a1"], "verdict": "good"}
    track.done("append", "auth", "step.started", "--data", json.dumps(said))
    checkpoint = track.json(FILE)["loop_state"]["checkpoints"]["PLAN"]
    assert {key: checkpoint[key] for key in said} == said
    for name in ("status", "completed_at", "last_updated", "history", "_own"):
        data = json.dumps({name: "x"})
        track.refused("INVALID_INPUT", 2, "append", "auth", "step.progressed", "--data", data)


def test_rehydrate_compares_the_plan_with_the_log(track: MachinePlace) -> None:
    """wfctl reports a task that is done in plan.md but not in the log, or only in the log."""
    to_execution(track)
    track.write(f"{FOLDER}/plan.md", PLAN.replace("[x] Task 1.2", "[ ] Task 1.2"))
    track.done("append", "auth", "step.progressed", "--data", '{"last_task": "1.2"}')
    (one,) = track.done("rehydrate", "auth")["resume"]["differences"]
    assert (one["task"], one["line"]) == ("1.2", 3)
    track.write(f"{FOLDER}/plan.md", PLAN.replace("[ ] Task 2.2", "[x] Task 2.2"))
    (one,) = track.done("rehydrate", "auth")["resume"]["differences"]
    assert one["task"] == "2.2"
