"""Select events of a workflow by type, stage, status and time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eventstore.event import RecordedEvent
from lifecycle.state.status import TRANSITIONS
from service.reading.point_in_history import Moment

#: Event type → the status that a stage has after such an event.
_TARGETS = {type_: row.target.value for row in TRANSITIONS for type_ in row.events}


@dataclass(frozen=True, slots=True)
class Selection:
    """Criteria for events. A criterion that is empty or None accepts every event.

    ``types`` may end in ``*``. ``actor`` is the kind of the author, or its kind and name
    (``kind:name``). ``status`` is the new status of a stage. ``since`` excludes events up to this
    moment, and ``until`` excludes later events.
    """

    types: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    actor: str | None = None
    session: int | None = None
    status: str | None = None
    amendment: str | None = None
    since: Moment | None = None
    until: Moment | None = None

    def fits(self, event: RecordedEvent) -> bool:
        """Return whether the event meets all criteria."""
        kind, name = event.actor
        return (
            (not self.types or any(_is_of_type(event.type, wanted) for wanted in self.types))
            and (not self.stages or event.data.get("stage") in self.stages)
            and self.actor in (None, kind, f"{kind}:{name}")
            and self.session in (None, event.session)
            and (self.status is None or self.status in list_statuses(event))
            and (self.amendment is None or self.amendment in list_amendments(event))
            and (self.since is None or not _happened_by(event, self.since))
            and (self.until is None or _happened_by(event, self.until))
        )


def _is_of_type(type_: str, wanted: str) -> bool:
    """Return whether an event type matches a pattern that may end in ``*``."""
    return type_.startswith(wanted[:-1]) if wanted.endswith("*") else type_ == wanted


def list_statuses(event: RecordedEvent) -> list[Any]:
    """Return the statuses that a stage gets from an event."""
    target = _TARGETS.get(event.type)
    return [target] if target is not None else list(event.data.get("statuses", []))


def list_amendments(event: RecordedEvent) -> list[Any]:
    """Return the ids of the amendments (changes of the plan) that an event names."""
    names = (event.data.get("amendment"), event.data.get("superseded_by"))
    return [name for name in names if name is not None]


def _happened_by(event: RecordedEvent, moment: Moment) -> bool:
    """Return whether an event happened at or before a moment."""
    if moment.version is not None:
        return event.version <= moment.version
    return event.occurred_at <= (moment.so_by or "")
