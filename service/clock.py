"""Where time and ids come from."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timezone
from functools import lru_cache

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


def utc_text(moment: datetime) -> str:
    """Return ``YYYY-MM-DDTHH:MM:SS.ffffffZ``, the form in which the log holds times."""
    # strftime leaves out the noughts of an early year, and such a text sorts after all others.
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def new_id() -> str:
    """Return a new UUIDv7 (RFC 9562): ordered by time, unique without coordination."""
    from uuid_utils import uuid7  # its import costs more than most commands need

    return str(uuid7())
