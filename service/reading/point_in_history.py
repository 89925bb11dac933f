"""A point in the history, as given by ``--at`` or ``--known-at``.

``--at`` refers to the time of events, and ``--known-at`` to the time of their recording.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from eventstore.event import RecordedEvent
from lifecycle.fold import imported
from service.errors import InvalidOption
from service.root.atomic_files import system_clock, utc_text

#: Largest version number that a database can store.
_LAST = 2**63 - 1
_SESSION = "session:"
_AGO = r"(\d{1,9}|an?) +(second|minute|hour|day|week)s? +ago"
_NAMED = {"now": timedelta(), "yesterday": timedelta(days=1)}


class Moment(NamedTuple):
    """A point in the history.

    If several fields are set, each of them limits the visible events. ``version`` is the last
    visible version, and ``session`` the last visible session. ``so_by`` limits the event time, and
    ``known_by`` the recording time. Both are UTC times in the format of the log.
    """

    version: int | None = None
    so_by: str | None = None
    known_by: str | None = None
    session: int | None = None

    def __str__(self) -> str:
        parts = {
            "version": self.version,
            "session": self.session,
            "at": self.so_by,
            "known at": self.known_by,
        }
        return ", ".join(f"{name} {value}" for name, value in parts.items() if value is not None)

    def select_visible_events(self, events: Iterator[RecordedEvent]) -> Iterator[RecordedEvent]:
        """Yield the events that are visible at both times, in order of version."""
        if self.known_by is not None:
            events = select_events_known_by(events, self.known_by)
        return select_events_so_by(events, self.so_by) if self.so_by is not None else events


def parse_moment(
    at: str | None, known_at: str | None = None, now: datetime | None = None
) -> Moment:
    """Return the moment that the options ``--at`` and ``--known-at`` describe together.

    Each value is a version (``12``), a time, ``@{2 hours ago}`` or ``session:3``. A time without an
    offset is a local time. Raises `InvalidOption` for any other text.
    """
    so, known = (
        _parse_text(text, now) if text is not None else Moment() for text in (at, known_at)
    )
    versions = [moment.version for moment in (so, known) if moment.version is not None]
    sessions = [moment.session for moment in (so, known) if moment.session is not None]
    return Moment(min(versions, default=None), so.so_by, known.so_by, min(sessions, default=None))


def _parse_text(text: str, now: datetime | None) -> Moment:
    """Return the moment that the value of one option describes.

    Raises `InvalidOption` if the value is invalid.
    """
    try:
        if text.isdecimal():
            return Moment(version=min(int(text), _LAST))
        if text.startswith(_SESSION):
            return Moment(session=min(int(text.removeprefix(_SESSION)), _LAST))
        return Moment(so_by=utc_text(_parse_time(text, now or system_clock())))
    except (ValueError, OverflowError):
        raise InvalidOption(
            f"the value {text!r} is not a valid moment. Give a version (12), an ISO 8601 time "
            f"(2026-03-31T14:00:00+02:00), a time ago (@{{2 hours ago}}, @{{yesterday}}) or a "
            "session (session:3)",
            value=text,
        ) from None


def _parse_time(text: str, now: datetime) -> datetime:
    """Return the time that a text describes. Raises ValueError if the text is not a time."""
    if not (text.startswith("@{") and text.endswith("}")):
        return datetime.fromisoformat(text)
    words = " ".join(text[2:-1].split())
    if words in _NAMED:
        return now - _NAMED[words]
    ago = re.fullmatch(_AGO, words)
    if ago is None:
        return datetime.fromisoformat(words)
    number = int(ago[1]) if ago[1].isdecimal() else 1
    return now - timedelta(**{f"{ago[2]}s": number})


def select_events_so_by(events: Iterable[RecordedEvent], moment: str) -> Iterator[RecordedEvent]:
    """Yield the events that had an effect by ``moment`` (event time), in order of version.

    An event has no effect before the events on which it depends. These are the first event of the
    log and its import, the previous event of its stage (or of the workflow, if it names no stage),
    its cause, the events of its amendment, and the approval that inserted its stage.
    """
    since = EffectiveTimes()
    return (event for event in events if since.compute_effective_time(event) <= moment)


class EffectiveTimes:
    """Computes the time from which each event has an effect. Events must come in order."""

    def __init__(self) -> None:
        self._first = ""
        self._command = ""
        self._latest: dict[str, str] = {}
        self._caused: dict[str, str] = {}
        self._made: dict[str, str] = {}

    def compute_effective_time(self, event: RecordedEvent) -> str:
        """Return the time from which the event has an effect (UTC)."""
        if event.command_id != self._command:
            self._command, self._caused = event.command_id, {}
        bases = [self._latest.get(name, "") for name in _list_event_subjects(event)]
        cause = self._caused.get(event.causation_id or "", "")
        since = max(event.occurred_at, self._first, cause, *bases)
        self._first = self._first or since
        self._caused[event.event_id] = since
        self._latest.update(dict.fromkeys(self._list_dependent_subjects(event), since))
        return since

    def _list_dependent_subjects(self, event: RecordedEvent) -> Iterator[str]:
        """Yield the names of the subjects whose later events depend on this event."""
        yield from _list_event_subjects(event, own=True)
        amendment = event.data.get("amendment")
        if event.type == "amendment.proposed" and event.data.get("insert"):
            self._made[str(amendment)] = event.data["insert"]["id"]
        elif event.type == "amendment.approved" and amendment in self._made:
            yield f"stage {self._made[amendment]}"


def _list_event_subjects(event: RecordedEvent, *, own: bool = False) -> Iterator[str]:
    """Yield the names of the subjects on which an event depends, such as its stage.

    With ``own``, yield the names of the subjects to which the event belongs.
    """
    data = event.data
    yield f"stage {data.get('stage')}"
    amendment = data.get("amendment") or data.get("superseded_by")
    if amendment is not None:
        yield f"amendment {amendment}"
    if own == (event.type in imported.TYPES):
        yield "import"


def select_events_known_by(events: Iterable[RecordedEvent], moment: str) -> Iterator[RecordedEvent]:
    """Yield the events that were recorded by ``moment``. Stop at the first later event.

    If a clock was set back, an event is treated as recorded no earlier than the event before it.
    """
    latest = ""
    for event in events:
        late = event.recorded_at < latest and latest >= moment
        if late or event.recorded_at > moment:
            return
        latest = max(latest, event.recorded_at)
        yield event


def session_end(events: Iterable[RecordedEvent], number: int) -> int | None:
    """Return the last version that belongs to a session, or None for an unknown session.

    If no event ends the session, it lasts until the next session starts. A session of an imported
    log lasts until the end of the import at most.
    """
    last: int | None = None
    is_imported = False
    for event in events:
        began = _started_session(event)
        is_over = is_imported and event.type not in imported.TYPES
        if last is not None and (is_over or began not in (None, number)):
            return last
        if began == number or last is not None:
            last, is_imported = event.version, event.type in imported.TYPES
        if last is not None and event.type == "session.ended":
            return last
    return last


def _started_session(event: RecordedEvent) -> int | None:
    """Return the number of the session that an event starts, or None."""
    if event.type == "session.started":
        return int(event.data["number"])
    if event.type == "line.imported" and event.data.get("session") is not None:
        return int(event.data["session"])
    return None
