"""Collect the working sessions of a workflow, with their times, costs and results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from eventstore.event import RecordedEvent
from lifecycle.state.session_budget import maximum_session_cost
from lifecycle.state.workflow import Workflow


@dataclass(slots=True)
class SessionRecord:
    """A working session. Times are UTC.

    ``end`` is the reason why the session ended, ``open`` while it runs, or ``died`` if a new
    session started before it ended.
    """

    number: int
    started_at: str
    started_by: str
    driven: bool
    budget: float
    environment: dict[str, Any] | None = None
    ended_at: str | None = None
    end: str = "open"
    next: str | None = None
    cost: float = 0
    charges: list[dict[str, Any]] = field(default_factory=list)
    completed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the session as a dict of JSON values."""
        return asdict(self)


def list_sessions(steps: Iterable[tuple[RecordedEvent, Workflow]]) -> list[SessionRecord]:
    """Return all sessions that the log contains, oldest first."""
    found: list[SessionRecord] = []
    for event, state in steps:
        fold_session_event(found, event, state)
    return found


def fold_session_event(found: list[SessionRecord], event: RecordedEvent, state: Workflow) -> None:
    """Update the list of sessions with an event. ``state`` is the state after the event.

    Events that do not concern a session are ignored.
    """
    if event.type == "session.started":
        if found and found[-1].end == "open":
            found[-1].end = "died"
        found.append(_start_record(event, state))
    elif found and found[-1].end == "open":
        _take_in(found[-1], event)


def _start_record(event: RecordedEvent, state: Workflow) -> SessionRecord:
    return SessionRecord(
        number=event.data["number"],
        started_at=event.occurred_at,
        started_by=str(event.actor),
        driven=event.data.get("driven", False),
        budget=maximum_session_cost(state),
        environment=event.data.get("environment"),
    )


def _take_in(session: SessionRecord, event: RecordedEvent) -> None:
    data = event.data
    match event.type:
        case "session.ended":
            session.ended_at, session.end = event.occurred_at, data["reason"]
            session.next = data.get("next")
        case "cost.charged":
            session.cost += data["weight"]
            session.charges.append({k: data[k] for k in ("stage", "weight", "work_class")})
        case "stage.completed":
            session.completed.append(data["stage"])
        case "stage.failed":
            session.failed.append(data["stage"])
