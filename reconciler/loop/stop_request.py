"""Requests to stop a loop, by a signal or by a person."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from eventstore.errors import StoreUnreachable
from reconciler.context import JobContext

#: Signals that ask a loop to stop. SIGHUP is sent when a terminal or a tmux session is closed.
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopRequest:
    """A request to stop the loop. ``signal`` is the number of the signal, or None."""

    signal: int | None = None

    def handle_stop_signal(self, number: int, _frame: FrameType | None) -> None:
        """Record the first signal that asks the loop to stop.

        Raises `KeyboardInterrupt` for a second signal, so that the loop ends immediately.
        """
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number


@contextmanager
def catch_stop_signals() -> Iterator[StopRequest]:
    """Treat SIGTERM, SIGINT and SIGHUP as requests to stop the loop while the block runs.

    A signal that was ignored before, for example through nohup, stays ignored.
    """
    asked = StopRequest()
    heard = [number for number in _STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, asked.handle_stop_signal) for number in heard}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


#: Maximum number of seconds that a loop waits for the server of the log, and seconds before the
#: first message about it.
_MAX_RETRY_SECONDS, _FIRST_NOTICE_SECONDS = 600.0, 2.0


def build_retry_rule(
    jobs: JobContext, asked: StopRequest
) -> Callable[[StoreUnreachable, float], bool]:
    """Return a function that decides whether to retry if the server of the log is silent.

    The function stops retrying after some minutes or after a request to stop. It prints a message
    at growing intervals.
    """
    due = _FIRST_NOTICE_SECONDS

    def asks_again(error: StoreUnreachable, away: float) -> bool:
        nonlocal due
        due = _FIRST_NOTICE_SECONDS if away < _FIRST_NOTICE_SECONDS else due
        goes_on = away < _MAX_RETRY_SECONDS and asked.signal is None
        if goes_on and away >= due:
            due = 2 * away
            text = (
                f"waiting for the log: {error.path} has not answered for {away:.0f} s "
                f"({error.reason}); wfctl keeps trying for at most {_MAX_RETRY_SECONDS:.0f} s"
            )
            jobs.say(text, level="warning")
        return goes_on

    return asks_again
