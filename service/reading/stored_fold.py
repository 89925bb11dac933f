"""The state as JSON and back: a fold kept beside a long log, so that it need not be redone."""

from __future__ import annotations

from typing import Any

import orjson

from lifecycle.state.status import Status
from lifecycle.state.workflow import Amendment, Attempt, Drift, Session, Stage, Workflow

NAME = "workflow"


def to_bytes(state: Workflow) -> bytes:
    """Return the state as JSON; key order is kept."""
    return orjson.dumps(state)


def from_bytes(content: bytes) -> Workflow:
    """Return the state that `to_bytes` wrote."""
    return from_values(orjson.loads(content))


def from_values(data: dict[str, Any]) -> Workflow:
    """Return the state of the values that its JSON holds; they are the state's own from then on."""
    data["session"] = Session(**data["session"])
    data["amendments"] = {key: Amendment(**value) for key, value in data["amendments"].items()}
    data["drifts"] = [Drift(**drift) for drift in data["drifts"]]
    data["stages"] = {key: _stage(value) for key, value in data["stages"].items()}
    return Workflow(**data)


def _stage(data: dict[str, Any]) -> Stage:
    data["status"] = Status(data["status"])
    data["attempts"] = [Attempt(**attempt) for attempt in data["attempts"]]
    return Stage(**data)
