"""Show the progress of awaited stages on a terminal, and update the lines in place."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from cli.settings import Settings
from cli.terminal.output import is_colored, remove_terminal_codes
from cli.terminal.progress_lines import ProgressSource, list_awaited_stages
from lifecycle.state.workflow import Stage, Workflow

if TYPE_CHECKING:
    from rich.live import Live

#: Seconds between two updates.
_INTERVAL = 1.0
#: Maximum number of stages to show.
_SHOWN = 8
#: Columns that stay free at the end of a line, so that `^C` of the terminal fits.
_MARGIN = 3


def is_updatable_terminal() -> bool:
    """Return whether stderr is a terminal on which printed lines can be replaced."""
    return sys.stderr.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


def _read_terminal_size() -> tuple[int, int]:
    """Return the current number of columns and lines of the terminal.

    The environment variable COLUMNS is ignored, because it does not follow changes of the window.
    """
    with suppress(OSError):
        columns, lines = os.get_terminal_size(sys.stderr.fileno())
        if columns and lines:
            return columns, lines
    return 80, 25


class ProgressBars:
    """Shows one line for each awaited stage on a terminal, and updates the lines in place."""

    def __init__(self, source: ProgressSource, settings: Settings) -> None:
        self._source = source
        self._settings = settings
        self._live: Live | None = None
        self._rows: list[str] = []
        self._due = time.monotonic() + _INTERVAL

    def show(self, state: Workflow, ids: Collection[str]) -> None:
        """Show the progress of the stages, if the last update is old enough."""
        stages = list_awaited_stages(state, ids)
        if not stages:
            self.clear()
            self._due = time.monotonic() + _INTERVAL
        elif time.monotonic() >= self._due:
            rows = [self._describe(state, stage) for stage in stages[:_SHOWN]]
            more = len(stages) - len(rows)
            self._draw([*rows, *([f"and {more} more stages"] if more else [])])
            self._due = time.monotonic() + _INTERVAL

    def clear(self) -> None:
        """Erase the lines, so that other output can be printed. `show` prints them again."""
        if self._live is not None:
            self._live.console.size = _read_terminal_size()
            self._erase_wrapped_rows(self._live)
            self._live.stop()
            self._live = None
            self._due = 0.0

    def _describe(self, state: Workflow, stage: Stage) -> str:
        text = self._source.describe(state, stage, self._source.read(state, stage))
        return remove_terminal_codes(" ".join(text.split()))

    def _draw(self, rows: Sequence[str]) -> None:
        """Replace the shown lines. The cursor stays visible, because wfctl may be killed."""
        from rich.text import Text

        live = self._live or self._start()
        live.console.size = _read_terminal_size()
        self._erase_wrapped_rows(live)
        texts = [Text(row) for row in rows[: max(live.console.height - 2, 1)]]
        for text in texts:
            text.truncate(max(live.console.width - _MARGIN, 1), overflow="ellipsis")
        self._rows = [text.plain for text in texts]
        shown = Text("\n", no_wrap=True, overflow="crop").join(texts)
        live.update(shown, refresh=True)

    def _start(self) -> Live:
        from rich.console import Console
        from rich.live import Live

        colors = is_colored(self._settings, is_terminal=True)
        console = Console(
            file=sys.stderr, force_terminal=True, no_color=not colors, highlight=False
        )
        self._live = live = Live(
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )
        self._rows = []
        live.start()
        console.show_cursor(True)
        return live

    def _erase_wrapped_rows(self, live: Live) -> None:
        """Erase the additional rows of lines that a narrower terminal has wrapped.

        rich erases one row for each line.
        """
        from rich.cells import cell_len

        width = live.console.width
        wrapped = sum(max(cell_len(row) - 1, 0) // width for row in self._rows)
        if wrapped:
            sys.stderr.write(f"\r\x1b[{wrapped}A\x1b[J")
            sys.stderr.flush()
