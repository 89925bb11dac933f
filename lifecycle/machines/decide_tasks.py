"""Commands on the tasks of a machine, and on who holds one."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from lifecycle.machines import payload as p
from lifecycle.machines.decide_fields import refuse_misplaced, refuse_reserved
from lifecycle.machines.definition import Tasks
from lifecycle.machines.errors import CircuitOpen, InvalidInput, TaskHeld
from lifecycle.machines.machine import Asked, Caller, Document, Machine
from lifecycle.machines.path import covers, leaves, merged
from lifecycle.machines.payload import MachineTaskChanged
from lifecycle.machines.shape import below, misfits
from lifecycle.payload.base import Payload


def change_task(state: Machine, command: MachineTaskChanged, now: Asked) -> list[Payload]:
    """Accept a new task or a changed one, with the times and attempts that follow."""
    tasks = _tasks_of(state)
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


def _tasks_of(state: Machine) -> Tasks:
    if state.definition.tasks is None:
        raise InvalidInput(
            f"{state.definition.id} keeps no tasks; `wfctl machine describe "
            f"{state.definition.id}` shows what it records.",
            machine=state.id,
        )
    return state.definition.tasks


def _check(state: Machine, tasks: Tasks, command: MachineTaskChanged) -> None:
    if not tasks.is_id(command.task):
        raise InvalidInput(
            f"the task id {command.task!r} is not of the form {tasks.pattern}", task=command.task
        )
    listed = state.document.get(tasks.path)
    if listed is not None and not isinstance(listed, list):
        raise InvalidInput(
            f"{tasks.path} is not a list, found {listed!r:.80}; "
            f"`wfctl machine update {state.id} {tasks.path}=[]` begins one in its place.",
            path=tasks.path,
        )
    for path in leaves(command.changes):
        for refuse in (refuse_reserved, refuse_misplaced):
            refuse(state.definition, (tasks.path, 0, *path), state.id)
    status = command.changes.get("status")
    problems = misfits(below(state.definition.fields, (tasks.path, 0)), command.changes, "")
    if "status" in command.changes and status not in tasks.statuses:
        problems.append(f"status: expected one of {', '.join(tasks.statuses)}, found {status!r}")
    if command.changes.get("id", command.task) != command.task:
        problems.append("id: a task keeps its id")
    if problems:
        raise InvalidInput(
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
    if now == tasks.running:
        _check_attempts(state, tasks, id_, before)
        found[tasks.started_field] = second
        if before.get(tasks.completed_field) is not None:
            found[tasks.completed_field] = None
    if now == tasks.done:
        found[tasks.completed_field] = second
    idle = (None, tasks.failed, tasks.statuses[0])
    has_run = was == tasks.running or before.get(tasks.started_field) is not None
    if has_run and was not in idle and now in idle and tasks.attempts_field is not None:
        found[tasks.attempts_field] = _attempts(tasks, before) + 1  # it came to nothing, and counts
    return {key: value for key, value in found.items() if key not in changes}


def _attempts(tasks: Tasks, before: Document) -> int:
    found: Any = before.get(tasks.attempts_field or "")
    return found if isinstance(found, int) else 0


def _check_attempts(state: Machine, tasks: Tasks, id_: str, before: Document) -> None:
    used = _attempts(tasks, before)
    if tasks.beyond in state.approvals:
        return
    if tasks.most_attempts is not None and used >= tasks.most_attempts:
        raise CircuitOpen(
            f"attempts of {id_}",
            used,
            tasks.most_attempts,
            f"`wfctl machine approve {state.id} {tasks.beyond}` lets it run again."
            if tasks.beyond
            else "Look at its last error.",
            task=id_,
        )


def claim(state: Machine, command: p.MachineTaskClaimed, now: Asked) -> list[Payload]:
    """Give a task to who asks, where nobody holds it; or renew what who asks holds."""
    _check_claimable(state, command.task)
    held = state.leases.get(command.task)
    is_live = held is not None and now.at < held.until
    is_own = held is not None and is_live and not held.is_against(now.caller, now.at)
    if held is not None and is_live and not (is_own and command.renew):
        raise TaskHeld(state.id, command.task, held.by, held.until, is_own=is_own)
    handle = held.handle if held is not None and is_own else None
    until = datetime.fromisoformat(now.at) + timedelta(seconds=command.seconds)
    decided = {
        "by": now.caller.name,
        "handle": handle or f"claim-{state.head + 1}",
        "until": until.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "renew": is_own,
        "before": held.by if held is not None and not is_own else None,
    }
    return [command.model_copy(update=decided)]


def _check_claimable(state: Machine, id_: str) -> None:
    tasks, found = state.definition.tasks, state.task(id_)
    known = [str(task.get("id")) for task in state.tasks]
    if tasks is None or found is None:
        raise InvalidInput(
            f"no task {id_!r}; {state.id} has: {', '.join(known[:20]) or 'none'}. "
            f"`wfctl machine task {state.id} TASK --title TEXT` adds one.",
            task=id_,
            known=known[:20],
        )
    if found.get("status") == tasks.done:
        raise InvalidInput(
            f"{id_} is {tasks.done}: there is nothing in it to claim; another task may be free.",
            task=id_,
            status=tasks.done,
        )


def release(state: Machine, command: p.MachineTaskReleased, now: Asked) -> list[Payload]:
    """End a lease: one's own, one that has run out, or another's against its claimer."""
    held = state.leases.get(command.task)
    if held is None:
        return []
    is_against = held.is_against(now.caller, now.at)
    if is_against and not command.despite:
        raise TaskHeld(state.id, command.task, held.by, held.until)
    return [command.model_copy(update={"by": held.by, "despite": is_against})]


def check_held(state: Machine, trial: Machine, at: str, caller: Caller) -> None:
    """Raise `TaskHeld` where ``trial`` has a task otherwise that somebody else has claimed.

    This holds for every way to write it: by its name, by its place, or with the whole list.
    """
    for id_, held in state.leases.items():
        if held.is_against(caller, at) and trial.task(id_) != state.task(id_):
            raise TaskHeld(state.id, id_, held.by, held.until)
