"""Times in the log have the UTC offset of the writer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from service.root import atomic_files
from service.root.atomic_files import system_instant, utc_text


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set a time zone with daylight saving time, and restore the zone afterwards."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        atomic_files._second_texts.cache_clear()
        yield
    time.tzset()
    atomic_files._second_texts.cache_clear()


def test_system_instant_returns_the_current_time() -> None:
    """The returned time lies between two readings of the system clock."""
    for _ in range(100):
        before = datetime.now(UTC)
        now, _ = system_instant()
        assert utc_text(before) <= now <= utc_text(datetime.now(UTC))


@pytest.mark.parametrize(
    ("at", "text", "offset"),
    [
        ("2026-03-29T00:59:59.999999", "2026-03-29T00:59:59.999999Z", "+01:00"),
        ("2026-03-29T01:00:00", "2026-03-29T01:00:00.000000Z", "+02:00"),
        ("2026-10-25T00:59:09.000040", "2026-10-25T00:59:09.000040Z", "+02:00"),
        ("2026-10-25T01:00:00.5", "2026-10-25T01:00:00.500000Z", "+01:00"),
    ],
)
def test_offset_matches_the_minute_around_a_clock_change(
    in_berlin: None, monkeypatch: pytest.MonkeyPatch, at: str, text: str, offset: str
) -> None:
    """Each minute around the change to or from daylight saving time has its own offset."""
    nanoseconds = round(datetime.fromisoformat(f"{at}Z").timestamp() * 1_000_000) * 1000
    monkeypatch.setattr(time, "time_ns", lambda: nanoseconds - 30_000_000_000)
    system_instant()
    monkeypatch.setattr(time, "time_ns", lambda: nanoseconds)
    assert system_instant() == (text, offset)
