"""If one stage cannot start, `wfctl run` continues with the other stages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sessions.support import agent, events, silent, stage, statuses, workflow

pytestmark = pytest.mark.slow


def test_missing_input_fails_only_its_stage(tmp_path: Path) -> None:
    """The stage fails with the category input, and independent stages complete."""
    place = workflow(tmp_path, stage(1, inputs=["in.txt"]), stage(2, after=[1]), stage(3))
    shown = place.json("run")
    assert (shown.code, shown.data["exit_reason"]) == (6, "blocked")
    assert statuses(place) == ["failed", "pending", "completed"]
    [failed] = events(place, "stage.failed")
    assert failed["data"]["category"] == "input"
    assert "in.txt does not exist" in failed["data"]["error"]
    assert shown.data["blocked"][0]["stage"] == "stage-1"
    (place.path / "in.txt").write_text("here\n")
    place.done("stage", "retry", "stage-1", "--fix", "put in.txt there")
    assert place.json("run").data["exit_reason"] == "completed"


def test_invalid_submission_fails_only_its_stage(tmp_path: Path) -> None:
    """A stage whose submission file is invalid fails, and the other stage completes."""
    folder = tmp_path / "root" / "stage-1"
    place = workflow(tmp_path, silent(1), stage(2))
    folder.mkdir(exist_ok=True)
    (folder / "submission.json").write_text("[]")
    assert place.json("run").code == 6
    assert statuses(place) == ["failed", "completed"]


@pytest.mark.long
def test_stage_without_evidence_waits_for_a_person(tmp_path: Path) -> None:
    """The run exits with 6 if a stage has no outputs, check or criteria to judge it by."""
    place = workflow(tmp_path, stage(1, outputs=[], parameters={"command": "true"}), stage(2))
    shown = place.json("run")
    assert (shown.code, statuses(place)) == (6, ["post_processing", "completed"])
    assert "a person must decide" in shown.data["blocked"][0]["why"]
    place.done("stage", "complete", "stage-1", "--evidence", "I looked")
    assert place.json("run").data["exit_reason"] == "completed"


def test_stage_without_a_command_blocks_only_itself(tmp_path: Path) -> None:
    """The run suggests the option --agent for this stage and completes the other stages."""
    place = workflow(tmp_path, silent(1), stage(2, after=[1]), stage(3))
    shown = place.json("run")
    assert (shown.code, statuses(place)) == (6, ["ready", "pending", "completed"])
    [hindrance] = shown.data["blocked"]
    assert hindrance["stage"] == "stage-1"
    assert "--agent" in hindrance["unblock"]
    assert place.json("run", "--agent", agent(tmp_path, "exit 0")).code == 6
    assert statuses(place)[0] == "failed"


@pytest.mark.long
def test_stage_waits_for_its_invalidated_dependency(tmp_path: Path) -> None:
    """A ready stage is not dispatched until the invalidated stage has run again."""
    place = workflow(
        tmp_path, stage(1), stage(2), stage(3, after=[1, 2], inputs=["in.txt"]), consent="trust"
    )
    assert place.json("run").code == 6
    assert statuses(place) == ["completed", "completed", "failed"]
    (place.path / "in.txt").write_text("here\n")
    place.done("stage", "retry", "stage-3", "--fix", "put in.txt there")
    place.done("amend", "propose", "--type", "stage_rerun", "--stage", "stage-1", "--reason", "r")
    place.done("amend", "approve", "amend-1")
    assert statuses(place) == ["ready", "completed", "ready"]
    assert place.json("run").data["exit_reason"] == "completed"


@pytest.mark.long
def test_approved_change_allows_a_stage_without_retries_to_run(tmp_path: Path) -> None:
    """After the last retry, one approved change of the command lets the stage run again."""
    place = workflow(tmp_path, stage(1, "exit 3"), consent="trust")
    for fix in ("once", "twice", "thrice"):
        assert place.json("run").code == 6
        place.done("stage", "retry", "stage-1", "--fix", fix)
    assert place.json("run").code == 6
    words = ("--set", "parameters.command=echo hi > out.txt", "--reason", "it was wrong")
    place.done("amend", "propose", "--stage", "stage-1", *words)
    place.done("amend", "approve", "amend-1")
    assert place.json("run").data["exit_reason"] == "completed"


def test_rerun_with_new_parameters_is_one_amendment(tmp_path: Path) -> None:
    """One amendment reruns a completed stage with a new command."""
    place = workflow(tmp_path, stage(1), consent="trust")
    assert place.json("run").code == 0
    words = ("--set", "parameters.command=echo ho > out.txt", "--reason", "another word")
    place.done("amend", "propose", "--type", "stage_rerun", "--stage", "stage-1", *words)
    place.done("amend", "approve", "amend-1")
    assert place.json("run").data["exit_reason"] == "completed"
    assert (place.path / "stage-1/out.txt").read_text() == "ho\n"


def test_stage_above_the_session_budget_blocks_the_run(tmp_path: Path) -> None:
    """The run exits with 6 and suggests a higher session_budget."""
    place = workflow(tmp_path, stage(1), session_budget=1)
    shown = place.json("run")
    assert (shown.code, shown.data["exit_reason"]) == (6, "blocked")
    assert "session_budget" in shown.data["blocked"][0]["unblock"]


@pytest.mark.long
def test_session_cost_stays_within_the_budget(tmp_path: Path) -> None:
    """The session ends before a stage whose estimated cost exceeds the remaining budget."""
    place = workflow(tmp_path, stage(1), stage(2), stage(3), session_budget=4)
    shown = place.json("run")
    assert (shown.data["exit_reason"], shown.data["cost"]) == ("budget_exhausted", 3)
