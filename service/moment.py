"""``--at``: a point in the history, by version or by time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from eventstore.event import RecordedEvent
from service.clock import utc_text
from service.errors import InvalidOption

Moment = int | str
"""A version of the stream, or a UTC time in the log's form."""


#: No stream grows longer, and no engine counts further.
_LAST = 2**63 - 1


def parse_moment(text: str) -> Moment:
    """Return the moment that ``text`` names; a time without offset is local.

    Raises `InvalidOption` for what is neither a version nor an ISO 8601 time.
    """
    try:
        if text.isdecimal():
            return min(int(text), _LAST)
        return utc_text(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise InvalidOption(
            f"expected a version (12) or an ISO 8601 time (2026-03-31T14:00:00+02:00), "
            f"found {text!r}",
            value=text,
        ) from None


def what_was_so(events: Iterable[RecordedEvent], moment: str) -> Iterator[RecordedEvent]:
    """Yield, in version order, the events that were so by ``moment``.

    A stage's time never runs backwards: each event counts from the latest time seen in its
    stage so far.
    """
    latest: dict[str | None, str] = {}
    for event in events:
        stage = event.data.get("stage")
        latest[stage] = max(latest.get(stage, ""), event.occurred_at)
        if latest[stage] <= moment:
            yield event
