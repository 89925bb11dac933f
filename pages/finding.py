"""Events found from the newest backwards, a piece of the log at a time: never all of it at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from eventstore.event import RecordedEvent
from service.reading.log import WorkflowLog

#: Versions that are read at once, and versions that one page looks through at most.
_PIECE, _FAR = 1000, 20_000
#: Begins a needle that is sought in any case; no text of an event holds it unescaped.
_FOLDED = "\0"


class FoundEvents(NamedTuple):
    """Events, the newest first; ``before`` is where to look on, None at the log's beginning."""

    events: list[RecordedEvent]
    before: int | None


def newest(
    log: WorkflowLog,
    before: int,
    most: int,
    fits: Callable[[RecordedEvent], bool],
    needles: Sequence[Sequence[str]] = (),
) -> FoundEvents:
    """Return at most ``most`` events below version ``before`` that fit.

    Of each group of ``needles`` the text of an event has one at least (`quoted`, `written`): what
    has none is not decoded.
    """
    found: list[RecordedEvent] = []
    end = before - 1
    last = max(end - _FAR, 0)
    while end > last:
        start = max(end - _PIECE, last)
        for event in reversed(list(_held(log, start, end, needles))):
            if fits(event):
                found.append(event)
            if len(found) == most:
                return FoundEvents(found, event.version if event.version > 1 else None)
        end = start
    return FoundEvents(found, end + 1 if end else None)


def _held(
    log: WorkflowLog, start: int, end: int, needles: Sequence[Sequence[str]]
) -> Iterator[RecordedEvent]:
    """Yield the events of a piece that have a needle of each group, each held to its place."""
    if not needles:
        yield from log.store.read(log.stream, after=start, upto=end)
        return
    is_lower = any(needle.startswith(_FOLDED) for group in needles for needle in group)
    groups = [[needle.removeprefix(_FOLDED) for needle in group] for group in needles]
    for version, raw in enumerate(log.store.raw(log.stream, after=start, upto=end), start + 1):
        text = raw.text.casefold() if is_lower else raw.text
        if all(any(needle in text for needle in group) for group in groups):
            yield from log.store.read(log.stream, after=version - 1, upto=version)


def quoted(value: str) -> str:
    """Return the needle of a whole value, such as an id or a type."""
    return json.dumps(value, ensure_ascii=False)


def written(part: str) -> str:
    """Return the needle of a part of a text, in any case."""
    return _FOLDED + quoted(part)[1:-1].casefold()


def holds(event: RecordedEvent, text: str) -> bool:
    """Whether a text stands anywhere in the values of an event, in any case."""
    return text.casefold() in "\n".join(_texts(event.body)).casefold()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _texts(one)
    else:
        yield str(value)
