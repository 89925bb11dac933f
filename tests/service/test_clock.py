"""The time as a store records it, at the offset of where the writer is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from service.root import disk
from service.root.disk import system_instant, utc_text


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A place whose offset changes twice a year; after it the machine is where it was."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        disk._in_second.cache_clear()
        yield
    time.tzset()
    disk._in_second.cache_clear()


def test_it_is_the_time_now() -> None:
    """Between two looks at the system's clock, however many are asked for."""
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
def test_the_offset_is_that_of_the_minute(
    in_berlin: None, monkeypatch: pytest.MonkeyPatch, at: str, text: str, offset: str
) -> None:
    """Given the minutes around a change of the offset, then each has its own."""
    nanoseconds = round(datetime.fromisoformat(f"{at}Z").timestamp() * 1_000_000) * 1000
    monkeypatch.setattr(time, "time_ns", lambda: nanoseconds - 30_000_000_000)
    system_instant()
    monkeypatch.setattr(time, "time_ns", lambda: nanoseconds)
    assert system_instant() == (text, offset)
