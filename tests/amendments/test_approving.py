"""What an approval does, all at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.amendments.support import LONGER, Place
from tests.cli.support import attempt_data


def test_an_approval_applies_everything_in_one_append(trusted: Place) -> None:
    """Record, fields, cascade, archive and readying: one command, one more version."""
    trusted.finish("stage-1", "stage-2")
    trusted.propose(*LONGER)
    assert trusted.approve() == [
        "amendment.approved",
        "stage.invalidated",
        "stage.invalidated",
        "outputs.archived",
        "outputs.archived",
        "stage.readied",
    ]
    document = trusted.document()
    assert trusted.statuses() == ["ready", "invalidated", "ready"]
    assert (document["version"], document["stages"][0]["parameters"]["n"]) == (2, 2)
    (record,) = document["amendments"]
    assert record["invalidated_stages"] == ["stage-1", "stage-2", "stage-3"]
    assert record["changes"] == {"parameters": {"n": {"old": 1, "new": 2}}}
    assert len({e["command_id"] for e in trusted.done("events")[-6:]}) == 1
    assert trusted.call("replay", "--check").code == 0


def test_a_rename_invalidates_nothing(trusted: Place) -> None:
    """A name is not what a result came from."""
    trusted.finish("stage-1")
    trusted.propose("--stage", "stage-1", "--set", "name=Make", "--reason", "clearer")
    assert trusted.approve() == ["amendment.approved"]
    assert trusted.document()["stages"][0]["name"] == "Make"


def test_new_criteria_invalidate_what_was_verified_against_the_old(trusted: Place) -> None:
    """A completed stage was completed by its criteria."""
    trusted.finish("stage-1")
    trusted.propose("--stage", "stage-1", "--set", "success_criteria=tighter", "--reason", "r")
    assert "stage.invalidated" in trusted.approve()


def test_an_inserted_stage_stands_between(trusted: Place) -> None:
    """The dependent that is named waits for the new stage in place of what that waits for."""
    trusted.finish("stage-1", "stage-2", "stage-3")
    new = json.dumps({"name": "Check", "depends_on": ["stage-2"]})
    trusted.propose("--insert", new, "--dependent", "stage-3", "--reason", "unsure")
    assert trusted.approve()[:2] == ["amendment.approved", "workflow.reopened"]
    stages = trusted.document()["stages"]
    assert [s["id"] for s in stages] == ["stage-1", "stage-2", "stage-4", "stage-3"]
    assert [s["status"] for s in stages] == ["completed", "completed", "ready", "invalidated"]
    assert stages[3]["depends_on"] == ["stage-4"]
    recorded = trusted.document()["amendments"][0]["changes"]["stages"]
    assert recorded["stage-3"]["depends_on"] == {"old": ["stage-2"], "new": ["stage-4"]}


def test_a_skipped_stage_blocks_its_dependents_unless_they_drop_it(trusted: Place) -> None:
    """Without a word they wait for somebody; with --rewire they go on without it."""
    trusted.finish("stage-1")
    trusted.propose("--type", "stage_skip", "--stage", "stage-2", "--reason", "not needed")
    assert trusted.approve() == ["amendment.approved", "stage.skipped", "stage.blocked"]
    assert "WARNING: stage-3 blocked: dependency stage-2 is skipped" in trusted.log()


def test_dependents_drop_a_skipped_stage_where_they_are_rewired(trusted: Place) -> None:
    """Nothing holds them back then."""
    trusted.finish("stage-1")
    words = ("--type", "stage_skip", "--stage", "stage-2", "--rewire")
    trusted.propose(*words, "--reason", "not needed")
    assert trusted.approve() == ["amendment.approved", "stage.skipped", "stage.readied"]
    assert trusted.document()["stages"][2]["depends_on"] == []


def test_a_rerun_of_a_failed_stage_starts_its_retries_anew(trusted: Place) -> None:
    """Failed becomes ready, with a retry count of nothing."""
    for number in range(2):
        if number:
            trusted.done("stage", "retry", "stage-1", "--fix", "again")
        trusted.done("append", "attempt.started", "--data", attempt_data())
        trusted.done("stage", "fail", "stage-1", "--error", "it broke")
    trusted.propose("--type", "stage_rerun", "--stage", "stage-1", "--reason", "once more")
    assert trusted.approve() == ["amendment.approved", "outputs.archived", "stage.readied"]
    stage = trusted.document()["stages"][0]
    assert (stage["status"], stage["retry_count"]) == ("ready", 0)


def test_a_superseded_attempt_makes_the_stage_ready_without_counting(trusted: Place) -> None:
    """Failed, superseded, then ready: all in the append of the approval."""
    trusted.done("append", "attempt.started", "--data", attempt_data())
    impact = trusted.propose(*LONGER)["impact"]
    assert impact["stopped"] == {"stage-1": "att-0001"}
    types = trusted.approve()
    assert types == ["amendment.approved", "stage.failed", "outputs.archived", "stage.readied"]
    assert trusted.document()["stages"][0]["retry_count"] == 0


@pytest.mark.parametrize("status", ["preparing", "post_processing", "failed"])
def test_nothing_that_rests_on_a_change_is_left_behind(trusted: Place, status: str) -> None:
    """Whatever the status of a dependent is, it is invalidated, and runs again when its turn comes.

    No good job has to be failed for that, and no retry is lost.
    """
    trusted.finish("stage-1")
    trusted.done("append", "attempt.started", "--data", attempt_data("stage-2"))
    if status == "post_processing":
        ended = json.dumps({"stage": "stage-2", "attempt": "att-0001", "exit_code": 0})
        trusted.done("append", "stage.computed", "--data", ended)
    if status == "failed":
        trusted.done("stage", "fail", "stage-2", "--error", "it broke")
    assert trusted.statuses()[1] == status
    assert trusted.propose(*LONGER)["impact"]["invalidated"] == ["stage-1", "stage-2"]
    trusted.approve()
    assert trusted.statuses() == ["ready", "invalidated", "pending"]
    (attempt,) = trusted.done("show", "stage-2")["attempts"]
    assert attempt["outcome"] == ("failed" if status == "failed" else "superseded")
    trusted.finish("stage-1")
    trusted.finish("stage-2")
    assert trusted.done("show", "stage-2")["retry_count"] == 0
    assert trusted.statuses() == ["completed", "completed", "ready"]


def test_an_impact_that_changed_is_not_agreed_to(trusted: Place) -> None:
    """Shown before a stage was completed, approved after: exit 4, nothing written."""
    trusted.propose(*LONGER)
    shown = trusted.done("amend", "show", "amend-1")["impact"]["digest"]
    trusted.done("amend", "reject", "amend-1")
    trusted.finish("stage-1")
    trusted.propose(*LONGER)
    version = trusted.version()
    answer = trusted.json("amend", "approve", "amend-2", "--impact", shown)
    assert (answer.code, answer.error["code"]) == (4, "impact_changed")
    assert trusted.version() == version


def test_what_does_not_touch_the_impact_is_no_obstacle(trusted: Place) -> None:
    """A note in between moves the head, and the approval with it."""
    trusted.propose(*LONGER)
    shown = trusted.done("amend", "show", "amend-1")["impact"]["digest"]
    trusted.done("note", "still here")
    with (trusted.path / "progress.log").open("a") as log:
        log.write("by hand\n")
    assert trusted.approve("amend-1", "--impact", shown)[0] == "amendment.approved"
    assert trusted.document()["version"] == 2


def test_two_proposals_of_one_value_are_not_both_approved(trusted: Place) -> None:
    """The second was proposed on a value that is no more."""
    trusted.propose(*LONGER)
    trusted.propose("--stage", "stage-1", "--set", "parameters.n=3", "--reason", "longer still")
    trusted.approve("amend-1")
    answer = trusted.json("amend", "approve", "amend-2")
    assert (answer.code, answer.error["code"]) == (4, "stale_amendment")


def test_an_approval_is_given_once(trusted: Place) -> None:
    """Again is refused; with the same command id it is the first answer."""
    trusted.propose(*LONGER)
    trusted.approve("amend-1", "--command-id", "k")
    version = trusted.version()
    assert trusted.done("amend", "approve", "amend-1", "--command-id", "k")["repeated"]
    answer = trusted.json("amend", "approve", "amend-1")
    assert (answer.code, answer.error["code"]) == (5, "amendment_decided")
    assert trusted.version() == version


def test_a_completed_workflow_is_reopened(trusted: Place) -> None:
    """There is work to do again."""
    trusted.finish("stage-1", "stage-2", "stage-3")
    assert trusted.document()["workflow_status"] == "completed"
    trusted.propose("--type", "stage_rerun", "--stage", "stage-3", "--reason", "unsure")
    assert trusted.approve()[1] == "workflow.reopened"
    assert "workflow_status" not in trusted.document()


def test_a_folder_that_is_there_already_gets_the_next_number(trusted: Place) -> None:
    """Somebody kept a copy by hand: it is not overwritten."""
    trusted.finish("stage-1")
    (Path(trusted.path) / "stage-1.v4").mkdir()
    assert trusted.propose(*LONGER)["impact"]["kept"] == {"stage-1": "stage-1.v5"}


def test_a_workflow_field_invalidates_only_who_runs_on_another_backend(trusted: Place) -> None:
    """A document's name changes nothing that was computed; a profile does."""
    trusted.finish("stage-1")
    trusted.propose("--set", "experiment_design=design.md", "--reason", "moved")
    assert trusted.approve() == ["amendment.approved"]
    profile = json.dumps({"type": "local", "config": {"batch_type": "Shell"}})
    trusted.propose("--set", f"backend_profiles.local={profile}", "--reason", "moved")
    assert "stage.invalidated" in trusted.approve("amend-2")


def test_the_audit_tells_who_changed_what(trusted: Place) -> None:
    """By state, stage, field and person."""
    trusted.propose(*LONGER)
    trusted.done("amend", "approve", "amend-1", "--actor", "user:ada")
    trusted.propose("--stage", "stage-2", "--set", "name=Walk", "--reason", "slower")
    found = trusted.done("audit", "amendments", "--field", "parameters", "--state", "approved")
    assert [(r["id"], r["decided_by"], r["policy"]) for r in found] == [
        ("amend-1", "user:ada", "trust")
    ]
    assert [r["id"] for r in trusted.done("audit", "amendments", "--by", "ada")] == ["amend-1"]
    assert [r["id"] for r in trusted.done("audit", "amendments", "--stage", "stage-2")] == [
        "amend-2"
    ]
