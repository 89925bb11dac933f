"""The screen of ``wfctl status --follow``, which a person can scroll."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cli.frame.workspace import OpenedWorkflow, open_for_reading, settings_of
from cli.settings import Color, Format
from projections.files.progress_log import format_line_without_time
from service.errors import InvalidOption
from service.root.atomic_files import system_clock
from wfctl_eventstore.extension import require_extension

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from cli.frame.context import Context
    from lifecycle.state.workflow import Workflow
    from projections.screens.watch_view import View
    from wfctl_eventstore.extension import Follower

#: Seconds between two checks for new events. A check takes less than a millisecond.
_EVERY = 0.25
#: Number of recent events to read for the log lines on the screen.
_BACK = 60
#: Key → direction of scrolling (1: down, -1: up). Arrow keys, j and k scroll by one line, the other
#: keys by half a screen.
_STEPS = {"j": 1, "k": -1, "\x1b[B": 1, "\x1b[A": -1, " ": 1, "\x1b[6~": 1, "b": -1, "\x1b[5~": -1}
_PAGES = frozenset({" ", "b", "\x1b[6~", "\x1b[5~"})


def follow_state(context: Context, machine: str | None) -> None:
    """Show the state of a workflow or phase machine, and update it until the user quits.

    Raises `InvalidOption` if the output does not go to a terminal or its format is not text.
    """
    settings = settings_of(context)
    if settings.format is not Format.TEXT:
        raise InvalidOption(
            "`wfctl status --follow` does not support JSON output. Run `wfctl status -o json` or "
            "`wfctl log --follow` instead."
        )
    if not sys.stdout.isatty():
        raise InvalidOption(
            "`wfctl status --follow` needs a terminal, but its output does not go to a terminal. "
            "To print the state once, run `wfctl status`."
        )
    from rich.console import Console

    plain = bool(os.environ.get("NO_COLOR")) if settings.color is Color.AUTO else False
    console = Console(
        no_color=plain or settings.color is Color.NEVER, highlight=False, soft_wrap=True
    )
    with open_for_reading(context) as workflow:
        if machine is None:
            _show_live(console, WorkflowFollower(workflow))
            return
        machines = require_extension("machines", f"the machine {machine}")
        _show_live(console, machines.open_machine_follower(workflow, machine, _BACK))


def _show_live(console: Console, follower: Follower) -> None:
    from rich.console import Group
    from rich.live import Live

    shown: tuple[Text, ...] = ()
    scrolled: int | None = None
    with _open_keyboard() as key, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            found = follower.view(console.size, scrolled)
            if found.lines != shown:
                live.update(Group(*found.lines), refresh=True)
                shown = found.lines
            pressed = key(_EVERY)
            if pressed in ("q", "Q"):
                return
            scrolled = _compute_scroll_position(
                pressed, scrolled, found.bottom, console.size.height // 2
            )


def _compute_scroll_position(
    pressed: str, scrolled: int | None, bottom: int, page: int
) -> int | None:
    """Return the index of the first visible stage line after a key press.

    None means that the view follows the running stages.
    """
    if pressed in ("g", "\x1b[H"):
        return 0
    if pressed in ("G", "\x1b[F"):
        return bottom
    if pressed == "f":
        return None
    step = _STEPS.get(pressed, 0) * (page if pressed in _PAGES else 1)
    return min(max((scrolled or 0) + step, 0), bottom) if step else scrolled


@contextmanager
def _open_keyboard() -> Iterator[Callable[[float], str]]:
    """Yield a function that waits up to the given seconds for a key, and returns the key.

    Without a terminal, the function only waits.
    """
    is_typed = sys.stdin.isatty()
    descriptor = sys.stdin.fileno() if is_typed else -1

    def key(seconds: float) -> str:
        if not select.select([descriptor] if is_typed else [], [], [], seconds)[0]:
            return ""
        return os.read(descriptor, 16).decode(errors="replace")

    if not is_typed:
        yield key
        return
    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield key
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


class WorkflowFollower:
    """Provides the current state and the newest log lines for ``wfctl status --follow``.

    Each call of `view` reads the events that were added to the log since the previous call.
    """

    def __init__(self, workflow: OpenedWorkflow) -> None:
        from reconciler.sweep.progress_reader import ProgressReader

        self._progress = ProgressReader(workflow.root.path, system_clock)
        self._log = workflow.log
        self._state: Workflow = workflow.state()
        self._lines: deque[str] = deque(maxlen=_BACK)
        self._read_events(max(self._state.head - _BACK, 0), None)

    def view(self, size: tuple[int, int], scrolled: int | None = None) -> View:
        """Return the current live view for a terminal window of ``size`` (columns, lines).

        If ``scrolled`` is given, it is the index of the first visible stage.
        """
        from projections.screens.watch_view import render_frame

        head = self._log.store.head(self._log.stream)
        if head is not None and head.version > self._state.head:
            self._read_events(self._state.head, self._state)
        lines = list(self._lines)
        progress = self._progress.read_running(self._state)
        return render_frame(self._state, lines, system_clock(), size, scrolled, progress)

    def _read_events(self, after: int, start: Workflow | None) -> None:
        for event, state in self._log.steps(after, start):
            self._state = state
            text = format_line_without_time(event, state)
            if text is not None:
                self._lines.append(f"{event.recorded_at[11:19]}Z {text}")
