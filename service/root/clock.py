"""Where time and ids come from."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

from eventstore.instant import Instant, instant

Clock = Callable[[], datetime]
"""Returns the time now, aware, at the local offset."""


def system_clock() -> datetime:
    """Return the time now at the local offset."""
    return datetime.now().astimezone()


def system_instant() -> Instant:
    """Return the time now as a store records it."""
    second, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    begun, offset = _in_second(second)
    return f"{begun}{nanoseconds // 1000:06}Z", offset


@lru_cache(maxsize=1)
def _in_second(second: int) -> Instant:
    """Return what all times of a second since the epoch begin with, and the local offset then.

    Asking the system for the offset costs several times as much as asking for the time.
    """
    text, offset = instant(datetime.fromtimestamp(second, UTC).astimezone())
    return text[:20], offset


def utc_text(moment: datetime) -> str:
    """Return ``YYYY-MM-DDTHH:MM:SS.ffffffZ``, the form in which the log holds times."""
    return instant(moment)[0]


def new_id() -> str:
    """Return a new UUIDv7 (RFC 9562): ordered by time, unique without coordination."""
    from uuid_utils import uuid7  # its import costs more than most commands need

    return str(uuid7())
