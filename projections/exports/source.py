"""What an export is made from: the log's events with the state after each, as often as needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from eventstore.event import RecordedEvent
from eventstore.store import Raw
from lifecycle.state.workflow import Workflow

#: Events that may change the status of stages that they do not name.
_OF_ALL = frozenset({"workflow.created", "workflow.imported", "state.imported"})

Steps = Iterator[tuple[RecordedEvent, Workflow]]
"""Events in order, each with the state after it: one object, changed from step to step."""


def _nothing(_: Mapping[str, Any]) -> bytes | None:
    return None


@dataclass(frozen=True, slots=True)
class ExportSource:
    """One stream up to a moment. Each call starts anew from the first event.

    ``raw`` yields the events as they were hashed; ``state`` is the state at the end. ``license``
    is what somebody says of it, a URI or words. ``content`` returns the bytes of a file on record,
    None where it is not here or not as recorded.
    """

    steps: Callable[[], Steps]
    raw: Callable[[], Iterator[Raw]]
    state: Callable[[], Workflow]
    license: str | None = None
    content: Callable[[Mapping[str, Any]], bytes | None] = _nothing


def touched(event: RecordedEvent, state: Workflow) -> list[str]:
    """Return the stages whose status the event may have changed."""
    if event.type in _OF_ALL:
        return list(state.stages)
    named = event.data.get("stage")
    return [named] if named in state.stages else []
