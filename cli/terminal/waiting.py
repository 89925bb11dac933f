"""Show the stages that wfctl waits for.

On a terminal, one line is updated every second. Elsewhere, a new line is printed at growing
intervals.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator
from datetime import datetime

from cli.terminal.output import remove_terminal_codes
from lifecycle.state.workflow import Stage, Workflow

#: Seconds between two updates of the line at a terminal.
_LIVE = 1.0
#: Without a terminal: seconds before the first line, and maximum number of seconds between two
#: lines.
_FIRST, _LONGEST = 30.0, 1800.0
#: Maximum number of waiting stages in the line.
_SHOWN = 3
_CLEAR = "\r\x1b[2K"


class WaitingLine:
    """Shows the stages that wfctl waits for.

    The function ``line`` formats one stage, and the function ``say`` prints a permanent line.
    """

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
        """Show the stages that wfctl waits for, if the last line is old enough."""
        going = (stage for stage in state.stages.values() if stage.id in ids)
        stages = [stage for stage in going if stage.open_attempt is not None]
        subjects = tuple(f"{stage.id}/{stage.attempts[-1].id}" for stage in stages)
        if subjects != self._subjects:
            self.clear()
            self._subjects = subjects
            self._pauses = _iterate_pauses()
            self._due = time.monotonic() + next(self._pauses)
        if not stages or time.monotonic() < self._due:
            return
        self._due = time.monotonic() + next(self._pauses)
        text = "; ".join(self._format_line(state, stage, now) for stage in stages[:_SHOWN])
        more = f"; and {len(stages) - _SHOWN} more" if len(stages) > _SHOWN else ""
        self._print_line(f"waiting: {text}{more}")

    def clear(self) -> None:
        """Remove the line with the waiting stages before other output is printed."""
        if self._is_shown:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
            self._is_shown = False

    def _format_line(self, state: Workflow, stage: Stage, now: datetime) -> str:
        from projections.screens.watch_view import format_elapsed

        return self._line(state, stage, format_elapsed(stage.attempts[-1].started_at, now))

    def _print_line(self, text: str) -> None:
        if not sys.stderr.isatty():
            self._say(text)
            return
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(_CLEAR + remove_terminal_codes(" ".join(text.split()))[:width])
        sys.stderr.flush()
        self._is_shown = True


def _iterate_pauses() -> Iterator[float]:
    if sys.stderr.isatty():
        while True:
            yield _LIVE
    pause = _FIRST
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST)
