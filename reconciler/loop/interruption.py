"""Being asked to stop: the loop ends after the step that it is in, and its session in order."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

#: A terminal or a tmux session that goes away hangs up.
_ASKING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Interruption:
    """Whether somebody asked, and by which signal; a second signal is not waited for."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def ask(self, number: int, _frame: FrameType | None) -> None:
        """Take down a first signal; raises `KeyboardInterrupt` for a second one."""
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Take SIGTERM, SIGINT and SIGHUP as a wish to stop, for as long as the block lasts.

    What is ignored already (nohup) stays ignored.
    """
    asked = Interruption()
    heard = [number for number in _ASKING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, asked.ask) for number in heard}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
