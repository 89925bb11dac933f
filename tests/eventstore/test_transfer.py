"""A copied log has the same texts, hashes, claims and refusals in the same order."""

import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

import pytest

from eventstore.errors import DamagedEvent, StoreDamaged, TransferConflict
from eventstore.store import Claim, EventStore, ExecutedCommand, Expected, RawEvent, Refusal
from eventstore.transfer.archive import ArchiveSource, is_archive, write_archive
from eventstore.transfer.copy import CopyCounts, copy_log
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
    """Fill a log with three streams, claims with and without events, and refusals."""
    for _ in range(rounds):
        for stream in STREAMS:
            store.append(stream, notes(2), expected=Expected.ANY, claim=claim())
    store.append("a", [], expected=Expected.ANY, claim=Claim("empty", "d"))
    store.record_refusal(REFUSAL)
    store.record_refusal(REFUSAL._replace(stream="b"))
    return store


@pytest.fixture
def source() -> EventStore:
    """Return a log to copy from."""
    return filled(MemoryStore(schema=SCHEMA, clock=ticking()))


class Interrupted:
    """A source that raises an error after a number of events."""

    def __init__(self, source: EventStore, after: int) -> None:
        self._source = source
        self._after = after
        self.streams, self.commands = source.streams, source.commands
        self.refusals = source.refusals

    def all_raw(self) -> Iterator[RawEvent]:
        """Yield the given number of events, then raise an error."""
        return torn(self._source.all_raw(), self._after)


def torn(found: Iterator[Item], after: int) -> Iterator[Item]:
    """Yield the given number of items, then raise an error."""
    yield from islice(found, after)
    raise ConnectionError("gone")


class Unclaimed:
    """A source without claims, as if somebody had deleted them."""

    def __init__(self, source: EventStore) -> None:
        self.all_raw, self.streams, self.refusals = source.all_raw, source.streams, source.refusals

    def commands(self) -> Iterator[ExecutedCommand]:
        """Return no claims."""
        return iter(())


class Crowded:
    """A source of one event with many generated commands and refusals."""

    def __init__(self, number: int) -> None:
        log = MemoryStore(schema=SCHEMA, clock=ticking())
        self.name = f"w{number}"
        log.append(self.name, notes(1), expected=0, claim=Claim(self._key(0), "d" * 64))
        self.all_raw, self.streams = log.all_raw, log.streams
        self._first, self._number = list(log.commands()), number

    def _key(self, number: int) -> str:
        return f"{self.name}-{number:09}"

    def commands(self) -> Iterator[ExecutedCommand]:
        """Yield the commands in the order of their ids."""
        keys = map(self._key, range(1, self._number))
        return chain(self._first, (ExecutedCommand(key, self.name, "d" * 64, 2, 1) for key in keys))

    def refusals(self, stream: str | None = None) -> Iterator[Refusal]:
        """Yield identical refusals."""
        return (REFUSAL for _ in range(self._number) if stream in (None, self.name))


def texts(log: EventStore | ArchiveSource) -> list[tuple[str, str]]:
    """Return the text and the hash of every event, in order."""
    return [(raw.text, raw.hash) for raw in log.all_raw()]


def check_same(target: EventStore, source: EventStore) -> None:
    """Check that both logs are equal and that the chains are valid."""
    assert texts(target) == texts(source)
    assert list(target.commands()) == list(source.commands())
    assert list(target.refusals()) == list(source.refusals())
    assert list(target.verify()) == []


def test_copy_is_the_same_log(store: EventStore, source: EventStore) -> None:
    """Every engine accepts the copy, and later appends continue the chains."""
    assert copy_log(source, store) == CopyCounts(3, 18, 10, 2, 0)
    check_same(store, source)
    store.append("a", notes(1), expected=6, claim=claim())
    known = next(iter(source.commands()))
    assert store.find_executed_command(Claim(known.command_id, known.digest)) is not None
    assert list(store.verify()) == []


def test_copy_keeps_claims_of_one_event_commands(store: EventStore) -> None:
    """From every engine, the copy recognizes repeated commands with the id of their event."""
    asked = notes(3)
    for new in asked:
        store.append("own", [new], expected=Expected.ANY, claim=claim_of(new))
    target = MemoryStore(schema=SCHEMA, clock=ticking())
    assert copy_log(filled(store), target) == CopyCounts(4, 21, 13, 2, 0)
    check_same(target, store)
    for new in asked:
        again = target.append("own", [new], expected=0, claim=claim_of(new))
        assert again.repeated


def test_copy_into_every_engine_keeps_one_event_commands(store: EventStore) -> None:
    """In every engine, the copy recognizes repeated commands with the id of their event."""
    source, asked = MemoryStore(schema=SCHEMA, clock=ticking()), notes(3)
    for new in asked:
        source.append("own", [new], expected=Expected.ANY, claim=claim_of(new))
    copy_log(source, store)
    check_same(store, source)
    for new in asked:
        again = store.append("own", [new], expected=0, claim=claim_of(new))
        assert again.repeated


def test_copy_from_every_engine_is_the_same_log(store: EventStore) -> None:
    """A copy has the same content, whatever the engine of its source."""
    target = MemoryStore(schema=SCHEMA, clock=ticking())
    copy_log(filled(store), target)
    check_same(target, store)


def test_events_of_several_batches_are_copied_in_order(store: EventStore) -> None:
    """Thousands of events in two alternating streams are copied in their order."""
    source = MemoryStore(schema=SCHEMA, clock=ticking())
    for number in range(5):
        source.append("ab"[number % 2], notes(500), expected=Expected.ANY, claim=claim())
    assert copy_log(source, store).events == 2500
    check_same(store, source)


def test_one_stream_is_copied_next_to_others(store: EventStore, source: EventStore) -> None:
    """The copy adds one stream with its claims, and keeps the target's other streams."""
    store.append("x", notes(2), expected=0, claim=claim())
    assert copy_log(source, store, only="b") == CopyCounts(1, 6, 3, 1, 0)
    assert [raw.hash for raw in store.raw("b")] == [raw.hash for raw in source.raw("b")]
    assert sorted(store.streams()) == ["b", "x"]
    assert list(store.verify()) == []


@pytest.mark.parametrize("after", [0, 1, 7, 18])
def test_interrupted_copy_is_resumed(
    store: EventStore, source: EventStore, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second call copies only missing events, including newer ones of the source."""
    monkeypatch.setattr("eventstore.transfer.copy._BATCH", 2)
    if after:
        with pytest.raises(ConnectionError):
            copy_log(Interrupted(source, after), store)
    source.append("c", notes(2), expected=Expected.ANY, claim=claim())
    done = copy_log(source, store)
    assert (done.events, done.before) == (20, after - after % 2)
    check_same(store, source)


@pytest.mark.parametrize("after", [0, 1, 5])
@pytest.mark.parametrize("kind", ["commands", "refusals"])
def test_copy_interrupted_among_claims_and_refusals_is_resumed(
    store: EventStore, source: EventStore, kind: str, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the second call, no claim and no refusal is lost or duplicated.

    This is also true if a new claim sorts before the copied ones.
    """
    monkeypatch.setattr("eventstore.transfer.copy._BATCH", 2)
    for _ in range(5):
        source.record_refusal(REFUSAL)
    broken = Interrupted(source, 18)
    broken.all_raw = source.all_raw  # type: ignore[method-assign]
    found = list(getattr(source, kind)())
    monkeypatch.setattr(broken, kind, lambda *_: torn(iter(found), after))
    with pytest.raises(ConnectionError):
        copy_log(broken, store)
    source.append("a", notes(1), expected=Expected.ANY, claim=Claim("a key before", "d"))
    assert copy_log(source, store) == CopyCounts(3, 19, 11, 7, 18)
    check_same(store, source)


@pytest.mark.slow
@pytest.mark.few(1)
def test_memory_does_not_grow_with_claims_and_refusals(log: Log) -> None:
    """Ten times as many claims and refusals need about the same memory."""
    peaks = []
    for number in (2_000, 20_000):
        with closing(log.opened()) as target:
            tracemalloc.start()
            assert copy_log(Crowded(number), target)[2:4] == (number, number)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def test_log_without_claims_is_copied(store: EventStore, source: EventStore) -> None:
    """All events are copied, and a verification of the copy reports the missing claims."""
    assert copy_log(Unclaimed(source), store)[1:3] == (18, 0)
    assert texts(store) == texts(source)
    assert {found.kind for found in store.verify()} == {"unclaimed"}


def test_existing_stream_is_refused(store: EventStore, source: EventStore) -> None:
    """The copy fails without a write if the target already has the stream."""
    store.append("c", notes(1), expected=0, claim=claim())
    with pytest.raises(TransferConflict) as caught:
        copy_log(source, store)
    assert caught.value.what == "c"
    assert list(store.streams()) == ["c"]
    copy_log(source, store, only="a")
    with pytest.raises(TransferConflict):
        copy_log(source, store, only="a")


def test_write_to_a_partially_copied_stream_is_detected(
    store: EventStore, source: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the target got other events meanwhile, the resumed copy fails."""
    monkeypatch.setattr("eventstore.transfer.copy._BATCH", 2)
    with pytest.raises(ConnectionError):
        copy_log(Interrupted(source, 4), store)
    store.append("a", notes(1), expected=2, claim=claim())
    with pytest.raises((TransferConflict, DamagedEvent)):
        copy_log(source, store)


def test_claim_in_use_is_refused(store: EventStore, source: EventStore) -> None:
    """A log with a command id that the target already uses cannot be copied."""
    store.append("x", notes(1), expected=0, claim=Claim("empty", "other"))
    with pytest.raises(TransferConflict):
        copy_log(source, store)


def test_unfinished_copy_must_be_completed_first(store: EventStore, source: EventStore) -> None:
    """The target refuses another copy until the started one is complete."""
    with pytest.raises(ConnectionError):
        copy_log(Interrupted(source, 2), store)
    with pytest.raises(TransferConflict, match="unfinished"):
        copy_log(source, store, only="b")


def test_archive_preserves_the_log(store: EventStore, source: EventStore, tmp_path: Path) -> None:
    """Every engine restores the archive with identical texts and hashes."""
    path = tmp_path / "log.jsonl"
    assert write_archive(source, path) == CopyCounts(3, 18, 10, 2, 0)
    assert is_archive(path)
    archive = ArchiveSource(path)
    assert texts(archive) == texts(source)
    copy_log(archive, store)
    check_same(store, source)


@pytest.mark.parametrize("damage", ["cut", "changed", "a line lost"])
def test_damaged_archive_is_refused(source: EventStore, tmp_path: Path, damage: str) -> None:
    """A truncated archive, a changed word and a missing line are detected."""
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
        copy_log(ArchiveSource(path), target)


def test_log_is_archived_while_others_write(database: Path, tmp_path: Path) -> None:
    """The archive has the events up to one position, and only the claims of these events."""
    with closing(filled(opened(database))) as store, closing(opened(database)) as other:

        class Busy(Interrupted):
            def all_raw(self) -> Iterator[RawEvent]:
                for raw in store.all_raw():
                    if raw.position < 40:
                        other.append("a", notes(1), expected=Expected.ANY, claim=claim())
                    yield raw
                other.append("a", notes(1), expected=Expected.ANY, claim=claim())

        path = tmp_path / "log.jsonl"
        write_archive(Busy(store, 0), path)
        target = MemoryStore(schema=SCHEMA, clock=ticking())
        copy_log(ArchiveSource(path), target)
        assert texts(target) == texts(store)[: len(texts(target))]
        assert len(list(target.commands())) < len(list(store.commands()))
        assert list(target.verify()) == []
