"""Effects of an approval, all of which are in one append."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.amendments.support import LONGER, Place
from tests.cli.support import attempt_data


def test_approval_applies_all_effects_in_one_append(trusted: Place) -> None:
    """Invalidations, kept outputs and the ready stage share the id of one command."""
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


def test_rename_invalidates_nothing(trusted: Place) -> None:
    """An approved new name of a stage does not invalidate its results."""
    trusted.finish("stage-1")
    trusted.propose("--stage", "stage-1", "--set", "name=Make", "--reason", "clearer")
    assert trusted.approve() == ["amendment.approved"]
    assert trusted.document()["stages"][0]["name"] == "Make"


def test_new_criteria_invalidate_completed_stages(trusted: Place) -> None:
    """The stage was completed by its old criteria."""
    trusted.finish("stage-1")
    trusted.propose("--stage", "stage-1", "--set", "success_criteria=tighter", "--reason", "r")
    assert "stage.invalidated" in trusted.approve()


def test_inserted_stage_goes_between_two_stages(trusted: Place) -> None:
    """The dependent stage is invalidated and now depends on the inserted stage."""
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


def test_skipped_stage_blocks_its_dependents(trusted: Place) -> None:
    """If an amendment skips a stage without --rewire, the dependent stage is blocked."""
    trusted.finish("stage-1")
    trusted.propose("--type", "stage_skip", "--stage", "stage-2", "--reason", "not needed")
    assert trusted.approve() == ["amendment.approved", "stage.skipped", "stage.blocked"]
    assert "WARNING: stage-3 blocked: dependency stage-2 is skipped" in trusted.log()


def test_rewired_dependents_drop_a_skipped_stage(trusted: Place) -> None:
    """With --rewire, the dependent stage becomes ready."""
    trusted.finish("stage-1")
    words = ("--type", "stage_skip", "--stage", "stage-2", "--rewire")
    trusted.propose(*words, "--reason", "not needed")
    assert trusted.approve() == ["amendment.approved", "stage.skipped", "stage.readied"]
    assert trusted.document()["stages"][2]["depends_on"] == []


def test_rerun_of_a_failed_stage_resets_its_retries(trusted: Place) -> None:
    """The stage becomes ready with a retry count of 0."""
    for number in range(2):
        if number:
            trusted.done("stage", "retry", "stage-1", "--fix", "again")
        trusted.done("append", "attempt.started", "--data", attempt_data())
        trusted.done("stage", "fail", "stage-1", "--error", "it broke")
    trusted.propose("--type", "stage_rerun", "--stage", "stage-1", "--reason", "once more")
    assert trusted.approve() == ["amendment.approved", "outputs.archived", "stage.readied"]
    stage = trusted.document()["stages"][0]
    assert (stage["status"], stage["retry_count"]) == ("ready", 0)


def test_superseded_attempt_is_no_retry(trusted: Place) -> None:
    """The approval fails the running attempt, makes the stage ready, and counts no retry."""
    trusted.done("append", "attempt.started", "--data", attempt_data())
    impact = trusted.propose(*LONGER)["impact"]
    assert impact["stopped"] == {"stage-1": "att-0001"}
    types = trusted.approve()
    assert types == ["amendment.approved", "stage.failed", "outputs.archived", "stage.readied"]
    assert trusted.document()["stages"][0]["retry_count"] == 0


@pytest.mark.parametrize("status", ["preparing", "post_processing", "failed"])
def test_change_invalidates_dependents_with_any_status(trusted: Place, status: str) -> None:
    """A dependent stage that is active or failed runs again after the changed stage.

    A person need not stop its running job, and the stage uses no retry.
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


def test_changed_impact_is_not_approved(trusted: Place) -> None:
    """The approval exits with code 4 if a stage completed after the impact was shown."""
    trusted.propose(*LONGER)
    shown = trusted.done("amend", "show", "amend-1")["impact"]["digest"]
    trusted.done("amend", "reject", "amend-1")
    trusted.finish("stage-1")
    trusted.propose(*LONGER)
    version = trusted.version()
    answer = trusted.json("amend", "approve", "amend-2", "--impact", shown)
    assert (answer.code, answer.error["code"]) == (4, "impact_changed")
    assert trusted.version() == version


def test_unrelated_events_do_not_prevent_an_approval(trusted: Place) -> None:
    """A note after the impact was shown does not change the impact."""
    trusted.propose(*LONGER)
    shown = trusted.done("amend", "show", "amend-1")["impact"]["digest"]
    trusted.done("note", "still here")
    with (trusted.path / "progress.log").open("a") as log:
        log.write("by hand\n")
    assert trusted.approve("amend-1", "--impact", shown)[0] == "amendment.approved"
    assert trusted.document()["version"] == 2


def test_second_proposal_of_the_same_field_becomes_stale(trusted: Place) -> None:
    """After one proposal was approved, approving the other exits with code 4 as stale."""
    trusted.propose(*LONGER)
    trusted.propose("--stage", "stage-1", "--set", "parameters.n=3", "--reason", "longer still")
    trusted.approve("amend-1")
    answer = trusted.json("amend", "approve", "amend-2")
    assert (answer.code, answer.error["code"]) == (4, "stale_amendment")


def test_amendment_can_be_approved_only_once(trusted: Place) -> None:
    """A second approval is refused, unless it repeats the command id of the first."""
    trusted.propose(*LONGER)
    trusted.approve("amend-1", "--command-id", "k")
    version = trusted.version()
    assert trusted.done("amend", "approve", "amend-1", "--command-id", "k")["repeated"]
    answer = trusted.json("amend", "approve", "amend-1")
    assert (answer.code, answer.error["code"]) == (5, "amendment_decided")
    assert trusted.version() == version


def test_rerun_reopens_a_completed_workflow(trusted: Place) -> None:
    """The approval of a rerun removes the status `completed` of the workflow."""
    trusted.finish("stage-1", "stage-2", "stage-3")
    assert trusted.document()["workflow_status"] == "completed"
    trusted.propose("--type", "stage_rerun", "--stage", "stage-3", "--reason", "unsure")
    assert trusted.approve()[1] == "workflow.reopened"
    assert "workflow_status" not in trusted.document()


def test_existing_folder_shifts_the_number_of_the_kept_folder(trusted: Place) -> None:
    """Kept results get the number after an existing folder, which is not overwritten."""
    trusted.finish("stage-1")
    (Path(trusted.path) / "stage-1.v4").mkdir()
    assert trusted.propose(*LONGER)["impact"]["kept"] == {"stage-1": "stage-1.v5"}


def test_changed_backend_profile_invalidates_its_stages(trusted: Place) -> None:
    """A changed name of a document invalidates nothing."""
    trusted.finish("stage-1")
    trusted.propose("--set", "experiment_design=design.md", "--reason", "moved")
    assert trusted.approve() == ["amendment.approved"]
    profile = json.dumps({"type": "local", "config": {"batch_type": "Shell"}})
    trusted.propose("--set", f"backend_profiles.local={profile}", "--reason", "moved")
    assert "stage.invalidated" in trusted.approve("amend-2")


def test_audit_of_amendments_can_be_filtered(trusted: Place) -> None:
    """`audit amendments` can be filtered by state, stage, field and person."""
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
