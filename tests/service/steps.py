"""The steps of a command, at each of which something else may happen."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any

import pytest

from eventstore.sqlite.connection import Writer
from eventstore.sqlite.store import SqliteStore

#: Each look at the log or at a file, and each change to one, begins with a call of one of these.
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
    """Counts the steps, and lets something happen before one of them.

    What happens takes no steps itself.
    """

    def __init__(self, due: int, happening: Callable[[], object]) -> None:
        self.due = due
        self.taken = 0
        self._happening: Callable[[], object] | None = happening

    def count(self) -> None:
        """Take a step."""
        if self._happening is None:
            return
        self.taken += 1
        if self.taken > self.due:
            happening, self._happening = self._happening, None
            happening()

    @property
    def over(self) -> bool:
        """Whether the command had fewer steps than that."""
        return self._happening is not None


def before_step(
    monkeypatch: pytest.MonkeyPatch, due: int, happening: Callable[[], object]
) -> Steps:
    """Let something happen before the step of this number, from 0."""
    steps = Steps(due, happening)
    for place, name in _CALLS:
        monkeypatch.setattr(place, name, _counted(getattr(place, name), steps))
    return steps


def _counted(call: Callable[..., Any], steps: Steps) -> Callable[..., Any]:
    def counted(*arguments: Any, **options: Any) -> Any:
        steps.count()
        return call(*arguments, **options)

    return counted
