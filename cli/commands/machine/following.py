"""What `wfctl watch --machine` shows: where the machine stands, what is next, and its log."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from cli.commands.machine.reads import summary
from projections.machines.history import message
from projections.machines.next_actions import machine_actions
from projections.screens.watch_view import View
from projections.words.text import marked
from service.machines.evidence import evidence

if TYPE_CHECKING:
    from service.machines.log import MachineLog


class MachineFollower:
    """A machine as it goes on; ``back`` is how many lines of its log are kept."""

    def __init__(self, log: MachineLog, root: Path, back: int) -> None:
        self._log = log
        self._root = root
        self._lines: deque[str] = deque(maxlen=back)
        self._seen = 0
        self._state = log.current()

    def view(self, size: tuple[int, int], scrolled: int | None = None) -> View:
        """Return what is to be seen now in a window of so many columns and lines."""
        self._read()
        state = self._state
        actions = machine_actions(state, evidence(self._root, state))
        head = [*summary(state), "", *(f"next: {one}" for one in actions)]
        width, height = size
        room = max(height - len(head) - 2, 1)
        every = [*head, "", *list(self._lines)[-room:]]
        first = min(scrolled or 0, max(len(every) - height, 0))
        shown = every[first : first + height]
        lines = tuple(Text(marked(one)[:width]) for one in shown)
        return View(lines, max(len(every) - height, 0))

    def _read(self) -> None:
        head = self._log.store.head(self._log.stream)
        if head is None or head.version == self._seen:
            return
        for event, state in self._log.steps(after=self._seen):
            self._state = state
            text = message(event.type, event.data)
            self._lines.append(f"{event.recorded_at[11:19]}Z {text}")
        self._seen = head.version
