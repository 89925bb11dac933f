"""wfctl's suggested next actions never include a stage whose dispatch it would refuse."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.built_once import built_once
from tests.cli.support import Answer, Place
from tests.crash.support import until
from tests.sessions.followed import WORDS
from tests.sessions.support import events, stage, started, workflow
from tests.sessions.wild import MAP


@built_once
def built(folder: Path) -> Place:
    """Create three stages: one is completed, one depends on it, and one is independent."""
    made = workflow(folder, stage(1), stage(2, after=[1]), stage(3), consent="trust")
    made.done("dispatch", "stage-1", "--sync")
    made.done("stage", "complete", "stage-1")
    return made


def changed_upstream(folder: Path) -> Place:
    """Change the result of stage-1, which stage-2 reads."""
    place = built(folder)
    (place.path / "stage-1" / "out.txt").write_text("other\n")
    return place


def edited(folder: Path) -> Place:
    """Edit a parameter of stage-2 in the state file by hand."""
    place = built(folder)
    path = place.path / "workflow-state.json"
    document = json.loads(path.read_text())
    document["stages"][1]["parameters"]["command"] = "echo other > out.txt"
    path.write_text(json.dumps(document, indent=2) + "\n")
    return place


def edited_and_found(folder: Path) -> Place:
    """Edit a parameter of stage-2 by hand, and let wfctl record the edit as drift."""
    place = edited(folder)
    place.done("note", "on")
    return place


def other_scripts(folder: Path) -> Place:
    """Pin the scripts of the workflow to their content, and change one of them."""
    place = built(folder)
    (place.path / "init.sh").write_text("true\n")
    place.done("amend", "propose", "--set", "session_config.pin=scripts", "--reason", "to be sure")
    place.done("amend", "approve", "amend-1")
    (place.path / "init.sh").write_text("true # other\n")
    return place


def input_gone(folder: Path) -> Place:
    """Delete the output of stage-1, which stage-2 reads."""
    place = built(folder)
    (place.path / "stage-1" / "out.txt").unlink()
    return place


#: For each function that creates a situation: the stages whose dispatch wfctl refuses in it.
SITUATIONS: dict[Callable[[Path], Place], set[str]] = {
    changed_upstream: {"stage-2"},
    edited: {"stage-2"},
    edited_and_found: {"stage-2"},
    other_scripts: {"stage-2", "stage-3"},
    input_gone: {"stage-2"},
}


def offered(answer: Answer) -> set[str]:
    """Return the stages that the suggested next actions of an answer would dispatch."""
    actions = answer.envelope["next_actions"]
    free = [one["command"] for one in actions if not (one.get("person") or one.get("needs"))]
    found = {words[2] for words in map(shlex.split, free) if words[1] == "dispatch"}
    assert found or "wfctl run" not in free, actions
    return found


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one.__name__)
def test_offered_dispatches_are_never_refused(
    tmp_path: Path, situation: Callable[[Path], Place]
) -> None:
    """The answers of reads, writes and refusals offer only stages that `dispatch` accepts."""
    place = situation(tmp_path)
    refused = SITUATIONS[situation]
    reads = [place.json("status"), place.json("rehydrate", "--dry-run")]
    assert offered(place.json("status")) == {"stage-2", "stage-3"} - refused
    for one in ("stage-2", "stage-3"):
        answer = place.json("dispatch", one, "--sync")
        assert (answer.code != 0) == (one in refused), answer.out
        if answer.code:
            assert not offered(answer) & refused
    reads += [place.json("note", "on"), place.json("show", "stage-2"), place.json("status")]
    for read in reads:
        assert not offered(read) & refused, read.out
    why = place.json("why").data["hindrances"]
    assert refused - {one["stage"] for one in why} <= {"stage-3"}, why


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one.__name__)
def test_hindered_stage_does_not_stop_other_stages(
    tmp_path: Path, situation: Callable[[Path], Place]
) -> None:
    """The run completes the independent stage and exits with 6."""
    place = situation(tmp_path)
    ended = place.json("run")
    assert ended.code == 6, ended.out
    if "stage-3" not in SITUATIONS[situation]:
        stages = {one["id"]: one["status"] for one in place.done("status")["stages"]}
        assert stages["stage-3"] == "completed"
        assert stages["stage-2"] != "completed"


def test_failing_init_script_is_named_as_the_next_step(tmp_path: Path) -> None:
    """The suggested action needs an init.sh that exits with 0; then the stage is offered."""
    place = workflow(tmp_path, stage(1), consent="trust")
    (place.path / "init.sh").write_text("echo no license; exit 3\n")
    refused = place.json("run")
    assert refused.code != 0
    for answer in (place.json("status"), place.json("note", "on"), refused):
        [action] = answer.envelope["next_actions"]
        assert action["command"] == "wfctl run"
        assert "init.sh that exits 0" in action["needs"][0]
    (place.path / "init.sh").write_text("true\n")
    assert offered(place.json("status")) == {"stage-1"}


def test_session_of_a_killed_run_is_not_continued(tmp_path: Path) -> None:
    """The next run starts a new session, which runs init.sh and stops if it fails."""
    place = workflow(tmp_path, stage(1, "sleep 20"), stage(2), stage(3), consent="trust")
    loop = started(place, "run")
    until(lambda: bool(events(place, "attempt.started")))
    loop.kill()
    loop.communicate()
    (place.path / "init.sh").write_text("echo no license; exit 3\n")
    assert place.json("run").error["code"] == "environment_not_ready"
    for answer in (place.json("status"), place.json("note", "on")):
        runs = [one for one in answer.envelope["next_actions"] if one["command"] == "wfctl run"]
        assert [one["needs"][0][:20] for one in runs] == ["init.sh that exits 0"], answer.out


def test_budget_below_the_cost_of_a_stage_leads_to_an_amendment(tmp_path: Path) -> None:
    """The suggested action proposes a session budget that is high enough for the stage."""
    place = workflow(tmp_path, stage(1), consent="trust", session_budget=0.5)
    [action] = place.json("status").envelope["next_actions"]
    words = [WORDS.get(word, word) for word in shlex.split(action["command"])[1:]]
    assert words[:2] == ["amend", "propose"]
    for line in (("why", "stage-1"), ("show", "stage-1")):
        assert action["command"] in place.call(*line).out
    assert place.json("run").code == 6
    place.done(*words)
    place.done("amend", "approve", "amend-1")
    assert place.json("run").code == 0


def test_stale_results_that_stop_the_run_lead_to_a_rerun(tmp_path: Path) -> None:
    """With `stale=stop`, wfctl suggests `wfctl rerun` and refuses a run."""
    one = stage(1, inputs=["in.txt"])
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "in.txt").write_text("1\n")
    place = workflow(tmp_path, one, stage(2), consent="trust", stale="stop")
    place.done("dispatch", "stage-1", "--sync")
    place.done("stage", "complete", "stage-1")
    (place.path / "in.txt").write_text("2\n")
    actions = place.json("status").envelope["next_actions"]
    assert [one["command"] for one in actions] == ["wfctl rerun stage-1"]
    assert place.json("run").code == 6
    assert "wfctl rerun stage-1" in place.json("why").data["hindrances"][-1]["unblock"]
    assert "wfctl rerun stage-1" in place.call("why", "stage-2").out


def test_failure_is_reported_before_a_used_up_budget(tmp_path: Path) -> None:
    """The first line of the output names the failed stage, and the run exits with 6."""
    one, other = stage(1, "echo no license >&2; exit 3"), stage(2)
    place = workflow(tmp_path, one, other, consent="trust", session_budget=1.5)
    ended = place.call("run")
    assert ended.code == 6
    lines = ended.out.splitlines()
    assert lines[0].startswith("stage-1: failed (")
    assert "budget is used up" in lines[-2]
    first = place.json("status").envelope["next_actions"][0]
    assert first["command"] == "wfctl stage retry stage-1 --fix TEXT"


@pytest.mark.parametrize("kind", ["stage", "sweep"])
def test_failed_check_leads_to_an_amendment(tmp_path: Path, kind: str) -> None:
    """wfctl suggests changing a parameter, because a retry would compute the same result."""
    fields: dict[str, Any] = {"parameters": {"verify": "false"}}
    if kind == "sweep":
        fields = {"parameters": {**MAP, "task_verify": "false"}, "outputs": ["stage-1/tasks.csv"]}
    place = workflow(tmp_path, stage(1, **fields), consent="trust")
    ended = place.json("run")
    change = "wfctl amend propose --stage stage-1 --set PATH=VALUE --reason TEXT"
    assert ended.data["blocked"][0]["unblock"] == f"`{change}`"
    assert [one["command"] for one in place.json("status").envelope["next_actions"]] == [change]
    assert change in place.json("why").data["hindrances"][0]["unblock"]


def test_stage_waits_for_the_rerun_of_its_dependency(tmp_path: Path) -> None:
    """The stage is not listed as ready, and `status` names the stage that must run again."""
    place = built(tmp_path)
    place.done("rerun", "stage-1", "--reason", "the seed was 0")
    place.call("amend", "approve", "amend-1")
    found = {one["id"]: one for one in place.done("status")["stages"]}
    assert found["stage-2"]["waits_for"] == ["stage-1"]
    assert place.json("why").data["ready"] == ["stage-1", "stage-3"]
    line = next(one for one in place.call("status").out.splitlines() if "stage-2" in one)
    assert "not yet: stage-1 must be completed again" in line


def test_profile_without_a_machine_is_named_in_the_next_action(tmp_path: Path) -> None:
    """wfctl refuses a dispatch, and its suggested action asks for the profile's config."""
    place = workflow(tmp_path, stage(1), consent="trust", profiles={"local": {"type": "local"}})
    [action] = place.json("status").envelope["next_actions"]
    assert "config must be an object" in action["needs"][0]
    assert place.json("dispatch", "stage-1").code != 0


@pytest.mark.parametrize("policy", ["tell", "stop"])
def test_adopted_result_leads_to_the_rerun_of_dependents(tmp_path: Path, policy: str) -> None:
    """After the adoption, every answer suggests rerunning the dependent stage."""
    fed = stage(2, "cat ../stage-1/out.txt", after=[1], inputs=["stage-1/out.txt"])
    more = [stage(3, after=[2])] if policy == "stop" else []
    place = workflow(tmp_path, stage(1), fed, *more, consent="trust", stale=policy)
    for id_ in ("stage-1", "stage-2"):
        place.done("dispatch", id_, "--sync")
        place.done("stage", "complete", id_)
    (place.path / "stage-1" / "out.txt").write_text("other\n")
    adopted = place.json("verify", "stage-1", "--adopt", "--reason", "it is better so")
    for answer in (adopted, place.json("status"), place.json("note", "on")):
        [action] = answer.envelope["next_actions"]
        assert action["command"] == "wfctl rerun stage-2"


def test_judged_stage_needs_no_further_check(tmp_path: Path) -> None:
    """After a dispatch judges kept outputs, wfctl suggests dispatching the next stage."""
    one = stage(1, parameters={"verify": "false"})
    place = workflow(tmp_path, one, stage(2, after=[1]), consent="trust")
    assert place.json("run").code == 6
    change = ("--stage", "stage-1", "--set", "parameters.verify=exit 0")
    place.done("amend", "propose", *change, "--reason", "it was nothing")
    place.done("amend", "approve", "amend-1")
    judged = place.json("dispatch", "stage-1")
    assert judged.data["events"][-1]["type"] == "stage.readied"
    assert {one["command"] for one in judged.envelope["next_actions"]} == {"wfctl dispatch stage-2"}


def test_synchronous_dispatch_suggests_the_step_after_its_end(tmp_path: Path) -> None:
    """After a failed `dispatch --sync`, wfctl suggests a retry of the stage."""
    place = workflow(tmp_path, stage(1, "exit 3"), consent="trust")
    [action] = place.json("dispatch", "stage-1", "--sync").envelope["next_actions"]
    assert action["command"] == "wfctl stage retry stage-1 --fix TEXT"
    assert place.done("show", "stage-1")["last_error"].startswith("exit code 3")
