"""When a machine repeats a phase, statuses, reviews and files from before it do not count."""

from __future__ import annotations

import json
import os
from datetime import datetime
from typing import Any

import pytest

from tests.machines.place import MachinePlace
from tests.machines.support import small_data
from tests.machines.test_known_faults import at_delegate

DONE = '{"tasks": [{"id": "T-1", "status": "complete"}, {"id": "T-2", "status": "complete"}]}'
PASSED = '{"reviews": {"spec-review": {"status": "pass"}, "quality-review": {"status": "pass"}}}'


def in_second_round(place: MachinePlace) -> None:
    """Move the machine to its tasks, to the review, and after a failed review back to its tasks."""
    place.init("login")
    at_delegate(place)
    place.done("update", "login", "--data", DONE)
    place.done("transition", "login", "review")
    place.done("update", "login", "--data", PASSED)
    place.done("update", "login", "reviews.spec-review.status=fail")
    place.done("transition", "login", "delegate")


def found(place: MachinePlace, to: str) -> Any:
    """Try the given transition, and return what wfctl found instead of the required value."""
    return place.refused("GUARD_FAILED", 5, "transition", "login", to)["unmet"][0]["found"]


def test_renamed_task_is_not_completed_again(place: MachinePlace) -> None:
    """After a failed review, wfctl requires a new status of each task, not only a new title."""
    in_second_round(place)
    place.done("task", "login", "T-1", "--title", "another")
    assert found(place, "review") == "not written since the phase started"
    place.done("task", "login", "T-1", "--status", "complete")
    assert found(place, "review") == {"T-2": "complete, not written since the phase started"}
    head = place.head("login")
    place.done("task", "login", "T-1", "--status", "complete")
    assert place.head("login") == head
    place.done("task", "login", "T-2", "--status", "in_progress")
    place.done("task", "login", "T-2", "--status", "complete")
    assert place.done("transition", "login", "review")["phase"] == "review"


def test_new_task_does_not_complete_the_other_tasks(place: MachinePlace) -> None:
    """If a completed task is added to the list, the old tasks still need a new status."""
    in_second_round(place)
    place.done("update", "login", 'tasks[+]={"id": "T-3", "status": "complete"}')
    assert list(found(place, "review")) == ["T-1", "T-2"]
    seen = ("--expected-version", str(place.head("login")))
    place.done("update", "login", "tasks[0].status=complete", "tasks[1].title=b", *seen)
    assert list(found(place, "review")) == ["T-2"]


@pytest.mark.parametrize("whole", [False, True])
def test_old_review_does_not_count_in_a_new_round(place: MachinePlace, whole: bool) -> None:
    """If only one of two reviews is written again, wfctl still requires the other one."""
    in_second_round(place)
    place.done("update", "login", "--data", DONE)
    place.done("transition", "login", "review")
    anew = {"spec-review": {"status": "pass"}}
    value = f"reviews={json.dumps(anew)}" if whole else "reviews.spec-review.status=pass"
    place.done("update", "login", value, "reviews.quality-review.by=ada")
    assert list(found(place, "synthesize")) == ["quality-review"]
    place.done("update", "login", "reviews.quality-review.status=pass")
    place.done("transition", "login", "synthesize")


def test_failed_item_of_an_earlier_round_is_ignored(place: MachinePlace) -> None:
    """A guard on `some` item is met only by a status written in the current phase."""
    ways = [
        {"from": "a", "to": "b", "guard": {"field": "go", "equals": True}},
        {
            "from": "b",
            "to": "c",
            "guard": {"some": "runs", "status": ["bad"], "newer_than": "phase"},
        },
    ]
    phases: dict[str, Any] = {"a": {}, "b": {}, "c": {"final": True}}
    fields = {"go": "flag", "runs": [{"id": "text", "status": "good|bad"}]}
    place.write("own.json", small_data(phases=phases, transitions=ways, fields=fields))
    path = str(place.path / "own.json")
    place.done("init", "login", "--definition", path, "--consent", "trust")
    place.done("update", "login", 'runs=[{"id": "1", "status": "bad"}]', "go=true")
    place.done("transition", "login", "b")
    place.done("update", "login", 'runs[+]={"id": "2", "status": "good"}')
    assert found(place, "c") == {"2": "good"}


PHASE, EXECUTION = "memory/state/phase.json", "memory/state/execution.json"
REPORT = "memory/reports/verification.json"


def taken_over(place: MachinePlace, phase: str, tasks: list[dict[str, Any]]) -> None:
    """Import a machine in the given phase from hand-written state files."""
    state = {
        "workflow_id": "wf",
        "started_at": "2026-11-01T10:00:00Z",
        "current_phase": phase,
        "phase_status": "in_progress",
        "completed_phases": [],
        "user_checkpoints": [],
        "interruption_safe": True,
    }
    place.write(PHASE, state)
    place.write(EXECUTION, {"tasks": tasks})
    place.done("import", str(place.path / PHASE))


def write_with_time(place: MachinePlace, path: str, content: Any, moment: str) -> None:
    """Write a file, and set its modification time."""
    place.write(path, content)
    seconds = datetime.fromisoformat(moment).timestamp()
    os.utime(place.path / path, (seconds, seconds))


def test_output_older_than_an_imported_phase_is_ignored(place: MachinePlace) -> None:
    """After an import, the phase cannot be left until its old report is written again."""
    write_with_time(place, REPORT, {"ok": True}, "2026-11-01T09:59:59Z")
    taken_over(place, "VERIFICATION", [])
    for line in (("append", "wf", "phase.completed"), ("transition", "wf", "REFLECTION")):
        place.refused("GUARD_FAILED", 5, *line)
    place.done("rehydrate", "wf", "--go-on")
    assert place.done("get", "wf", "--query", "current_phase") == "VERIFICATION"
    place.write(REPORT, {"ok": True})
    assert place.done("transition", "wf", "REFLECTION")["phase"] == "REFLECTION"


def test_output_written_during_an_imported_phase_is_accepted(
    place: MachinePlace,
) -> None:
    """wfctl accepts a report that is older than the import but newer than the phase's start."""
    write_with_time(place, REPORT, {"ok": True}, "2026-11-01T10:00:00Z")
    taken_over(place, "VERIFICATION", [])
    assert place.done("transition", "wf", "REFLECTION")["phase"] == "REFLECTION"


def test_output_written_during_an_imported_task_is_accepted(place: MachinePlace) -> None:
    """wfctl accepts an output that is newer than its task, or else newer than the phase."""
    starts = {"task-001": "2026-11-02T10:00:00+02:00", "task-002": "2026-11-02T10:00:00Z"}
    names = [*starts, "task-003", "task-004"]
    tasks: list[dict[str, Any]] = [
        {"id": name, "status": "running", "attempts": 1, "output": f"memory/tasks/{name}.json"}
        | ({"started_at": starts[name]} if name in starts else {})
        for name in names
    ]
    for name in names[:3]:
        moment = "2026-11-02T09:00:00Z"
        write_with_time(place, f"memory/tasks/{name}.json", {"status": "verified"}, moment)
    write_with_time(
        place, "memory/tasks/task-004.json", {"status": "verified"}, "2026-10-31T09:00:00Z"
    )
    taken_over(place, "IMPLEMENTATION", tasks)
    place.done("rehydrate", "wf", "--go-on")
    found = {one["id"]: one["status"] for one in place.done("get", "wf", "--query", "tasks")}
    expected = ("verified", "pending", "verified", "pending")
    assert found == dict(zip(names, expected, strict=True))


def test_output_older_than_an_imported_task_is_ignored(place: MachinePlace) -> None:
    """`rehydrate` ignores an output that is older than the imported task, and reads a newer one."""
    tasks = [
        {"id": name, "status": "running", "attempts": 0, "output": f"memory/tasks/{name}.json"}
        for name in ("task-001", "task-002")
    ]
    for name in ("task-001", "task-002"):
        moment = "2026-11-01T09:00:00Z"
        write_with_time(place, f"memory/tasks/{name}.json", {"status": "verified"}, moment)
    taken_over(place, "IMPLEMENTATION", tasks)
    place.write("memory/tasks/task-002.json", {"status": "verified"})
    place.done("rehydrate", "wf", "--go-on")
    found = {one["id"]: one["status"] for one in place.done("get", "wf", "--query", "tasks")}
    assert found == {"task-001": "pending", "task-002": "verified"}


def test_designs_of_an_imported_phase_can_be_chosen(place: MachinePlace) -> None:
    """`rehydrate` offers the existing designs and ignores a final design from before the phase."""
    old = "2026-11-01T09:00:00Z"
    write_with_time(place, "memory/reports/final_design.json", {"style": "old"}, old)
    place.write("memory/reports/designs/a.json", {"style": "a"})
    taken_over(place, "ARCHITECTURE", [])
    resume = place.done("rehydrate", "wf", "--go-on")["resume"]
    assert "do not run the architects" in resume["todo"][0]


PUBLISHED = "memory/tasks/task-001/output.json"


@pytest.mark.parametrize("named", [None, "memory/elsewhere.json"])
def test_published_location_of_an_output_is_checked(place: MachinePlace, named: str | None) -> None:
    """If a task names no output or a missing one, wfctl reads `memory/tasks/ID/output.json`."""
    place.init("wf", "dotagent")
    place.write("memory/reports/demand.json", {"wants": "a shop"})
    place.done("approve", "wf", "requirements")
    place.done("transition", "wf", "ARCHITECTURE")
    place.write("memory/reports/final_design.json", {"style": "a"})
    place.done("approve", "wf", "architecture")
    place.done("transition", "wf", "IMPLEMENTATION")
    place.write(PUBLISHED, {"status": "verified"})
    output = () if named is None else (f"output={named}",)
    place.done("task", "wf", "task-001", "--status", "running", *output)
    place.done("rehydrate", "wf")
    assert place.done("get", "wf", "--query", "tasks")[0]["status"] == "pending"
    place.done("task", "wf", "task-001", "--status", "running")
    place.write(PUBLISHED, {"status": "verified"})
    place.done("rehydrate", "wf")
    assert place.done("get", "wf", "--query", "tasks")[0]["status"] == "verified"


def test_old_output_at_the_published_location_is_ignored(place: MachinePlace) -> None:
    """wfctl ignores an output that is older than the imported phase; the task becomes pending."""
    write_with_time(place, PUBLISHED, {"status": "verified"}, "2026-11-01T09:00:00Z")
    taken_over(place, "IMPLEMENTATION", [{"id": "task-001", "status": "running", "attempts": 0}])
    place.done("rehydrate", "wf", "--go-on")
    assert place.done("get", "wf", "--query", "tasks")[0]["status"] == "pending"
