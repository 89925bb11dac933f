"""Where time and ids come from."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timezone
from functools import lru_cache

from eventstore.instant import Instant, instant

Clock = Callable[[], datetime]
"""Returns the time now, aware, at the local offset."""


_QUARTER = 900


def system_clock() -> datetime:
    """Return the time now at the local offset."""
    now = time.time()
    return datetime.fromtimestamp(now, _offset_in(now // _QUARTER))


@lru_cache(maxsize=1)
def _offset_in(quarter: float) -> timezone:
    """Return the local offset in a quarter of an hour, inside which no place on earth changes it.

    Asking the system for it costs several times as much as asking for the time.
    """
    offset = datetime.fromtimestamp(quarter * _QUARTER, UTC).astimezone().utcoffset()
    return timezone(offset) if offset else UTC


def system_instant() -> Instant:
    """Return the time now as a store records it."""
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    minute, second = divmod(seconds, 60)
    begun, offset = _in_minute(minute)
    return f"{begun}{second:02}.{nanoseconds // 1000:06}Z", offset


@lru_cache(maxsize=1)
def _in_minute(minute: int) -> Instant:
    """Return what all times of a minute since the epoch begin with, and the local offset then."""
    text, offset = instant(datetime.fromtimestamp(minute * 60, UTC).astimezone())
    return text[:17], offset


def utc_text(moment: datetime) -> str:
    """Return ``YYYY-MM-DDTHH:MM:SS.ffffffZ``, the form in which the log holds times."""
    return instant(moment)[0]


def new_id() -> str:
    """Return a new UUIDv7 (RFC 9562): ordered by time, unique without coordination."""
    from uuid_utils import uuid7  # its import costs more than most commands need

    return str(uuid7())
