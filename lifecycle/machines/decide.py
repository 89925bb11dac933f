"""What may happen to a machine: (state, command) → events, or a refusal. Pure.

A command is the payload of the event it asks for; the event returned is completed. What was found
of files comes in with the command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from lifecycle.errors import NeedsConsent, undecided
from lifecycle.event import DECIDED, facts_of
from lifecycle.machines import decide_fields as fields_of
from lifecycle.machines import errors as e
from lifecycle.machines import payload as p
from lifecycle.machines.definition import CANCELLED, DEFINITION, Tasks, Transition, trusted
from lifecycle.machines.evolve import evolve
from lifecycle.machines.guard import FileFact, HasFile, parts, unmet
from lifecycle.machines.machine import Asked, Caller, Document, Machine
from lifecycle.machines.path import covers, leaves, marks_before, merged, parse
from lifecycle.machines.shape import around, below, misfits
from lifecycle.payload.base import Payload
from lifecycle.payload.workflow import DriftAdopted, DriftReverted
from lifecycle.words.document import layout_of

Decision = list[Payload]
Files = Mapping[str, FileFact]
"""Pattern of a file → what was found for it."""

#: What a machine that has ended takes no more of.
_CHANGES = frozenset(
    {"machine.updated", "machine.recorded", "machine.checkpointed"}
    | {"machine.task_changed", "machine.task_claimed", "machine.task_released"}
)
#: What changes tasks; the claims of others are held against it.
_OF_TASKS = frozenset({"machine.updated", "machine.task_changed"})


def decide(
    state: Machine | None,
    command: Payload,
    at: str,
    files: Files | None = None,
    caller: Caller = Caller(),  # noqa: B008 - it is frozen
) -> Decision:
    """Return the events that ``command`` yields in ``state``; an empty list changes nothing.

    ``at`` is when it is so (UTC, ISO 8601); ``files`` is what was found for the patterns that
    guards look at, ``caller`` who asks. Raises a `MachineError`, or `NeedsConsent`; the
    state is never changed.
    """
    if state is None:
        return _begin(command, files or {})
    rule = _RULES.get(command.type)
    if rule is None:
        raise e.InvalidInput(f"{command.type} is no command of a machine", type=command.type)
    decided = rule(state, command, Asked(at, files or {}, caller))
    if decided and state.leases and command.type in _OF_TASKS:
        _check_held(state, after(state, decided, at), at, caller)
    if decided and state.is_final and command.type in _CHANGES:
        raise _ended(state)
    return decided


def _ended(state: Machine) -> e.MachineError:
    if state.phase == CANCELLED:
        return e.AlreadyCancelled(state.id, state.cancelled_at)
    return e.InvalidTransition(state.phase, None, "nothing changes any more in a final phase", [])


def after(state: Machine | None, events: Sequence[Payload], at: str) -> Machine:
    """Return the state as it would be once ``events`` are recorded at ``at``."""
    head = state.head if state is not None else 0
    result = evolve(state, facts_of(events, at, head), frozenset({DECIDED}))
    if result is None:
        raise e.StateNotFound("?", [])
    return result


def _begin(command: Payload, files: Files) -> Decision:
    if isinstance(command, p.MachineImported):
        # The options go on to be options: a person chooses among them.
        known = trusted(command.definition, command.machine)
        marks = known.marks_on_entry(command.phase, files, options=False)
        earlier = marks_before(marks, command.entered_at)
    elif isinstance(command, p.MachineCreated):
        from lifecycle.machines.soundness import load

        known = load(command.definition, command.machine)
        pattern, id_ = known.id_pattern, command.machine
        if re.fullmatch(pattern.removeprefix("^").removesuffix("$"), id_) is None:
            why = f"the id {id_!r} is not of the form that this type wants: {pattern}"
            raise e.InvalidInput(why, id=id_, expected=pattern)
        fields_of.check_fields(known, command.document)
        earlier = known.marks_on_entry(known.initial, files)
    else:
        raise e.StateNotFound(getattr(command, "machine", "?"), [])
    # The order of the definition's keys counts: that of the phases does.
    decided = {"earlier": earlier, "definition_layout": layout_of(command.definition)}
    return [command.model_copy(update=decided)]


def _exists(state: Machine, command: Payload, now: Asked) -> Decision:
    raise e.StateAlreadyExists(
        state.id,
        f"is here already, in phase {state.phase} at version {state.head}; "
        f"`wfctl machine get {state.id}` shows it.",
    )


def _transition(state: Machine, command: p.MachineTransitioned, now: Asked) -> Decision:
    if command.to == CANCELLED and state.phase != CANCELLED:
        return _cancel(state, p.MachineCancelled(reason=command.reason), now)
    if command.to == state.phase:
        return []
    if state.is_final:
        raise e.InvalidTransition(state.phase, command.to, "nothing leaves a final phase", [])
    files = now.files
    way = _open_way(state, files) if command.to is None else _way_to(state, command.to)
    missing = unmet(way.guard, state.facts(files))
    if missing:
        raise _refusal(state, way, missing)
    fields: dict[str, Any] = {"left": state.phase, "to": way.to, "resets": way.resets}
    fields["files"] = {
        part.file: list(files[part.file].found)
        for part in parts(way.guard)
        if isinstance(part, HasFile) and part.file in files
    }
    if way.loop is not None:
        count, limit = state.counts.get(way.loop, 0), state.limit_of(way.loop)
        fields |= {"loop": way.loop, "count": count + (count < limit), "limit": limit}
        if count >= limit:
            fields |= {"to": state.definition.loops[way.loop].on_limit, "asked": way.to}
    fields["earlier"] = state.definition.marks_on_entry(fields["to"], files)
    return [command.model_copy(update=fields)]


def _checkpoint(state: Machine, command: p.MachineCheckpointed, now: Asked) -> Decision:
    return [command.model_copy(update={"phase": state.phase})]


def _approve(state: Machine, command: p.MachineApproved, now: Asked) -> Decision:
    check_approval(state, command.approval)
    return [] if state.stands(command.approval, now.files) else _proven(state, command)


def _withdraw(state: Machine, command: p.MachineWithdrawn, now: Asked) -> Decision:
    check_withdrawal(state, command.approval)
    return _proven(state, command) if command.approval in state.approvals else []


def _proven(state: Machine, command: p.MachineApproved | p.MachineWithdrawn) -> Decision:
    if not command.proof:
        raise NeedsConsent(
            f"{command.approval} is a person's decision and takes a proof of consent: a person "
            f"runs `wfctl machine approve {state.id} {command.approval}`.",
            machine=state.id,
            approval=command.approval,
        )
    return [command.model_copy(update={"phase": state.phase})]


def check_approval(state: Machine, name: str) -> None:
    """Raise if the machine has no such approval, or it is of another phase."""
    known = state.known_approvals
    if name not in known:
        raise fields_of.no_such(state, "approval", "approval", name, known)
    if known[name].phase != state.phase:
        why = f"{name} is given in the phase {known[name].phase}"
        raise e.InvalidTransition(state.phase, None, why, [])


def check_withdrawal(state: Machine, name: str) -> None:
    """Raise as `check_approval`, and for the definition: it is agreed to once and for all."""
    check_approval(state, name)
    if name == DEFINITION and state.definition_agreed is not None:
        raise e.InvalidInput(
            f"the definition of {state.id} is agreed to for as long as it lives; "
            f"`wfctl machine cancel {state.id}` gives it up.",
            approval=name,
        )


def _limit(state: Machine, command: p.MachineLimited, now: Asked) -> Decision:
    before = limit_in_force(state, command.loop)
    if command.to == before:
        return []
    if not command.proof:
        line = f"wfctl machine limit {state.id} {command.loop} {command.to} --reason TEXT"
        raise undecided(command.type, line)
    return [command.model_copy(update={"before": before})]


def limit_in_force(state: Machine, loop: str) -> int:
    """Return how often a loop may go; raises if there is no such loop, or the machine has ended."""
    if state.is_final:
        raise _ended(state)
    if loop not in state.definition.loops:
        raise fields_of.no_such(state, "loop", "loop", loop, state.definition.loops)
    return state.limit_of(loop)


def _cancel(state: Machine, command: p.MachineCancelled, now: Asked) -> Decision:
    if state.phase == CANCELLED:
        raise e.AlreadyCancelled(state.id, state.cancelled_at)
    if state.is_final:
        raise e.InvalidTransition(state.phase, CANCELLED, "nothing leaves a final phase", [])
    decided: dict[str, Any] = {"left": state.phase}
    if command.anew:
        if "archive" not in state.definition.files:
            raise e.InvalidInput(
                f"{state.definition.id} has no archive: expected one to begin {state.id} anew",
                machine=state.id,
            )
        decided["earlier"] = state.definition.marks_on_entry(state.definition.initial, now.files)
    return [command.model_copy(update=decided)]


def _close(state: Machine, command: DriftAdopted | DriftReverted, now: Asked) -> Decision:
    chosen = [
        one.version
        for one in state.drifts
        if one.file == command.file and command.detected in (None, one.version)
    ]
    if not chosen:
        raise e.InvalidInput(
            f"no change of {command.file} waits for a decision",
            file=command.file,
            waiting={str(d.version): d.file for d in state.drifts},
        )
    if isinstance(command, DriftReverted) and not command.proof:
        raise undecided(command.type, f"wfctl machine drift {state.id} --revert")
    return [command.model_copy(update={"detected": chosen[-1]})]


def targets(state: Machine) -> list[str]:
    """Return the phases that may come next, open or not."""
    return [] if state.is_final else [*(way.to for way in state.ways), CANCELLED]


def _way_to(state: Machine, target: str) -> Transition:
    way = next((way for way in state.ways if way.to == target), None)
    if way is None:
        known = target in state.definition.phases or target == CANCELLED
        why = "there is no such way" if known else f"no phase {target!r}"
        raise e.InvalidTransition(state.phase, target, why, targets(state))
    return way


def open_ways(state: Machine, files: Files) -> list[Transition]:
    """Return the ways whose guard is met, in the order they are written."""
    facts = state.facts(files)
    return [] if state.is_final else [way for way in state.ways if not unmet(way.guard, facts)]


def _open_way(state: Machine, files: Files) -> Transition:
    found = open_ways(state, files)
    if len(found) == 1:
        return found[0]
    if found:
        names = [way.to for way in found]
        raise e.InvalidTransition(state.phase, None, "more than one way is open; name one", names)
    shut = [(way, unmet(way.guard, state.facts(files))) for way in state.ways]
    waiting = [(way, lacks) for way, lacks in shut if len(_approvals(lacks)) == len(lacks)]
    if len(shut) == 1 or len(waiting) == 1:
        raise _refusal(state, *(waiting or shut)[0])
    missing = [{**one, "target": way.to} for way, lacks in shut for one in lacks]
    raise e.GuardFailed(state.phase, None, missing, targets(state), _lacking(state, missing))


def _approvals(missing: list[e.Unmet]) -> list[e.Unmet]:
    return [one for one in missing if one["kind"] == "approved"]


def _refusal(state: Machine, way: Transition, missing: list[e.Unmet]) -> e.MachineError:
    """Return why a way is not open: every condition, the targets, the shape that is lacking."""
    move = state.last_move
    waits = _approvals(missing)
    if waits and move is not None and move.is_diverted and move.loop is not None:
        approval = state.definition.approval_in(state.phase)
        return e.CircuitOpen(
            f"loop {move.loop}",
            move.count or 0,
            move.limit or 0,
            f"A person runs `wfctl machine approve {state.id} {approval}`.",
            loop=move.loop,
            unmet=missing,
            validTargets=targets(state),
        )
    kind = e.ApprovalMissing if len(waits) == len(missing) else e.GuardFailed
    return kind(state.phase, way.to, missing, targets(state), _lacking(state, missing))


def _lacking(state: Machine, missing: list[e.Unmet]) -> dict[str, Any]:
    """Return the shape of the fields that unmet conditions look at."""
    found: dict[str, Any] = {}
    for steps in (parse(one["path"]) for one in missing if one["path"] is not None):
        found = merged(found, around(steps, below(state.definition.fields, steps)))
    return found


def _change_task(state: Machine, command: p.MachineTaskChanged, now: Asked) -> Decision:
    """Accept a new task or a changed one, with the times and attempts that follow."""
    tasks, id_ = state.definition.tasks, state.definition.id
    if tasks is None:
        raise e.InvalidInput(
            f"{id_} keeps no tasks; `wfctl machine describe {id_}` shows what it records.",
            machine=state.id,
        )
    _check(state, tasks, command)
    before = state.task(command.task)
    changes = dict(command.changes)
    if before is None:
        changes = {"status": tasks.statuses[0], **changes}
    changes |= _following(state, tasks, command.task, before or {}, changes, now.at)
    if before is not None and merged(before, changes) == before:
        # It is as it is said to be; its status counts once it is said in this stay.
        is_said = covers(state.visit.written, (*state.steps_to(before), "status"))
        if state.is_final or is_said or "status" not in changes:
            return []
    return [command.model_copy(update={"changes": changes})]


def _check(state: Machine, tasks: Tasks, command: p.MachineTaskChanged) -> None:
    if not tasks.is_id(command.task):
        raise e.InvalidInput(
            f"the task id {command.task!r} is not of the form {tasks.pattern}", task=command.task
        )
    listed = state.document.get(tasks.path)
    if listed is not None and not isinstance(listed, list):
        raise e.InvalidInput(
            f"{tasks.path} is not a list, found {listed!r:.80}; "
            f"`wfctl machine update {state.id} {tasks.path}=[]` begins one in its place.",
            path=tasks.path,
        )
    for path in leaves(command.changes):
        for refuse in (fields_of.refuse_reserved, fields_of.refuse_misplaced):
            refuse(state.definition, (tasks.path, 0, *path), state.id)
    status = command.changes.get("status")
    problems = misfits(below(state.definition.fields, (tasks.path, 0)), command.changes, "")
    if "status" in command.changes and status not in tasks.statuses:
        problems.append(f"status: expected one of {', '.join(tasks.statuses)}, found {status!r}")
    if command.changes.get("id", command.task) != command.task:
        problems.append("id: a task keeps its id")
    if problems:
        raise e.InvalidInput(
            f"{command.task}: {'; '.join(problems)}", task=command.task, problems=problems
        )


def _following(
    state: Machine, tasks: Tasks, id_: str, before: Document, changes: Document, at: str
) -> Document:
    """Return the fields that follow from a change of status."""
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
        found[tasks.attempts_field] = used + 1  # it came to nothing, and counts
    return {key: value for key, value in found.items() if key not in changes}


def _check_attempts(state: Machine, tasks: Tasks, id_: str, used: int) -> None:
    most, beyond = tasks.most_attempts, tasks.beyond
    if beyond not in state.approvals and most is not None and used >= most:
        again = f"`wfctl machine approve {state.id} {beyond}` lets it run again."
        instead = again if beyond else "Look at its last error."
        raise e.CircuitOpen(f"attempts of {id_}", used, most, instead, task=id_)


def _claim(state: Machine, command: p.MachineTaskClaimed, now: Asked) -> Decision:
    """Give a task to who asks, if nobody holds it; or renew what who asks holds."""
    _check_claimable(state, command.task)
    held = state.leases.get(command.task)
    own = held if held is not None and not held.is_against(now.caller, now.at) else None
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
            f"no task {id_!r}; {state.id} has: {', '.join(known) or 'none'}. "
            f"`wfctl machine task {state.id} TASK --title TEXT` adds one.",
            task=id_,
            known=known,
        )
    if found.get("status") == tasks.done:
        raise e.InvalidInput(
            f"{id_} is {tasks.done}: there is nothing in it to claim; another task may be free.",
            task=id_,
            status=tasks.done,
        )


def _release(state: Machine, command: p.MachineTaskReleased, now: Asked) -> Decision:
    """End a lease: one's own, one that has run out, or another's against its claimer."""
    held = state.leases.get(command.task)
    if held is None:
        return []
    is_against = held.is_against(now.caller, now.at)
    if is_against and not command.despite:
        raise e.TaskHeld(state.id, command.task, held.by, held.until)
    return [command.model_copy(update={"by": held.by, "despite": is_against})]


def _check_held(state: Machine, trial: Machine, at: str, caller: Caller) -> None:
    """Raise `TaskHeld` if ``trial`` has a task otherwise that somebody else has claimed.

    This holds for every way to write it: by its name, by its place, or with the whole list.
    """
    for id_, held in state.leases.items():
        if held.is_against(caller, at) and trial.task(id_) != state.task(id_):
            raise e.TaskHeld(state.id, id_, held.by, held.until)


Rule = Callable[[Machine, Any, Asked], Decision]

_RULES: dict[str, Rule] = {
    "machine.created": _exists,
    "machine.imported": _exists,
    "machine.updated": fields_of.update,
    "machine.transitioned": _transition,
    "machine.recorded": fields_of.record,
    "machine.task_changed": _change_task,
    "machine.task_claimed": _claim,
    "machine.task_released": _release,
    "machine.checkpointed": _checkpoint,
    "machine.approved": _approve,
    "machine.withdrawn": _withdraw,
    "machine.limited": _limit,
    "machine.cancelled": _cancel,
    "drift.adopted": _close,
    "drift.reverted": _close,
}
