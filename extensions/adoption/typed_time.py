"""Read a time that a person or agent typed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from service.root.atomic_files import utc_text

_FORM = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d(?:\.\d{1,6})?)?\s?(Z|[+-]\d\d:?\d\d)?", re.ASCII
)
#: Years before this one are assumed to be mistakes. The log also requires years with four digits.
_FIRST_YEAR = 1970
#: Maximum time between the launch of a job and the log line about this launch. A larger gap means
#: that the launch time belongs to an earlier attempt.
_A_MOMENT = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class TypedTime:
    """A time as a person typed it, and the same moment in UTC."""

    text: str
    moment: str
    has_seconds: bool
    #: The UTC offset that was typed with the time, or None.
    offset: tzinfo | None

    def is_before(self, other: TypedTime) -> bool:
        """Return whether this time is earlier than the other one.

        If either time has no seconds, only the minutes are compared.
        """
        size = 19 if self.has_seconds and other.has_seconds else 16
        return self.moment[:size] < other.moment[:size]

    def is_long_before(self, other: TypedTime) -> bool:
        """Return whether this time precedes the other by more than a job launch can take."""
        gap = datetime.fromisoformat(other.moment) - datetime.fromisoformat(self.moment)
        return self.is_before(other) and gap > _A_MOMENT

    def is_same_second(self, other: TypedTime) -> bool:
        """Return whether both times were typed with seconds and are equal."""
        return self.has_seconds and other.has_seconds and self.moment == other.moment


def parse_time(text: str, zone: tzinfo | None) -> TypedTime | None:
    """Return the time that ``text`` contains, or None if ``text`` is not a time.

    ``zone`` is the time zone of a time without UTC offset. If ``zone`` is None, local time is
    assumed.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        return None
    day, minute, seconds, offset = found.groups()
    try:
        typed = datetime.fromisoformat(f"{day}T{minute}{seconds or ':00'}{offset or ''}")
        moment = typed if typed.tzinfo or zone is None else typed.replace(tzinfo=zone)
        if moment.year < _FIRST_YEAR:
            return None
        return TypedTime(text.strip(), utc_text(moment), seconds is not None, typed.tzinfo)
    except (ValueError, OverflowError):
        return None
