"""What an append adds to its events."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from eventstore.chain import stamp

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
    assert stamp("w", "c", now).recorded_at == text


def test_the_writers_offset_is_kept() -> None:
    """Given a clock east of Greenwich, then its offset is in the stamp."""
    assert stamp("w", "c", datetime(2026, 1, 1, tzinfo=NEPAL)).utc_offset == "+05:45"
