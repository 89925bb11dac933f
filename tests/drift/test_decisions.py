"""``drift show``, ``adopt`` and ``revert``: what becomes of a change that others made."""

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
    """Change fields of stage-1 by hand."""
    document = state_of(place)
    document["stages"][0] |= fields
    return write_state(place, document)


def edit_parameters(place: Place, **parameters: Any) -> bytes:
    """Change parameters of stage-1 by hand."""
    return edit(place, parameters=state_of(place)["stages"][0]["parameters"] | parameters)


def proposals(place: Place) -> list[dict[str, Any]]:
    """Return what was proposed: type, stage and changes."""
    found = [event["data"] for event in place.done("events", "--type", "amendment.proposed")]
    return [{key: data[key] for key in ("kind", "stage", "changes")} for data in found]


def fail_stage(place: Place) -> None:
    """Let stage-1 fail."""
    place.done("append", "attempt.started", "--data", attempt_data())
    place.done("stage", "fail", "stage-1", "--error", "it broke")


def compute_stage(place: Place) -> None:
    """Bring stage-1 to post_processing."""
    place.done("append", "attempt.started", "--data", attempt_data())
    place.done("stage", "compute", "stage-1")


def test_show_explains_field_by_field(place: Place) -> None:
    """For people, and as data with both values."""
    edit_parameters(place, dt=0.002)
    answer = place.call("drift", "show")
    assert answer.code == 7
    assert "stage-1.parameters.dt: 0.005 -> 0.002" in answer.out
    [change] = shown(place)
    assert change["differences"] == [
        {"field": "stage-1.parameters.dt", "kind": "changed", "old": 0.005, "new": 0.002}
    ]
    assert (change["detected"], change["kept_as"]) == (None, None)


def test_show_goes_on_showing_until_somebody_decides(place: Place) -> None:
    """A write undoes the edit in the file, and the change waits where it is kept."""
    edit_parameters(place, dt=0.002)
    before = shown(place)[0]["differences"]
    place.done("note", "next")
    [change] = shown(place)
    assert change["differences"] == before
    assert change["detected"] == place.version() - 1
    status = place.json("status").envelope
    assert any("is kept as" in text for text in status["data"]["files"])
    assert status["next_actions"][0]["command"] == "wfctl drift show"


def test_show_names_one_file_alone(place: Place) -> None:
    """The other one is not asked for."""
    edit_parameters(place, dt=0.002)
    append_log(place, b"a line\n")
    changes = place.json("drift", "show", LOG).data["changes"]
    assert [change["file"] for change in changes] == [LOG]


def test_a_definitional_change_is_only_proposed(place: Place) -> None:
    """The number stays what it was until a person agrees."""
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


def test_the_fields_of_a_stage_are_one_proposal(place: Place) -> None:
    """A criterion and what it is checked with are one decision, as for `amend propose`."""
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


def test_an_edited_criterion_is_one_proposal_that_can_be_approved(place: Place) -> None:
    """After it nothing is pending, and nothing waits."""
    edit(place, success_criteria="drift below 1e-2")
    place.done("drift", "adopt")
    assert [found["kind"] for found in proposals(place)] == ["criteria_change"]
    place.done("amend", "approve", "amend-1")
    assert place.done("status")["pending_amendments"] == []
    assert state_of(place)["stages"][0]["success_criteria"] == "drift below 1e-2"
    assert shown(place) == []


def test_an_edit_is_closed_once_the_log_contains_its_values(place: Place) -> None:
    """Given a proposal of the same, then its approval decides the edit; an earlier one stays."""
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


def test_an_edited_status_is_closed_once_the_stage_has_it(place: Place) -> None:
    """Times and counts that follow from events do not keep the edit open."""
    edit(place, status="failed", last_error="it broke", retry_count=3)
    place.done("note", "next")
    assert len(shown(place)) == 1
    fail_stage(place)
    assert shown(place) == []


def test_a_cost_that_sessions_write_is_left_out_of_an_adoption(place: Place) -> None:
    """The protocol orders agents to write it; the rest is adopted, and the field is named."""
    document = state_of(place)
    document["session_config"] = {**document.get("session_config", {}), "session_cost": 3}
    document["stages"][0]["success_criteria"] = "whatever"
    write_state(place, document)
    place.done("drift", "adopt")
    assert [found["kind"] for found in proposals(place)] == ["criteria_change"]
    [closed] = place.done("events", "--type", "drift.adopted")
    assert closed["data"]["left"] == ["session_config.session_cost"]


def test_a_deeper_parameter_is_proposed_with_the_whole_value_at_its_key(place: Place) -> None:
    """As amendments record it."""
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
def test_a_legal_operational_change_is_recorded_as_itself(place: Place, name: str) -> None:
    """By the rules, with the events that it is."""
    fields, expected = OPERATIONAL[name]
    edit(place, **fields)
    answer = place.done("drift", "adopt")
    assert [event["type"] for event in answer["events"]] == [*expected, "drift.adopted"]
    found = state_of(place)["stages"][0]
    for field in set(fields) - {"started_at"}:
        assert found[field] == fields[field]
    check_clean(place)


def test_a_failed_stage_that_was_set_to_ready_counts_a_retry(place: Place) -> None:
    """Whatever the count in the file says."""
    fail_stage(place)
    edit(place, status="ready", retry_count=0)
    place.done("drift", "adopt")
    found = state_of(place)["stages"][0]
    assert (found["status"], found["retry_count"]) == ("ready", 1)


def test_a_failure_brings_its_reason(place: Place) -> None:
    """From last_error."""
    stage_running(place)
    edit(place, status="failed", last_error="out of memory")
    place.done("drift", "adopt")
    found = state_of(place)["stages"][0]
    assert (found["status"], found["last_error"]) == ("failed", "out of memory")


def test_a_completed_stage_needs_evidence(place: Place) -> None:
    """Typing the word into a file shows nothing."""
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
def test_an_illegal_change_is_refused_and_stays_for_a_decision(place: Place, name: str) -> None:
    """By the rules; nothing of it is recorded but that it was seen."""
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
def test_what_the_log_alone_decides_cannot_be_adopted(place: Place, name: str) -> None:
    """A count, an id, a consent, an end, stages taken away: each refused by its name."""
    write_state(place, state_of(place) | OF_THE_WORKFLOW[name])
    answer = place.json("drift", "adopt")
    assert (answer.code, answer.error["code"]) == (5, "refused")
    assert answer.error["data"]["problems"]


def test_an_inserted_stage_is_proposed_at_its_place(place: Place) -> None:
    """With its definition; a status that it came with is not taken over."""
    document = state_of(place)
    document["stages"].insert(1, {"id": "stage-4", "name": "New", "status": "completed"})
    write_state(place, document)
    place.done("drift", "adopt")
    [event] = place.done("events", "--type", "amendment.proposed")
    found = event["data"]
    assert (found["kind"], found["place"], found["insert"]["name"]) == ("stage_insert", 1, "New")
    assert found["insert"].get("status") in (None, "pending")


@pytest.mark.parametrize(("status", "kind"), [("skipped", "stage_skip"), ("invalidated", None)])
def test_skipping_by_hand_is_a_proposal(place: Place, status: str, kind: str | None) -> None:
    """A person's decision; to run again what never ran is not."""
    edit(place, status=status)
    answer = place.json("drift", "adopt")
    assert answer.code == (0 if kind else 5)
    assert [found["kind"] for found in proposals(place)] == ([kind] if kind else [])
    assert state_of(place)["stages"][0]["status"] == "ready"


def test_a_field_that_nobody_specified_is_taken_over_as_it_is(place: Place) -> None:
    """Of the workflow or of a stage, new, changed or taken away, in the order of its keys."""
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


def test_a_part_can_be_adopted(place: Place) -> None:
    """What is named is taken over; the others go on to wait, until they are decided too."""
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


def test_a_definitional_field_that_waits_holds_its_stage_up_whatever_else_was_adopted(
    place: Place,
) -> None:
    """To adopt a field that harms nobody decides nothing of the parameters."""
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


def test_a_field_that_did_not_change_cannot_be_named(place: Place) -> None:
    """The answer names those that did."""
    edit(place, outputs=["x"])
    answer = place.json("drift", "adopt", "--only", "stage-1.nam")
    assert (answer.code, answer.error["data"]["fields"]) == (3, ["stage-1.nam"])
    assert "stage-1.outputs" in answer.error["message"]


def test_a_change_of_what_has_moved_on_is_judged_as_it_is_now(place: Place) -> None:
    """The stage was skipped meanwhile: it cannot be picked up any more."""
    edit(place, status="preparing")
    place.done("note", "next")
    skip = ("--type", "stage_skip", "--stage", "stage-1", "--rewire", "--reason", "no need")
    place.done("amend", "propose", *skip)
    place.done("amend", "approve", "amend-1")
    answer = place.json("drift", "adopt")
    assert (answer.code, answer.error["code"]) == (5, "illegal_transition")


def test_a_policy_of_consent_that_was_typed_into_the_file_is_only_proposed(place: Place) -> None:
    """It is no field of the file, and no field that nobody specified either."""
    write_state(place, state_of(place) | {"consent": "terminal"})
    place.done("drift", "adopt")
    assert proposals(place)[0]["changes"] == {"consent": {"old": "trust", "new": "terminal"}}
    assert "consent" not in state_of(place)


def test_all_of_an_adoption_or_nothing(place: Place) -> None:
    """One field that the rules refuse holds back the others."""
    edit(place, status="completed", outputs=["x"])
    assert place.json("drift", "adopt").code == 5
    assert state_of(place)["stages"][0]["outputs"] == ["stage-1/out.txt"]


def test_revert_dismisses_and_keeps(place: Place) -> None:
    """The file is the log's again, the foreign version stays readable."""
    original = (place.path / STATE).read_bytes()
    foreign = edit_parameters(place, dt=0.002)
    answer = place.done("drift", "revert")
    assert [event["type"] for event in answer["events"]] == ["drift.reverted"]
    assert place.types()[-2:] == ["drift.detected", "drift.reverted"]
    assert state_of(place)["stages"] == json.loads(original)["stages"]
    assert kept(place) == [foreign]
    assert shown(place) == []
    check_clean(place)


def test_with_nothing_to_decide_nothing_is_recorded(place: Place) -> None:
    """Revert has nothing to do; adopt says that there is nothing."""
    before = place.version()
    assert place.done("drift", "revert")["events"] == []
    assert place.json("drift", "adopt").code == 3
    assert place.json("drift", "revert", "--detected", "1").code == 3
    assert place.version() == before


def test_each_change_is_decided_by_itself(place: Place) -> None:
    """The last one where none is named."""
    edit(place, outputs=["stage-1/out.txt", "one"])
    place.done("note", "next")
    edit(place, outputs=["stage-1/out.txt", "two"])
    place.done("note", "next")
    first, second = (change["detected"] for change in shown(place))
    place.done("drift", "revert", "--detected", str(second))
    place.done("drift", "adopt", "--detected", str(first))
    assert state_of(place)["stages"][0]["outputs"] == ["stage-1/out.txt", "one"]
    assert shown(place) == []


def test_the_same_edit_again_is_detected_again(place: Place) -> None:
    """Its version is kept once."""
    for _ in range(2):
        document = state_of(place)
        document |= {"updated": "then", "version": 9}
        write_state(place, document)
        place.done("drift", "revert")
    assert len(detected(place)) == 2
    assert len(kept(place)) == 1


def test_lines_of_a_log_that_was_written_over_can_be_adopted(place: Place) -> None:
    """Somebody typed > for >>: what they wrote becomes notes."""
    before = log_bytes(place)
    (place.path / LOG).write_bytes(b"my result\nis fine\n")
    place.done("drift", "adopt", LOG)
    assert log_bytes(place).startswith(before)
    assert place.notes()[-2:] == ["my result", "is fine"]
    assert shown(place) == []
    check_clean(place)


def test_a_file_that_cannot_be_read_cannot_be_adopted(place: Place) -> None:
    """There is nothing in it that would be a change; it is dismissed."""
    (place.path / STATE).write_bytes(b'{"stages": [')
    assert place.json("drift", "adopt").code == 5
    place.done("drift", "revert")
    assert shown(place) == []


def test_a_kept_version_that_was_deleted_is_named(place: Place) -> None:
    """It can still be dismissed."""
    edit_parameters(place, dt=0.002)
    place.done("note", "next")
    for path in (place.path / ".wfctl/drift").iterdir():
        path.unlink()
    assert place.json("drift", "show").code == 3
    place.done("drift", "revert")
    assert shown(place) == []


def test_an_agent_gets_nothing_by_editing_the_file(place: Place) -> None:
    """A dispatch decides from the log; the edit is in the record with its values."""
    edit(place, success_criteria="anything goes", status="completed")
    assert place.json("stage", "complete", "stage-1", "--evidence", "look, completed").code == 5
    found = state_of(place)["stages"][0]
    assert (found["status"], found["success_criteria"]) == ("ready", "drift below 1e-3")
    named = [difference["path"] for difference in detected(place)[0]["differences"]]
    assert named == [["status"], ["success_criteria"]]
    assert external(place) == []


def test_to_ask_a_stage_for_less_is_proposed(place: Place) -> None:
    """Outputs that are taken away by hand are an amendment, those that are added are recorded."""
    edit(place, outputs=["stage-1/other"])
    place.done("drift", "adopt")
    (proposed,) = proposals(place)
    assert proposed["changes"]["outputs"]["new"] == ["stage-1/other"]
    assert state_of(place)["stages"][0]["outputs"] == ["stage-1/out.txt"]
