"""The rules of leases: who has claimed a task, until when, and who may change it meanwhile."""

from __future__ import annotations

from datetime import datetime, timedelta

from lifecycle.machines import payload as p
from lifecycle.machines.errors import InvalidInput, TaskHeld
from lifecycle.machines.machine import Caller, Machine
from lifecycle.payload.base import Payload


def claim(state: Machine, command: p.MachineTaskClaimed, at: str, caller: Caller) -> list[Payload]:
    """Give a task to who asks, where nobody holds it; or renew what who asks holds."""
    _check_claimable(state, command.task)
    held = state.leases.get(command.task)
    is_own = held is not None and held.is_live(at) and not held.is_against(caller, at)
    if held is not None and held.is_live(at) and not (is_own and command.renew):
        raise TaskHeld(state.id, command.task, held.by, held.until, is_own=is_own)
    handle = held.handle if held is not None and is_own else None
    decided = {
        "by": caller.name,
        "handle": handle or f"claim-{state.head + 1}",
        "until": _later(at, command.seconds),
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


def _later(at: str, seconds: int) -> str:
    moment = datetime.fromisoformat(at) + timedelta(seconds=seconds)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def release(
    state: Machine, command: p.MachineTaskReleased, at: str, caller: Caller
) -> list[Payload]:
    """End a lease: one's own, one that has run out, or another's against its claimer."""
    held = state.leases.get(command.task)
    if held is None:
        return []
    if held.is_against(caller, at) and not command.despite:
        raise TaskHeld(state.id, command.task, held.by, held.until)
    return [command.model_copy(update={"by": held.by, "despite": held.is_against(caller, at)})]


def check_held(state: Machine, trial: Machine, at: str, caller: Caller) -> None:
    """Raise `TaskHeld` where ``trial`` has a task otherwise that somebody else has claimed.

    This holds for every way to write it: by its name, by its place, or with the whole list.
    """
    for id_, held in state.leases.items():
        if held.is_against(caller, at) and trial.task(id_) != state.task(id_):
            raise TaskHeld(state.id, id_, held.by, held.until)
