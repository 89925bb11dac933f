"""The sessions of a workflow, one after another, as the log has them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from lifecycle.state.budget import budget_of
from lifecycle.state.workflow import Workflow


class Acted(Protocol):
    """What a history needs of a recorded event."""

    @property
    def type(self) -> str:
        """Stable name, such as ``session.started``."""
        ...

    @property
    def data(self) -> dict[str, Any]:
        """The payload, decoded."""
        ...

    @property
    def occurred_at(self) -> str:
        """When it was so (UTC)."""
        ...

    @property
    def actor(self) -> Any:
        """Who did it: ``kind`` and ``name``."""
        ...


@dataclass(slots=True)
class SessionRecord:
    """One session. Times are UTC; ``end`` is its reason, ``died`` or ``open``."""

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
        """Return plain JSON values."""
        return asdict(self)


def sessions(steps: Iterable[tuple[Acted, Workflow]]) -> list[SessionRecord]:
    """Return every session of a history that wfctl kept, the oldest first."""
    found: list[SessionRecord] = []
    for event, state in steps:
        if event.type == "session.started":
            if found and found[-1].end == "open":
                found[-1].end = "died"
            found.append(_started(event, state))
        elif found and found[-1].end == "open":
            _take_in(found[-1], event)
    return found


def _started(event: Acted, state: Workflow) -> SessionRecord:
    return SessionRecord(
        number=event.data["number"],
        started_at=event.occurred_at,
        started_by=f"{event.actor.kind}:{event.actor.name}",
        driven=event.data.get("driven", False),
        budget=budget_of(state),
        environment=event.data.get("environment"),
    )


def _take_in(session: SessionRecord, event: Acted) -> None:
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
