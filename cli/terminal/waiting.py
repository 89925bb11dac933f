"""Waiting is shown: on a terminal a line that lives, elsewhere a line at growing intervals."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator
from datetime import datetime

from cli.terminal.output import harmless
from lifecycle.state.workflow import Stage, Workflow

#: Seconds between two forms of the living line.
_LIVE = 1.0
#: Seconds before the first line if nobody looks at a terminal, and at most between two.
_FIRST, _LONGEST = 30.0, 1800.0
#: Stages that are told of at a time.
_SHOWN = 3
_CLEAR = "\r\x1b[2K"


class WaitingLine:
    """Shows what is waited for. ``line`` tells of one stage; ``say`` takes a line that stays."""

    def __init__(
        self, line: Callable[[Workflow, Stage, str], str], say: Callable[[str], None]
    ) -> None:
        self._line = line
        self._say = say
        self._subjects: tuple[str, ...] = ()
        self._pauses: Iterator[float] = iter(())
        self._due = 0.0
        self._is_shown = False

    def show(self, state: Workflow, ids: Collection[str], now: datetime) -> None:
        """Show which of the stages are waited for, if it is time to."""
        going = (stage for stage in state.stages.values() if stage.id in ids)
        stages = [stage for stage in going if stage.open_attempt is not None]
        subjects = tuple(f"{stage.id}/{stage.attempts[-1].id}" for stage in stages)
        if subjects != self._subjects:
            self.clear()
            self._subjects = subjects
            self._pauses = _pauses()
            self._due = time.monotonic() + next(self._pauses)
        if not stages or time.monotonic() < self._due:
            return
        self._due = time.monotonic() + next(self._pauses)
        text = "; ".join(self._told(state, stage, now) for stage in stages[:_SHOWN])
        more = f"; and {len(stages) - _SHOWN} more" if len(stages) > _SHOWN else ""
        self._print(f"waiting: {text}{more}")

    def clear(self) -> None:
        """Take the living line away, before anything else is printed."""
        if self._is_shown:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
            self._is_shown = False

    def _told(self, state: Workflow, stage: Stage, now: datetime) -> str:
        from projections.screens.watch_view import elapsed

        return self._line(state, stage, elapsed(stage.attempts[-1].started_at, now))

    def _print(self, text: str) -> None:
        if not sys.stderr.isatty():
            self._say(text)
            return
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(_CLEAR + harmless(" ".join(text.split()))[:width])
        sys.stderr.flush()
        self._is_shown = True


def _pauses() -> Iterator[float]:
    if sys.stderr.isatty():
        while True:
            yield _LIVE
    pause = _FIRST
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST)
