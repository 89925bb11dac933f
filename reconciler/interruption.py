"""Being asked to stop: the loop ends after the step that it is in, and its session in order."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ASKING = (signal.SIGTERM, signal.SIGINT)


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
    """Take SIGTERM and SIGINT as a wish to stop, for as long as the block lasts."""
    asked = Interruption()
    before = {number: signal.signal(number, asked.ask) for number in _ASKING}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
