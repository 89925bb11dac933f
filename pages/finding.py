"""Events found from the newest backwards, and waiting for new ones."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from threading import Condition, Thread
from typing import Any, NamedTuple

from eventstore.event import RecordedEvent
from pages.shelf import ServedRoot, Shelf
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
    return text.casefold() in _text(event.body).casefold()


def _text(value: Any) -> str:
    inner = value.values() if isinstance(value, dict) else value
    return "\n".join(map(_text, inner)) if isinstance(value, (dict, list)) else str(value)


#: Seconds that one wait for an event takes at most: with a job at work, whose lines are looked at.
_AT_REST, _AT_WORK = 3.0, 1.0
#: Seconds before a log that cannot be read is opened again.
_AGAIN = 1.0
#: Stages whose lines are watched.
_TAILS = 8


class Pulses:
    """The newest mark of each workflow that somebody looks at.

    A mark changes with the log's head and with what its jobs print: ``12.3fa9``.
    """

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._changed = Condition()
        self._marks: dict[str, str] = {}
        self._listeners: dict[str, int] = {}

    @contextmanager
    def heard(self, entries: list[ServedRoot]) -> Iterator[None]:
        """Watch the workflows for as long as somebody listens."""
        for entry in entries:
            self._begin(entry)
        try:
            yield
        finally:
            with self._changed:
                for entry in entries:
                    self._listeners[entry.key] -= 1

    def after(self, entries: list[ServedRoot], seen: str, seconds: float) -> str:
        """Return the mark of the workflows as soon as it is not ``seen``, or after so long."""
        with self._changed:
            self._changed.wait_for(lambda: self._mark(entries) not in ("", seen), seconds)
            return self._mark(entries)

    def _mark(self, entries: list[ServedRoot]) -> str:
        marks = [self._marks.get(entry.key, "") for entry in entries]
        if len(marks) == 1 or not all(marks):
            return marks[0] if len(marks) == 1 else ""
        return sha256("\n".join(marks).encode()).hexdigest()[:16]

    def _begin(self, entry: ServedRoot) -> None:
        with self._changed:
            number = self._listeners.get(entry.key)
            self._listeners[entry.key] = (number or 0) + 1
            if number is None:
                Thread(target=self._watch, args=(entry,), daemon=True).start()

    def _watch(self, entry: ServedRoot) -> None:
        while not self._ended(entry):
            try:
                with entry.open() as log:
                    position = 0
                    while not self._ended(entry):
                        state = self._shelf.state(entry, log)
                        tails = self._shelf.running(entry, log, state, _TAILS)
                        self._tell(entry, state.head, tails)
                        position = log.store.wait(position, _AT_WORK if tails else _AT_REST)
            except Exception as error:  # noqa: BLE001 - a watcher that dies leaves pages that lie
                self._tell(entry, -1, {"": repr(error)})
                time.sleep(_AGAIN)

    def _ended(self, entry: ServedRoot) -> bool:
        """Whether nobody listens any more; the next who does begins a new thread."""
        with self._changed:
            if self._listeners.get(entry.key, 0) > 0:
                return False
            self._listeners.pop(entry.key, None)
            self._marks.pop(entry.key, None)
            return True

    def _tell(self, entry: ServedRoot, version: int, tails: dict[str, str]) -> None:
        digest = sha256(repr(sorted(tails.items())).encode()).hexdigest()[:8]
        mark = f"{version}.{digest}"
        with self._changed:
            if self._marks.get(entry.key) != mark:
                self._marks[entry.key] = mark
                self._changed.notify_all()
