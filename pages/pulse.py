"""Who looks at a page is told when its workflow has changed: one thread waits for many pages."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from threading import Condition, Thread

from pages.shelf import ServedRoot, Shelf

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
