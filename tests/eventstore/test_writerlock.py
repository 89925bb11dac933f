"""The queue of writers: in order, and nobody who appends again and again keeps others out."""

import fcntl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path

import pytest

from eventstore.errors import StoreBusy
from eventstore.sqlite.queue import WriterLock

Join = Callable[[WriterLock, list[WriterLock]], threading.Thread]

# Far beyond what a turn takes, on a machine that does much else.
LONG_SECONDS = 10.0


@pytest.fixture
def locks(tmp_path: Path) -> Iterator[list[WriterLock]]:
    """Five locks on one database, as so many processes have them."""
    with ExitStack() as stack:
        yield [stack.enter_context(closing(WriterLock(tmp_path / "events.db"))) for _ in range(5)]


@pytest.fixture
def joined(tmp_path: Path) -> Join:
    """As `join`, back when the kernel has one more that waits for either file."""

    def join_and_look(lock: WriterLock, arrived: list[WriterLock]) -> threading.Thread:
        before = blocked(tmp_path)
        thread = join(lock, arrived)
        end = time.monotonic() + LONG_SECONDS
        while blocked(tmp_path) == before and time.monotonic() < end:
            time.sleep(0.01)
        return thread

    return join_and_look


def blocked(folder: Path) -> int:
    """How many wait in the kernel for a lock on a file in the folder: see proc_locks(5)."""
    inodes = [f":{path.stat().st_ino} " for path in folder.iterdir()]
    waiting = [line for line in Path("/proc/locks").read_text().splitlines() if "->" in line]
    return sum(inode in line for line in waiting for inode in inodes)


def join(lock: WriterLock, arrived: list[WriterLock]) -> threading.Thread:
    """Wait for the turn in a thread, note that it came, and let the next one in."""

    def wait() -> None:
        lock.acquire(LONG_SECONDS)
        arrived.append(lock)
        lock.release()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_turns_come_in_the_order_of_the_queue(locks: list[WriterLock], joined: Join) -> None:
    """Given several that wait, when the turn is free, then each has it as it came."""
    arrived: list[WriterLock] = []
    locks[0].acquire(0)
    threads = [joined(lock, arrived) for lock in locks[1:]]
    locks[0].release()
    for thread in threads:
        thread.join()
    assert arrived == locks[1:]


def test_one_that_takes_turn_after_turn_lets_others_in(locks: list[WriterLock]) -> None:
    """Given one that lets go for no longer than an instant, then who waits has it all the same."""
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
def test_a_wait_that_ends_leaves_no_trace(
    locks: list[WriterLock], joined: Join, waiting: int
) -> None:
    """Given a turn that is not handed over in time, then it is an error, and all goes on after."""
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


def test_nobody_is_alone_beside_one_that_holds_or_waits(
    locks: list[WriterLock], joined: Join
) -> None:
    """Given a holder, and then one that waits, then both are seen; given neither, one is alone."""
    arrived: list[WriterLock] = []
    locks[0].acquire(0)
    assert not locks[4].alone()
    thread = joined(locks[1], arrived)
    assert not locks[4].alone()
    locks[0].release()
    thread.join()
    assert locks[4].alone()
    with pytest.raises(StoreBusy):
        locks[0].acquire(0)


def test_a_head_of_the_queue_that_is_suspended_keeps_nobody_out(
    locks: list[WriterLock], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given one that stands still before a turn that is given up, then another has it."""
    monkeypatch.setattr("eventstore.sqlite.queue._STUCK", 0.1)
    arrived: list[WriterLock] = []
    with (tmp_path / "events.db-queue").open("r+b") as suspended:
        fcntl.flock(suspended, fcntl.LOCK_EX)
        locks[0].acquire(0)
        thread = join(locks[1], arrived)
        time.sleep(0.05)
        locks[0].release()
        thread.join()
        assert arrived == [locks[1]]
