"""Writers get the lock in the order of their arrival, and a busy writer excludes no other."""

import fcntl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path

import pytest

from eventstore.errors import StoreBusy
from eventstore.sqlite.write_queue import WriterLock

Join = Callable[[WriterLock, list[WriterLock]], threading.Thread]

# Seconds that are far more than a writer keeps the lock, even on a busy machine.
LONG_SECONDS = 10.0


@pytest.fixture
def locks(tmp_path: Path) -> Iterator[list[WriterLock]]:
    """Yield five locks on one database, as five processes would have."""
    with ExitStack() as stack:
        yield [stack.enter_context(closing(WriterLock(tmp_path / "events.db"))) for _ in range(5)]


@pytest.fixture
def joined(tmp_path: Path) -> Join:
    """Return `join` with an additional wait until the kernel lists the new waiting thread."""

    def join_and_look(lock: WriterLock, arrived: list[WriterLock]) -> threading.Thread:
        before = blocked(tmp_path)
        thread = join(lock, arrived)
        end = time.monotonic() + LONG_SECONDS
        while blocked(tmp_path) == before and time.monotonic() < end:
            time.sleep(0.01)
        return thread

    return join_and_look


def blocked(folder: Path) -> int:
    """Return the number of waiting locks on files in the folder, see proc_locks(5)."""
    inodes = [f":{path.stat().st_ino} " for path in folder.iterdir()]
    waiting = [line for line in Path("/proc/locks").read_text().splitlines() if "->" in line]
    return sum(inode in line for line in waiting for inode in inodes)


def join(lock: WriterLock, arrived: list[WriterLock]) -> threading.Thread:
    """Start a thread that waits for the lock, records its arrival, and releases the lock."""

    def wait() -> None:
        lock.acquire(LONG_SECONDS)
        arrived.append(lock)
        lock.release()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_waiting_writers_get_the_lock_in_order(locks: list[WriterLock], joined: Join) -> None:
    """Several waiting writers get the lock in the order of their arrival."""
    arrived: list[WriterLock] = []
    locks[0].acquire(0)
    threads = [joined(lock, arrived) for lock in locks[1:]]
    locks[0].release()
    for thread in threads:
        thread.join()
    assert arrived == locks[1:]


def test_writer_that_locks_repeatedly_lets_others_in(locks: list[WriterLock]) -> None:
    """A waiting writer gets the lock even if it is free only for an instant."""
    arrived: list[WriterLock] = []
    locks[0].acquire(0)
    thread = join(locks[1], arrived)
    for _ in count():
        locks[0].release()
        locks[0].acquire(LONG_SECONDS)
        if arrived:
            break
    locks[0].release()
    thread.join()
    assert arrived == [locks[1]]


@pytest.mark.parametrize("waiting", [1, 2], ids=["at the head", "in the queue"])
def test_timed_out_wait_leaves_no_trace(
    locks: list[WriterLock], joined: Join, waiting: int
) -> None:
    """The timeout raises an error, and all locks work afterwards."""
    arrived: list[WriterLock] = []
    locks[0].acquire(0)
    threads = [joined(lock, arrived) for lock in locks[1:waiting]]
    with pytest.raises(StoreBusy) as caught:
        locks[4].acquire(0.1)
    assert caught.value.waited == 0.1
    locks[0].release()
    for lock in (*locks, *locks):
        lock.acquire(LONG_SECONDS)
        lock.release()
    for thread in threads:
        thread.join()
    assert len(arrived) == waiting - 1


def test_alone_is_false_next_to_a_holder_or_waiter(locks: list[WriterLock], joined: Join) -> None:
    """`alone` returns True only if no other lock is held or waits."""
    arrived: list[WriterLock] = []
    locks[0].acquire(0)
    assert not locks[4].try_acquire_uncontended()
    thread = joined(locks[1], arrived)
    assert not locks[4].try_acquire_uncontended()
    locks[0].release()
    thread.join()
    assert locks[4].try_acquire_uncontended()
    with pytest.raises(StoreBusy):
        locks[0].acquire(0)


def test_suspended_head_of_the_queue_blocks_nobody(
    locks: list[WriterLock], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the first waiting writer is suspended, another writer gets the lock."""
    monkeypatch.setattr("eventstore.sqlite.write_queue._STUCK", 0.1)
    arrived: list[WriterLock] = []
    with (tmp_path / "events.db-queue").open("r+b") as suspended:
        fcntl.flock(suspended, fcntl.LOCK_EX)
        locks[0].acquire(0)
        thread = join(locks[1], arrived)
        time.sleep(0.05)
        locks[0].release()
        thread.join()
        assert arrived == [locks[1]]
