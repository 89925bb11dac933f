"""Times that people and agents typed: with or without seconds, with or without an offset."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo

from service.root.clock import utc_text

_FORM = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d(?:\.\d{1,6})?)?\s?(Z|[+-]\d\d:?\d\d)?", re.ASCII
)
#: Earlier times are mistakes, and the log writes years with four digits.
_FIRST_YEAR = 1970
#: What one step may take: a job is launched, the state is written, and then the log.
_A_MOMENT = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class TypedTime:
    """A time as it was typed, and the moment it names: UTC, in the log's form."""

    text: str
    moment: str
    has_seconds: bool
    #: The offset that was typed with it, None where none was.
    offset: tzinfo | None

    @property
    def wall_clock(self) -> str:
        """What the clock on the wall showed, to the minute: ``YYYY-MM-DDTHH:MM``."""
        return self.text[:16].replace(" ", "T")

    def is_before(self, other: TypedTime) -> bool:
        """Whether it is earlier, by as much of both as was typed."""
        size = 19 if self.has_seconds and other.has_seconds else 16
        return self.moment[:size] < other.moment[:size]

    def is_long_before(self, other: TypedTime) -> bool:
        """Whether it is earlier by more than it takes to launch something and to write it down."""
        gap = datetime.fromisoformat(other.moment) - datetime.fromisoformat(self.moment)
        return self.is_before(other) and gap > _A_MOMENT

    def is_same_second(self, other: TypedTime) -> bool:
        """Whether both were given to the second, and are the same."""
        return self.has_seconds and other.has_seconds and self.moment == other.moment


def parse_time(text: str, zone: tzinfo | None) -> TypedTime | None:
    """Return the time that ``text`` is, None where it is none.

    ``zone`` holds for a time without offset; None is the local one.
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


def parse_offset(text: str) -> tzinfo | None:
    """Return the zone of an offset such as ``+02:00`` or ``Z``, None where it is none."""
    found = re.fullmatch(r"([+-])(\d\d):?(\d\d)", "+00:00" if text == "Z" else text, re.ASCII)
    if found is None or int(found[2]) > 14 or int(found[3]) > 59:
        return None
    shift = timedelta(hours=int(found[2]), minutes=int(found[3]))
    return timezone(-shift if found[1] == "-" else shift)
