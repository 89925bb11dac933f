"""Transitions between phases, and their gates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lifecycle.machines.definition import CANCELLED, Transition
from lifecycle.machines.errors import (
    ApprovalMissing,
    CircuitOpen,
    GuardFailed,
    InvalidTransition,
    MachineError,
    Unmet,
)
from lifecycle.machines.guard import FileFact, HasFile, lets_through, parts, unmet
from lifecycle.machines.machine import Machine
from lifecycle.machines.path import merged, parse
from lifecycle.machines.payload import MachineTransitioned
from lifecycle.machines.shape import around, below
from lifecycle.payload.base import Payload

Files = Mapping[str, FileFact]
"""Pattern of a file → what was found for it."""


def transition(state: Machine, command: MachineTransitioned, files: Files) -> list[Payload]:
    """Return the change of phase that is asked for, none where the machine is there already."""
    if command.to == state.phase:
        return []
    if state.is_final:
        raise InvalidTransition(state.phase, command.to, "nothing leaves a final phase", [])
    way = _open_way(state, files) if command.to is None else _way_to(state, command.to)
    missing = unmet(way.guard, state.facts(files))
    if missing:
        raise refusal(state, way, missing)
    return [_taken(state, way, command, files)]


def targets(state: Machine) -> list[str]:
    """Return the phases that may come next, open or not."""
    if state.is_final:
        return []
    return [*(way.to for way in state.ways), CANCELLED]


def _way_to(state: Machine, target: str) -> Transition:
    for way in state.ways:
        if way.to == target:
            return way
    known = target in state.definition.phases or target == CANCELLED
    why = "there is no such way" if known else f"no phase {target!r}"
    raise InvalidTransition(state.phase, target, why, targets(state))


def open_ways(state: Machine, files: Files) -> list[Transition]:
    """Return the ways whose guard is met, in the order they are written."""
    if state.is_final:
        return []
    facts = state.facts(files)
    return [way for way in state.ways if not unmet(way.guard, facts)]


def _open_way(state: Machine, files: Files) -> Transition:
    found = open_ways(state, files)
    if len(found) == 1:
        return found[0]
    ways = state.ways
    if found:
        names = [way.to for way in found]
        raise InvalidTransition(state.phase, None, "more than one way is open; name one", names)
    shut = [(way, unmet(way.guard, state.facts(files))) for way in ways]
    waiting = [(way, lacks) for way, lacks in shut if all(_is_approval(one) for one in lacks)]
    if len(ways) == 1 or len(waiting) == 1:
        raise refusal(state, *(waiting or shut)[0])
    missing = [{**one, "target": way.to} for way, lacks in shut for one in lacks]
    raise GuardFailed(state.phase, None, missing, targets(state), lacking(state, missing))


def _is_approval(one: Unmet) -> bool:
    return bool(one["kind"] == "approved")


def refusal(state: Machine, way: Transition, missing: list[Unmet]) -> MachineError:
    """Return why a way is not open: every condition, the targets, the shape that is lacking."""
    move = state.last_move
    waits = [one for one in missing if _is_approval(one)]
    if waits and move is not None and move.is_diverted and move.loop is not None:
        return CircuitOpen(
            f"loop {move.loop}",
            move.count or 0,
            move.limit or 0,
            f"A person runs `wfctl machine approve {state.id} "
            f"{state.definition.approval_in(state.phase)}`.",
            loop=move.loop,
            unmet=missing,
            validTargets=targets(state),
        )
    kind = ApprovalMissing if len(waits) == len(missing) else GuardFailed
    return kind(state.phase, way.to, missing, targets(state), lacking(state, missing))


def lacking(state: Machine, missing: list[Unmet]) -> dict[str, Any]:
    """Return the shape of the fields that unmet conditions look at."""
    found: dict[str, Any] = {}
    for one in missing:
        if one["path"] is not None:
            steps = parse(one["path"])
            found = merged(found, around(steps, below(state.definition.fields, steps)))
    return found


def _taken(
    state: Machine, way: Transition, command: MachineTransitioned, files: Files
) -> MachineTransitioned:
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
    return command.model_copy(update=fields)


def closed_to(state: Machine, data: Mapping[str, Any]) -> str | None:
    """Return why a recorded change of phase counts for nothing, None where it counts.

    It must be a way of the definition, and the approvals that the way asks for must have been
    given, for the values that the fields have. What else a guard asks for was looked at when the
    change was decided.
    """
    to, asked = data.get("to"), data.get("asked")
    if state.is_final:
        return f"nothing leaves the final phase {state.phase}"
    ways = [way for way in state.ways if way.to == (asked or to)]
    exits = [state.definition.loops[way.loop].on_limit for way in ways if way.loop is not None]
    if not ways or (to == CANCELLED if asked is None else to not in exits):
        return f"there is no such way: {state.phase} -> {to}"
    standing = [one for one in state.approvals if not state.fields_departed(one)]
    if not any(lets_through(way.guard, standing) for way in ways):
        return f"{state.phase} -> {to} is a person's decision, and no approval of it counts"
    if not any(list(data.get("resets") or []) == list(way.resets) for way in ways):
        return f"{state.phase} -> {to} begins no such loops anew"
    return None
