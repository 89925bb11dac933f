"""What the rules need to know of an event, wherever it is kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

#: Stands for the hash of what is decided but not recorded; a recorded hash is never this.
DECIDED = "decided"


class Event(Protocol):
    """An event as the fold sees it."""

    @property
    def type(self) -> str:
        """Stable name, such as ``stage.completed``."""
        ...

    @property
    def data(self) -> dict[str, Any]:
        """The payload, decoded."""
        ...

    @property
    def occurred_at(self) -> str:
        """When it was so: ``YYYY-MM-DDTHH:MM:SS.ffffffZ``."""
        ...

    @property
    def version(self) -> int:
        """Its place in its stream: 1, 2, …"""
        ...

    @property
    def hash(self) -> str:
        """Its hash in the chain, empty while it is not recorded."""
        ...


class Fact(NamedTuple):
    """An event that is not recorded yet."""

    type: str
    data: dict[str, Any]
    occurred_at: str
    version: int
    hash: str = ""


def facts_of(events: Iterable[Any], at: str, head: int) -> list[Fact]:
    """Return payloads as the events that they become at ``at``, behind the version ``head``."""
    return [Fact(e.type, e.as_json(), at, head + n, DECIDED) for n, e in enumerate(events, 1)]
