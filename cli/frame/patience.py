"""A clock beside a question to a database: some functions there cannot be interrupted."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from cli.settings import Settings

#: Seconds between two looks, and for the database to end a question itself.
_LOOK, _GRACE = 0.1, 1.0
_END: Any = object()


class Watch:
    """Gives up where one step of an answer takes longer than it may; only the steps are counted."""

    def __init__(self, seconds: float, give_up: Callable[[], None]) -> None:
        self._seconds = seconds + _GRACE
        self._give_up = give_up
        self._end: float | None = None
        self._over = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._look, daemon=True, name="patience").start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def step(self, work: Callable[[], Any]) -> Any:
        """Return what a step comes to."""
        self._end = time.monotonic() + self._seconds
        try:
            return work()
        finally:
            self._end = None

    def each(self, rows: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows, each as a step."""
        found = iter(rows)
        while (row := self.step(lambda: next(found, _END))) is not _END:
            yield row

    def _look(self) -> None:
        while not self._over.wait(_LOOK):
            end = self._end
            if end is not None and time.monotonic() > end:
                self._give_up()


def leave(settings: Settings, error: Exception) -> None:
    """Print the error and end the process, whose other thread does not come back.

    Only for a command that reads: the kernel gives back its locks, and there is nothing to undo.
    """
    from cli.frame.failure import report

    code = report(error, ["-o", settings.format.value])
    sys.stderr.flush()
    os._exit(code)
