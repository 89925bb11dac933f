"""A log on a server that went away: a loop asks again, and says what it waits for."""

from __future__ import annotations

from collections.abc import Callable

from eventstore.errors import StoreUnreachable
from reconciler.context import Jobs
from reconciler.loop.interruption import Interruption

#: Seconds for which a loop asks again, and after which it is first said.
_BOUND, _FIRST = 600.0, 2.0


def patience(jobs: Jobs, asked: Interruption) -> Callable[[StoreUnreachable, float], bool]:
    """Return what says whether a server is asked again that is away for so many seconds.

    It is not once somebody asked the loop to stop. It is said at growing intervals.
    """
    due = _FIRST

    def asks_again(error: StoreUnreachable, away: float) -> bool:
        nonlocal due
        due = _FIRST if away < _FIRST else due
        goes_on = away < _BOUND and asked.signal is None
        if goes_on and away >= due:
            due = 2 * away
            jobs.say(_told(error, away), level="warning")
        return goes_on

    return asks_again


def _told(error: StoreUnreachable, away: float) -> str:
    return (
        f"waiting for the log: {error.path} has given no answer for {away:.0f} s "
        f"({error.reason}); asking again for {_BOUND:.0f} s at the most"
    )
