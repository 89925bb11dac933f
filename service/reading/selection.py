"""Which events of a log are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eventstore.event import RecordedEvent
from eventstore.verification import Finding
from lifecycle.protocol.behaviour import first_breach
from lifecycle.state.status import TRANSITIONS
from service.reading.log import WorkflowLog
from service.reading.moment import Moment

#: Event type → the status that it takes a stage to.
_TARGETS = {type_: row.target.value for row in TRANSITIONS for type_ in row.events}


@dataclass(frozen=True, slots=True)
class Selection:
    """What an event must have to be selected; what is empty or None does not matter.

    ``types`` may end in ``*``; ``actor`` is a kind or kind:name; ``status`` is one that the event
    takes a stage to. ``since`` leaves out what is up to that moment, ``until`` what comes later.
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
        """Whether the event is selected."""
        kind, name = event.actor
        return (
            self._is_of_type(event.type)
            and (not self.stages or event.data.get("stage") in self.stages)
            and self.actor in (None, kind, f"{kind}:{name}")
            and self.session in (None, event.session)
            and (self.status is None or self.status in statuses(event))
            and (self.amendment is None or self.amendment in amendments(event))
            and (self.since is None or not _is_by(event, self.since))
            and (self.until is None or _is_by(event, self.until))
        )

    def _is_of_type(self, type_: str) -> bool:
        return not self.types or any(
            type_.startswith(wanted[:-1]) if wanted.endswith("*") else type_ == wanted
            for wanted in self.types
        )


def statuses(event: RecordedEvent) -> list[Any]:
    """Return the statuses that an event says it takes its stage to."""
    target = _TARGETS.get(event.type)
    return [target] if target is not None else list(event.data.get("statuses", []))


def amendments(event: RecordedEvent) -> list[Any]:
    """Return the amendments that an event names."""
    names = (event.data.get("amendment"), event.data.get("superseded_by"))
    return [name for name in names if name is not None]


def _is_by(event: RecordedEvent, moment: Moment) -> bool:
    if moment.version is not None:
        return event.version <= moment.version
    return event.occurred_at <= (moment.so_by or "")


def check_behaviour(log: WorkflowLog) -> list[Finding]:
    """Return the first event of a workflow that cannot be, none where all can."""
    found = first_breach((event.body, event.hash) for event in log.store.read(log.stream))
    if found is None:
        return []
    text = f"it breaks a promise ({found.promise}): {found.message}"
    return [Finding(log.stream, found.version, None, "protocol", text)]
