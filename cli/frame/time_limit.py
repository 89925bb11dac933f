"""Stop a command that exceeds its time limit."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from cli.settings import Settings

#: Seconds between two checks of the time limit, and extra seconds in which the database may stop
#: the query first.
_LOOK, _GRACE = 0.1, 1.0
_END: Any = object()


class StepTimeLimit:
    """Limits the time of each step of an answer, and calls ``give_up`` after the limit.

    A separate thread checks the time, because the main thread may be blocked in a database call.
    """

    def __init__(self, seconds: float, give_up: Callable[[], None]) -> None:
        self._seconds = seconds + _GRACE
        self._give_up = give_up
        self._end: float | None = None
        self._over = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._check_time, daemon=True, name="patience").start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def step(self, work: Callable[[], Any]) -> Any:
        """Run ``work`` within the time limit, and return its result."""
        self._end = time.monotonic() + self._seconds
        try:
            return work()
        finally:
            self._end = None

    def each(self, rows: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows, with the time limit for each row."""
        found = iter(rows)
        while (row := self.step(lambda: next(found, _END))) is not _END:
            yield row

    def _check_time(self) -> None:
        while not self._over.wait(_LOOK):
            end = self._end
            if end is not None and time.monotonic() > end:
                self._give_up()


def exit_with_error(settings: Settings, error: Exception) -> None:
    """Print the error and end the process immediately, even if its main thread is blocked.

    Use this only for commands that read. The operating system then releases their locks, and no
    change is interrupted.
    """
    from cli.frame.failure import report_error

    code = report_error(error, ["-o", settings.format.value])
    sys.stderr.flush()
    os._exit(code)
