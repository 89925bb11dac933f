"""``drift show``, ``adopt`` and ``revert``: how a user decides about foreign edits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.support import Place, attempt_data
from tests.drift.support import (
    LOG,
    STATE,
    append_log,
    check_clean,
    detected,
    external,
    kept,
    log_bytes,
    shown,
    stage_running,
    state_of,
    write_state,
)


def edit(place: Place, **fields: Any) -> bytes:
    """Edit fields of stage-1 in the state file."""
    document = state_of(place)
    document["stages"][0] |= fields
    return write_state(place, document)


def edit_parameters(place: Place, **parameters: Any) -> bytes:
    """Edit parameters of stage-1 in the state file."""
    return edit(place, parameters=state_of(place)["stages"][0]["parameters"] | parameters)


def proposals(place: Place) -> list[dict[str, Any]]:
    """Return the type, the stage and the changes of each proposed amendment."""
    found = [event["data"] for event in place.done("events", "--type", "amendment.proposed")]
    return [{key: data[key] for key in ("kind", "stage", "changes")} for data in found]


def fail_stage(place: Place) -> None:
    """Make stage-1 fail."""
    place.done("append", "attempt.started", "--data", attempt_data())
    place.done("stage", "fail", "stage-1", "--error", "it broke")


def compute_stage(place: Place) -> None:
    """Bring stage-1 to the status post_processing."""
    place.done("append", "attempt.started", "--data", attempt_data())
    place.done("stage", "compute", "stage-1")


def test_drift_show_lists_each_changed_field(place: Place) -> None:
    """`drift show` prints a line for each field. JSON has the old and the new value."""
    edit_parameters(place, dt=0.002)
    answer = place.call("drift", "show")
    assert answer.code == 7
    assert "stage-1.parameters.dt: 0.005 -> 0.002" in answer.out
    [change] = shown(place)
    assert change["differences"] == [
        {"field": "stage-1.parameters.dt", "kind": "changed", "old": 0.005, "new": 0.002}
    ]
    assert (change["detected"], change["kept_as"]) == (None, None)


def test_drift_show_lists_an_edit_until_it_is_decided(place: Place) -> None:
    """A later write restores the file, but `drift show` still lists the kept edit."""
    edit_parameters(place, dt=0.002)
    before = shown(place)[0]["differences"]
    place.done("note", "next")
    [change] = shown(place)
    assert change["differences"] == before
    assert change["detected"] == place.version() - 1
    status = place.json("status").envelope
    assert any("is kept as" in text for text in status["data"]["files"])
    assert status["next_actions"][0]["command"] == "wfctl drift show"


def test_drift_show_of_one_file_omits_other_files(place: Place) -> None:
    """If both files changed and the user names the log, only the log is listed."""
    edit_parameters(place, dt=0.002)
    append_log(place, b"a line\n")
    changes = place.json("drift", "show", LOG).data["changes"]
    assert [change["file"] for change in changes] == [LOG]


def test_adopting_a_definitional_change_only_proposes_it(place: Place) -> None:
    """`drift adopt` proposes an amendment. The parameter changes only after its approval."""
    edit_parameters(place, dt=0.002, seed=7)
    place.done("drift", "adopt")
    assert proposals(place) == [
        {
            "kind": "parameter_change",
            "stage": "stage-1",
            "changes": {"parameters": {"dt": {"old": 0.005, "new": 0.002}, "seed": {"new": 7}}},
        }
    ]
    assert state_of(place)["stages"][0]["parameters"]["dt"] == 0.005
    assert place.done("status")["pending_amendments"] == ["amend-1"]
    assert shown(place) == []
    check_clean(place)


def test_adopting_changes_of_a_stage_creates_one_proposal(place: Place) -> None:
    """`drift adopt` proposes one amendment for all changes of a stage."""
    document = state_of(place)
    document["stages"][0]["success_criteria"] = "whatever"
    document["stages"][0]["inputs"] = []
    document["default_backend"] = "local2"
    document["backend_profiles"]["local2"] = {"type": "local"}
    write_state(place, document)
    place.done("drift", "adopt")
    assert [(found["kind"], found["stage"]) for found in proposals(place)] == [
        ("parameter_change", None),
        ("parameter_change", "stage-1"),
    ]
    assert set(proposals(place)[1]["changes"]) == {"inputs", "success_criteria"}


def test_adopted_criterion_can_be_approved(place: Place) -> None:
    """After the approval, no amendment and no drift are left."""
    edit(place, success_criteria="drift below 1e-2")
    place.done("drift", "adopt")
    assert [found["kind"] for found in proposals(place)] == ["criteria_change"]
    place.done("amend", "approve", "amend-1")
    assert place.done("status")["pending_amendments"] == []
    assert state_of(place)["stages"][0]["success_criteria"] == "drift below 1e-2"
    assert shown(place) == []


def test_edit_is_closed_once_the_log_contains_its_values(place: Place) -> None:
    """Approving an amendment with the same value closes this edit, but not an earlier edit."""
    edit_parameters(place, dt=0.001)
    place.done("note", "first")
    edit_parameters(place, dt=0.002)
    place.done("note", "second")
    assert len(shown(place)) == 2
    place.done("amend", "propose", "--set", "stage-1.parameters.dt=0.002", "--reason", "finer")
    assert len(shown(place)) == 2
    place.done("amend", "approve", "amend-1")
    [waiting] = shown(place)
    assert waiting["differences"][0]["new"] == 0.001
    [closed] = place.done("events", "--type", "drift.adopted")
    assert closed["data"]["left"] == ["stage-1.parameters.dt"]
    place.done("fsck", "--protocol")
    check_clean(place)


def test_edited_status_is_closed_once_the_stage_reaches_it(place: Place) -> None:
    """The edit is closed once the stage has its status, even if its retry count differs."""
    edit(place, status="failed", last_error="it broke", retry_count=3)
    place.done("note", "next")
    assert len(shown(place)) == 1
    fail_stage(place)
    assert shown(place) == []


def test_adoption_leaves_out_the_session_cost(place: Place) -> None:
    """`drift adopt` names the session cost, which agents may write, and adopts the rest."""
    document = state_of(place)
    document["session_config"] = {**document.get("session_config", {}), "session_cost": 3}
    document["stages"][0]["success_criteria"] = "whatever"
    write_state(place, document)
    place.done("drift", "adopt")
    assert [found["kind"] for found in proposals(place)] == ["criteria_change"]
    [closed] = place.done("events", "--type", "drift.adopted")
    assert closed["data"]["left"] == ["session_config.session_cost"]


def test_nested_parameter_is_proposed_with_its_whole_top_level_value(place: Place) -> None:
    """The proposal for a nested value has the old and new value of the top-level key."""
    overrides = {"queue_name": "cpu", "group_size": 1}
    edit_parameters(place, resource_overrides=overrides)
    place.done("drift", "adopt")
    old = {"queue_name": "gpu", "group_size": 1}
    assert proposals(place)[0]["changes"] == {
        "parameters": {"resource_overrides": {"old": old, "new": overrides}}
    }


OPERATIONAL: dict[str, tuple[dict[str, Any], list[str]]] = {
    "picked up": (
        {"status": "preparing", "started_at": "2026-04-01T00:00:00Z"},
        ["stage.prepared"],
    ),
    "outputs": ({"outputs": ["stage-1/out.txt", "y"]}, ["outputs.recorded"]),
    "a checkpoint": ({"checkpoint": {"step": 9}}, ["checkpoint.recorded"]),
}


@pytest.mark.parametrize("name", OPERATIONAL)
def test_legal_operational_change_is_recorded_as_its_own_event(place: Place, name: str) -> None:
    """`drift adopt` records a new status, outputs or checkpoint as an event of its type."""
    fields, expected = OPERATIONAL[name]
    edit(place, **fields)
    answer = place.done("drift", "adopt")
    assert [event["type"] for event in answer["events"]] == [*expected, "drift.adopted"]
    found = state_of(place)["stages"][0]
    for field in set(fields) - {"started_at"}:
        assert found[field] == fields[field]
    check_clean(place)


def test_adopting_ready_for_a_failed_stage_counts_a_retry(place: Place) -> None:
    """The log counts the retry, whatever retry count the file contains."""
    fail_stage(place)
    edit(place, status="ready", retry_count=0)
    place.done("drift", "adopt")
    found = state_of(place)["stages"][0]
    assert (found["status"], found["retry_count"]) == ("ready", 1)


def test_adopting_a_failure_takes_the_error_from_the_file(place: Place) -> None:
    """The field last_error of the edited file becomes the error of the stage."""
    stage_running(place)
    edit(place, status="failed", last_error="out of memory")
    place.done("drift", "adopt")
    found = state_of(place)["stages"][0]
    assert (found["status"], found["last_error"]) == ("failed", "out of memory")


def test_adopting_completed_requires_evidence(place: Place) -> None:
    """Writing the status completed into the file is refused without --evidence."""
    compute_stage(place)
    edit(place, status="completed", completed_at="2026-04-01T00:00:00Z")
    answer = place.json("drift", "adopt")
    assert (answer.code, answer.error["code"]) == (5, "missing_evidence")
    place.done("drift", "adopt", "--evidence", "I looked at it")
    assert state_of(place)["stages"][0]["status"] == "completed"


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "completed out of nothing": ({"status": "completed"}, "illegal_transition"),
    "running without an attempt": ({"status": "running"}, "refused"),
    "no status": ({"status": "done"}, "refused"),
    "a retry count": ({"retry_count": 3}, "refused"),
    "a start time": ({"started_at": "2020-01-01T00:00:00Z"}, "refused"),
    "a running process": ({"running_process": {"tmux_session": "x"}}, "refused"),
    "outputs of another type": ({"outputs": "x"}, "refused"),
    "parameters of another type": ({"parameters": "x"}, "refused"),
    "another id": ({"id": "stage-9"}, "refused"),
    "a number of many digits": ({"parameters": {"dt": 10**40}}, "refused"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_illegal_change_is_refused_and_stays_open(place: Place, name: str) -> None:
    """The log records only that the edit was detected, and `drift show` still lists the edit."""
    fields, code = REFUSED[name]
    foreign = edit(place, **fields)
    before = place.version()
    answer = place.json("drift", "adopt")
    assert (answer.code, answer.error["code"]) == (5, code)
    assert place.types()[before:] == ["drift.detected"]
    assert kept(place) == [foreign]
    assert shown(place)[0]["detected"] == before + 1


OF_THE_WORKFLOW: dict[str, dict[str, Any]] = {
    "the version": {"version": 2},
    "the id": {"workflow_id": "other"},
    "a forged amendment": {
        "amendments": [{"id": "amend-1", "version": 2, "approved_by": "user", "changes": {}}]
    },
    "the end": {"workflow_status": "completed"},
    "no stages": {"stages": []},
}


@pytest.mark.parametrize("name", OF_THE_WORKFLOW)
def test_fields_owned_by_the_log_cannot_be_adopted(place: Place, name: str) -> None:
    """`drift adopt` refuses edits of the version, id, amendments, status or all stages."""
    write_state(place, state_of(place) | OF_THE_WORKFLOW[name])
    answer = place.json("drift", "adopt")
    assert (answer.code, answer.error["code"]) == (5, "refused")
    assert answer.error["data"]["problems"]


def test_inserted_stage_is_proposed_at_its_position(place: Place) -> None:
    """The proposal has the definition of the stage, but not the status from the file."""
    document = state_of(place)
    document["stages"].insert(1, {"id": "stage-4", "name": "New", "status": "completed"})
    write_state(place, document)
    place.done("drift", "adopt")
    [event] = place.done("events", "--type", "amendment.proposed")
    found = event["data"]
    assert (found["kind"], found["place"], found["insert"]["name"]) == ("stage_insert", 1, "New")
    assert found["insert"].get("status") in (None, "pending")


@pytest.mark.parametrize(("status", "kind"), [("skipped", "stage_skip"), ("invalidated", None)])
def test_skipping_a_stage_in_the_file_creates_a_proposal(
    place: Place, status: str, kind: str | None
) -> None:
    """The status skipped needs a person's approval, and the status invalidated is refused."""
    edit(place, status=status)
    answer = place.json("drift", "adopt")
    assert answer.code == (0 if kind else 5)
    assert [found["kind"] for found in proposals(place)] == ([kind] if kind else [])
    assert state_of(place)["stages"][0]["status"] == "ready"


def test_unspecified_field_is_adopted_unchanged(place: Place) -> None:
    """An edited field that the protocol does not define is adopted with its key order."""
    document = state_of(place)
    document["lab"] = {"z": 1, "a": {"y": 2, "b": 3}}
    del document["x-reviewed_by"]
    document["stages"][0]["verification"]["by"] = "ada"
    foreign = write_state(place, document)
    assert place.done("drift", "adopt")["events"][-1]["type"] == "drift.adopted"
    found = state_of(place)
    del found["updated"], document["updated"]
    assert json.dumps(found) == json.dumps(document)
    assert kept(place) == [foreign]
    check_clean(place)


def test_one_field_of_an_edit_can_be_adopted(place: Place) -> None:
    """With --only, the named field is adopted, and the other fields stay open."""
    edit(place, retry_count=3, last_error="so", outputs=["stage-1/out.txt", "x"])
    answer = place.done("drift", "adopt", "--only", "stage-1.outputs")
    rest = ["stage-1.last_error", "stage-1.retry_count"]
    assert sorted(answer["events"][-1]["data"]["rest"]) == rest
    assert state_of(place)["stages"][0]["outputs"] == ["stage-1/out.txt", "x"]
    (change,) = shown(place)
    assert sorted(one["field"] for one in change["differences"]) == rest
    assert place.json("drift", "adopt", "--only", "stage-1.outputs").code == 3
    place.done("drift", "revert")
    assert shown(place) == []


def test_pending_definitional_edit_blocks_dispatch_after_partial_adoption(
    place: Place,
) -> None:
    """If only a harmless field was adopted, edited parameters still block the dispatch."""
    document = state_of(place)
    document["lab"] = "north"
    document["stages"][0]["parameters"]["dt"] = 0.5
    write_state(place, document)
    place.done("drift", "adopt", "--only", "lab")
    assert state_of(place)["lab"] == "north"
    (change,) = shown(place)
    assert [one["field"] for one in change["differences"]] == ["stage-1.parameters.dt"]
    assert place.json("dispatch", "stage-1").code == 6
    place.done("drift", "adopt")
    assert shown(place) == []
    assert [one["stage"] for one in proposals(place)] == ["stage-1"]


def test_naming_an_unchanged_field_is_refused(place: Place) -> None:
    """The error message lists the fields that did change."""
    edit(place, outputs=["x"])
    answer = place.json("drift", "adopt", "--only", "stage-1.nam")
    assert (answer.code, answer.error["data"]["fields"]) == (3, ["stage-1.nam"])
    assert "stage-1.outputs" in answer.error["message"]


def test_edit_is_judged_by_the_current_status(place: Place) -> None:
    """If the stage was skipped after the edit, adopting the status preparing is refused."""
    edit(place, status="preparing")
    place.done("note", "next")
    skip = ("--type", "stage_skip", "--stage", "stage-1", "--rewire", "--reason", "no need")
    place.done("amend", "propose", *skip)
    place.done("amend", "approve", "amend-1")
    answer = place.json("drift", "adopt")
    assert (answer.code, answer.error["code"]) == (5, "illegal_transition")


def test_edited_consent_policy_is_only_proposed(place: Place) -> None:
    """The key `consent` in the state file becomes an amendment, and not an extra field."""
    write_state(place, state_of(place) | {"consent": "terminal"})
    place.done("drift", "adopt")
    assert proposals(place)[0]["changes"] == {"consent": {"old": "trust", "new": "terminal"}}
    assert "consent" not in state_of(place)


def test_adoption_is_atomic(place: Place) -> None:
    """If the rules refuse one field of an edit, no field is adopted."""
    edit(place, status="completed", outputs=["x"])
    assert place.json("drift", "adopt").code == 5
    assert state_of(place)["stages"][0]["outputs"] == ["stage-1/out.txt"]


def test_revert_restores_the_file_and_keeps_the_edit(place: Place) -> None:
    """`drift revert` rebuilds the file, and the foreign version stays readable."""
    original = (place.path / STATE).read_bytes()
    foreign = edit_parameters(place, dt=0.002)
    answer = place.done("drift", "revert")
    assert [event["type"] for event in answer["events"]] == ["drift.reverted"]
    assert place.types()[-2:] == ["drift.detected", "drift.reverted"]
    assert state_of(place)["stages"] == json.loads(original)["stages"]
    assert kept(place) == [foreign]
    assert shown(place) == []
    check_clean(place)


def test_deciding_without_drift_records_nothing(place: Place) -> None:
    """`drift revert` succeeds without an event, and `drift adopt` exits with code 3."""
    before = place.version()
    assert place.done("drift", "revert")["events"] == []
    assert place.json("drift", "adopt").code == 3
    assert place.json("drift", "revert", "--detected", "1").code == 3
    assert place.version() == before


def test_each_edit_is_decided_separately(place: Place) -> None:
    """The option --detected selects which of several edits is reverted or adopted."""
    edit(place, outputs=["stage-1/out.txt", "one"])
    place.done("note", "next")
    edit(place, outputs=["stage-1/out.txt", "two"])
    place.done("note", "next")
    first, second = (change["detected"] for change in shown(place))
    place.done("drift", "revert", "--detected", str(second))
    place.done("drift", "adopt", "--detected", str(first))
    assert state_of(place)["stages"][0]["outputs"] == ["stage-1/out.txt", "one"]
    assert shown(place) == []


def test_repeated_edit_is_detected_again(place: Place) -> None:
    """The log has two drift events, but only one copy of the foreign version is kept."""
    for _ in range(2):
        document = state_of(place)
        document |= {"updated": "then", "version": 9}
        write_state(place, document)
        place.done("drift", "revert")
    assert len(detected(place)) == 2
    assert len(kept(place)) == 1


def test_lines_of_an_overwritten_log_can_be_adopted(place: Place) -> None:
    """If a user overwrote the log, `drift adopt` records the new lines as notes."""
    before = log_bytes(place)
    (place.path / LOG).write_bytes(b"my result\nis fine\n")
    place.done("drift", "adopt", LOG)
    assert log_bytes(place).startswith(before)
    assert place.notes()[-2:] == ["my result", "is fine"]
    assert shown(place) == []
    check_clean(place)


def test_unreadable_file_can_only_be_reverted(place: Place) -> None:
    """`drift adopt` refuses a file with invalid JSON. `drift revert` dismisses the edit."""
    (place.path / STATE).write_bytes(b'{"stages": [')
    assert place.json("drift", "adopt").code == 5
    place.done("drift", "revert")
    assert shown(place) == []


def test_deleted_copy_of_an_edit_can_be_reverted(place: Place) -> None:
    """If the copy is gone, `drift show` exits with code 3, and `drift revert` still works."""
    edit_parameters(place, dt=0.002)
    place.done("note", "next")
    for path in (place.path / ".wfctl/drift").iterdir():
        path.unlink()
    assert place.json("drift", "show").code == 3
    place.done("drift", "revert")
    assert shown(place) == []


def test_editing_the_state_file_does_not_complete_a_stage(place: Place) -> None:
    """A stage that is completed only in the file is not completed for any command."""
    edit(place, success_criteria="anything goes", status="completed")
    assert place.json("stage", "complete", "stage-1", "--evidence", "look, completed").code == 5
    found = state_of(place)["stages"][0]
    assert (found["status"], found["success_criteria"]) == ("ready", "drift below 1e-3")
    named = [difference["path"] for difference in detected(place)[0]["differences"]]
    assert named == [["status"], ["success_criteria"]]
    assert external(place) == []


def test_removing_an_output_by_hand_creates_a_proposal(place: Place) -> None:
    """Removing an output in the file only proposes an amendment, so the output stays."""
    edit(place, outputs=["stage-1/other"])
    place.done("drift", "adopt")
    (proposed,) = proposals(place)
    assert proposed["changes"]["outputs"]["new"] == ["stage-1/other"]
    assert state_of(place)["stages"][0]["outputs"] == ["stage-1/out.txt"]
