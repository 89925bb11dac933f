"""When an event is recorded, as the log says it."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from eventstore.event import instant, instants

NEPAL = timezone(timedelta(hours=5, minutes=45))


@pytest.mark.parametrize(
    ("now", "text"),
    [
        (datetime(2026, 7, 1, 12, 0, 0, tzinfo=UTC), "2026-07-01T12:00:00.000000Z"),
        (datetime(2026, 7, 1, 12, 0, 0, 40, tzinfo=UTC), "2026-07-01T12:00:00.000040Z"),
        (datetime(2026, 1, 1, 0, 30, 0, 0, tzinfo=NEPAL), "2025-12-31T18:45:00.000000Z"),
        (datetime(2026, 1, 1, 0, 30, 0, 500_000, tzinfo=NEPAL), "2025-12-31T18:45:00.500000Z"),
    ],
    ids=["full second", "microseconds", "full second elsewhere", "half a second elsewhere"],
)
def test_a_time_has_six_digits_after_its_second(now: datetime, text: str) -> None:
    """Given any moment, then it is recorded in UTC and as long as every other."""
    assert instant(now)[0] == text


@pytest.mark.parametrize(
    ("hours", "text"), [(0, "+00:00"), (5.75, "+05:45"), (-3.5, "-03:30"), (14, "+14:00")]
)
def test_the_writers_offset_is_kept(hours: float, text: str) -> None:
    """Given a clock anywhere on earth, then its offset is a part of the instant."""
    zone = timezone(timedelta(hours=hours))
    assert instants(lambda: datetime(2026, 1, 1, tzinfo=zone))()[1] == text
