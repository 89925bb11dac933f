"""What once ended a loop, or cost a second decision, and no longer does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import Place, write_plan
from tests.sessions.support import agent, events, silent, stage, statuses, workflow

pytestmark = pytest.mark.slow


def test_an_environment_that_is_not_ready_is_a_task_for_the_agent(tmp_path: Path) -> None:
    """It is told what init.sh printed, and init.sh is believed when it has ended."""
    place = workflow(tmp_path, stage(1, parameters={"expected_seconds": 1}))
    (place.path / "init.sh").write_text("echo no licence; test -e licence\n")
    assert place.json("run").code == 1
    helper = agent(tmp_path, 'cp "$WFCTL_PROMPT" prompt.md; env > seen; touch licence')
    assert place.json("run", "--agent", helper).data["exit_reason"] == "completed"
    assert "no licence" in (place.path / "prompt.md").read_text()
    assert "WFCTL_TASK=environment" in (place.path / "seen").read_text()
    assert "handed to agent agent.sh to environment" in place.log()


def test_an_agent_that_leaves_the_environment_as_it_is_changes_nothing(tmp_path: Path) -> None:
    """One try, then the error as ever."""
    place = workflow(tmp_path, stage(1))
    (place.path / "init.sh").write_text("exit 3\n")
    shown = place.json("run", "--agent", agent(tmp_path, "exit 0"))
    assert (shown.code, shown.error["code"]) == (1, "environment_not_ready")
    assert len(list((place.path / ".wfctl/agents/init.sh").iterdir())) == 1


def test_what_is_computed_between_sessions_is_charged_to_the_next(tmp_path: Path) -> None:
    """A stage dispatched by hand costs what it costs in a session."""
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


def test_a_session_ends_for_the_reason_that_its_numbers_show(tmp_path: Path) -> None:
    """No budget that is not used up, no obstacle if nothing is left."""
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
    """Have a person decide that stage-1 runs again."""
    place.done("amend", "propose", "--type", "stage_rerun", "--stage", "stage-1", "--reason", "r")
    place.done("amend", "approve", "amend-1")


def test_the_log_says_kept_when_it_is_so(tmp_path: Path) -> None:
    """Before, it says what will be."""
    place = workflow(tmp_path, stage(1), consent="trust")
    place.done("run")
    rerun(place)
    assert "stage-1: outputs will be kept as stage-1.v1 before it runs again" in place.log()
    assert "stage-1: outputs kept as stage-1.v1" not in place.log()
    place.done("run")
    assert "stage-1: outputs kept as stage-1.v1" in place.log()


@pytest.mark.few(1)
@pytest.mark.parametrize("after", ["true", "mkdir stage-1"])
def test_a_folder_that_somebody_moved_to_its_kept_name_is_kept(tmp_path: Path, after: str) -> None:
    """The stage gets its scripts back and runs again; what was moved stays as it is."""
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


def test_a_folder_of_somebody_else_s_is_not_taken_for_a_kept_one(tmp_path: Path) -> None:
    """It is in the way, and is named."""
    place = workflow(tmp_path, stage(1), consent="trust")
    place.done("run")
    rerun(place)
    (place.path / "stage-1.v1").mkdir()
    (place.path / "stage-1.v1/mine").touch()
    shown = place.json("run")
    assert shown.code == 6
    assert "stage-1.v1" in json.dumps(shown.data["blocked"])
    assert [path.name for path in (place.path / "stage-1.v1").iterdir()] == ["mine"]


def test_a_skip_with_rewiring_rewires_inputs_too(tmp_path: Path) -> None:
    """What the skipped stage would have made is no input any more, and the rest runs."""
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


def test_a_stage_without_a_command_is_the_agent_s(tmp_path: Path) -> None:
    """It dispatches what it prepared; the others are the loop's."""
    place = workflow(tmp_path, silent(1), stage(2))
    assert place.json("run", "--agent", agent(tmp_path, "exit 0")).code == 6
    assert statuses(place) == ["failed", "completed"]


def test_init_says_where_a_plain_run_stops(tmp_path: Path) -> None:
    """And how to go on; nothing if one session does all."""
    for count, told in ((5, "`wfctl run` stops before stage-5"), (2, None)):
        folder = tmp_path / str(count)
        folder.mkdir()
        plan = {"workflow_id": "w", "stages": [stage(n) for n in range(1, count + 1)]}
        said = Place(folder).call("init", str(write_plan(folder, plan)), "--consent", "trust").err
        assert (told in said) if told is not None else said == ""
