"""Gates: what only a person opens, judged as the log is folded, whoever wrote the row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lifecycle.machines.definition import CANCELLED, Transition
from lifecycle.machines.guard import lets_through
from lifecycle.machines.machine import Machine


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
    if not ways or not any(_leads(state, way, to, asked) for way in ways):
        return f"there is no such way: {state.phase} -> {to}"
    standing = [one for one in state.approvals if not state.fields_departed(one)]
    if not any(lets_through(way.guard, standing) for way in ways):
        return f"{state.phase} -> {to} is a person's decision, and no approval of it counts"
    if not any(list(data.get("resets") or []) == list(way.resets) for way in ways):
        return f"{state.phase} -> {to} begins no such loops anew"
    return None


def _leads(state: Machine, way: Transition, to: object, asked: object) -> bool:
    """Whether a way leads there by itself, or by the limit of the loop that counts it."""
    if asked is None:
        return to != CANCELLED
    loop = state.definition.loops.get(way.loop or "")
    return loop is not None and loop.on_limit == to
