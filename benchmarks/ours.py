"""Measurements of wfctl's event log on SQLite, each a function that returns a figure."""

import resource
import time
from itertools import count
from pathlib import Path

from benchmarks.contents import STREAM, claim_of, counted, data, event, fill, made, opened
from eventstore.store import StoredFold

# Number of single appends. It is large enough that SQLite copies the write-ahead log of each
# contender into its database several times.
SINGLES = 1000
BATCH = 1000
BATCHES = 10
LENGTH = 100_000


def singles(folder: Path, journal: str = "wal") -> float:
    """Append one event per transaction, and return events per second.

    Each append is validated, checked for the stream's version, hashed and durable, and it claims
    its command id.
    """
    store, said = made(folder / "events.db", journal), list(map(data, range(SINGLES)))
    start = time.perf_counter()
    for version in range(SINGLES):
        new = event(said[version])
        store.append(STREAM, [new], expected=version, claim=claim_of(new))
    seconds = time.perf_counter() - start
    store.close()
    return SINGLES / seconds


def singles_truncate(folder: Path) -> float:
    """Append one event per transaction with a rollback journal; return events per second."""
    return singles(folder, "truncate")


def batches(folder: Path) -> float:
    """Append a thousand events per transaction, and return events per second."""
    store = made(folder / "events.db", "wal")
    start = time.perf_counter()
    fill(store, 1, BATCH * BATCHES)
    seconds = time.perf_counter() - start
    store.close()
    return BATCH * BATCHES / seconds


def reading(folder: Path) -> float:
    """Read, decode and fold events, and return events per second."""
    store = made(folder / "events.db", "wal")
    fill(store, 1, LENGTH)
    store.close()
    store = opened(folder / "events.db", read_only=True)
    start = time.perf_counter()
    counts = counted(found.data for found in store.read(STREAM))
    seconds = time.perf_counter() - start
    store.close()
    if sum(counts.values()) != LENGTH:
        raise AssertionError(f"expected {LENGTH} events, counted {sum(counts.values())}")
    return LENGTH / seconds


def open_append_close(folder: Path) -> float:
    """Return the milliseconds to open the log, append one event and close the log."""
    path = folder / "events.db"
    made(path, "wal").close()
    start = time.perf_counter()
    for version in range(300):
        store = opened(path)
        new = event(data(version))
        store.append(STREAM, [new], expected=version, claim=claim_of(new))
        store.close()
    return (time.perf_counter() - start) / 300 * 1000


def appends_at(folder: Path, lengths: list[int]) -> list[float]:
    """Return the microseconds of an append to a stream of each length, in one database."""
    store = made(folder / "events.db", "wal")
    for length in lengths:
        fill(store, 1, length, f"stream-{length}")
    spent: dict[int, list[float]] = {length: [] for length in lengths}
    versions = {length: count(length) for length in lengths}
    for number in range(1500):
        for length in lengths:
            new = event(data(number))
            claim, version = claim_of(new), next(versions[length])
            start = time.perf_counter()
            store.append(f"stream-{length}", [new], expected=version, claim=claim)
            spent[length].append(time.perf_counter() - start)
    store.close()
    return [sorted(times)[len(times) // 2] * 1e6 for times in spent.values()]


def rehydrated(folder: Path, length: int) -> tuple[float, float, float]:
    """Measure the recovery of a state from a stored fold and from the first event.

    Returns the milliseconds from a stored fold, the seconds from the first event, and the
    additional peak memory of the second in megabytes.
    """
    path = folder / "events.db"
    store = made(path, "wal")
    fill(store, 1, length)
    store.save_fold(StoredFold(STREAM, "count", 1, length - 400, b"{}"))
    store.close()
    start = time.perf_counter()
    store = opened(path, read_only=True)
    fold = store.load_fold(STREAM, "count", 1)
    after = fold.version if fold else 0
    counted(found.data for found in store.read(STREAM, after=after))
    milliseconds = (time.perf_counter() - start) * 1000
    before, start = _peak_megabytes(), time.perf_counter()
    counted(found.data for found in store.read(STREAM))
    seconds = time.perf_counter() - start
    store.close()
    return milliseconds, seconds, _peak_megabytes() - before


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
