"""A log in another place is the same log: every text, hash, key and refusal, in the same order."""

import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

import pytest

from eventstore.errors import DamagedEvent, StoreDamaged, TransferConflict
from eventstore.store import Claim, Claimed, EventStore, Expected, Raw, Refusal
from eventstore.transfer.archive import ArchiveSource, is_archive, write_archive
from eventstore.transfer.copy import Copied, copy
from tests.eventstore.memory import MemoryStore
from tests.eventstore.support import (
    REFUSAL,
    SCHEMA,
    Log,
    claim,
    claim_of,
    notes,
    opened,
    ticking,
)

Item = TypeVar("Item")

STREAMS = ("a", "b", "c")


def filled(store: EventStore, rounds: int = 3) -> EventStore:
    """Give a log three streams in turns, keys with and without events, and refusals."""
    for _ in range(rounds):
        for stream in STREAMS:
            store.append(stream, notes(2), expected=Expected.ANY, claim=claim())
    store.append("a", [], expected=Expected.ANY, claim=Claim("empty", "d"))
    store.record_refusal(REFUSAL)
    store.record_refusal(REFUSAL._replace(stream="b"))
    return store


@pytest.fixture
def source() -> EventStore:
    """A log to copy from."""
    return filled(MemoryStore(schema=SCHEMA, clock=ticking()))


class Interrupted:
    """A source whose reading ends with an error after so many events."""

    def __init__(self, source: EventStore, after: int) -> None:
        self._source = source
        self._after = after
        self.streams, self.commands = source.streams, source.commands
        self.refusals = source.refusals

    def all_raw(self) -> Iterator[Raw]:
        """So many events, then no more."""
        return torn(self._source.all_raw(), self._after)


def torn(found: Iterator[Item], after: int) -> Iterator[Item]:
    """So many of what is found, then an error."""
    yield from islice(found, after)
    raise ConnectionError("gone")


class Unclaimed:
    """A source whose claims somebody took away."""

    def __init__(self, source: EventStore) -> None:
        self.all_raw, self.streams, self.refusals = source.all_raw, source.streams, source.refusals

    def commands(self) -> Iterator[Claimed]:
        """None."""
        return iter(())


class Crowded:
    """A source of one event, so many commands and as many refusals, none of them kept."""

    def __init__(self, number: int) -> None:
        log = MemoryStore(schema=SCHEMA, clock=ticking())
        self.name = f"w{number}"
        log.append(self.name, notes(1), expected=0, claim=Claim(self._key(0), "d" * 64))
        self.all_raw, self.streams = log.all_raw, log.streams
        self._first, self._number = list(log.commands()), number

    def _key(self, number: int) -> str:
        return f"{self.name}-{number:09}"

    def commands(self) -> Iterator[Claimed]:
        """In order of their ids."""
        keys = map(self._key, range(1, self._number))
        return chain(self._first, (Claimed(key, self.name, "d" * 64, 2, 1) for key in keys))

    def refusals(self, stream: str | None = None) -> Iterator[Refusal]:
        """One like the other."""
        return (REFUSAL for _ in range(self._number) if stream in (None, self.name))


def texts(log: EventStore | ArchiveSource) -> list[tuple[str, str]]:
    """Every text with its hash, in order."""
    return [(raw.text, raw.hash) for raw in log.all_raw()]


def check_same(target: EventStore, source: EventStore) -> None:
    """Nothing is missing, nothing is there twice, and the chains are whole."""
    assert texts(target) == texts(source)
    assert list(target.commands()) == list(source.commands())
    assert list(target.refusals()) == list(source.refusals())
    assert list(target.verify()) == []


def test_a_copy_is_the_same_log(store: EventStore, source: EventStore) -> None:
    """Into every engine; and what is appended then continues the chains."""
    assert copy(source, store) == Copied(3, 18, 10, 2, 0)
    check_same(store, source)
    store.append("a", notes(1), expected=6, claim=claim())
    known = next(iter(source.commands()))
    assert store.claimed(Claim(known.command_id, known.digest)) is not None
    assert list(store.verify()) == []


def test_commands_that_are_their_event_stay_claimed(store: EventStore) -> None:
    """From every engine."""
    asked = notes(3)
    for new in asked:
        store.append("own", [new], expected=Expected.ANY, claim=claim_of(new))
    target = MemoryStore(schema=SCHEMA, clock=ticking())
    assert copy(filled(store), target) == Copied(4, 21, 13, 2, 0)
    check_same(target, store)
    for new in asked:
        again = target.append("own", [new], expected=0, claim=claim_of(new))
        assert again.repeated


def test_a_copy_takes_in_commands_that_are_their_event(store: EventStore) -> None:
    """Into every engine, which knows them as it knows its own."""
    source, asked = MemoryStore(schema=SCHEMA, clock=ticking()), notes(3)
    for new in asked:
        source.append("own", [new], expected=Expected.ANY, claim=claim_of(new))
    copy(source, store)
    check_same(store, source)
    for new in asked:
        again = store.append("own", [new], expected=0, claim=claim_of(new))
        assert again.repeated


def test_a_copy_from_every_engine_is_the_same_log(store: EventStore) -> None:
    """Whatever keeps the source."""
    target = MemoryStore(schema=SCHEMA, clock=ticking())
    copy(filled(store), target)
    check_same(target, store)


def test_more_events_than_a_batch_are_copied_in_order(store: EventStore) -> None:
    """Thousands, of two streams that alternate."""
    source = MemoryStore(schema=SCHEMA, clock=ticking())
    for number in range(5):
        source.append("ab"[number % 2], notes(500), expected=Expected.ANY, claim=claim())
    assert copy(source, store).events == 2500
    check_same(store, source)


def test_one_stream_can_be_copied_beside_others(store: EventStore, source: EventStore) -> None:
    """With its keys and refusals; what is in the target stays."""
    store.append("x", notes(2), expected=0, claim=claim())
    assert copy(source, store, only="b") == Copied(1, 6, 3, 1, 0)
    assert [raw.hash for raw in store.raw("b")] == [raw.hash for raw in source.raw("b")]
    assert sorted(store.streams()) == ["b", "x"]
    assert list(store.verify()) == []


@pytest.mark.parametrize("after", [0, 1, 7, 18])
def test_an_interrupted_copy_is_taken_up(
    store: EventStore, source: EventStore, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it ended, with nothing twice; and what came to the source meanwhile comes too."""
    monkeypatch.setattr("eventstore.transfer.copy._BATCH", 2)
    if after:
        with pytest.raises(ConnectionError):
            copy(Interrupted(source, after), store)
    source.append("c", notes(2), expected=Expected.ANY, claim=claim())
    done = copy(source, store)
    assert (done.events, done.before) == (20, after - after % 2)
    check_same(store, source)


@pytest.mark.parametrize("after", [0, 1, 5])
@pytest.mark.parametrize("kind", ["commands", "refusals"])
def test_a_copy_that_ends_among_keys_and_refusals_is_taken_up(
    store: EventStore, source: EventStore, kind: str, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is lost and none is there twice, also where a key that sorts before came meanwhile."""
    monkeypatch.setattr("eventstore.transfer.copy._BATCH", 2)
    for _ in range(5):
        source.record_refusal(REFUSAL)
    broken = Interrupted(source, 18)
    broken.all_raw = source.all_raw  # type: ignore[method-assign]
    found = list(getattr(source, kind)())
    monkeypatch.setattr(broken, kind, lambda *_: torn(iter(found), after))
    with pytest.raises(ConnectionError):
        copy(broken, store)
    source.append("a", notes(1), expected=Expected.ANY, claim=Claim("a key before", "d"))
    assert copy(source, store) == Copied(3, 19, 11, 7, 18)
    check_same(store, source)


@pytest.mark.slow
@pytest.mark.few(1)
def test_keys_and_refusals_do_not_fill_the_memory(log: Log) -> None:
    """Ten times as many need no more of it."""
    peaks = []
    for number in (2_000, 20_000):
        with closing(log.opened()) as target:
            tracemalloc.start()
            assert copy(Crowded(number), target)[2:4] == (number, number)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def test_a_log_whose_claims_are_gone_can_be_saved(store: EventStore, source: EventStore) -> None:
    """All its events are there, and a check of the copy says what one of the source does."""
    assert copy(Unclaimed(source), store)[1:3] == (18, 0)
    assert texts(store) == texts(source)
    assert {found.kind for found in store.verify()} == {"unclaimed"}


def test_a_stream_that_exists_is_refused(store: EventStore, source: EventStore) -> None:
    """Before anything is copied; a completed copy is not begun again."""
    store.append("c", notes(1), expected=0, claim=claim())
    with pytest.raises(TransferConflict) as caught:
        copy(source, store)
    assert caught.value.what == "c"
    assert list(store.streams()) == ["c"]
    copy(source, store, only="a")
    with pytest.raises(TransferConflict):
        copy(source, store, only="a")


def test_who_writes_to_a_half_copied_stream_is_found(
    store: EventStore, source: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two histories are never joined."""
    monkeypatch.setattr("eventstore.transfer.copy._BATCH", 2)
    with pytest.raises(ConnectionError):
        copy(Interrupted(source, 4), store)
    store.append("a", notes(1), expected=2, claim=claim())
    with pytest.raises((TransferConflict, DamagedEvent)):
        copy(source, store)


def test_a_key_that_is_in_use_is_named(store: EventStore, source: EventStore) -> None:
    """Two logs may have used one key: they cannot be one log."""
    store.append("x", notes(1), expected=0, claim=Claim("empty", "other"))
    with pytest.raises(TransferConflict):
        copy(source, store)


def test_another_copy_is_completed_first(store: EventStore, source: EventStore) -> None:
    """The target remembers which one was begun."""
    with pytest.raises(ConnectionError):
        copy(Interrupted(source, 2), store)
    with pytest.raises(TransferConflict, match="unfinished"):
        copy(source, store, only="b")


def test_an_archive_holds_the_log_and_gives_it_back(
    store: EventStore, source: EventStore, tmp_path: Path
) -> None:
    """Into every engine, to the letter."""
    path = tmp_path / "log.jsonl"
    assert write_archive(source, path) == Copied(3, 18, 10, 2, 0)
    assert is_archive(path)
    archive = ArchiveSource(path)
    assert texts(archive) == texts(source)
    copy(archive, store)
    check_same(store, source)


@pytest.mark.parametrize("damage", ["cut", "changed", "a line lost"])
def test_a_damaged_archive_is_refused(source: EventStore, tmp_path: Path, damage: str) -> None:
    """Cut off anywhere, or with a changed word in it."""
    path = tmp_path / "log.jsonl"
    write_archive(source, path)
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    changed = {
        "cut": content[: len(content) // 2],
        "changed": content.replace(b"line 2", b"lime 2", 1),
        "a line lost": b"".join(lines[:3] + lines[4:]),
    }
    path.write_bytes(changed[damage])
    target = MemoryStore(schema=SCHEMA, clock=ticking())
    with pytest.raises((StoreDamaged, DamagedEvent)):
        copy(ArchiveSource(path), target)


def test_a_log_is_backed_up_while_others_write(database: Path, tmp_path: Path) -> None:
    """The archive is some beginning of the log, whole, with the keys of its commands alone."""
    with closing(filled(opened(database))) as store, closing(opened(database)) as other:

        class Busy(Interrupted):
            def all_raw(self) -> Iterator[Raw]:
                for raw in store.all_raw():
                    if raw.position < 40:
                        other.append("a", notes(1), expected=Expected.ANY, claim=claim())
                    yield raw
                other.append("a", notes(1), expected=Expected.ANY, claim=claim())

        path = tmp_path / "log.jsonl"
        write_archive(Busy(store, 0), path)
        target = MemoryStore(schema=SCHEMA, clock=ticking())
        copy(ArchiveSource(path), target)
        assert texts(target) == texts(store)[: len(texts(target))]
        assert len(list(target.commands())) < len(list(store.commands()))
        assert list(target.verify()) == []
