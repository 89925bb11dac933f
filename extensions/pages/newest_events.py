"""Find the newest events that match a filter, without decoding all events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from eventstore.event import RecordedEvent
from extensions.pages.served_workflows import _FAR, _PIECE
from service.reading.log import WorkflowLog

#: Marks a search text as case-insensitive. The text of an event never contains this character.
_FOLDED = "\0"


class FoundEvents(NamedTuple):
    """The events that a search found, newest first.

    ``before`` is the version at which to continue the search, or None if the search is complete.
    """

    events: list[RecordedEvent]
    before: int | None


def find_newest_events(
    log: WorkflowLog,
    before: int,
    most: int,
    fits: Callable[[RecordedEvent], bool],
    needles: Sequence[Sequence[str]] = (),
) -> FoundEvents:
    """Return at most ``most`` events before the version ``before`` that match.

    An event matches if ``fits`` returns true and the event's text contains at least one string of
    each group in ``needles``. `make_value_needle` and `make_text_needle` return such strings. They
    save time, because other events need not be decoded.
    """
    found: list[RecordedEvent] = []
    end = before - 1
    last = max(end - _FAR, 0)
    while end > last:
        start = max(end - _PIECE, last)
        for event in reversed(list(_iterate_matching_events(log, start, end, needles))):
            if fits(event):
                found.append(event)
            if len(found) == most:
                return FoundEvents(found, event.version if event.version > 1 else None)
        end = start
    return FoundEvents(found, end + 1 if end else None)


def _iterate_matching_events(
    log: WorkflowLog, start: int, end: int, needles: Sequence[Sequence[str]]
) -> Iterator[RecordedEvent]:
    """Yield the events in a range that contain a string of each group in ``needles``."""
    if not needles:
        yield from log.store.read(log.stream, after=start, upto=end)
        return
    is_lower = any(needle.startswith(_FOLDED) for group in needles for needle in group)
    groups = [[needle.removeprefix(_FOLDED) for needle in group] for group in needles]
    for version, raw in enumerate(log.store.raw(log.stream, after=start, upto=end), start + 1):
        text = raw.text.casefold() if is_lower else raw.text
        if all(any(needle in text for needle in group) for group in groups):
            yield from log.store.read(log.stream, after=version - 1, upto=version)


def make_value_needle(value: str) -> str:
    """Return the search string for a complete value, such as an id or an event type."""
    return json.dumps(value, ensure_ascii=False)


def make_text_needle(part: str) -> str:
    """Return the search string for a part of a text, ignoring case."""
    return _FOLDED + make_value_needle(part)[1:-1].casefold()
