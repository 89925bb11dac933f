"""When an event is recorded, as the log says it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache

#: The time in UTC, `YYYY-MM-DDTHH:MM:SS.ffffffZ`, and the offset of whoever writes, `+HH:MM`: what
#: is stored, as to make it of a `datetime` is a twentieth of an append.
Instant = tuple[str, str]

#: What a store asks for the time.
Clock = Callable[[], Instant]


def instant(moment: datetime) -> Instant:
    """An aware local time as the log says it."""
    # strftime leaves out the noughts of an early year, and such a text sorts after all others.
    utc = moment.astimezone(UTC).replace(tzinfo=None)
    return f"{utc.isoformat(timespec='microseconds')}Z", _offset(moment.utcoffset() or timedelta())


@cache
def _offset(offset: timedelta) -> str:
    minutes = round(offset.total_seconds() / 60)
    hours, minutes = divmod(abs(minutes), 60)
    return f"{'-' if offset < timedelta() else '+'}{hours:02}:{minutes:02}"


def instants(clock: Callable[[], datetime]) -> Clock:
    """A clock for a store, of one that shows aware local times."""
    return lambda: instant(clock())
