"""A machine's state as JSON, to be kept and used again in place of the events it came from."""

from __future__ import annotations

from typing import Any

import orjson

from lifecycle.machines.definition import Definition, trusted
from lifecycle.machines.machine import Bound, Given, Handoff, Lease, Machine, Move, Visit
from lifecycle.state.workflow import Drift


def to_bytes(state: Machine) -> bytes:
    """Return the state as JSON; key order is kept."""
    return orjson.dumps(state, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Definition):
        return value.dumped()
    return sorted(value, key=repr) if isinstance(value, set) else list(value)


def from_bytes(content: bytes) -> Machine:
    """Return the state that `to_bytes` wrote."""
    data: dict[str, Any] = orjson.loads(content)
    data["definition"] = trusted(data["definition"], data["id"])
    data["visits"] = {phase: _visit(one) for phase, one in data["visits"].items()}
    for name, kind in (("moves", Move), ("given", Given), ("drifts", Drift)):
        data[name] = [kind(**one) for one in data[name]]
    data["bound"] = {approval: Bound(*one) for approval, one in data["bound"].items()}
    data["leases"] = {task: Lease(**one) for task, one in data["leases"].items()}
    data["handoff"] = Handoff(**data["handoff"]) if data["handoff"] is not None else None
    return Machine(**data)


def _visit(data: dict[str, Any]) -> Visit:
    data["written"] = {tuple(steps) for steps in data["written"]}
    return Visit(**data)
