"""Cases in which a run continues instead of stopping or asking the user a second time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place, write_plan
from tests.sessions.support import agent, events, silent, stage, statuses, workflow

pytestmark = pytest.mark.slow


def test_agent_repairs_the_environment(tmp_path: Path) -> None:
    """The agent gets the output of init.sh, and the run continues after its repair."""
    place = workflow(tmp_path, stage(1, parameters={"expected_seconds": 1}))
    (place.path / "init.sh").write_text("echo no licence; test -e licence\n")
    assert place.json("run").code == 1
    helper = agent(tmp_path, 'cp "$WFCTL_PROMPT" prompt.md; env > seen; touch licence')
    assert place.json("run", "--agent", helper).data["exit_reason"] == "completed"
    assert "no licence" in (place.path / "prompt.md").read_text()
    assert "WFCTL_TASK=environment" in (place.path / "seen").read_text()
    assert "gave the task 'environment' to agent agent.sh" in place.log()


def test_unrepaired_environment_fails_after_one_agent(tmp_path: Path) -> None:
    """If init.sh still fails after one agent, the run reports the usual error."""
    place = workflow(tmp_path, stage(1))
    (place.path / "init.sh").write_text("exit 3\n")
    shown = place.json("run", "--agent", agent(tmp_path, "exit 0"))
    assert (shown.code, shown.error["code"]) == (1, "environment_not_ready")
    assert len(list((place.path / ".wfctl/agents/init.sh").iterdir())) == 1


def test_work_between_sessions_is_charged_to_the_next_session(tmp_path: Path) -> None:
    """A stage dispatched by hand between sessions is charged when the next one starts."""
    place = workflow(tmp_path, stage(1), stage(2, after=[1]))
    place.done("dispatch", "stage-1", "--sync")
    place.done("stage", "complete", "stage-1")
    assert events(place, "cost.charged") == []
    place.done("session", "start")
    [charge] = events(place, "cost.charged")
    assert charge["data"]["stage"] == "stage-1"
    place.done("session", "end", "--reason", "waiting")
    place.done("session", "start")
    assert len(events(place, "cost.charged")) == 1


def test_session_end_requires_a_valid_reason(tmp_path: Path) -> None:
    """`session end` refuses a reason that does not match the state, such as `completed`."""
    place = workflow(tmp_path, stage(1, parameters={"expected_seconds": 1}))
    place.done("session", "start")
    shown = place.json("session", "end", "--reason", "budget_exhausted")
    assert (shown.code, shown.error["code"]) == (5, "budget_left")
    assert shown.error["data"] == {"cost": 0, "budget": 6}
    assert place.json("session", "end", "--reason", "completed").error["code"] == "not_finished"
    shown = place.json("session", "end", "--reason", "blocked")
    assert (shown.code, shown.error["code"]) == (5, "nothing_hinders")
    place.done("session", "end", "--reason", "blocked", "--next", "the licence server is down")
    place.done("session", "start")
    place.done("dispatch", "stage-1", "--sync")
    place.done("stage", "complete", "stage-1")
    for reason in ("blocked", "waiting"):
        assert place.json("session", "end", "--reason", reason).error["code"] == "nothing_left"
    place.done("session", "end", "--reason", "completed")


def rerun(place: Place) -> None:
    """Propose and approve a rerun of stage-1."""
    place.done("amend", "propose", "--type", "stage_rerun", "--stage", "stage-1", "--reason", "r")
    place.done("amend", "approve", "amend-1")


@pytest.mark.long
def test_log_reports_kept_outputs_after_they_were_moved(tmp_path: Path) -> None:
    """Until old outputs are moved, the log only says that they will be kept."""
    place = workflow(tmp_path, stage(1), consent="trust")
    place.done("run")
    rerun(place)
    assert "stage-1: outputs will be kept as stage-1.v1 before it runs again" in place.log()
    assert "stage-1: outputs kept as stage-1.v1" not in place.log()
    place.done("run")
    assert "stage-1: outputs kept as stage-1.v1" in place.log()


@pytest.mark.long
@pytest.mark.parametrize("after", ["true", "mkdir stage-1"])
def test_folder_moved_by_hand_counts_as_kept(tmp_path: Path, after: str) -> None:
    """If a user renamed the folder by hand, the stage gets its scripts back and runs."""
    place = workflow(tmp_path, stage(1), consent="trust")
    (place.path / "stage-1").mkdir(exist_ok=True)
    (place.path / "stage-1/script.py").write_text("pass\n")
    place.done("run")
    rerun(place)
    (place.path / "stage-1").rename(place.path / "stage-1.v1")
    if after != "true":
        (place.path / "stage-1").mkdir()
    assert place.json("run").data["exit_reason"] == "completed"
    assert (place.path / "stage-1/script.py").read_text() == "pass\n"
    assert (place.path / "stage-1.v1/out.txt").read_text() == "hi\n"


def test_foreign_folder_is_not_used_as_the_kept_folder(tmp_path: Path) -> None:
    """A folder stage-1.v1 of the user blocks the run, and the answer names the folder."""
    place = workflow(tmp_path, stage(1), consent="trust")
    place.done("run")
    rerun(place)
    (place.path / "stage-1.v1").mkdir()
    (place.path / "stage-1.v1/mine").touch()
    shown = place.json("run")
    assert shown.code == 6
    assert "stage-1.v1" in json.dumps(shown.data["blocked"])
    assert [path.name for path in (place.path / "stage-1.v1").iterdir()] == ["mine"]


def test_skip_with_rewire_removes_inputs_of_the_skipped_stage(tmp_path: Path) -> None:
    """The dependent stage loses its inputs from the skipped stage and runs."""
    (tmp_path / "root").mkdir(exist_ok=True)
    (tmp_path / "root/own.txt").write_text("mine\n")
    inputs = ["stage-2/out.txt", "own.txt", "stage-1/out.txt"]
    stages = [stage(1), stage(2, "exit 3", after=[1]), stage(3, after=[1, 2], inputs=inputs)]
    place = workflow(tmp_path, *stages, consent="trust")
    words = ("--type", "stage_skip", "--stage", "stage-2", "--rewire", "--reason", "not needed")
    place.done("amend", "propose", *words)
    told = place.call("amend", "show", "amend-1").out
    assert "stage-3.inputs: " in told
    place.done("amend", "approve", "amend-1")
    shown = place.done("show", "stage-3")
    assert (shown["inputs"], shown["depends_on"]) == (["own.txt", "stage-1/out.txt"], ["stage-1"])
    record = json.loads((place.path / "workflow-state.json").read_text())["amendments"][0]
    assert record["changes"]["stages"]["stage-3"]["inputs"]["old"] == inputs
    assert place.json("run").data["exit_reason"] == "completed"


def test_stage_without_a_command_is_given_to_the_agent(tmp_path: Path) -> None:
    """The agent gets only this stage, and wfctl runs the other stage itself."""
    place = workflow(tmp_path, silent(1), stage(2))
    assert place.json("run", "--agent", agent(tmp_path, "exit 0")).code == 6
    assert statuses(place) == ["failed", "completed"]


def test_init_reports_where_the_first_run_stops(tmp_path: Path) -> None:
    """`wfctl init` names the stage before which the budget of a session is used up."""
    for count, told in ((5, "is used up before stage-5 starts"), (2, None)):
        folder = tmp_path / str(count)
        folder.mkdir()
        plan = {"workflow_id": "w", "stages": [stage(n) for n in range(1, count + 1)]}
        said = Place(folder).call("init", str(write_plan(folder, plan)), "--consent", "trust").err
        assert (told in said) if told is not None else said == ""


@pytest.mark.long
def test_init_names_the_stage_at_which_the_run_really_stops(tmp_path: Path) -> None:
    """The order of the dependencies decides, not the order of the stages in the plan."""
    quick: Any = {"parameters": {"expected_seconds": 1, "verify": "true"}}
    stages = [
        stage(3, after=[1, 2], **quick),
        stage(2, after=[1], **quick),
        stage(1, **quick),
    ]
    plan = {"workflow_id": "w", "session_config": {"session_budget": 2}, "stages": stages}
    place = Place(tmp_path)
    said = place.call("init", str(write_plan(tmp_path, plan)), "--consent", "trust").err
    assert "session budget of 2 is used up before stage-3 starts" in said
    ended = place.json("run").data
    assert (ended["exit_reason"], ended["cost"]) == ("budget_exhausted", 2)
    assert statuses(place) == ["ready", "completed", "completed"]
