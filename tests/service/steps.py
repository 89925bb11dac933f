"""Run an action before a chosen read or write of a command."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any

import pytest

from eventstore.sqlite.connection import Writer
from eventstore.sqlite.store import SqliteStore

#: Functions whose calls are counted as steps. Each read and each change of the log or a file starts
#: with one of these calls.
_CALLS: tuple[tuple[object, str], ...] = (
    (SqliteStore, "_fetch"),
    (Writer, "__enter__"),
    (io, "open"),
    (os, "open"),
    (os, "fstat"),
    (os, "stat"),
    (os, "write"),
    (os, "fsync"),
    (os, "replace"),
    (os, "unlink"),
)


class Steps:
    """Counts the reads and writes of a command, and runs an action before one of them.

    The reads and writes of the action itself are not counted.
    """

    def __init__(self, due: int, happening: Callable[[], object]) -> None:
        self.due = due
        self.taken = 0
        self._happening: Callable[[], object] | None = happening

    def count(self) -> None:
        """Count a read or write, and run the action if the chosen number is reached."""
        if self._happening is None:
            return
        self.taken += 1
        if self.taken > self.due:
            happening, self._happening = self._happening, None
            happening()

    @property
    def over(self) -> bool:
        """Whether the command ended before the chosen step, so the action did not run."""
        return self._happening is not None


def before_step(
    monkeypatch: pytest.MonkeyPatch, due: int, happening: Callable[[], object]
) -> Steps:
    """Run an action before the step with the number ``due``, counted from 0.

    A step is a read or a write of a command.
    """
    steps = Steps(due, happening)
    for place, name in _CALLS:
        monkeypatch.setattr(place, name, _counted(getattr(place, name), steps))
    return steps


def _counted(call: Callable[..., Any], steps: Steps) -> Callable[..., Any]:
    def counted(*arguments: Any, **options: Any) -> Any:
        steps.count()
        return call(*arguments, **options)

    return counted
