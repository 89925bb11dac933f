"""How times are shown.

The log holds UTC with microseconds (``2026-03-31T00:00:00.000000Z``). JSON files show UTC
seconds with ``Z``; ``progress.log`` shows the writer's local time as ``date -Iseconds`` prints it.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

#: Characters of a time in the log's form.
_LOG_FORM = 27


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
