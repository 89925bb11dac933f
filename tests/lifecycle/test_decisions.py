"""Decisions about manual edits, audit entries, sessions, and automatic consequences."""

from __future__ import annotations

from typing import Any

import pytest

from lifecycle.errors import (
    BudgetLeft,
    InvalidPayload,
    NeedsConsent,
    NoCommand,
    NotFinished,
    NothingHinders,
    NothingLeft,
    NoWorkflow,
    Refused,
    UnknownStage,
)
from lifecycle.payload import models as p
from lifecycle.rules.decide import decide, decide_all, state_after
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow
from tests.lifecycle import support as s

TRUST: dict[str, Any] = {"policy": "trust"}
STATE, LOG = "workflow-state.json", "progress.log"
NOTE = p.NoteLogged(text="hm")


def build_detected_edit(file: str, number: int) -> p.DriftDetected:
    """Return the event of a manual edit of a file that was archived under this number."""
    kept_as = f".wfctl/drift/{file}.v{number}"
    difference: dict[str, Any] = {"path": ["x"], "stage": None}
    return p.DriftDetected(file=file, kept_as=kept_as, differences=[difference])


#: Two edits of the state file with an edit of the log in between, at the versions 3, 4 and 5.
EDITED = s.recorded(
    s.given(),
    build_detected_edit(STATE, 1),
    build_detected_edit(LOG, 2),
    build_detected_edit(STATE, 3),
)


def build_adoption(file: str, **more: Any) -> p.DriftAdopted:
    """Return the command that adopts a manual edit of the file."""
    return p.DriftAdopted(file=file, **more)


@pytest.mark.parametrize(
    ("file", "detected", "version"),
    [(STATE, None, 5), (STATE, 5, 5), (STATE, 3, 3), (LOG, None, 4), (LOG, 4, 4)],
)
def test_newest_or_named_edit_of_a_file_is_decided(
    file: str, detected: int | None, version: int
) -> None:
    """Adoption and reversal name the edit of this file by the version that detected it."""
    assert [drift.version for drift in EDITED.drifts] == [3, 4, 5]
    adopted = build_adoption(file, detected=detected)
    assert decide(EDITED, adopted, s.AT) == [adopted.model_copy(update={"detected": version})]
    reverted = p.DriftReverted(file=file, detected=detected, proof=TRUST)
    known = {"detected": version, "kept_as": f".wfctl/drift/{file}.v{version - 2}"}
    assert decide(EDITED, reverted, s.AT) == [reverted.model_copy(update=known)]


@pytest.mark.parametrize(
    ("file", "detected", "named"),
    [
        ("other", None, "the file other waits"),
        (STATE, 4, f"the file {STATE} detected at version 4 waits"),
        (LOG, 3, f"the file {LOG} detected at version 3 waits"),
    ],
)
def test_edit_that_does_not_wait_cannot_be_decided(
    file: str, detected: int | None, named: str
) -> None:
    """The error lists the edits that wait, by version."""
    with pytest.raises(NoCommand, match=named) as refusal:
        decide(EDITED, build_adoption(file, detected=detected), s.AT)
    waiting = {"3": STATE, "4": LOG, "5": STATE}
    assert refusal.value.data == {"file": file, "detected": detected, "waiting": waiting}


def test_only_a_person_discards_a_manual_edit() -> None:
    """The error has the command for a person."""
    with pytest.raises(NeedsConsent, match=f"`wfctl drift revert {STATE}`"):
        decide(EDITED, p.DriftReverted(file=STATE), s.AT)


@pytest.mark.parametrize(
    ("stage", "field", "is_defined"),
    [
        (None, "version", True),
        (None, "mandates", True),
        (None, "status", False),
        ("stage-1", "status", True),
        ("stage-1", "version", False),
        ("stage-1", "color", False),
    ],
)
def test_only_fields_that_the_protocol_does_not_define_are_adopted(
    stage: str | None, field: str, is_defined: bool
) -> None:
    """The fields of a stage and of the workflow differ."""
    command = build_adoption(STATE, unknown=[p.UnknownField(stage=stage, field=field, value=1)])
    if not is_defined:
        expected = [command.model_copy(update={"detected": 5})]
        assert decide(EDITED, command, s.AT) == expected
        return
    with pytest.raises(Refused, match=f"the field {field} belongs to the protocol") as refusal:
        decide(EDITED, command, s.AT)
    assert refusal.value.data == {"field": field}


def test_field_of_an_unknown_stage_is_not_adopted() -> None:
    """The error lists the stages of the workflow."""
    command = build_adoption(
        STATE, unknown=[p.UnknownField(stage="stage-9", field="color", value=1)]
    )
    with pytest.raises(UnknownStage, match="stage-1, stage-2, stage-3"):
        decide(EDITED, command, s.AT)


def test_only_a_person_agrees_to_an_audit_entry() -> None:
    """The agreement is recorded unchanged if it has a proof of consent."""
    command = p.AuditAgreed(
        entry="e1", kind="edit", subject="x", text="y", reason="because", proof=TRUST
    )
    assert decide(s.given(), command, s.AT) == [command]
    with pytest.raises(NeedsConsent, match="`wfctl audit agree e1 --reason TEXT`"):
        decide(s.given(), command.model_copy(update={"proof": {}}), s.AT)


def test_note_of_an_unknown_stage_is_refused() -> None:
    """A note can name a stage of the workflow, or no stage."""
    known = p.NoteLogged(text="hm", stage="stage-1")
    assert decide(s.given(), known, s.AT) == [known]
    with pytest.raises(UnknownStage):
        decide(s.given(), p.NoteLogged(text="hm", stage="stage-9"), s.AT)


def build_session_end(reason: Any, following: str | None = None) -> p.SessionEnded:
    """Return the command that ends a session."""
    return p.SessionEnded(reason=reason, next=following)


FINISHED = [
    command
    for stage in ("stage-1", "stage-2", "stage-3")
    for command in s.through(stage, Status.COMPLETED)
]


@pytest.mark.parametrize(
    ("before", "command", "error"),
    [
        ([], build_session_end("completed"), NotFinished),
        ([], build_session_end("budget_exhausted"), BudgetLeft),
        ([], build_session_end("blocked"), NothingHinders),
        (FINISHED, build_session_end("waiting"), NothingLeft),
        (FINISHED, build_session_end("blocked", "x"), NothingLeft),
    ],
)
def test_session_does_not_end_for_a_reason_that_contradicts_the_state(
    before: list[p.Payload], command: p.SessionEnded, error: type[Exception]
) -> None:
    """The reason is compared with the stages, the budget and the hindrances."""
    with pytest.raises(error):
        decide(s.given(*before, p.SessionStarted()), command, s.AT)


def test_unfinished_stages_are_listed_by_the_end_of_a_session() -> None:
    """Completed stages are not part of the list."""
    state = s.given(*s.through("stage-1", Status.COMPLETED), p.SessionStarted())
    with pytest.raises(NotFinished) as refusal:
        decide(state, build_session_end("completed"), s.AT)
    assert refusal.value.data["stages"] == ["stage-2", "stage-3"]


@pytest.mark.parametrize(
    ("before", "command"),
    [
        ([], build_session_end("waiting")),
        ([], build_session_end("blocked", "ask")),
        (FINISHED, build_session_end("completed")),
    ],
)
def test_session_ends_for_a_reason_that_fits_the_state(
    before: list[p.Payload], command: p.SessionEnded
) -> None:
    """No note precedes the end of such a session."""
    state = s.given(*before)
    state = state_after(state, [p.SessionStarted(number=1)], s.AT)
    assert decide(state, command, s.AT)[-1] == command


def test_next_session_notes_the_end_of_the_previous_one() -> None:
    """A session that is still open has died, and its exit reason is null."""
    first = s.given(p.SessionStarted())
    cost = "cost=0/6"
    died = "WARNING: session 1 has no end in the log: it died"
    notes = [
        p.NoteLogged(text=text)
        for text in (f"Previous session ended: exit_reason=null, {cost}", died)
    ]
    second = p.SessionStarted(number=2)
    assert decide(first, p.SessionStarted(), s.AT) == [*notes, second]
    closed = state_after(first, [build_session_end("blocked")], s.AT)
    note = p.NoteLogged(text=f"Previous session ended: exit_reason=blocked, {cost}")
    assert decide(closed, p.SessionStarted(), s.AT) == [note, second]


def test_completed_workflow_is_not_completed_again() -> None:
    """The completion has the number of stages and is recorded once."""
    state = s.given(*FINISHED[:-1])
    completion = decide(state, FINISHED[-1], s.AT)[-1].model_dump()
    assert completion["stages"] == 3
    assert decide(s.given(*FINISHED), NOTE, s.AT) == [NOTE]


def test_frequent_event_has_no_automatic_consequences() -> None:
    """The consequence that is due follows with the next event of another type."""
    state = s.recorded(s.given(*s.through("stage-1", Status.RUNNING)), s.failed("stage-1"))
    left = p.AttemptLeft(stage="stage-1", attempt="att-0001", files=[], exchanged=["a.py"])
    assert decide(state, left, s.AT) == [left]
    blocked = p.StageBlocked(stage="stage-2", dependency="stage-1", dependency_status="failed")
    assert decide(state, NOTE, s.AT) == [NOTE, blocked]


def approve_proposal(state: Workflow, kind: Any, **more: Any) -> list[p.Payload]:
    """Return the events of the approval of an amendment of stage-1."""
    proposal = p.AmendmentProposed(kind=kind, stage="stage-1", description="because", **more)
    proposed = state_after(state, decide(state, proposal, s.AT), s.AT)
    return decide(proposed, p.AmendmentApproved(amendment="amend-1", proof=TRUST), s.AT)


CHANGE: dict[str, Any] = {"changes": {"parameters": {"x": {"new": 1}}}}


@pytest.mark.parametrize(
    ("kind", "more", "reason", "reset"),
    [
        ("stage_rerun", {}, "rerun by amend-1", True),
        ("parameter_change", CHANGE, "changed by amend-1", False),
    ],
)
def test_approved_amendment_makes_a_failed_stage_ready(
    kind: str, more: dict[str, Any], reason: str, reset: bool
) -> None:
    """A rerun resets the number of retries, and a change keeps it."""
    events = approve_proposal(s.given(*s.through("stage-1", Status.FAILED)), kind, **more)
    expected = p.StageReadied(stage="stage-1", reason=reason, reset=reset, amendment="amend-1")
    assert [event for event in events if event.type == "stage.readied"] == [expected]


def test_stopped_stage_that_runs_again_does_not_block_its_dependent() -> None:
    """The approval stops the running attempt and makes the stage ready in one append."""
    events = approve_proposal(
        s.given(*s.through("stage-1", Status.RUNNING)), "parameter_change", **CHANGE
    )
    assert s.types(events) == [
        "amendment.approved",
        "stage.failed",
        "outputs.archived",
        "stage.readied",
    ]


@pytest.mark.parametrize(
    ("short_of", "requested", "grown"),
    [("memory", 2.0, "memory_gb"), ("memory", 8.0, None), ("time", 2.0, None), (None, 2.0, None)],
)
def test_stage_that_ran_out_of_memory_becomes_ready_with_more_memory(
    short_of: Any, requested: float, grown: str | None
) -> None:
    """The plan allows more memory up to a ceiling, and only for this shortage."""
    resources = {"memory_gb": {"start": 2, "times": 2, "at_most": 8}}
    stage = {"id": "stage-1", "name": "Build", "parameters": {"resources": resources}}
    state = s.given(
        s.attempt("stage-1", requested={"memory_gb": requested}),
        s.launched("stage-1"),
        plan={"workflow_id": "w", "stages": [stage]},
    )
    failure = s.failed("stage-1").model_copy(update={"short_of": short_of})
    consequences = [event.model_dump() for event in decide(state, failure, s.AT)[1:]]
    found = [(one["grown"], one["reset"], one["amendment"]) for one in consequences]
    assert found == ([(grown, False, None)] if grown else [])


@pytest.mark.parametrize(("consent", "proposed"), [("terminal", True), ("trust", False)])
def test_person_must_approve_a_new_plan(consent: Any, proposed: bool) -> None:
    """Only the consent policy `trust` needs no approval of the plan."""
    command = p.WorkflowCreated(document=s.given_document(), consent=consent)
    assert decide(None, command, s.AT)[0] == command.model_copy(update={"proposed": proposed})


def test_events_are_numbered_from_the_start_of_the_log() -> None:
    """The creation has the version 1, and the first ready stage has the version 2."""
    assert s.given().head == 2
    assert s.given(NOTE).head == 3


def test_state_after_no_event_needs_a_workflow() -> None:
    """Without a workflow and events, the error states that the log is empty."""
    with pytest.raises(NoWorkflow, match="the log contains no workflow"):
        state_after(None, [], s.AT)
    assert decide_all(None, []) == ([], None)


def test_digests_of_files_are_recorded_only_for_a_new_workflow() -> None:
    """After the first attempt, the digests cannot be recorded any more."""
    command = p.FilesRecorded(scripts={"a.sh": "0" * 64})
    assert decide(s.given(), command, s.AT) == [command]
    for state in (s.given(command), s.given(s.attempt("stage-1"))):
        with pytest.raises(NoCommand, match=r"files\.recorded can be recorded only when"):
            decide(state, command, s.AT)


#: The data of this event is valid, but the workflow has no such stage.
UNFIT = p.FilesRecorded(
    attempts={"stage-9": p.FilesOfAttempt(submission_sha256="", inputs=[], scripts={})}
)


def test_event_that_the_state_would_ignore_is_refused() -> None:
    """This is also valid for an event of a new workflow."""
    created = p.WorkflowCreated(document=s.given_document(), consent="trust")
    with pytest.raises(InvalidPayload, match="does not fit the state"):
        decide(s.given(), UNFIT, s.AT)
    with pytest.raises(InvalidPayload, match="does not fit the state"):
        decide_all(None, [(created, s.AT), (UNFIT, s.AT)])


def test_event_that_was_ignored_earlier_does_not_matter() -> None:
    """The next command is accepted, and the next ignored event is refused."""
    state = s.recorded(s.given(), UNFIT)
    assert [one["type"] for one in state.set_aside] == ["files.recorded"]
    assert decide(state, NOTE, s.AT) == [NOTE]
    with pytest.raises(InvalidPayload):
        decide(state, UNFIT, s.AT)


def test_commands_of_one_append_follow_each_other() -> None:
    """Each event has the time of its command, and the given state does not change."""
    state, later = s.given(), "2026-03-31T11:00:00.000000Z"
    planned, after = decide_all(state, [(s.attempt("stage-1"), s.AT), (NOTE, later)])
    assert [(event.type, at) for event, at in planned] == [
        ("stage.prepared", s.AT),
        ("attempt.started", s.AT),
        ("note.logged", later),
    ]
    assert after is not None
    assert (state.head, after.head) == (2, 5)


def test_approval_without_a_proof_shows_the_command_for_a_person() -> None:
    """The error has the id of the amendment."""
    with pytest.raises(NeedsConsent, match="`wfctl amend approve amend-1`") as refusal:
        decide(s.given(), p.AmendmentApproved(amendment="amend-1"), s.AT)
    assert refusal.value.data == {"type": "amendment.approved", "amendment": "amend-1"}
