"""Phased development: its files, its resume table, and its four published scenarios."""

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
    """Begin a workflow, its first phase at work."""
    place.init("wf-1", "dotagent")
    place.done("append", "wf-1", "phase.started")
    return place


def at_architecture(flow: MachinePlace) -> None:
    """Go on to the architecture."""
    flow.write(DEMAND, {"wants": "a shop"})
    flow.done("approve", "wf-1", "requirements")
    flow.done("transition", "wf-1", "--auto")
    flow.done("append", "wf-1", "phase.started")


def at_implementation(flow: MachinePlace) -> None:
    """Go on to the implementation, with two tasks."""
    at_architecture(flow)
    flow.write(f"{DESIGNS}/plain.json", {"style": "plain"})
    flow.write(FINAL, {"style": "plain"})
    flow.done("approve", "wf-1", "architecture", "--choice", "plain")
    flow.done("transition", "wf-1", "IMPLEMENTATION")
    flow.done("append", "wf-1", "phase.started")
    for task in ("task-001", "task-002"):
        flow.done("task", "wf-1", task, f"output=memory/tasks/{task}.json")


def tasks(flow: MachinePlace) -> dict[str, Any]:
    """Return the tasks of execution.json by id."""
    return {task["id"]: task for task in flow.json(EXECUTION)["tasks"]}


def test_the_files_are_those_of_the_protocol(flow: MachinePlace) -> None:
    """Whole, and where its users look for them."""
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


def test_a_phase_needs_its_output_and_the_person(flow: MachinePlace) -> None:
    """One after the other; what is missing is all said."""
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


def test_scenario_1_interrupted_while_an_agent_worked(flow: MachinePlace) -> None:
    """Given a running task without output, then one more attempt, and pending again."""
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
def test_scenario_2_killed_after_the_output_was_written(
    flow: MachinePlace, output: Any, status: str
) -> None:
    """Given a running task with an output, then its status is that of the output."""
    at_implementation(flow)
    flow.done("task", "wf-1", "task-001", "--status", "running")
    flow.write("memory/tasks/task-001.json", output)
    flow.done("rehydrate", "wf-1")
    assert tasks(flow)["task-001"]["status"] == status


def test_scenario_3_interrupted_while_a_person_chose(flow: MachinePlace) -> None:
    """Given designs and no final one, then the person is asked again, and no architect is run."""
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


def test_scenario_4_an_ancient_state(place: MachinePlace) -> None:
    """Given a state of more than seven days, then it is a warning and not an error."""
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
    # What lay there before is no output of the new life.
    place.refused("GUARD_FAILED", 5, "append", "wf-9", "phase.completed")
    assert place.wfctl("replay", "--check").data["findings"] == []
    assert place.wfctl("fsck").data["findings"] == []
    assert sorted(path.name for path in kept.iterdir()) == ["execution.json", "phase.json"]


def test_a_torn_output_is_no_output(flow: MachinePlace) -> None:
    """Given half a JSON file, then the task is to be run again, and why is said."""
    at_implementation(flow)
    flow.done("task", "wf-1", "task-001", "--status", "running")
    flow.write("memory/tasks/task-001.json", '{"task_id":"task-001","status":"pre_c')
    findings = flow.done("rehydrate", "wf-1")["resume"]["findings"]
    assert [one["check"] for one in findings] == ["output_torn"]
    assert (tasks(flow)["task-001"]["status"], tasks(flow)["task-001"]["attempts"]) == (
        "pending",
        1,
    )


def test_an_output_from_before_the_task_is_none_of_its_own(flow: MachinePlace) -> None:
    """Given an old output, then it says nothing of the task; written anew, the same says it all."""
    at_implementation(flow)
    flow.write("memory/tasks/task-001.json", {"status": "verified"})
    flow.done("task", "wf-1", "task-001", "--status", "running")
    flow.done("rehydrate", "wf-1")
    assert tasks(flow)["task-001"]["status"] == "pending"
    flow.done("task", "wf-1", "task-001", "--status", "running")
    flow.write("memory/tasks/task-001.json", {"status": "verified"})
    flow.done("rehydrate", "wf-1")
    assert tasks(flow)["task-001"]["status"] == "verified"


def test_what_another_workflow_left_behind_leads_nowhere(place: MachinePlace) -> None:
    """Given the files of an earlier workflow, then no phase of a new one is passed by them."""
    for path in (DEMAND, FINAL, "memory/reports/verification.json"):
        place.write(path, {"of": "wf-0"})
    place.write(f"{DESIGNS}/old.json", {"of": "wf-0"})
    place.write("memory/reflections/2025.md", "It went well.")
    place.init("wf-1", "dotagent")
    place.done("append", "wf-1", "phase.started")
    data = place.refused("GUARD_FAILED", 5, "transition", "wf-1", "ARCHITECTURE")
    assert data["unmet"][0]["found"] == f"only what was there before the phase: {DEMAND}"
    place.done("approve", "wf-1", "requirements")
    resume = place.done("rehydrate", "wf-1")
    assert resume["workflow"]["phase"] == "REQUIREMENTS"
    assert "only as it was before the phase began" in resume["resume"]["todo"][0]
    at_architecture(place)
    place.refused("INVALID_INPUT", 2, "approve", "wf-1", "architecture", "--choice", "old")


def test_a_phase_that_never_began_is_not_resumed(flow: MachinePlace) -> None:
    """Given outputs for later phases, then the resume stops at the phase that is to begin."""
    at_implementation(flow)
    for task in ("task-001", "task-002"):
        for status in ("running", "verified"):
            flow.done("task", "wf-1", task, "--status", status)
    flow.write("memory/reports/verification.json", {"passed": True})
    flow.write("memory/reflections/2026.md", "It went well.")
    data = flow.done("rehydrate", "wf-1")
    assert data["workflow"]["phase"] == "VERIFICATION"
    assert data["resume"]["todo"][0].startswith("begin VERIFICATION")


def test_after_a_design_was_chosen_the_architects_are_not_run_again(flow: MachinePlace) -> None:
    """Given the choice and no final design, then it goes on to the roundtable."""
    at_architecture(flow)
    flow.write(f"{DESIGNS}/a.json", {"style": "a"})
    flow.done("approve", "wf-1", "architecture", "--choice", "a")
    (todo,) = flow.done("rehydrate", "wf-1")["resume"]["todo"]
    assert todo.startswith(f"go on to the roundtable with {DESIGNS}/a.json")


def test_a_phase_is_not_complete_without_its_output(flow: MachinePlace) -> None:
    """What lacks is told apart: nothing there, or no JSON."""
    data = flow.refused("GUARD_FAILED", 5, "append", "wf-1", "phase.completed")
    assert data["unmet"][0]["found"] == "no file with content"
    flow.write(DEMAND, "{ not json")
    data = flow.refused("GUARD_FAILED", 5, "append", "wf-1", "phase.completed")
    assert data["unmet"][0]["found"] == "a file that is not valid JSON"
    flow.done("approve", "wf-1", "requirements")
    assert "is not valid JSON" in flow.done("rehydrate", "wf-1")["resume"]["todo"][0]


@pytest.mark.parametrize("fault", ["unsafe", "output"])
def test_nothing_is_mended_before_a_person_decided(flow: MachinePlace, fault: str) -> None:
    """Given a state that contradicts itself, then it stops, and an agent cannot wave it on."""
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


def test_a_crash_between_two_phases_is_a_resume(flow: MachinePlace) -> None:
    """Given a complete phase, the next not begun, then it goes on and does not start anew."""
    flow.write(DEMAND, {"wants": "a shop"})
    flow.done("append", "wf-1", "phase.completed")
    flow.done("approve", "wf-1", "requirements")
    assert flow.json(PHASE)["phase_status"] == "complete"
    data = flow.done("rehydrate", "wf-1")
    assert data["workflow"]["phase"] == "ARCHITECTURE"
    assert data["resume"]["recorded"] == [
        "REQUIREMENTS -> ARCHITECTURE: resumed: its output is there"
    ]
    assert flow.types("wf-1").count("machine.transitioned") == 1


def test_an_approval_point_is_confirmed_again(flow: MachinePlace) -> None:
    """Given the output and no approval, then the person is asked and nothing is made again."""
    flow.write(DEMAND, {"wants": "a shop"})
    (todo,) = flow.done("rehydrate", "wf-1")["resume"]["todo"]
    assert todo.startswith("re-confirm with the person")


def test_outputs_that_are_gone_are_found(flow: MachinePlace) -> None:
    """Given a completed phase whose output vanished, then it is said before going on."""
    at_architecture(flow)
    (flow.path / DEMAND).unlink()
    findings = flow.refused("UNSAFE_RESUME", 6, "rehydrate", "wf-1")["findings"]
    assert [one["check"] for one in findings] == ["output_missing"]


def test_an_output_is_looked_for_in_the_root_alone(flow: MachinePlace, tmp_path: Path) -> None:
    """Given outputs by their whole paths, then those of the root count, and no others are read."""
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


def test_what_is_cut_is_told_from_the_whole(flow: MachinePlace) -> None:
    """Given two thousand tasks that run, then shown and cut are all, beside how it goes on."""
    at_implementation(flow)
    running = [{"id": f"task-{n:04d}", "status": "running"} for n in range(2_000)]
    flow.write("more.json", {"tasks": [*flow.json(EXECUTION)["tasks"], *running]})
    flow.done("update", "wf-1", "--data", f"@{flow.path}/more.json")
    told = flow.done("rehydrate", "wf-1", "--dry-run")
    (cut,) = [line for line in told["cut"] if line.startswith("taskProgress.open (items)")]
    assert int(cut.split()[2]) + len(told["taskProgress"]["open"]) == 2_002


def test_a_dry_run_says_what_it_would_repair(flow: MachinePlace) -> None:
    """And repairs nothing."""
    at_implementation(flow)
    flow.done("task", "wf-1", "task-001", "--status", "running")
    resume = flow.done("rehydrate", "wf-1", "--dry-run")["resume"]
    assert len(resume["would_record"]) == 1
    assert tasks(flow)["task-001"]["status"] == "running"


def test_a_task_runs_three_times_and_no_more(flow: MachinePlace) -> None:
    """Then a person decides; nobody writes the count."""
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


def test_attempts_count_however_they_come_to_nothing(flow: MachinePlace) -> None:
    """Those that fail after they seemed done too; and no update goes round the limit."""
    at_implementation(flow)
    for _ in range(3):
        for status in ("running", "pre_complete", "failed"):
            flow.done("task", "wf-1", "task-001", "--status", status)
    flow.refused("CIRCUIT_OPEN", 6, "task", "wf-1", "task-001", "--status", "running")
    for change in ("tasks[0].status=running", "tasks=null", 'tasks=[{"id": "task-001"}]'):
        flow.refused("RESERVED_FIELD", 5, "update", "wf-1", change)
    assert tasks(flow)["task-001"]["attempts"] == 3


def test_no_field_passes_for_the_tasks(flow: MachinePlace) -> None:
    """What else is in execution.json is kept beside them."""
    hiding = 'execution={"tasks": [{"id": "task-009"}], "note": "n"}'
    flow.refused("RESERVED_FIELD", 5, "update", "wf-1", hiding)
    flow.done("update", "wf-1", 'execution={"note": "n"}')
    assert flow.json(EXECUTION) == {"tasks": [], "note": "n"}


@pytest.mark.few(1)
def test_a_completed_workflow_is_archived_and_makes_way(flow: MachinePlace) -> None:
    """The last five archives are kept; a workflow at work keeps others out."""
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
def test_no_archive_of_others_is_counted_or_taken_away(flow: MachinePlace) -> None:
    """Given folders of one's own, however they are called, then each is there, and ours too."""
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


def test_a_broken_file_is_archived_and_written_anew(flow: MachinePlace) -> None:
    """Never deleted, never believed."""
    good = (flow.path / PHASE).read_bytes()
    (flow.path / PHASE).write_bytes(good[:40])
    findings = flow.done("rehydrate", "wf-1")["resume"]["findings"]
    assert "not_whole" in [one["check"] for one in findings]
    assert flow.json(PHASE)["current_phase"] == "REQUIREMENTS"
    (kept,) = (flow.path / ARCHIVE).iterdir()
    assert (kept / "phase.json").read_bytes() == good[:40]


def test_the_whole_way_to_the_end(flow: MachinePlace) -> None:
    """Each phase by its output; the last completes the workflow."""
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
