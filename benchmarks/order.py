"""Compare ways to number events on PostgreSQL by their speed and by missed events.

`python -m benchmarks.order [ROUNDS]` prints a table. Eight processes append for some seconds, one
event per transaction, while one process reads new events. The rate is measured without delays. The
missed events are measured while every tenth transaction commits 2 ms late.
"""

import multiprocessing
import random
import statistics
import sys
import time
from collections.abc import Callable
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from benchmarks.server import Server

WRITERS, SECONDS = 8, 4.0

_TABLE = """DROP TABLE IF EXISTS numbered; DROP TABLE IF EXISTS counter;
CREATE TABLE numbered (position bigint PRIMARY KEY, transaction xid8 NOT NULL, body text NOT NULL);
CREATE INDEX ON numbered (transaction, position);
CREATE TABLE counter (last bigint NOT NULL); INSERT INTO counter VALUES (0);
DROP SEQUENCE IF EXISTS numbers; CREATE SEQUENCE numbers"""
_SEQUENCE = "INSERT INTO numbered VALUES (nextval('numbers'), pg_current_xact_id(), %s)"
_NEXT = (
    "INSERT INTO numbered SELECT coalesce(max(position), 0) + 1, pg_current_xact_id(), %s "
    "FROM numbered"
)
_COUNTED = (
    "WITH n AS (UPDATE counter SET last = last + 1 RETURNING last) "
    "INSERT INTO numbered SELECT last, pg_current_xact_id(), %s FROM n"
)
_BEYOND = "SELECT position, '0'::xid8 FROM numbered WHERE position > %s ORDER BY position"
_SETTLED = """SELECT position, transaction FROM numbered
WHERE (transaction, position) > (%s::xid8, %s)
AND transaction < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY transaction, position"""


class Way(NamedTuple):
    """A way to number events: the lock of the writer, its insert, and the read limit.

    With ``settled``, readers stop at the oldest running transaction (xmin). With ``asks``, the
    writer takes the lock before it reads the last number. Otherwise it takes the lock just before
    its insert.
    """

    name: str
    turn: str | None
    insert: str
    settled: bool
    asks: bool = False


_LOCK = "SELECT pg_advisory_xact_lock(1)"
WAYS = (
    Way("sequence, read beyond the last", None, _SEQUENCE, False),
    Way("sequence, read up to pg_snapshot_xmin", None, _SEQUENCE, True),
    Way("counter row", None, _COUNTED, False),
    Way("advisory lock over the whole transaction", _LOCK, _NEXT, False, asks=True),
    Way("advisory lock over insert and commit", _LOCK, _NEXT, False),
)


def write(url: str, way: Way, late: float, stop: Event, done: Any) -> None:
    """Append events until ``stop`` is set, and report the number of committed events."""
    chance, number = random.Random(), 0
    with psycopg.connect(url, autocommit=True) as connection:
        while not stop.is_set():
            append(connection, way, chance.random() < late)
            number += 1
    done.put(number)


def append(connection: psycopg.Connection[Any], way: Way, late: bool) -> None:
    """Append one event in a transaction of two round trips; ``late`` delays its commit."""
    with connection.pipeline():
        connection.execute("BEGIN")
        if way.turn and way.asks:
            connection.execute(way.turn.encode())
        connection.execute("SELECT position FROM numbered ORDER BY position DESC LIMIT 1")
    with connection.pipeline():
        if way.turn and not way.asks:
            connection.execute(way.turn.encode())
        connection.execute(way.insert.encode(), ("x" * 400,))
        if late:
            connection.execute("SELECT pg_sleep(0.002)")
        connection.execute("COMMIT")


def follow(url: str, way: Way, stop: Event, done: Any) -> None:
    """Read new events until ``stop`` is set and once more, and report their number."""
    seen, position, transaction = 0, 0, "0"
    with psycopg.connect(url, autocommit=True) as connection:
        last = False
        while True:
            keys = (transaction, position) if way.settled else (position,)
            statement = _SETTLED if way.settled else _BEYOND
            for found, by in connection.execute(statement.encode(), keys):
                seen, position, transaction = seen + 1, found, str(by)
            if last:
                break
            last = stop.is_set()
            time.sleep(0.2 if last else 0.001)
    done.put(seen)


def _queue() -> "multiprocessing.Queue[int]":
    return multiprocessing.Queue()


def measured(url: str, way: Way, late: float) -> tuple[float, float]:
    """Return the appended events per second, and the share of them that the reader missed."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_TABLE.encode())
    stop, written, read = multiprocessing.Event(), _queue(), _queue()
    writers = [_process(write, url, way, late, stop, written) for _ in range(WRITERS)]
    reading = multiprocessing.Event()
    reader = _process(follow, url, way, reading, read)
    time.sleep(SECONDS)
    stop.set()
    total = sum(written.get() for _ in writers)
    reading.set()
    seen = read.get()
    for process in (*writers, reader):
        process.join()
    return total / SECONDS, 1 - seen / total


def _process(work: Callable[..., None], *arguments: Any) -> multiprocessing.Process:
    process = multiprocessing.Process(target=work, args=arguments)
    process.start()
    return process


def main(rounds: int) -> None:
    """Measure every way of numbering in each round, and print a table."""
    found: dict[str, list[tuple[float, float]]] = {way.name: [] for way in WAYS}
    with Server(Path.cwd()) as server:
        for _ in range(rounds):
            for way in WAYS:
                rate, _ = measured(server.conninfo(), way, 0)
                _, missed = measured(server.conninfo(), way, 0.1)
                found[way.name].append((rate, missed))
    print("| way | median, events/s | missed, % (most) |\n|---|---:|---:|")
    for name, figures in found.items():
        rate = statistics.median(rate for rate, _ in figures)
        print(f"| {name} | {rate:,.0f} | {max(missed for _, missed in figures) * 100:.2f} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
