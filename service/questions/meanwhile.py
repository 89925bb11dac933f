"""What the log holds since somebody last acted: what happened while nobody was there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from eventstore.event import RecordedEvent
from projections.files.progress_log import message
from service.reading.log import WorkflowLog

#: Actors that decide for themselves; what a reconciler or a runner records follows from others.
_ACTING = frozenset({"user", "agent", "import"})
_SESSIONS = frozenset({"session.started", "session.ended"})
#: Events that are read at a time on the way back from the log's end.
_PAGE = 500
#: Events among which a note is looked for.
_BACK = 2_000
_NOTE = "note.logged"


@dataclass(frozen=True, slots=True)
class Happened:
    """An event as people read it; ``at`` is when the log learned it, None for just now."""

    version: int
    at: str | None
    actor: str
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"version": self.version, "at": self.at, "actor": self.actor, "text": self.text}


def _newest(
    log: WorkflowLog, upto: int, fits: Callable[[RecordedEvent], bool], most: int
) -> RecordedEvent | None:
    first = max(0, upto - most)
    for end in range(upto, first, -_PAGE):
        page = log.store.read(log.stream, after=max(first, end - _PAGE), upto=end)
        found = [event for event in page if fits(event)]
        if found:
            return found[-1]
    return None


def last_note(log: WorkflowLog, upto: int) -> Happened | None:
    """Return the newest note of a person or an agent, None where the last events hold none."""
    last = _newest(log, upto, _is_note, _BACK)
    if last is None:
        return None
    actor = f"{last.actor.kind}:{last.actor.name}"
    return Happened(last.version, last.recorded_at, actor, str(last.data["text"]))


def last_action(log: WorkflowLog, upto: int) -> int:
    """Return the version of the newest act of a person, an agent or a session, 0 without one."""
    last = _newest(log, upto, _is_act, upto)
    return last.version if last is not None else 0


def _is_note(event: RecordedEvent) -> bool:
    return event.type == _NOTE and event.actor.kind in _ACTING


def _is_act(event: RecordedEvent) -> bool:
    return event.actor.kind in _ACTING or event.type in _SESSIONS


def happened_since(log: WorkflowLog, known: int, upto: int) -> tuple[Happened, ...]:
    """Return the newest act up to version ``upto``, and after it what followed, oldest first.

    What came after version ``known`` was learned just now.
    """
    first = max(1, last_action(log, upto))
    return tuple(
        Happened(
            event.version,
            event.recorded_at if event.version <= known else None,
            f"{event.actor.kind}:{event.actor.name}",
            message(event, state) or _plain(event),
        )
        for event, state in log.steps(first - 1)
        if event.version <= upto
    )


def _plain(event: RecordedEvent) -> str:
    subject = (event.data.get(key) for key in ("stage", "attempt"))
    return " ".join([event.type, *(str(word) for word in subject if word is not None)])
