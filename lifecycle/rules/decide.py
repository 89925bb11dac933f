"""Decide which events a command produces: its own events, and automatic consequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from lifecycle.errors import (
    LOST,
    AlreadyExists,
    BudgetLeft,
    InvalidPayload,
    NoCommand,
    NotFinished,
    NothingHinders,
    NothingLeft,
    NoWorkflow,
    Refused,
    build_needs_consent_error,
)
from lifecycle.event import DECIDED, State, build_unrecorded_events
from lifecycle.fold.evolve import OWN_FIELDS, fold_events
from lifecycle.payload import models as p
from lifecycle.payload.check_data import fill_defaults_and_find_misfit
from lifecycle.rules import stages
from lifecycle.rules.mandates import check_mandates_at_start
from lifecycle.state.conditions import find_hindrances
from lifecycle.state.requested_resources import describe_growth, find_growing_resource
from lifecycle.state.session_budget import (
    build_cost_charges,
    can_afford_stage,
    maximum_session_cost,
)
from lifecycle.state.status import BLOCKING, FINISHED, Status, retry_limit
from lifecycle.state.workflow import Drift, Stage, Workflow
from lifecycle.words.document import STAGE_FIELDS
from lifecycle.words.limits import find_oversized_event_problem

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload


Decision: TypeAlias = "list[Payload]"


def decide_note(state: Workflow, command: p.NoteLogged) -> Decision:
    """Return the event of a note (a line of free text).

    Raises `NoCommand` for a line that another program wrote.
    """
    if command.kind != "note" or command.after is not None or command.raw is not None:
        raise NoCommand(
            "a line of another program cannot be appended directly. Add the line to the file "
            "progress.log, and the next command that writes to the log records the line. To "
            "record a note, run `wfctl note`.",
            type=command.type,
        )
    if command.stage is not None:
        state.stage(command.stage)
    return [command]


def decide_drift_adoption(state: Workflow, command: p.DriftAdopted) -> Decision:
    """Return the event that accepts a manual edit of a generated file.

    Raises `Refused` if an accepted field belongs to the protocol.
    """
    drift = _find_waiting_drift(state, command.file, command.detected)
    for change in command.unknown:
        _require_unknown_field(state, change)
    return [command.model_copy(update={"detected": drift.version})]


def decide_drift_reversal(state: Workflow, command: p.DriftReverted) -> Decision:
    """Return the event that discards a manual edit of a generated file.

    Raises `NeedsConsent` without a proof of consent.
    """
    drift = _find_waiting_drift(state, command.file, command.detected)
    if not command.proof:
        raise build_needs_consent_error(command.type, f"wfctl drift revert {command.file}")
    return [command.model_copy(update={"detected": drift.version, "kept_as": drift.kept_as})]


def _decide_audit_agreement(state: Workflow, command: p.AuditAgreed) -> Decision:
    """Return the event of a person's agreement to an audit entry.

    Raises `NeedsConsent` without a proof of consent.
    """
    if not command.proof:
        raise build_needs_consent_error(
            command.type, f"wfctl audit agree {command.entry} --reason TEXT"
        )
    return [command]


def _find_waiting_drift(state: Workflow, file: str, detected: int | None) -> Drift:
    """Return the undecided manual edit of a file that was detected at the given version.

    Without a version, return the newest undecided edit. Raises `NoCommand` if none exists.
    """
    for drift in reversed(state.drifts):
        if drift.file == file and detected in (drift.version, None):
            return drift
    raise NoCommand(
        f"no change of the file {file}{f' detected at version {detected}' if detected else ''} "
        "waits for a decision. To list the changes that wait, run `wfctl drift show`.",
        file=file,
        detected=detected,
        waiting={str(drift.version): drift.file for drift in state.drifts},
    )


def _require_unknown_field(state: Workflow, change: p.UnknownField) -> None:
    """Raise `Refused` if the changed field is one that the protocol defines."""
    known = STAGE_FIELDS if change.stage is not None else OWN_FIELDS
    if change.stage is not None:
        state.stage(change.stage)
    if change.field in known:
        raise Refused(
            f"the field {change.field} belongs to the protocol, so only an amendment or an event "
            "of wfctl can change this field.",
            field=change.field,
        )


def decide_session_start(state: Workflow, command: p.SessionStarted) -> Decision:
    """Return the events that start the next session.

    Notes about the end of the previous session come first. If the previous session is still open,
    its program has died. Raises `NeedsConsent` if no person has approved the plan.
    """
    stages.require_agreed_plan(state, "the session cannot start")
    number = state.session.count + 1
    return [*_build_previous_session_notes(state), command.model_copy(update={"number": number})]


def _build_previous_session_notes(state: Workflow) -> Decision:
    """Return notes about the end and the cost of the previous session."""
    before = state.session
    if before.count == 0:
        return []
    ended = f"Previous session ended: exit_reason={before.exit_reason or 'null'}"
    notes = [f"{ended}, cost={before.cost:g}/{maximum_session_cost(state):g}"]
    if before.is_open:
        notes.append(f"WARNING: session {before.count} has no end in the log: it died")
    return [p.NoteLogged(text=text) for text in notes]


def decide_session_end(state: Workflow, command: p.SessionEnded) -> Decision:
    """Return the events that end the open session. Notes required by the protocol come first.

    Raises an error if no session is open or the reason contradicts the state.
    """
    if not state.session.is_open:
        raise NoCommand(
            "no session is open. To start a session, run `wfctl session start`.", type=command.type
        )
    left = [stage for stage in state.stages.values() if stage.status not in FINISHED]
    if command.reason == "completed" and not state.is_finished:
        raise NotFinished([stage.id for stage in left], state.open_loops)
    if command.reason == "budget_exhausted" and all(
        can_afford_stage(state, stage) for stage in left
    ):
        raise BudgetLeft(state.session.cost, maximum_session_cost(state))
    if command.reason != "completed" and state.is_finished:
        raise NothingLeft(command.reason)
    if command.reason == "blocked" and not command.next and not find_hindrances(state):
        raise NothingHinders
    return [*_build_exit_reason_notes(state, command), command]


def _build_exit_reason_notes(state: Workflow, command: p.SessionEnded) -> Decision:
    """Return the notes that explain why the session ends."""
    if command.reason == "budget_exhausted":
        cost, budget = state.session.cost, maximum_session_cost(state)
        text = f"Session ending: budget exhausted (cost={cost:g}, budget={budget:g})"
        return [p.NoteLogged(text=text)]
    if command.reason == "blocked":
        return [
            p.NoteLogged(text=f"Session ending: blocked. {one}") for one in find_hindrances(state)
        ]
    return []


_HELD = frozenset({Status.PENDING, Status.INVALIDATED})
_WAITING = _HELD | {Status.READY}


def find_consequences(state: Workflow, at: str) -> list[Payload]:
    """Return the automatic events that are due in a state, in the order of the stages.

    Examples are stages that become ready or blocked. ``at`` is the current time.
    """
    found: list[Payload] = [*build_cost_charges(state)]
    for stage in state.stages.values():
        if stage.status is Status.FAILED:
            found += _find_consequences_of_failed(state, stage)
        elif stage.status in _WAITING:
            found += _find_consequences_of_waiting(state, stage)
    if state.is_finished and state.workflow_status != "completed":
        from lifecycle.state.report_path import report_path

        report = report_path(state, at)
        found.append(p.WorkflowCompleted(stages=len(state.stages), report=report))
    return found


def _find_consequences_of_waiting(state: Workflow, stage: Stage) -> list[Payload]:
    """Return the events by which a waiting stage becomes ready or is marked as blocked."""
    if stage.status in _HELD and not state.unmet_dependencies(stage):
        return [p.StageReadied(stage=stage.id, reset=stage.status is Status.INVALIDATED)]
    return [
        p.StageBlocked(
            stage=stage.id,
            dependency=dep,
            dependency_status=cast("Literal['failed', 'skipped']", status.value),
        )
        for dep in stage.depends_on
        if (status := state.stages[dep].status) in BLOCKING
        and stage.blocked_by.get(dep) != status
        and state.stages[dep].rerun_by is None
    ]


def _find_consequences_of_failed(state: Workflow, stage: Stage) -> list[Payload]:
    """Return the event by which a failed stage becomes ready to run again.

    Return an empty list unless an approved amendment allows this, or the next attempt may request
    more of a resource.
    """
    if stage.rerun_by is None:
        return _find_consequences_of_shortage(state, stage)
    if state.unmet_dependencies(stage):
        return []
    rerun = state.amendments[stage.rerun_by].kind == "stage_rerun"
    reason = f"{'rerun' if rerun else 'changed'} by {stage.rerun_by}"
    # A rerun that a person approved after the last retry resets the retry count.
    reset = rerun or stage.retry_count >= retry_limit(state.backend_type(stage))
    return [p.StageReadied(stage=stage.id, reason=reason, reset=reset, amendment=stage.rerun_by)]


def _find_consequences_of_shortage(state: Workflow, stage: Stage) -> list[Payload]:
    """Return the event by which a stage becomes ready for an attempt with more resources.

    Return an empty list unless the last attempt ran out of memory or exceeded its time limit, and
    the next one can request more.
    """
    name = find_growing_resource(state, stage)
    if name is None or state.unmet_dependencies(stage):
        return []
    reason = describe_growth(state, stage, name)
    return [p.StageReadied(stage=stage.id, reason=reason, grown=cast("p.Resource", name))]


def require_recordable(planned: Iterable[Payload], before: State | None, after: State) -> None:
    """Raise `InvalidPayload` if a planned event is too large or would be ignored.

    ``before`` and ``after`` are the states before and after the planned events.
    """
    for payload in planned:
        data = payload.as_json()
        why = fill_defaults_and_find_misfit(payload.type, data) or find_oversized_event_problem(
            payload.type, data
        )
        if why is not None:
            raise InvalidPayload(payload.type, [why])
    known = len(before.set_aside) if before is not None else 0
    for one in after.set_aside[known:]:
        raise InvalidPayload(one["type"], [one["why"]])


def decide(state: Workflow | None, command: Payload, at: str) -> Decision:
    """Return the events that a command produces, or an empty list if it changes nothing.

    ``at`` is the time of the command (UTC, ISO 8601). Raises a `LifecycleError` if the rules do not
    allow the command. The state is not modified.
    """
    planned, _ = decide_all(state, [(command, at)])
    return [event for event, _ in planned]


#: Events that have no automatic consequences. For these frequent events, the slow search for
#: consequences is omitted.
_QUIET = frozenset(
    {"attempt.observed", "attempt.left", "stage.launched", "stage.computed", "tasks.observed"}
)


def decide_all(
    state: Workflow | None, asked: Iterable[tuple[Payload, str]]
) -> tuple[list[tuple[Payload, str]], Workflow | None]:
    """Return the events that several commands produce in order, and the state after them.

    Each command and each event is paired with its time. The state is copied only once, which saves
    time. Raises the errors of `decide`, and `InvalidPayload` for an event that the fold would
    ignore.
    """
    draft = state.draft() if state is not None else None
    planned: list[tuple[Payload, str]] = []
    for command, at in asked:
        events = _decide_command(draft, command)
        if draft is not None and command.type == "attempt.started":
            check_mandates_at_start(draft, cast("p.AttemptStarted", command), at)
        draft = _fold_planned(draft, events, at)
        if any(event.type not in _QUIET for event in events):
            due = find_consequences(draft, at)
            draft = _fold_planned(draft, due, at)
            events = [*events, *due]
        planned += [(event, at) for event in events]
    if draft is not None:
        require_recordable((event for event, _ in planned), state, draft)
    return planned, draft


def state_after(state: Workflow | None, events: Decision, at: str) -> Workflow:
    """Return the state after the given events, recorded at the time ``at``."""
    return _fold_planned(state.draft() if state is not None else None, events, at)


def _decide_command(state: Workflow | None, command: Any) -> Decision:
    """Return the events of one command, without their automatic consequences."""
    if state is None:
        return _decide_creation(command)
    of_stage = stages.RULES.get(command.type)
    if of_stage is not None:
        return of_stage(state, state.stage(command.stage), command)
    rule = _RULES.get(command.type)
    if rule is None:
        raise NoCommand(
            (
                f"the event {command.type} cannot be recorded directly, because wfctl records "
                "this event only together with other events."
            ),
            type=command.type,
        )
    return rule(state, command)


def _fold_planned(draft: Workflow | None, events: Decision, at: str) -> Workflow:
    """Apply planned events to the draft state. Create the draft if it is None.

    Raises `NoWorkflow` if no workflow exists.
    """
    head = draft.head if draft is not None else 0
    for _, folded in fold_events(
        draft, build_unrecorded_events(events, at, head), frozenset({DECIDED})
    ):
        draft = folded
    if draft is None:
        raise NoWorkflow("the log contains no workflow, so no event can be recorded")
    return draft


def _decide_creation(command: Payload) -> Decision:
    """Return the event that creates or imports a workflow.

    Raises `NoWorkflow` for any other command.
    """
    if not isinstance(command, p.WorkflowCreated | p.WorkflowImported):
        raise NoWorkflow(
            f"the log contains no workflow yet. Create a workflow with `wfctl init PLAN`. {LOST}",
            type=command.type,
        )
    # A person must approve the plan, even if an agent creates the workflow. Only the consent
    # policy `trust` needs no approval.
    return [command.model_copy(update={"proposed": command.consent != "trust"})]


def _refuse_second_workflow(state: Workflow, command: Any) -> Decision:
    """Raise `AlreadyExists`, because a folder can contain only one workflow."""
    raise AlreadyExists(
        f"this folder already contains the workflow {state.id} (log version {state.head}), and a "
        "folder can contain only one workflow. To show this workflow, run `wfctl status`.",
        workflow=state.id,
    )


def _accept_unchanged(state: Workflow, command: Payload) -> Decision:
    """Return the command as the only event."""
    return [command]


def _decide_files_recorded(state: Workflow, command: p.FilesRecorded) -> Decision:
    """Return the event with the digests of the workflow's files.

    Raises `NoCommand` unless the workflow is just being created.
    """
    if not state.is_beginning:
        raise NoCommand(
            "the event files.recorded can be recorded only when a workflow is created.",
            type=command.type,
        )
    return [command]


def _decide_amendment_command(state: Workflow, command: Any) -> Decision:
    """Return the events of the proposal, approval or rejection of an amendment."""
    # Imported only here, because it loads the pydantic models of a plan.
    from lifecycle.rules import amendments

    match command.type:
        case "amendment.proposed":
            return amendments.decide_proposal(state, command)
        case "amendment.rejected":
            return amendments.decide_rejection(state, command)
    if not command.proof:
        way = f"wfctl amend approve {command.amendment}"
        raise build_needs_consent_error(command.type, way, amendment=command.amendment)
    return amendments.decide_approval(state, command)


def _decide_loop_command(state: Workflow, command: Any) -> Decision:
    """Return the events that start a round of a loop or stop the loop."""
    from lifecycle.rules import rounds  # needed only for loops

    return (
        rounds.decide_round_start if command.type == "round.begun" else rounds.decide_loop_stop
    )(state, command)


_RULES: dict[str, Callable[[Workflow, Any], Decision]] = {
    "workflow.created": _refuse_second_workflow,
    "workflow.imported": _refuse_second_workflow,
    "files.recorded": _decide_files_recorded,
    "note.logged": decide_note,
    "drift.adopted": decide_drift_adoption,
    "drift.reverted": decide_drift_reversal,
    "audit.agreed": _decide_audit_agreement,
    "amendment.proposed": _decide_amendment_command,
    "amendment.approved": _decide_amendment_command,
    "amendment.rejected": _decide_amendment_command,
    "session.started": decide_session_start,
    "session.ended": decide_session_end,
    "cost.charged": _accept_unchanged,
    "round.begun": _decide_loop_command,
    "loop.stopped": _decide_loop_command,
}
