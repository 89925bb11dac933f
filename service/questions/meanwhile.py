"""What happened since somebody last acted, and how long each stage was in each status."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
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


@dataclass(frozen=True, slots=True)
class Happened:
    """An event as people read it; ``at`` is when the log learned it, None for just now."""

    version: int
    at: str | None
    actor: str
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


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
    """Return the newest note of a person or an agent, None if the last events hold none."""

    def is_note(event: RecordedEvent) -> bool:
        return event.type == "note.logged" and event.actor.kind in _ACTING

    last = _newest(log, upto, is_note, _BACK)
    if last is None:
        return None
    return Happened(last.version, last.recorded_at, str(last.actor), str(last.data["text"]))


def _is_act(event: RecordedEvent) -> bool:
    return event.actor.kind in _ACTING or event.type in _SESSIONS


def happened_since(log: WorkflowLog, known: int, upto: int) -> tuple[Happened, ...]:
    """Return the newest act up to version ``upto``, and after it what followed, oldest first.

    What came after version ``known`` was learned just now.
    """
    act = _newest(log, upto, _is_act, upto)
    first = act.version if act is not None else 1
    return tuple(
        Happened(
            event.version,
            event.recorded_at if event.version <= known else None,
            str(event.actor),
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

    def place(names: Sequence[str], name: str) -> int:
        return names.index(name) if name in names else len(names)

    return sorted(
        found.values(), key=lambda e: (place(stages, e["stage"]), place(_ORDER, e["status"]))
    )


def _until(log: WorkflowLog, at: Moment | None) -> str:
    if at is None:
        return utc_text(system_clock())
    times = [time for time in (at.so_by, at.known_by) if time is not None]
    return min(times) if times else max(event.occurred_at for event in log.events(at))
