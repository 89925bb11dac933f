"""`run` goes on past what one stage is refused for: each is named, the others are done."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sessions.support import agent, events, silent, stage, statuses, workflow

pytestmark = pytest.mark.slow


def test_a_missing_input_fails_its_stage_and_no_other(tmp_path: Path) -> None:
    """The log names stage and category, exit 6, and the independent stage is done."""
    place = workflow(tmp_path, stage(1, inputs=["in.txt"]), stage(2, after=[1]), stage(3))
    shown = place.json("run")
    assert (shown.code, shown.data["exit_reason"]) == (6, "blocked")
    assert statuses(place) == ["failed", "pending", "completed"]
    [failed] = events(place, "stage.failed")
    assert failed["data"]["category"] == "input"
    assert "in.txt is missing" in failed["data"]["error"]
    assert shown.data["blocked"][0]["stage"] == "stage-1"
    (place.path / "in.txt").write_text("here\n")
    place.done("stage", "retry", "stage-1", "--fix", "put in.txt there")
    assert place.json("run").data["exit_reason"] == "completed"


def test_an_unusable_submission_fails_its_stage_and_no_other(tmp_path: Path) -> None:
    """What DPDispatcher would never take is the stage's failure."""
    folder = tmp_path / "root" / "stage-1"
    place = workflow(tmp_path, silent(1), stage(2))
    folder.mkdir(exist_ok=True)
    (folder / "submission.json").write_text("[]")
    assert place.json("run").code == 6
    assert statuses(place) == ["failed", "completed"]


def test_a_stage_that_nothing_shows_to_be_done_waits_for_a_word(tmp_path: Path) -> None:
    """Without outputs, check and criteria: exit 6 with the command, never 5 for ever."""
    place = workflow(tmp_path, stage(1, outputs=[], parameters={"command": "true"}), stage(2))
    shown = place.json("run")
    assert (shown.code, statuses(place)) == (6, ["post_processing", "completed"])
    assert "somebody must say" in shown.data["blocked"][0]["why"]
    place.done("stage", "complete", "stage-1", "--evidence", "I looked")
    assert place.json("run").data["exit_reason"] == "completed"


def test_a_stage_without_a_command_keeps_no_other_from_running(tmp_path: Path) -> None:
    """It is a hindrance that says what would help; with an agent it is the agent's."""
    place = workflow(tmp_path, silent(1), stage(2, after=[1]), stage(3))
    shown = place.json("run")
    assert (shown.code, statuses(place)) == (6, ["ready", "pending", "completed"])
    [hindrance] = shown.data["blocked"]
    assert hindrance["stage"] == "stage-1"
    assert "--agent" in hindrance["unblock"]
    assert place.json("run", "--agent", agent(tmp_path, "exit 0")).code == 6
    assert statuses(place)[0] == "failed"


def test_what_waits_for_an_invalidated_stage_waits_and_ends_no_session(tmp_path: Path) -> None:
    """A stage that was ready is not dispatched before what it needs is computed again."""
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
def test_one_decision_lets_a_stage_go_on_whose_retries_are_used_up(tmp_path: Path) -> None:
    """Anyone who approves its changed command has said that it runs again."""
    place = workflow(tmp_path, stage(1, "exit 3"), consent="trust")
    for fix in ("once", "twice", "thrice"):
        assert place.json("run").code == 6
        place.done("stage", "retry", "stage-1", "--fix", fix)
    assert place.json("run").code == 6
    words = ("--set", "parameters.command=echo hi > out.txt", "--reason", "it was wrong")
    place.done("amend", "propose", "--stage", "stage-1", *words)
    place.done("amend", "approve", "amend-1")
    assert place.json("run").data["exit_reason"] == "completed"


def test_a_rerun_with_other_parameters_is_one_amendment(tmp_path: Path) -> None:
    """It is computed again with them."""
    place = workflow(tmp_path, stage(1), consent="trust")
    assert place.json("run").code == 0
    words = ("--set", "parameters.command=echo ho > out.txt", "--reason", "another word")
    place.done("amend", "propose", "--type", "stage_rerun", "--stage", "stage-1", *words)
    place.done("amend", "approve", "amend-1")
    assert place.json("run").data["exit_reason"] == "completed"
    assert (place.path / "stage-1/out.txt").read_text() == "ho\n"


def test_a_stage_that_no_session_can_afford_blocks(tmp_path: Path) -> None:
    """Exit 6 with the way out, and no session after another without end."""
    place = workflow(tmp_path, stage(1), session_budget=1)
    shown = place.json("run")
    assert (shown.code, shown.data["exit_reason"]) == (6, "blocked")
    assert "session_budget" in shown.data["blocked"][0]["unblock"]


def test_a_session_never_costs_more_than_its_budget(tmp_path: Path) -> None:
    """The estimate is what the end charges."""
    place = workflow(tmp_path, stage(1), stage(2), stage(3), session_budget=4)
    shown = place.json("run")
    assert (shown.data["exit_reason"], shown.data["cost"]) == ("budget_exhausted", 3)
