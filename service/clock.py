"""Where time and ids come from."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""Returns the time now, aware, at the local offset."""


def system_clock() -> datetime:
    """Return the time now at the local offset."""
    return datetime.now(UTC).astimezone()


def utc_text(moment: datetime) -> str:
    """Return ``YYYY-MM-DDTHH:MM:SS.ffffffZ``, the form in which the log holds times."""
    # strftime leaves out the noughts of an early year, and such a text sorts after all others.
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def new_id() -> str:
    """Return a new UUIDv7 (RFC 9562): ordered by time, unique without coordination."""
    from uuid_utils import uuid7  # its import costs more than most commands need

    return str(uuid7())
