"""Decide which events a command on a phase machine causes, or refuse the command.

The functions are pure. A command is the payload of the requested event; the returned event has
additional fields. Facts about files are passed to the functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from extensions.machines.rules import decide_fields as fields_of
from extensions.machines.rules import decide_record
from extensions.machines.rules import errors as e
from extensions.machines.rules import payload as p
from extensions.machines.rules.definition import (
    CANCELLED,
    DEFINITION,
    Tasks,
    Transition,
    load_trusted_definition,
)
from extensions.machines.rules.evolve import evolve
from extensions.machines.rules.field_shapes import find_shape_at, list_misfits, wrap_shape
from extensions.machines.rules.guard import FileFact, HasFile, iterate_conditions, list_unmet
from extensions.machines.rules.machine import Caller, CommandContext, Document, Machine
from extensions.machines.rules.path import (
    is_inside_written_path,
    list_key_paths,
    marks_before,
    merge_deep,
    parse_path,
)
from lifecycle.errors import NeedsConsent, build_needs_consent_error
from lifecycle.event import DECIDED, build_unrecorded_events
from lifecycle.payload.base import Payload
from lifecycle.payload.workflow import DriftAdopted, DriftReverted
from lifecycle.words.document import record_key_order
from wording import FirstReasons

Decision = list[Payload]
Files = Mapping[str, FileFact]
"""Maps the pattern of a file to what was found for it."""

#: Types of commands that a machine refuses after it has ended.
_CHANGES = frozenset(
    {"machine.updated", "machine.recorded", "machine.checkpointed"}
    | {"machine.task_changed", "machine.task_claimed", "machine.task_released"}
)
#: Types of commands that may change tasks. They must respect the reservations of other callers.
_OF_TASKS = frozenset({"machine.updated", "machine.task_changed"})


def decide(
    state: Machine | None,
    command: Payload,
    at: str,
    files: Files | None = None,
    caller: Caller = Caller(),  # noqa: B008 - it is frozen
) -> Decision:
    """Return the events that a command causes. An empty list means that nothing changes.

    ``at`` is the time of the command (UTC, ISO 8601). ``files`` are the facts about files for the
    guards (conditions of transitions). ``caller`` is the author of the command. ``state`` is not
    changed. Raises a `MachineError` if a rule refuses the command, or `NeedsConsent` if it needs
    the approval of a person.
    """
    if state is None:
        return _decide_creation(command, files or {})
    rule = _RULES.get(command.type)
    if rule is None:
        raise e.InvalidInput(f"machines have no command {command.type}", type=command.type)
    decided = rule(state, command, CommandContext(at, files or {}, caller))
    if decided and state.leases and command.type in _OF_TASKS:
        _check_task_reservations(state, compute_state_after(state, decided, at), at, caller)
    if decided and state.is_final and command.type in _CHANGES:
        raise _build_ended_error(state)
    return decided


def _build_ended_error(state: Machine) -> e.MachineError:
    if state.phase == CANCELLED:
        return e.AlreadyCancelled(state.id, state.cancelled_at)
    return e.InvalidTransition(
        state.phase, None, "the machine has ended and accepts no more changes", []
    )


def compute_state_after(state: Machine | None, events: Sequence[Payload], at: str) -> Machine:
    """Return the state of a machine after the given events, recorded at the time ``at``."""
    head = state.head if state is not None else 0
    result = evolve(state, build_unrecorded_events(events, at, head), frozenset({DECIDED}))
    if result is None:
        raise e.StateNotFound("?", [])
    return result


def _decide_creation(command: Payload, files: Files) -> Decision:
    if isinstance(command, p.MachineImported):
        # Leave out the files from which a person chooses an option. They stay valid after an
        # import, so they need not be written again.
        known = load_trusted_definition(command.definition, command.machine)
        marks = known.marks_on_entry(command.phase, files, options=False)
        earlier = marks_before(marks, command.entered_at)
    elif isinstance(command, p.MachineCreated):
        from extensions.machines.rules.soundness import load_definition

        known = load_definition(command.definition, command.machine)
        pattern, id_ = known.id_pattern, command.machine
        if re.fullmatch(pattern.removeprefix("^").removesuffix("$"), id_) is None:
            why = f"the id {id_!r} does not match the pattern of this machine type: {pattern}"
            raise e.InvalidInput(why, id=id_, expected=pattern)
        fields_of.check_initial_fields(known, command.document)
        earlier = known.marks_on_entry(known.initial, files)
    else:
        raise e.StateNotFound(getattr(command, "machine", "?"), [])
    # Record the order of the definition's keys, because the order of the phases has a meaning.
    decided = {"earlier": earlier, "definition_layout": record_key_order(command.definition)}
    return [command.model_copy(update=decided)]


def _refuse_existing(state: Machine, command: Payload, now: CommandContext) -> Decision:
    raise e.StateAlreadyExists(
        state.id,
        (
            f"the machine already exists. Its phase is {state.phase} and its version is "
            f"{state.head}. To see the machine, run `wfctl machine get {state.id}`."
        ),
    )


def _decide_transition(
    state: Machine, command: p.MachineTransitioned, now: CommandContext
) -> Decision:
    if command.to == CANCELLED and state.phase != CANCELLED:
        return _decide_cancellation(state, p.MachineCancelled(reason=command.reason), now)
    if command.to == state.phase:
        return []
    if state.is_final:
        raise e.InvalidTransition(
            state.phase,
            command.to,
            "the machine has ended, so its phase is final",
            [],
        )
    files = now.files
    way = (
        _choose_open_transition(state, files)
        if command.to is None
        else _find_transition_to(state, command.to)
    )
    missing = list_unmet(way.guard, state.facts(files))
    if missing:
        raise _build_refusal(state, way, missing)
    fields: dict[str, Any] = {"left": state.phase, "to": way.to, "resets": way.resets}
    fields["files"] = {
        part.file: list(files[part.file].found)
        for part in iterate_conditions(way.guard)
        if isinstance(part, HasFile) and part.file in files
    }
    if way.loop is not None:
        count, limit = state.counts.get(way.loop, 0), state.limit_of(way.loop)
        fields |= {"loop": way.loop, "count": count + (count < limit), "limit": limit}
        if count >= limit:
            fields |= {"to": state.definition.loops[way.loop].on_limit, "asked": way.to}
    fields["earlier"] = state.definition.marks_on_entry(fields["to"], files)
    return [command.model_copy(update=fields)]


def _decide_checkpoint(
    state: Machine, command: p.MachineCheckpointed, now: CommandContext
) -> Decision:
    return [command.model_copy(update={"phase": state.phase})]


def _decide_approval(state: Machine, command: p.MachineApproved, now: CommandContext) -> Decision:
    require_approval_possible(state, command.approval)
    return (
        []
        if state.is_approval_up_to_date(command.approval, now.files)
        else _require_proof(state, command)
    )


def _decide_withdrawal(
    state: Machine, command: p.MachineWithdrawn, now: CommandContext
) -> Decision:
    require_withdrawal_possible(state, command.approval)
    return _require_proof(state, command) if command.approval in state.approvals else []


def _require_proof(state: Machine, command: p.MachineApproved | p.MachineWithdrawn) -> Decision:
    if not command.proof:
        raise NeedsConsent(
            (
                f"only a person can give the approval {command.approval}. A person must run "
                f"`wfctl machine approve {state.id} {command.approval}`."
            ),
            machine=state.id,
            approval=command.approval,
        )
    return [command.model_copy(update={"phase": state.phase})]


def require_approval_possible(state: Machine, name: str) -> None:
    """Raise an error if the approval cannot be given in the current phase of the machine.

    This is the case if the approval does not exist or belongs to another phase.
    """
    known = state.known_approvals
    if name not in known:
        raise decide_record.build_unknown_name_error(state, "approval", "approval", name, known)
    if known[name].phase != state.phase:
        why = f"the approval {name} can be given only in the phase {known[name].phase}"
        raise e.InvalidTransition(state.phase, None, why, [])


def require_withdrawal_possible(state: Machine, name: str) -> None:
    """Raise an error if the approval cannot be withdrawn in the current phase.

    The approval of a user-defined definition can never be withdrawn.
    """
    require_approval_possible(state, name)
    if name == DEFINITION and state.definition_agreed is not None:
        raise e.InvalidInput(
            (
                f"the approval of the definition of the machine {state.id} cannot be withdrawn. "
                f"To cancel the machine, run `wfctl machine cancel {state.id}`."
            ),
            approval=name,
        )


def _decide_limit(state: Machine, command: p.MachineLimited, now: CommandContext) -> Decision:
    before = limit_in_force(state, command.loop)
    if command.to == before:
        return []
    if not command.proof:
        line = f"wfctl machine limit {state.id} {command.loop} {command.to} --reason TEXT"
        raise build_needs_consent_error(command.type, line)
    return [command.model_copy(update={"before": before})]


def limit_in_force(state: Machine, loop: str) -> int:
    """Return the current limit of a loop (a cycle of phases).

    Raises an error if the loop does not exist or the machine has ended.
    """
    if state.is_final:
        raise _build_ended_error(state)
    if loop not in state.definition.loops:
        raise decide_record.build_unknown_name_error(
            state, "loop", "loop", loop, state.definition.loops
        )
    return state.limit_of(loop)


def _decide_cancellation(
    state: Machine, command: p.MachineCancelled, now: CommandContext
) -> Decision:
    if state.phase == CANCELLED:
        raise e.AlreadyCancelled(state.id, state.cancelled_at)
    if state.is_final:
        raise e.InvalidTransition(
            state.phase,
            CANCELLED,
            "the machine has ended, so its phase is final",
            [],
        )
    decided: dict[str, Any] = {"left": state.phase}
    if command.anew:
        if "archive" not in state.definition.files:
            raise e.InvalidInput(
                (
                    f"the machine {state.id} cannot be started again, because its type "
                    f"{state.definition.id} defines no archive"
                ),
                machine=state.id,
            )
        decided["earlier"] = state.definition.marks_on_entry(state.definition.initial, now.files)
    return [command.model_copy(update=decided)]


def _decide_drift(
    state: Machine, command: DriftAdopted | DriftReverted, now: CommandContext
) -> Decision:
    chosen = [
        one.version
        for one in state.drifts
        if one.file == command.file and command.detected in (None, one.version)
    ]
    if not chosen:
        raise e.InvalidInput(
            f"no manual edit of {command.file} waits for a decision",
            file=command.file,
            waiting={str(d.version): d.file for d in state.drifts},
        )
    if isinstance(command, DriftReverted) and not command.proof:
        raise build_needs_consent_error(command.type, f"wfctl machine drift {state.id} --revert")
    return [command.model_copy(update={"detected": chosen[-1]})]


def list_next_phases(state: Machine) -> list[str]:
    """Return the phases that can follow the current phase, even if guards are not met."""
    return [] if state.is_final else [*(way.to for way in state.ways), CANCELLED]


def _find_transition_to(state: Machine, target: str) -> Transition:
    way = next((way for way in state.ways if way.to == target), None)
    if way is None:
        known = target in state.definition.phases or target == CANCELLED
        why = f"no transition leads to {target}" if known else f"no phase {target!r}"
        raise e.InvalidTransition(state.phase, target, why, list_next_phases(state))
    return way


def list_open_transitions(state: Machine, files: Files) -> list[Transition]:
    """Return the transitions whose guards are met, in the order of the definition."""
    facts = state.facts(files)
    return [] if state.is_final else [way for way in state.ways if not list_unmet(way.guard, facts)]


def _choose_open_transition(state: Machine, files: Files) -> Transition:
    found = list_open_transitions(state, files)
    if len(found) == 1:
        return found[0]
    if found:
        names = [way.to for way in found]
        raise e.InvalidTransition(
            state.phase, None, "several phases can follow, so the target phase must be named", names
        )
    shut = [(way, list_unmet(way.guard, state.facts(files))) for way in state.ways]
    waiting = [(way, lacks) for way, lacks in shut if len(_select_approvals(lacks)) == len(lacks)]
    if len(shut) == 1 or len(waiting) == 1:
        raise _build_refusal(state, *(waiting or shut)[0])
    missing = [{**one, "target": way.to} for way, lacks in shut for one in lacks]
    raise e.GuardFailed(
        state.phase, None, missing, list_next_phases(state), _find_missing_shape(state, missing)
    )


def _select_approvals(missing: list[e.Unmet]) -> list[e.Unmet]:
    return [one for one in missing if one["kind"] == "approved"]


def _build_refusal(state: Machine, way: Transition, missing: list[e.Unmet]) -> e.MachineError:
    """Return the error for a transition with unmet conditions.

    The error lists the unmet conditions, the possible target phases and the expected fields.
    """
    move = state.last_move
    waits = _select_approvals(missing)
    if waits and move is not None and move.is_diverted and move.loop is not None:
        approval = state.definition.find_phase_approval(state.phase)
        return e.CircuitOpen(
            f"loop {move.loop}",
            move.count or 0,
            move.limit or 0,
            f"To allow more, a person must run `wfctl machine approve {state.id} {approval}`.",
            loop=move.loop,
            unmet=missing,
            validTargets=list_next_phases(state),
        )
    kind = e.ApprovalMissing if len(waits) == len(missing) else e.GuardFailed
    return kind(
        state.phase, way.to, missing, list_next_phases(state), _find_missing_shape(state, missing)
    )


def _find_missing_shape(state: Machine, missing: list[e.Unmet]) -> dict[str, Any]:
    """Return the shape (expected structure) of the fields that the unmet conditions read."""
    found: dict[str, Any] = {}
    for steps in (parse_path(one["path"]) for one in missing if one["path"] is not None):
        found = merge_deep(found, wrap_shape(steps, find_shape_at(state.definition.fields, steps)))
    return found


def _change_task(state: Machine, command: p.MachineTaskChanged, now: CommandContext) -> Decision:
    """Return the event for a new or changed task, with the times and attempts that follow.

    An empty list means that nothing changes.
    """
    tasks, id_ = state.definition.tasks, state.definition.id
    if tasks is None:
        raise e.InvalidInput(
            (
                f"machines of the type {id_} have no tasks. To see the fields and events of this "
                f"type, run `wfctl machine describe {id_}`."
            ),
            machine=state.id,
        )
    _check_task_change(state, tasks, command)
    before = state.task(command.task)
    changes = dict(command.changes)
    if before is None:
        changes = {"status": tasks.statuses[0], **changes}
    changes |= _compute_following_fields(state, tasks, command.task, before or {}, changes, now.at)
    if before is not None and merge_deep(before, changes) == before:
        # The task has these values already. Record the command nevertheless if it states a status
        # that was not written since the phase started, because guards may require a new status.
        is_said = is_inside_written_path(
            state.visit.written, (*state.find_task_path(before), "status")
        )
        if state.is_final or is_said or "status" not in changes:
            return []
    return [command.model_copy(update={"changes": changes})]


def _check_task_change(state: Machine, tasks: Tasks, command: p.MachineTaskChanged) -> None:
    if not tasks.is_id(command.task):
        raise e.InvalidInput(
            f"the task id {command.task!r} is not valid, because it does not match the pattern "
            f"{tasks.pattern}",
            task=command.task,
        )
    listed = state.document.get(tasks.path)
    if listed is not None and not isinstance(listed, list):
        raise e.InvalidInput(
            (
                f"the field {tasks.path} must be a list of tasks, but its value is "
                f"{listed!r:.80}. To replace the value with an empty list, run `wfctl machine "
                f"update {state.id} {tasks.path}=[]`."
            ),
            path=tasks.path,
        )
    for path in list_key_paths(command.changes):
        for refuse in (fields_of.refuse_reserved, fields_of.refuse_misplaced):
            refuse(state.definition, (tasks.path, 0, *path), state.id)
    status = command.changes.get("status")
    problems = list_misfits(
        find_shape_at(state.definition.fields, (tasks.path, 0)), command.changes, ""
    )
    if "status" in command.changes and status not in tasks.statuses:
        problems.append(f"status: expected one of {', '.join(tasks.statuses)}, found {status!r}")
    if command.changes.get("id", command.task) != command.task:
        problems.append("id: the id of a task cannot change")
    if problems:
        problems = FirstReasons(problems)
        raise e.InvalidInput(
            f"{command.task}: {'; '.join(problems)}",
            task=command.task,
            problems=problems,
        )


def _compute_following_fields(
    state: Machine, tasks: Tasks, id_: str, before: Document, changes: Document, at: str
) -> Document:
    """Return the task's times and number of attempts that follow from its new status."""
    was, now = before.get("status"), changes.get("status")
    if now is None or now == was:
        return {}
    found: Document = {}
    second = at[:19] + "Z"
    used = before.get(tasks.attempts_field or "")
    used = used if isinstance(used, int) else 0
    if now == tasks.running:
        _check_attempts(state, tasks, id_, used)
        found[tasks.started_field] = second
        if before.get(tasks.completed_field) is not None:
            found[tasks.completed_field] = None
    if now == tasks.done:
        found[tasks.completed_field] = second
    idle = (None, tasks.failed, tasks.statuses[0])
    has_run = was == tasks.running or before.get(tasks.started_field) is not None
    if has_run and was not in idle and now in idle and tasks.attempts_field is not None:
        found[tasks.attempts_field] = used + 1  # The attempt was unsuccessful, so it is counted.
    return {key: value for key, value in found.items() if key not in changes}


def _check_attempts(state: Machine, tasks: Tasks, id_: str, used: int) -> None:
    most, beyond = tasks.most_attempts, tasks.beyond
    if beyond not in state.approvals and most is not None and used >= most:
        again = f"`wfctl machine approve {state.id} {beyond}` allows more attempts."
        instead = again if beyond else "Read the last error of the task."
        raise e.CircuitOpen(f"attempts of {id_}", used, most, instead, task=id_)


def _decide_claim(state: Machine, command: p.MachineTaskClaimed, now: CommandContext) -> Decision:
    """Reserve a task for the caller, or renew the caller's reservation.

    Raises `TaskHeld` if another caller has reserved the task, or if the caller has reserved it but
    did not ask to renew.
    """
    _check_claimable(state, command.task)
    held = state.leases.get(command.task)
    own = held if held is not None and not held.is_blocking_caller(now.caller, now.at) else None
    is_own = own is not None and own.is_live(now.at)
    if held is not None and held.is_live(now.at) and not (is_own and command.renew):
        raise e.TaskHeld(state.id, command.task, held.by, held.until, is_own=is_own)
    until = datetime.fromisoformat(now.at) + timedelta(seconds=command.seconds)
    decided = {
        "by": now.caller.name,
        "handle": (own.handle if own and is_own else None) or f"claim-{state.head + 1}",
        "until": until.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "renew": is_own,
        "before": held.by if held is not None and not is_own else None,
    }
    return [command.model_copy(update=decided)]


def _check_claimable(state: Machine, id_: str) -> None:
    tasks, found = state.definition.tasks, state.task(id_)
    if tasks is None or found is None:
        known = [str(task.get("id")) for task in state.tasks[:20]]
        raise e.InvalidInput(
            (
                f"the machine {state.id} has no task {id_!r}. Existing tasks: "
                f"{', '.join(known) or 'none'}. To add a task, run `wfctl machine task {state.id} "
                "TASK --title TEXT`."
            ),
            task=id_,
            known=known,
        )
    if found.get("status") == tasks.done:
        raise e.InvalidInput(
            (
                f"the task {id_} already has the status {tasks.done}, so it cannot be claimed. "
                "Claim another task."
            ),
            task=id_,
            status=tasks.done,
        )


def _decide_release(
    state: Machine, command: p.MachineTaskReleased, now: CommandContext
) -> Decision:
    """End the reservation of a task.

    The reservation must be the caller's own or expired, or the caller must ask to end a foreign
    one.
    """
    held = state.leases.get(command.task)
    if held is None:
        return []
    is_against = held.is_blocking_caller(now.caller, now.at)
    if is_against and not command.despite:
        raise e.TaskHeld(state.id, command.task, held.by, held.until)
    return [command.model_copy(update={"by": held.by, "despite": is_against})]


def _check_task_reservations(state: Machine, trial: Machine, at: str, caller: Caller) -> None:
    """Raise `TaskHeld` if a change affects a task that another caller has reserved.

    ``trial`` is the state after the change. A task can be changed by its id, by its position, or
    with the whole list, so the two states are compared.
    """
    for id_, held in state.leases.items():
        if held.is_blocking_caller(caller, at) and trial.task(id_) != state.task(id_):
            raise e.TaskHeld(state.id, id_, held.by, held.until)


Rule = Callable[[Machine, Any, CommandContext], Decision]

_RULES: dict[str, Rule] = {
    "machine.created": _refuse_existing,
    "machine.imported": _refuse_existing,
    "machine.updated": fields_of.decide_update,
    "machine.transitioned": _decide_transition,
    "machine.recorded": decide_record.decide_record,
    "machine.task_changed": _change_task,
    "machine.task_claimed": _decide_claim,
    "machine.task_released": _decide_release,
    "machine.checkpointed": _decide_checkpoint,
    "machine.approved": _decide_approval,
    "machine.withdrawn": _decide_withdrawal,
    "machine.limited": _decide_limit,
    "machine.cancelled": _decide_cancellation,
    "drift.adopted": _decide_drift,
    "drift.reverted": _decide_drift,
}
