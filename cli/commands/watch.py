"""``wfctl watch``: a live view of the workflow."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from cli.frame.workspace import Reading, reading, settings_of
from cli.settings import Color, Format, Settings
from projections.files.progress_log import message
from service.errors import InvalidOption
from service.root.clock import system_clock

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from cli.commands.machine.following import MachineFollower
    from lifecycle.state.workflow import Workflow
    from projections.screens.watch_view import View

#: Seconds between two looks at the log's head, which cost less than a millisecond each.
_EVERY = 0.25
#: Events before the head that are read for the log's last lines.
_BACK = 60
#: Lines of a view that nobody's window limits.
_TALL = 10_000
#: Key → how far it scrolls, in lines or half screens.
_STEPS = {"j": 1, "k": -1, "\x1b[B": 1, "\x1b[A": -1, " ": 1, "\x1b[6~": 1, "b": -1, "\x1b[5~": -1}
_PAGES = frozenset({" ", "b", "\x1b[6~", "\x1b[5~"})


def watch(
    context: typer.Context,
    once: Annotated[bool, typer.Option("--once", help="Print one view and leave.")] = False,
    machine: Annotated[
        str | None, typer.Option(metavar="ID", help="A phase machine in place of the workflow.")
    ] = None,
) -> None:
    """Show the graph, what runs, what waits for a person, and the log as it grows.

    Keys: j and k or the arrows, space and b, g and G scroll; f follows what runs; q leaves.
    """
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
        follower = _Follower(workflow) if machine is None else _machine(workflow, machine)
        if once:
            console.print(*follower.view((console.width, _TALL)).lines, sep="\n")
        else:
            _live(console, follower)


def _machine(root: Reading, machine: str) -> MachineFollower:
    """Return what follows a machine; raises `StateNotFound`."""
    from cli.commands.machine.following import MachineFollower
    from cli.frame.machine_history import log_of

    return MachineFollower(log_of(root, machine), root.root.path, _BACK)


def _console(settings: Settings) -> Console:
    from rich.console import Console

    plain = settings.color is Color.NEVER or (
        settings.color is Color.AUTO and bool(os.environ.get("NO_COLOR"))
    )
    forced = True if settings.color is Color.ALWAYS else None
    return Console(no_color=plain, force_terminal=forced, highlight=False, soft_wrap=True)


def _live(console: Console, follower: _Follower | MachineFollower) -> None:
    """Draw whenever what is shown has changed, until somebody leaves; keys scroll the stages."""
    from rich.console import Group
    from rich.live import Live

    shown: tuple[Text, ...] = ()
    scrolled: int | None = None
    with _keys() as key, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            found = follower.view(console.size, scrolled)
            if found.lines != shown:
                live.update(Group(*found.lines), refresh=True)
                shown = found.lines
            pressed = key(_EVERY)
            if pressed in ("q", "Q"):
                return
            scrolled = _moved(pressed, scrolled, found.bottom, console.size.height // 2)


def _moved(pressed: str, scrolled: int | None, bottom: int, page: int) -> int | None:
    """Return the first line of the stages after a key; None follows what is at work."""
    if pressed in ("g", "\x1b[H"):
        return 0
    if pressed in ("G", "\x1b[F"):
        return bottom
    if pressed == "f":
        return None
    step = _STEPS.get(pressed, 0) * (page if pressed in _PAGES else 1)
    return min(max((scrolled or 0) + step, 0), bottom) if step else scrolled


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Yield what waits so many seconds for a key; without a terminal to type at it only waits."""
    descriptor = sys.stdin.fileno() if sys.stdin.isatty() else None
    if descriptor is None:
        yield _wait
        return
    before = termios.tcgetattr(descriptor)

    def key(seconds: float) -> str:
        if not select.select([descriptor], [], [], seconds)[0]:
            return ""
        return os.read(descriptor, 16).decode(errors="replace")

    try:
        tty.setcbreak(descriptor)
        yield key
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _wait(seconds: float) -> str:
    time.sleep(seconds)
    return ""


class _Follower:
    """The state and the last lines, kept up to date with the log."""

    def __init__(self, workflow: Reading) -> None:
        self._log = workflow.log
        self._state: Workflow = workflow.state()
        self._lines: deque[str] = deque(maxlen=_BACK)
        self._drawn = (-1, -1)
        self._graph: list[Text] = []
        self._read(max(self._state.head - _BACK, 0), None)

    def view(self, size: tuple[int, int], scrolled: int | None = None) -> View:
        """Return what is to be seen now in a window of so many columns and lines."""
        from projections.screens.watch_view import frame, graph

        head = self._log.store.head(self._log.stream)
        if head is not None and head.version > self._state.head:
            self._read(self._state.head, self._state)
        if self._drawn != (self._state.head, size[0]):
            self._drawn = (self._state.head, size[0])
            self._graph = graph(self._state, size[0])
        lines = list(self._lines)
        return frame(self._state, self._graph, lines, system_clock(), size, scrolled)

    def _read(self, after: int, start: Workflow | None) -> None:
        for event, state in self._log.steps(after, start):
            self._state = state
            text = message(event, state)
            if text is not None:
                self._lines.append(f"{event.recorded_at[11:19]}Z {text}")
