"""Events found from the newest backwards, a piece of the log at a time: never all of it at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from eventstore.event import RecordedEvent
from service.reading.log import WorkflowLog

#: Versions that are read at once, and versions that one page looks through at most.
_PIECE, _FAR = 1000, 20_000


class Found(NamedTuple):
    """Events, the newest first; ``before`` is where to look on, None at the log's beginning."""

    events: list[RecordedEvent]
    before: int | None


def newest(
    log: WorkflowLog,
    before: int,
    most: int,
    fits: Callable[[RecordedEvent], bool],
    needles: Sequence[str] = (),
) -> Found:
    """Return at most ``most`` events below version ``before`` that fit.

    ``needles`` are letters that the text of each has, in any case: what lacks one is not decoded.
    """
    found: list[RecordedEvent] = []
    wanted = [_written(needle) for needle in needles]
    end = before - 1
    last = max(end - _FAR, 0)
    while end > last:
        start = max(end - _PIECE, last)
        for event in reversed(list(_held(log, start, end, wanted))):
            if fits(event):
                found.append(event)
            if len(found) == most:
                return Found(found, event.version if event.version > 1 else None)
        end = start
    return Found(found, end + 1 if end else None)


def _held(log: WorkflowLog, start: int, end: int, wanted: Sequence[str]) -> Iterator[RecordedEvent]:
    """Yield the events of a piece that have all needles, each held to its place in the chain."""
    if not wanted:
        yield from log.store.read(log.stream, after=start, upto=end)
        return
    for version, raw in enumerate(log.store.raw(log.stream, after=start, upto=end), start + 1):
        text = raw.text.casefold()
        if all(needle in text for needle in wanted):
            yield from log.store.read(log.stream, after=version - 1, upto=version)


def _written(needle: str) -> str:
    """Return a needle as JSON holds it."""
    return json.dumps(needle, ensure_ascii=False)[1:-1].casefold()


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
