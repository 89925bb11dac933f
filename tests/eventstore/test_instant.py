"""The notation of the time at which an event is recorded."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from eventstore.event import build_clock, format_instant

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
def test_recorded_time_is_utc_with_microseconds(now: datetime, text: str) -> None:
    """Every time has the same length, whatever the clock shows."""
    assert format_instant(now)[0] == text


@pytest.mark.parametrize(
    ("hours", "text"), [(0, "+00:00"), (5.75, "+05:45"), (-3.5, "-03:30"), (14, "+14:00")]
)
def test_offset_of_the_writer_is_kept(hours: float, text: str) -> None:
    """The recorded time includes the UTC offset of the writer's clock."""
    zone = timezone(timedelta(hours=hours))
    assert build_clock(lambda: datetime(2026, 1, 1, tzinfo=zone))()[1] == text
