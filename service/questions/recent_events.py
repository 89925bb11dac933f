"""List the events since the last action of a person or agent, and times in each status."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from eventstore.event import RecordedEvent
from projections.files.progress_log import format_line_without_time
from service.reading.log import WorkflowLog

#: Kinds of actors that make decisions. The other kinds, reconciler and runner, only record
#: consequences.
_ACTING = frozenset({"user", "agent", "import"})
_SESSIONS = frozenset({"session.started", "session.ended"})
#: Number of events to read in one step, backwards from the end of the log.
_PAGE = 500
#: Maximum number of events to search for a note.
_BACK = 2_000


@dataclass(frozen=True, slots=True)
class PastEvent:
    """An event described by a sentence.

    ``at`` is its recording time, or None if the current command recorded it.
    """

    version: int
    at: str | None
    actor: str
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return the event as a dict of JSON values."""
        return asdict(self)


def _find_newest(
    log: WorkflowLog, upto: int, fits: Callable[[RecordedEvent], bool], most: int
) -> RecordedEvent | None:
    first = max(0, upto - most)
    for end in range(upto, first, -_PAGE):
        page = log.store.read(log.stream, after=max(first, end - _PAGE), upto=end)
        found = [event for event in page if fits(event)]
        if found:
            return found[-1]
    return None


def last_note(log: WorkflowLog, upto: int) -> PastEvent | None:
    """Return the newest note of a person or agent, or None.

    None means that the recent events contain no note.
    """

    def is_note(event: RecordedEvent) -> bool:
        return event.type == "note.logged" and event.actor.kind in _ACTING

    last = _find_newest(log, upto, is_note, _BACK)
    if last is None:
        return None
    return PastEvent(last.version, last.recorded_at, str(last.actor), str(last.data["text"]))


def _is_person_or_agent_action(event: RecordedEvent) -> bool:
    return event.actor.kind in _ACTING or event.type in _SESSIONS


def list_events_since_last_act(log: WorkflowLog, known: int, upto: int) -> tuple[PastEvent, ...]:
    """Return the newest action of a person or agent and the events after it, oldest first.

    Events after version ``upto`` are omitted. Events after version ``known`` were recorded by the
    current command.
    """
    act = _find_newest(log, upto, _is_person_or_agent_action, upto)
    first = act.version if act is not None else 1
    return tuple(
        PastEvent(
            event.version,
            event.recorded_at if event.version <= known else None,
            str(event.actor),
            format_line_without_time(event, state) or _format_type_and_subject(event),
        )
        for event, state in log.steps(first - 1)
        if event.version <= upto
    )


def _format_type_and_subject(event: RecordedEvent) -> str:
    subject = (event.data.get(key) for key in ("stage", "attempt"))
    return " ".join([event.type, *(str(word) for word in subject if word is not None)])
