"""How times are shown.

The log holds UTC with microseconds (``2026-03-31T00:00:00.000000Z``). JSON files show UTC
seconds with ``Z``; ``progress.log`` shows the writer's local time as ``date -Iseconds`` prints it.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

#: Characters of a time in the log's form.
_LOG_FORM = 27
_UNITS = (
    ("year", 31_556_952),
    ("month", 2_629_746),
    ("week", 604_800),
    ("day", 86_400),
    ("hour", 3600),
    ("minute", 60),
    ("second", 1),
)


def utc_seconds(moment: str | None) -> str | None:
    """Return a UTC time of the log cut to seconds; what has another form stays as it is."""
    if moment is None or len(moment) != _LOG_FORM or not moment.endswith("Z"):
        return moment
    return moment[:19] + "Z"


def local_seconds(moment: str, offset: str) -> str:
    """Return a UTC time of the log at ``offset`` (``+02:00``), in seconds: ``…T02:00:00+02:00``."""
    if offset == "+00:00":
        return moment[:19] + offset
    hours, minutes = int(offset[1:3]), int(offset[4:6])
    shift = timedelta(hours=hours, minutes=minutes)
    zone = timezone(-shift if offset[0] == "-" else shift)
    return datetime.fromisoformat(moment[:19] + "+00:00").astimezone(zone).isoformat()


def ago(moment: str, now: str) -> str:
    """Return how long before ``now`` a UTC time of the log was: ``2 hours ago``, ``just now``."""
    seconds = int((parsed(now) - parsed(moment)).total_seconds())
    for unit, length in _UNITS:
        number = abs(seconds) // length
        if number:
            words = f"{number} {unit}{'s' if number > 1 else ''}"
            return f"{words} ago" if seconds > 0 else f"in {words}"
    return "just now"


def parsed(moment: str) -> datetime:
    """Return a time of the log as an aware one."""
    return datetime.fromisoformat(moment)


def age(moment: str, now: str) -> int:
    """Return the whole seconds from one UTC time (``…Z``) to another, at least 0."""
    passed = datetime.fromisoformat(now) - datetime.fromisoformat(moment)
    return max(int(passed.total_seconds()), 0)


def passed(moment: str, now: str) -> float | None:
    """Return the seconds from a time to ``now`` (UTC), negative where it is yet to come.

    A time that was typed without an offset is local; None for what is no time.
    """
    try:
        then = datetime.fromisoformat(moment).astimezone()
    except (ValueError, OverflowError):
        return None
    return (parsed(now) - then).total_seconds()
