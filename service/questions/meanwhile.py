"""What happened since somebody last acted, and how long each stage was in each status."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from eventstore.event import RecordedEvent
from lifecycle.state.status import Status
from projections.files.progress_log import message
from service.reading.log import WorkflowLog
from service.reading.moment import Moment
from service.root.disk import system_clock, utc_text

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


_ORDER = [status.value for status in Status]


def status_times(
    rows: Sequence[dict[str, Any]], log: WorkflowLog, at: Moment | None
) -> list[dict[str, Any]]:
    """Return by stage and status how often and how long, from the rows of `questions.TIMES`.

    The present status counts until the moment: its time, else that of the last event seen from it;
    without a moment, until now.
    """
    from projections.words.text import seconds  # it loads SQLAlchemy

    state = log.state(at)
    if state is None:
        return []
    stages = list(state.stages)
    until = _until(log, at)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        name, status = row["stage"], row["status"]
        empty = {"stage": name, "status": status, "times": 0, "seconds": 0.0, "is_open": False}
        entry = found.setdefault((name, status), empty)
        entry["times"] += row["times"]
        if row["since"] is not None:
            entry["is_open"] = True
            entry["seconds"] += max(0.0, seconds(row["since"], until) or 0.0)
        entry["seconds"] = round(entry["seconds"] + (row["seconds"] or 0.0), 6)
    return sorted(
        found.values(), key=lambda e: (_place(stages, e["stage"]), _place(_ORDER, e["status"]))
    )


def _place(names: Sequence[str], name: str) -> int:
    return names.index(name) if name in names else len(names)


def _until(log: WorkflowLog, at: Moment | None) -> str:
    if at is None:
        return utc_text(system_clock())
    times = [time for time in (at.so_by, at.known_by) if time is not None]
    if times:
        return min(times)
    return max(event.occurred_at for event in log.events(at))
