"""The setting of a backend profile that limits how often wfctl asks a scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Name of the setting: the minimum number of seconds between two queries of the scheduler.
QUERY_INTERVAL = "query_interval"
DEFAULT_QUERY_INTERVAL = 60
_LONGEST = 3600
EXPECTED = f"a whole number of seconds from 0 to {_LONGEST}"


def parse_query_interval(profile: Mapping[str, Any]) -> int | None:
    """Return the query interval of a backend profile in seconds, or None if it is invalid."""
    given = profile.get(QUERY_INTERVAL, DEFAULT_QUERY_INTERVAL)
    is_valid = isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= _LONGEST
    return given if is_valid else None
