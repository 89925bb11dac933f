"""A subscription returns every event in order and without delay, and is idle otherwise."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import IO, NamedTuple

import pytest

from eventstore.store import EventStore, Expected, subscribe
from tests.eventstore.support import Log, claim, notes

#: Maximum seconds until a follower reports an event. The target is half a second, but a loaded
#: machine gets ten times as much.
WAKES_WITHIN_SECONDS = 5.0


class Seen(NamedTuple):
    """An event as a follower reported it."""

    position: int
    event_id: str
    at: float


class Follower(NamedTuple):
    """A process that follows the log."""

    process: int
    lines: IO[str]

    def next(self) -> Seen:
        """Return the next event that the process reports."""
        position, event_id, at = self.lines.readline().split()
        return Seen(int(position), event_id, float(at))


@contextmanager
def follower(log: Log, after: int = 0) -> Iterator[Follower]:
    """Start a process that follows the log from a position, and kill it at the end."""
    command = [sys.executable, "-m", "tests.eventstore.follower", log.address, str(after)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            found = Follower(process.pid, process.stdout)
            found.next()
            yield found
        finally:
            process.kill()


def processor_seconds(process: int) -> float:
    """Return the processor time that a process has used."""
    with open(f"/proc/{process}/stat") as file:  # noqa: PTH123 - not a file on a disk
        fields = file.read().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def test_existing_events_come_first(store: EventStore) -> None:
    """A subscription starts at the beginning, at a position, or at a version of a stream."""
    store.append("a", notes(2), expected=0, claim=claim())
    store.append("b", notes(1), expected=0, claim=claim())
    store.append("a", notes(1), expected=2, claim=claim())
    assert [e.position for e in islice(subscribe(store), 4)] == [1, 2, 3, 4]
    assert [e.position for e in islice(subscribe(store, after=2), 2)] == [3, 4]
    assert [e.version for e in islice(subscribe(store, stream="a", after=1), 2)] == [2, 3]


def test_wait_ends_after_its_timeout(store: EventStore) -> None:
    """`wait` returns the last position, whether or not an event arrived in time."""
    assert store.wait(0, 0.01) == 0
    store.append("a", notes(2), expected=0, claim=claim())
    assert store.wait(0, 60) == 2
    assert store.wait(2, 0.01) == 2


@pytest.mark.slow
@pytest.mark.few(1)
def test_follower_wakes_soon_and_is_idle_otherwise(log: Log) -> None:
    """Another process reports each event within the limit and uses almost no processor time."""
    store = log.opened()
    with follower(log) as reader:
        late = []
        for number in range(5):
            event = notes(1)
            store.append("w", event, expected=number, claim=claim())
            appended = time.time()
            seen = reader.next()
            assert (seen.position, seen.event_id) == (number + 1, event[0].event_id)
            late.append(seen.at - appended)
        used = processor_seconds(reader.process)
        time.sleep(1)
        assert processor_seconds(reader.process) - used < 0.2
    store.close()
    assert max(late) < WAKES_WITHIN_SECONDS


@pytest.mark.slow
@pytest.mark.few(2)
def test_killed_follower_continues_from_its_checkpoint(log: Log) -> None:
    """A new follower that starts at the last reported position skips no event."""
    store = log.opened()
    with follower(log) as reader:
        store.append("w", notes(3), expected=0, claim=claim())
        seen = [reader.next().position for _ in range(3)]
    store.append("w", notes(3), expected=Expected.ANY, claim=claim())
    with follower(log, after=seen[1]) as reader:
        seen = [reader.next().position for _ in range(4)]
    store.close()
    assert seen == [3, 4, 5, 6]
