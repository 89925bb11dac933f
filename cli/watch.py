"""``wfctl watch``: a live view of the workflow."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Annotated

import typer

from cli.settings import Color, Format, Settings
from cli.workspace import Reading, reading, settings_of
from projections.progress_log import message
from service.clock import system_clock
from service.errors import InvalidOption

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from lifecycle.workflow import Workflow

#: Seconds between two looks at the log's head, which cost less than a millisecond each.
_EVERY = 0.25
#: Events before the head that are read for the log's last lines.
_BACK = 60
#: Lines of a view that nobody's window limits.
_TALL = 1000


def watch(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Print one view and leave.")] = False,
) -> None:
    """Show the graph, what runs, what waits for a person, and the log as it grows."""
    settings = settings_of(context)
    if settings.format is not Format.TEXT:
        raise InvalidOption(
            "watch is for people: `wfctl status -o json` and `log --follow` are not"
        )
    if not (once or sys.stdout.isatty()):
        raise InvalidOption(
            "expected a terminal; without one, `wfctl watch --once` prints one view"
        )
    with reading(context) as workflow:
        console = _console(settings)
        follower = _Follower(workflow)
        if once:
            console.print(*follower.frame(console.width, _TALL), sep="\n")
        else:
            _live(console, follower)


def _console(settings: Settings) -> Console:
    from rich.console import Console

    plain = settings.color is Color.NEVER or (
        settings.color is Color.AUTO and bool(os.environ.get("NO_COLOR"))
    )
    forced = True if settings.color is Color.ALWAYS else None
    return Console(no_color=plain, force_terminal=forced, highlight=False, soft_wrap=True)


def _live(console: Console, follower: _Follower) -> None:
    """Draw whenever what is shown has changed, until somebody leaves."""
    from rich.console import Group
    from rich.live import Live

    shown: tuple[Text, ...] = ()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            found = follower.frame(*console.size)
            if found != shown:
                live.update(Group(*found), refresh=True)
                shown = found
            time.sleep(_EVERY)


class _Follower:
    """The state and the last lines, kept up to date with the log."""

    def __init__(self, workflow: Reading) -> None:
        self._log = workflow.log
        self._state: Workflow = workflow.state()
        self._lines: deque[str] = deque(maxlen=_BACK)
        self._read(max(self._state.head - _BACK, 0), None)

    def frame(self, width: int, height: int) -> tuple[Text, ...]:
        """Return what is to be seen now."""
        from projections.watch_view import frame

        head = self._log.store.head(self._log.stream)
        if head is not None and head.version > self._state.head:
            self._read(self._state.head, self._state)
        return frame(self._state, list(self._lines), system_clock(), width, height)

    def _read(self, after: int, start: Workflow | None) -> None:
        for event, state in self._log.steps(after, start):
            self._state = state
            text = message(event, state)
            if text is not None:
                self._lines.append(f"{event.recorded_at[11:19]}Z {text}")
