"""Decide whether a named event of a machine may be recorded."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from extensions.machines.rules import payload as p
from extensions.machines.rules.definition import EventKind
from extensions.machines.rules.errors import (
    GuardFailed,
    InvalidInput,
    InvalidTransition,
)
from extensions.machines.rules.field_shapes import list_misfits
from extensions.machines.rules.guard import FileFact, HasFile, list_unmet
from extensions.machines.rules.machine import CommandContext, Machine
from lifecycle.payload.base import Payload
from wording import FirstReasons

#: Event types of other programs → the wfctl command that records such an event.
ELSEWHERE = {
    "workflow.transition": "transition",
    "state.patched": "update",
    "checkpoint": "checkpoint",
    **dict.fromkeys(("task.added", "task.started", "task.completed", "task.failed"), "task"),
}


def decide_record(state: Machine, command: p.MachineRecorded, now: CommandContext) -> list[Payload]:
    """Return the event to record, after checking its name, its data and the current phase.

    If the event completes the work of the phase, the output file of the phase must exist.
    """
    kind = _kind_of(state, command.name)
    problems = list_misfits(kind.data, command.data, "")
    unknown = [key for key in command.data if not state.definition.is_data_field_allowed(kind, key)]
    problems += [f"{key}: unknown field of {command.name}" for key in unknown]
    problems += [
        f"{key}: required field is missing" for key in kind.required if not command.data.get(key)
    ]
    if problems:
        problems = FirstReasons(problems)
        raise InvalidInput(
            (
                f"the data does not match the event {command.name}: {'; '.join(problems)}. "
                f"Expected fields: {kind.data}"
            ),
            name=command.name,
            problems=problems,
        )
    _check_status_permits_event(state, command.name, kind)
    if kind.completes:
        _check_output(state, command.name, now.files)
    return [command.model_copy(update={"phase": state.phase})]


def _check_output(state: Machine, name: str, files: Mapping[str, FileFact]) -> None:
    """Raise `GuardFailed` if the output that the phase must produce is missing.

    Only an output that a transition from the phase requires is checked.
    """
    output = state.definition.phases[state.phase].output
    facts = state.facts(files)
    missing = [
        one
        for part in state.definition.conditions(state.phase)
        if isinstance(part, HasFile) and part.file == output
        for one in list_unmet(part, facts)
    ]
    if missing:
        raise GuardFailed(state.phase, name, missing, [], {})


def _kind_of(state: Machine, name: str) -> EventKind:
    if name in ELSEWHERE and name not in state.definition.events:
        way = f"wfctl machine {ELSEWHERE[name]} {state.id} …"
        raise InvalidInput(f"only `{way}` records {name}", name=name)
    if name not in state.definition.events:
        raise build_unknown_name_error(state, "event", "name", name, state.definition.events)
    return state.definition.events[name]


def build_unknown_name_error(
    state: Machine, kind: str, key: str, name: str, known: Collection[str]
) -> InvalidInput:
    """Return the error that reports an unknown name and lists the known names.

    ``kind`` is the kind of the name, and ``key`` its key in the error's data.
    """
    there = ", ".join(known) or "none"
    return InvalidInput(
        f"no {kind} {name!r}; {state.definition.id} has: {there}",
        **{key: name, "known": list(known)},
    )


def _check_status_permits_event(state: Machine, name: str, kind: EventKind) -> None:
    stands = None if state.is_final else state.definition.phases[state.phase].status
    if kind.status is not None and stands is not None:
        why = f"the phase keeps the status {stands} until the machine enters another phase"
        ways = [way.to for way in state.definition.ways(state.phase)]
        raise InvalidTransition(state.phase, name, why, ways)
    if kind.after and (state.is_final or state.status not in kind.after):
        now = [
            other
            for other, one in state.definition.events.items()
            if state.status in one.after and not state.is_final
        ]
        where = f"the event needs a phase with the status {' or '.join(kind.after)}"
        raise InvalidTransition(
            state.phase, name, f"{where}; the current status is {state.status}", now
        )
