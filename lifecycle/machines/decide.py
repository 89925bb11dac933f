"""What may happen to a machine: (state, command) → events, or a refusal. Pure.

A command is the payload of the event it asks for; the event returned is completed. What was found
of files comes in with the command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from lifecycle.errors import NeedsConsent, undecided
from lifecycle.event import DECIDED, facts_of
from lifecycle.machines import payload as p
from lifecycle.machines.decide_fields import check_fields, no_such, record, update
from lifecycle.machines.decide_tasks import change_task, check_held, claim, release
from lifecycle.machines.definition import CANCELLED, DEFINITION, trusted
from lifecycle.machines.errors import (
    AlreadyCancelled,
    InvalidInput,
    InvalidTransition,
    MachineError,
    StateAlreadyExists,
    StateNotFound,
)
from lifecycle.machines.evolve import evolve
from lifecycle.machines.machine import Asked, Caller, Machine
from lifecycle.machines.transition import Files, transition
from lifecycle.payload.base import Payload
from lifecycle.payload.workflow import DriftAdopted, DriftReverted
from lifecycle.words.document import layout_of

Decision = list[Payload]

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
        raise InvalidInput(f"{command.type} is no command of a machine", type=command.type)
    decided = rule(state, command, Asked(at, files or {}, caller))
    if decided and state.leases and command.type in _OF_TASKS:
        check_held(state, after(state, decided, at), at, caller)
    if decided and state.is_final and command.type in _CHANGES:
        raise _ended(state)
    return decided


def _ended(state: Machine) -> MachineError:
    if state.phase == CANCELLED:
        return AlreadyCancelled(state.id, state.cancelled_at)
    return InvalidTransition(state.phase, None, "nothing changes any more in a final phase", [])


def after(state: Machine | None, events: Sequence[Payload], at: str) -> Machine:
    """Return the state as it would be once ``events`` are recorded at ``at``."""
    head = state.head if state is not None else 0
    result = evolve(state, facts_of(events, at, head), frozenset({DECIDED}))
    if result is None:
        raise StateNotFound("?", [])
    return result


def _begin(command: Payload, files: Files) -> Decision:
    if isinstance(command, p.MachineImported):
        # The options go on to be options: a person chooses among them.
        known = trusted(command.definition, command.machine)
        earlier = known.marks_on_entry(command.phase, files, options=False)
    elif isinstance(command, p.MachineCreated):
        from lifecycle.machines.soundness import load

        known = load(command.definition, command.machine)
        check_id(known.id_pattern, command.machine)
        check_fields(known, command.document)
        earlier = known.marks_on_entry(known.initial, files)
    else:
        raise StateNotFound(getattr(command, "machine", "?"), [])
    # The order of the definition's keys counts: that of the phases does.
    decided = {"earlier": earlier, "definition_layout": layout_of(command.definition)}
    return [command.model_copy(update=decided)]


def check_id(pattern: str, id_: str) -> None:
    """Raise `InvalidInput` for an id that the definition does not allow."""
    if re.fullmatch(pattern.removeprefix("^").removesuffix("$"), id_) is None:
        raise InvalidInput(
            f"the id {id_!r} is not of the form that this type wants: {pattern}",
            id=id_,
            expected=pattern,
        )


def _exists(state: Machine, command: Payload, now: Asked) -> Decision:
    raise StateAlreadyExists(
        state.id,
        f"is here already, in phase {state.phase} at version {state.head}; "
        f"`wfctl machine get {state.id}` shows it.",
    )


def _transition(state: Machine, command: p.MachineTransitioned, now: Asked) -> Decision:
    if command.to == CANCELLED and state.phase != CANCELLED:
        return _cancel(state, p.MachineCancelled(reason=command.reason), now)
    return transition(state, command, now.files)


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
    """Raise where the approval is none of the machine's, or not of its phase."""
    known = state.known_approvals
    if name not in known:
        raise no_such(state, "approval", "approval", name, known)
    if known[name].phase != state.phase:
        raise InvalidTransition(
            state.phase, None, f"{name} is given in the phase {known[name].phase}", []
        )


def check_withdrawal(state: Machine, name: str) -> None:
    """Raise as `check_approval`, and for the definition: it is agreed to once and for all."""
    check_approval(state, name)
    if name == DEFINITION and state.definition_agreed is not None:
        raise InvalidInput(
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
    """Return how often a loop may go; raises for none of the machine's, and where it has ended."""
    if state.is_final:
        raise _ended(state)
    if loop not in state.definition.loops:
        raise no_such(state, "loop", "loop", loop, state.definition.loops)
    return state.limit_of(loop)


def _cancel(state: Machine, command: p.MachineCancelled, now: Asked) -> Decision:
    if state.phase == CANCELLED:
        raise AlreadyCancelled(state.id, state.cancelled_at)
    if state.is_final:
        raise InvalidTransition(state.phase, CANCELLED, "nothing leaves a final phase", [])
    decided: dict[str, Any] = {"left": state.phase}
    if command.anew:
        if "archive" not in state.definition.files:
            raise InvalidInput(
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
        raise InvalidInput(
            f"no change of {command.file} waits for a decision",
            file=command.file,
            waiting={str(d.version): d.file for d in state.drifts},
        )
    if isinstance(command, DriftReverted) and not command.proof:
        raise undecided(command.type, f"wfctl machine drift {state.id} --revert")
    return [command.model_copy(update={"detected": chosen[-1]})]


Rule = Callable[[Machine, Any, Asked], Decision]

_RULES: dict[str, Rule] = {
    "machine.created": _exists,
    "machine.imported": _exists,
    "machine.updated": update,
    "machine.transitioned": _transition,
    "machine.recorded": record,
    "machine.task_changed": change_task,
    "machine.task_claimed": claim,
    "machine.task_released": release,
    "machine.checkpointed": _checkpoint,
    "machine.approved": _approve,
    "machine.withdrawn": _withdraw,
    "machine.limited": _limit,
    "machine.cancelled": _cancel,
    "drift.adopted": _close,
    "drift.reverted": _close,
}
