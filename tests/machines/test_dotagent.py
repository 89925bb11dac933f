"""Machines of the type dotagent, which lead a development through phases and can be resumed.

The tests cover the files, the resume rules and the four published scenarios.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.machines.logs import on_every_log
from tests.machines.place import MachinePlace

pytestmark = on_every_log

DEMAND = "memory/reports/demand.json"
FINAL = "memory/reports/final_design.json"
DESIGNS = "memory/reports/designs"
PHASE, EXECUTION = "memory/state/phase.json", "memory/state/execution.json"
ARCHIVE = "memory/state/.archive"


@pytest.fixture
def flow(place: MachinePlace) -> MachinePlace:
    """Create a machine whose first phase has started."""
    place.init("wf-1", "dotagent")
    place.done("append", "wf-1", "phase.started")
    return place


def at_architecture(flow: MachinePlace) -> None:
    """Move the machine to the architecture phase."""
    flow.write(DEMAND, {"wants": "a shop"})
    flow.done("approve", "wf-1", "requirements")
    flow.done("transition", "wf-1", "--auto")
    flow.done("append", "wf-1", "phase.started")


def at_implementation(flow: MachinePlace) -> None:
    """Move the machine to the implementation phase, with two tasks."""
    at_architecture(flow)
    flow.write(f"{DESIGNS}/plain.json", {"style": "plain"})
    flow.write(FINAL, {"style": "plain"})
    flow.done("approve", "wf-1", "architecture", "--choice", "plain")
    flow.done("transition", "wf-1", "IMPLEMENTATION")
    flow.done("append", "wf-1", "phase.started")
    for task in ("task-001", "task-002"):
        flow.done("task", "wf-1", task, f"output=memory/tasks/{task}.json")


def tasks(flow: MachinePlace) -> dict[str, Any]:
    """Return the tasks in execution.json by id."""
    return {task["id"]: task for task in flow.json(EXECUTION)["tasks"]}


def test_files_have_the_format_of_the_protocol(flow: MachinePlace) -> None:
    """wfctl writes phase.json and execution.json with the keys that other tools expect."""
    at_architecture(flow)
    phase = flow.json(PHASE)
    assert list(phase) == [
        "workflow_id",
        "started_at",
        "last_updated",
        "current_phase",
        "phase_status",
        "completed_phases",
        "user_checkpoints",
        "interruption_safe",
    ]
    assert (phase["current_phase"], phase["phase_status"]) == ("ARCHITECTURE", "in_progress")
    assert phase["completed_phases"][0]["output"] == DEMAND
    assert phase["user_checkpoints"][0]["phase"] == "REQUIREMENTS"
    assert phase["interruption_safe"] is True
    assert flow.json(EXECUTION) == {"tasks": []}


def test_phase_requires_its_output_and_an_approval(flow: MachinePlace) -> None:
    """wfctl refuses to leave a phase without its valid JSON output and a person's approval."""
    data = flow.refused("GUARD_FAILED", 5, "transition", "wf-1", "ARCHITECTURE")
    assert len(data["unmet"]) == 2
    flow.write(DEMAND, "{ not json")
    data = flow.refused("GUARD_FAILED", 5, "transition", "wf-1", "ARCHITECTURE")
    assert data["unmet"][0]["found"] == "a file that is not valid JSON"
    flow.write(DEMAND, {"wants": "a shop"})
    flow.refused("GUARD_FAILED", 6, "transition", "wf-1", "ARCHITECTURE")
    flow.done("approve", "wf-1", "requirements")
    flow.done("transition", "wf-1", "ARCHITECTURE")
    event = flow.events("wf-1")[-1]
    assert event["data"]["files"] == {DEMAND: [DEMAND]}


def test_scenario_1_interrupted_agent_restarts_its_task(flow: MachinePlace) -> None:
    """`rehydrate` resets a running task without output to pending, and counts one attempt."""
    at_implementation(flow)
    flow.done("task", "wf-1", "task-001", "--status", "running")
    resume = flow.done("rehydrate", "wf-1")["resume"]
    assert resume["messages"][:2] == [
        "Detected interrupted workflow: wf-1",
        "Resuming workflow wf-1 from IMPLEMENTATION phase",
    ]
    assert resume["messages"][2].startswith("Last activity: ")
    assert resume["messages"][3] == "Completed: REQUIREMENTS, ARCHITECTURE"
    task = tasks(flow)["task-001"]
    assert (task["status"], task["attempts"]) == ("pending", 1)


@pytest.mark.parametrize(
    ("output", "status"),
    [
        ({"status": "verified"}, "verified"),
        ({"status": "failed"}, "failed"),
        ("done", "pre_complete"),
    ],
)
def test_scenario_2_task_status_comes_from_its_output(
    flow: MachinePlace, output: Any, status: str
) -> None:
    """If an agent was killed after it wrote the output, `rehydrate` reads the status from it."""
    at_implementation(flow)
    flow.done("task", "wf-1", "task-001", "--status", "running")
    flow.write("memory/tasks/task-001.json", output)
    flow.done("rehydrate", "wf-1")
    assert tasks(flow)["task-001"]["status"] == status


def test_scenario_3_interrupted_choice_is_asked_again(flow: MachinePlace) -> None:
    """If the designs exist, `rehydrate` asks the person to choose and starts no new designs."""
    at_architecture(flow)
    flow.write(f"{DESIGNS}/a.json", {"style": "a"})
    flow.write(f"{DESIGNS}/b.json", {"style": "b"})
    before = flow.head("wf-1")
    (todo,) = flow.done("rehydrate", "wf-1")["resume"]["todo"]
    assert f"{DESIGNS}/a.json, {DESIGNS}/b.json" in todo
    assert "do not run the architects" in todo
    assert flow.head("wf-1") == before
    flow.refused("INVALID_INPUT", 2, "approve", "wf-1", "architecture")
    flow.done("approve", "wf-1", "architecture", "--choice", "b")
    assert flow.events("wf-1")[-1]["data"]["choice"] == f"{DESIGNS}/b.json"


def test_scenario_4_old_state_is_only_a_warning(place: MachinePlace) -> None:
    """`rehydrate` resumes a state older than seven days, or archives it with --start-fresh."""
    old = {
        "workflow_id": "wf-9",
        "started_at": "2026-01-01T10:00:00Z",
        "last_updated": "2026-01-01T11:00:00Z",
        "current_phase": "REQUIREMENTS",
        "phase_status": "in_progress",
        "completed_phases": [],
        "user_checkpoints": [],
        "interruption_safe": True,
    }
    place.write(PHASE, old)
    place.done("import", str(place.path / PHASE))
    resume = place.done("rehydrate", "wf-9")["resume"]
    assert [one["check"] for one in resume["findings"]] == ["old_state"]
    assert resume["resumed"] is True
    before = place.json("memory/state/phase.json")
    answer = place.call("rehydrate", "wf-9", "--start-fresh")
    assert (answer.data["phase"], answer.data["status"]) == ("REQUIREMENTS", "pending")
    (kept,) = (place.path / ARCHIVE).iterdir()
    assert answer.data["archived"] == f"{ARCHIVE}/{kept.name}"
    assert kept.name.startswith("wf-9_")
    assert answer.data["archived"] in answer.err
    now = place.json(f"{ARCHIVE}/{kept.name}/phase.json")
    same = ("current_phase", "phase_status", "started_at", "completed_phases")
    assert [now[key] for key in same] == [before[key] for key in same]
    assert "cancelled_at" not in now
    fresh = place.json("memory/state/phase.json")
    assert (fresh["workflow_id"], fresh["completed_phases"]) == ("wf-9", [])
    assert fresh["started_at"] > before["started_at"]
    assert place.json("memory/state/execution.json")["tasks"] == []
    place.done("append", "wf-9", "phase.started")
    # The output was written before the fresh start, so it does not complete the phase.
    place.refused("GUARD_FAILED", 5, "append", "wf-9", "phase.completed")
    assert place.wfctl("replay", "--check").data["findings"] == []
    assert place.wfctl("fsck").data["findings"] == []
    assert sorted(path.name for path in kept.iterdir()) == ["execution.json", "phase.json"]


def test_torn_output_restarts_the_task(flow: MachinePlace) -> None:
    """If a task's output is an incomplete JSON file, `rehydrate` resets the task and says why."""
    at_implementation(flow)
    flow.done("task", "wf-1", "task-001", "--status", "running")
    flow.write("memory/tasks/task-001.json", '{"task_id":"task-001","status":"pre_c')
    findings = flow.done("rehydrate", "wf-1")["resume"]["findings"]
    assert [one["check"] for one in findings] == ["output_torn"]
    assert (tasks(flow)["task-001"]["status"], tasks(flow)["task-001"]["attempts"]) == (
        "pending",
        1,
    )


def test_output_older_than_its_task_is_ignored(flow: MachinePlace) -> None:
    """`rehydrate` uses the output of a task only if it was written after the task's start."""
    at_implementation(flow)
    flow.write("memory/tasks/task-001.json", {"status": "verified"})
    flow.done("task", "wf-1", "task-001", "--status", "running")
    flow.done("rehydrate", "wf-1")
    assert tasks(flow)["task-001"]["status"] == "pending"
    flow.done("task", "wf-1", "task-001", "--status", "running")
    flow.write("memory/tasks/task-001.json", {"status": "verified"})
    flow.done("rehydrate", "wf-1")
    assert tasks(flow)["task-001"]["status"] == "verified"


def test_files_of_an_earlier_workflow_pass_no_phase(place: MachinePlace) -> None:
    """A new workflow accepts only outputs that were written during its own phases."""
    for path in (DEMAND, FINAL, "memory/reports/verification.json"):
        place.write(path, {"of": "wf-0"})
    place.write(f"{DESIGNS}/old.json", {"of": "wf-0"})
    place.write("memory/reflections/2025.md", "It went well.")
    place.init("wf-1", "dotagent")
    place.done("append", "wf-1", "phase.started")
    data = place.refused("GUARD_FAILED", 5, "transition", "wf-1", "ARCHITECTURE")
    assert data["unmet"][0]["found"] == f"only files from before the phase: {DEMAND}"
    place.done("approve", "wf-1", "requirements")
    resume = place.done("rehydrate", "wf-1")
    assert resume["workflow"]["phase"] == "REQUIREMENTS"
    assert "is older than the phase" in resume["resume"]["todo"][0]
    at_architecture(place)
    place.refused("INVALID_INPUT", 2, "approve", "wf-1", "architecture", "--choice", "old")


def test_phase_that_did_not_start_is_not_resumed(flow: MachinePlace) -> None:
    """Even if outputs of later phases exist, `rehydrate` stops at the next unstarted phase."""
    at_implementation(flow)
    for task in ("task-001", "task-002"):
        for status in ("running", "verified"):
            flow.done("task", "wf-1", task, "--status", status)
    flow.write("memory/reports/verification.json", {"passed": True})
    flow.write("memory/reflections/2026.md", "It went well.")
    data = flow.done("rehydrate", "wf-1")
    assert data["workflow"]["phase"] == "VERIFICATION"
    assert data["resume"]["todo"][0].startswith("start VERIFICATION")


def test_architects_do_not_run_again_after_the_choice(flow: MachinePlace) -> None:
    """After a person chose a design, `rehydrate` continues with the discussion of this design."""
    at_architecture(flow)
    flow.write(f"{DESIGNS}/a.json", {"style": "a"})
    flow.done("approve", "wf-1", "architecture", "--choice", "a")
    (todo,) = flow.done("rehydrate", "wf-1")["resume"]["todo"]
    assert todo.startswith(f"continue with the roundtable for {DESIGNS}/a.json")


def test_phase_without_its_output_is_not_complete(flow: MachinePlace) -> None:
    """wfctl refuses to complete the phase, and says if the file is missing or invalid JSON."""
    data = flow.refused("GUARD_FAILED", 5, "append", "wf-1", "phase.completed")
    assert data["unmet"][0]["found"] == "the file is missing or empty"
    flow.write(DEMAND, "{ not json")
    data = flow.refused("GUARD_FAILED", 5, "append", "wf-1", "phase.completed")
    assert data["unmet"][0]["found"] == "a file that is not valid JSON"
    flow.done("approve", "wf-1", "requirements")
    assert "is not valid JSON" in flow.done("rehydrate", "wf-1")["resume"]["todo"][0]


@pytest.mark.parametrize("fault", ["unsafe", "output"])
def test_contradictory_state_waits_for_a_person(flow: MachinePlace, fault: str) -> None:
    """`rehydrate` repairs nothing, and only a person may continue with --go-on."""
    at_implementation(flow)
    flow.done("task", "wf-1", "task-001", "--status", "running")
    if fault == "output":
        (flow.path / DEMAND).unlink()
    else:
        flow.write(PHASE, flow.json(PHASE) | {"interruption_safe": False})
    before, kept = flow.head("wf-1"), (flow.path / PHASE).read_bytes()
    data = flow.refused("UNSAFE_RESUME", 6, "rehydrate", "wf-1")
    assert len(data["findings"]) == 1
    assert (flow.head("wf-1"), (flow.path / PHASE).read_bytes()) == (before, kept)
    flow.refused("needs_consent", 6, "rehydrate", "wf-1", "--go-on", "--actor", "agent:a")
    flow.done("rehydrate", "wf-1", "--go-on")
    assert tasks(flow)["task-001"]["status"] == "pending"


def test_crash_between_two_phases_is_resumed(flow: MachinePlace) -> None:
    """If a phase is complete, `rehydrate` moves to the next phase and repeats no work."""
    flow.write(DEMAND, {"wants": "a shop"})
    flow.done("append", "wf-1", "phase.completed")
    flow.done("approve", "wf-1", "requirements")
    assert flow.json(PHASE)["phase_status"] == "complete"
    data = flow.done("rehydrate", "wf-1")
    assert data["workflow"]["phase"] == "ARCHITECTURE"
    assert data["resume"]["recorded"] == [
        "REQUIREMENTS -> ARCHITECTURE: resumed: the output of the phase exists"
    ]
    assert flow.types("wf-1").count("machine.transitioned") == 1


def test_output_without_an_approval_is_confirmed_by_the_person(flow: MachinePlace) -> None:
    """If a phase has its output but no approval, `rehydrate` asks the person to confirm it."""
    flow.write(DEMAND, {"wants": "a shop"})
    (todo,) = flow.done("rehydrate", "wf-1")["resume"]["todo"]
    assert todo.startswith("re-confirm with the person")


def test_missing_output_of_a_completed_phase_stops_the_resume(flow: MachinePlace) -> None:
    """`rehydrate` exits with 6 and reports the finding `output_missing`."""
    at_architecture(flow)
    (flow.path / DEMAND).unlink()
    findings = flow.refused("UNSAFE_RESUME", 6, "rehydrate", "wf-1")["findings"]
    assert [one["check"] for one in findings] == ["output_missing"]


def test_outputs_outside_the_root_are_ignored(flow: MachinePlace, tmp_path: Path) -> None:
    """wfctl accepts an absolute path to an output inside the root, and reads no file outside."""
    at_implementation(flow)
    elsewhere = tmp_path.parent / "elsewhere.json"
    elsewhere.write_text('{"status": "verified"}', "utf-8")
    flow.write("memory/[1].json", {"status": "verified"})
    for task, output in (("task-001", elsewhere), ("task-002", flow.path / "memory/[1].json")):
        flow.done("task", "wf-1", task, "--status", "running", f"output={output}")
    flow.write("memory/[1].json", {"status": "verified"})
    flow.done("append", "wf-1", "phase.started")
    flow.done("append", "wf-1", "phase.completed", "--data", f'{{"output": "{elsewhere}"}}')
    found = flow.done("rehydrate", "wf-1", "--go-on")["resume"]["findings"]
    assert [one["check"] for one in found] == ["output_missing"]
    assert [tasks(flow)[id_]["status"] for id_ in ("task-001", "task-002")] == [
        "pending",
        "verified",
    ]


def test_cut_items_of_a_brief_are_counted(flow: MachinePlace) -> None:
    """If `rehydrate` shows some of 2,000 running tasks, it prints the number of the others."""
    at_implementation(flow)
    running = [{"id": f"task-{n:04d}", "status": "running"} for n in range(2_000)]
    flow.write("more.json", {"tasks": [*flow.json(EXECUTION)["tasks"], *running]})
    flow.done("update", "wf-1", "--data", f"@{flow.path}/more.json")
    told = flow.done("rehydrate", "wf-1", "--dry-run")
    (cut,) = [line for line in told["cut"] if line.startswith("taskProgress.open (items)")]
    assert int(cut.split()[2]) + len(told["taskProgress"]["open"]) == 2_002


def test_dry_run_of_a_resume_repairs_nothing(flow: MachinePlace) -> None:
    """`rehydrate --dry-run` lists the events of a resume, and records and writes nothing."""
    at_implementation(flow)
    flow.done("task", "wf-1", "task-001", "--status", "running")
    resume = flow.done("rehydrate", "wf-1", "--dry-run")["resume"]
    assert len(resume["would_record"]) == 1
    assert tasks(flow)["task-001"]["status"] == "running"


def test_task_runs_at_most_three_times_without_an_approval(flow: MachinePlace) -> None:
    """After three failed attempts, a person must approve more; no update resets the count."""
    at_implementation(flow)
    for _ in range(3):
        flow.done("task", "wf-1", "task-001", "--status", "running")
        flow.done("task", "wf-1", "task-001", "--status", "failed", "last_error=it broke")
    flow.refused("CIRCUIT_OPEN", 6, "task", "wf-1", "task-001", "--status", "running")
    flow.refused("RESERVED_FIELD", 5, "task", "wf-1", "task-001", "attempts=0")
    flow.refused("INVALID_INPUT", 2, "task", "wf-1", "task-001", "status=null")
    flow.refused("RESERVED_FIELD", 5, "update", "wf-1", "tasks[0].attempts=0")
    flow.done("approve", "wf-1", "more-attempts")
    flow.done("task", "wf-1", "task-001", "--status", "running")


def test_all_failed_attempts_of_a_task_are_counted(flow: MachinePlace) -> None:
    """wfctl also counts attempts that fail after `pre_complete`, and refuses a fourth one."""
    at_implementation(flow)
    for _ in range(3):
        for status in ("running", "pre_complete", "failed"):
            flow.done("task", "wf-1", "task-001", "--status", status)
    flow.refused("CIRCUIT_OPEN", 6, "task", "wf-1", "task-001", "--status", "running")
    for change in ("tasks[0].status=running", "tasks=null", 'tasks=[{"id": "task-001"}]'):
        flow.refused("RESERVED_FIELD", 5, "update", "wf-1", change)
    assert tasks(flow)["task-001"]["attempts"] == 3


def test_extra_field_cannot_replace_the_tasks(flow: MachinePlace) -> None:
    """wfctl refuses an update that hides the tasks in execution.json behind another list."""
    hiding = 'execution={"tasks": [{"id": "task-009"}], "note": "n"}'
    flow.refused("RESERVED_FIELD", 5, "update", "wf-1", hiding)
    flow.done("update", "wf-1", 'execution={"note": "n"}')
    assert flow.json(EXECUTION) == {"tasks": [], "note": "n"}


@pytest.mark.few(1)
def test_ended_workflow_is_archived_before_the_next_starts(flow: MachinePlace) -> None:
    """wfctl keeps the last five archives, and refuses a new workflow while one is active."""
    flow.refused("STATE_ALREADY_EXISTS", 4, "init", "wf-2", "--type", "dotagent")
    for number in range(1, 8):
        name = f"wf-{number}"
        if number > 1:
            flow.init(name, "dotagent")
        assert flow.json(PHASE)["workflow_id"] == name
        flow.done("cancel", name)
    kept = sorted(path.name.split("_")[0] for path in (flow.path / ARCHIVE).iterdir())
    assert kept == ["wf-3", "wf-4", "wf-5", "wf-6", "wf-7"]


@pytest.mark.few(1)
def test_foreign_archives_are_never_deleted(flow: MachinePlace) -> None:
    """wfctl never deletes folders and files that a user put into the archive folder."""
    for number in range(6):
        flow.write(f"{ARCHIVE}/mine_2099010{number}T000000Z/notes.md", "mine")
    for number in range(1, 8):
        if number > 1:
            flow.init(f"wf-{number}", "dotagent")
        if number == 3:
            (kept,) = (flow.path / ARCHIVE).glob("wf-2_*")
            (kept / "mine.md").write_text("mine too")
        flow.done("cancel", f"wf-{number}")
    names = [path.name.split("_")[0] for path in (flow.path / ARCHIVE).iterdir()]
    assert names.count("mine") == 6
    assert sorted(one for one in names if one != "mine") == [f"wf-{n}" for n in range(2, 8)]
    (kept,) = (flow.path / ARCHIVE).glob("wf-2_*")
    assert [path.name for path in kept.iterdir()] == ["mine.md"]


def test_damaged_phase_file_is_archived_and_rewritten(flow: MachinePlace) -> None:
    """`rehydrate` moves the damaged phase.json to the archive and writes it from the log."""
    good = (flow.path / PHASE).read_bytes()
    (flow.path / PHASE).write_bytes(good[:40])
    findings = flow.done("rehydrate", "wf-1")["resume"]["findings"]
    assert "not_whole" in [one["check"] for one in findings]
    assert flow.json(PHASE)["current_phase"] == "REQUIREMENTS"
    (kept,) = (flow.path / ARCHIVE).iterdir()
    assert (kept / "phase.json").read_bytes() == good[:40]


def test_workflow_runs_to_its_end(flow: MachinePlace) -> None:
    """Each phase passes by its output, and the last phase completes the workflow."""
    at_implementation(flow)
    for task in ("task-001", "task-002"):
        for status in ("running", "verified"):
            flow.done("task", "wf-1", task, "--status", status)
    for phase, output in (
        ("VERIFICATION", "memory/reports/verification.json"),
        ("REFLECTION", "memory/reflections/2026.md"),
    ):
        flow.done("transition", "wf-1", phase)
        flow.done("append", "wf-1", "phase.started")
        flow.write(output, {"passed": True})
    assert flow.done("rehydrate", "wf-1")["workflow"]["phase"] == "COMPLETE"
    phase = flow.json(PHASE)
    assert (phase["current_phase"], phase["phase_status"]) == ("REFLECTION", "complete")
    assert len(phase["completed_phases"]) == 5
