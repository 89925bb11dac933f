"""Lengths of time as people write them: ``30m``, ``12h``, ``7d``."""

from __future__ import annotations

import re
from datetime import timedelta

_SPAN = re.compile(r"([0-9]{1,6}) ?([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def span(text: str) -> timedelta | None:
    """Return a length of time, None for what is none."""
    found = _SPAN.fullmatch(text.strip())
    return timedelta(**{_UNITS[found[2]]: int(found[1])}) if found is not None else None
