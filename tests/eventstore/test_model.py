"""After any order of appends, conflicts, retries and reopenings, the log equals a plain list."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from eventstore.errors import CommandConflict, EventStoreError, InvalidData, WrongExpectedVersion
from eventstore.store import Claim, EventStore, Expected
from tests.eventstore.memory import MemoryStore
from tests.eventstore.support import SCHEMA, fresh_database, note, opened, sqlite_store, ticking
from tests.rounds import some
from tests.server import Server

STREAMS = st.sampled_from(["a", "b", "c"])
KEYS = st.sampled_from([f"key-{n}" for n in range(6)])
DIGESTS = st.sampled_from(["one", "two"])
EXPECTED = st.integers(0, 4) | st.sampled_from(list(Expected))
SIZES = st.integers(0, 3)

#: A function that opens another store on the same log.
Opener = Callable[[], EventStore]


@dataclass
class Known:
    """A command in the model."""

    stream: str
    digest: str
    texts: list[str]


class Log(RuleBasedStateMachine):
    """Two stores on one log, compared with lists and dictionaries."""

    def __init__(self, opener: Opener) -> None:
        super().__init__()
        self.opener = opener
        self.streams: dict[str, list[str]] = {}
        self.order: list[str] = []
        self.commands: dict[str, Known] = {}
        self.stores: list[EventStore] = []

    @initialize()
    def begin(self) -> None:
        """Open the first two stores."""
        self.stores = [self.opener(), self.opener()]

    def model_append(
        self, stream: str, texts: list[str], expected: int | Expected, claim: Claim
    ) -> list[str] | type[EventStoreError]:
        """Return the result that the contract of EventStore requires."""
        known = self.commands.get(claim.command_id)
        if known is not None:
            same = (known.stream, known.digest) == (stream, claim.digest)
            return known.texts if same else CommandConflict
        version = len(self.streams.get(stream, []))
        met = {Expected.ANY: True, Expected.NO_STREAM: version == 0}
        met[Expected.STREAM_EXISTS] = version > 0
        if not (met[expected] if isinstance(expected, Expected) else expected == version):
            return WrongExpectedVersion
        self.commands[claim.command_id] = Known(stream, claim.digest, texts)
        if texts:
            self.streams.setdefault(stream, []).extend(texts)
        self.order += texts
        return texts

    @rule(
        which=st.integers(0, 1),
        stream=STREAMS,
        size=SIZES,
        expected=EXPECTED,
        key=KEYS,
        digest=DIGESTS,
        own=st.booleans(),
    )
    def append(
        self, which: int, stream: str, size: int, expected: Any, key: str, digest: str, own: bool
    ) -> None:
        """Append, and compare the answer or the error with the model.

        The first event may have the key as its id.
        """
        texts = [f"{len(self.order)}-{n}" for n in range(size)]
        claim = Claim(key, digest)
        due = self.model_append(stream, texts, expected, claim)
        events = [note(text) for text in texts]
        if own and events:
            events[0] = events[0]._replace(event_id=key)
        if isinstance(due, list):
            done = self.stores[which].append(stream, events, expected=expected, claim=claim)
            assert [event.data["text"] for event in done.events] == due
        else:
            with pytest.raises(due):
                self.stores[which].append(stream, events, expected=expected, claim=claim)

    @rule(which=st.integers(0, 1), stream=STREAMS, fresh=st.uuids())
    def append_what_json_cannot_carry(self, which: int, stream: str, fresh: object) -> None:
        """Check that an invalid batch records no events and no claim."""
        claim = Claim(str(fresh), "one")
        events = [note("good"), note(data={"x": float("nan")})]
        with pytest.raises(InvalidData):
            self.stores[which].append(stream, events, expected=Expected.ANY, claim=claim)
        assert self.stores[which].find_executed_command(claim) is None

    @rule(which=st.integers(0, 1))
    def reopen(self, which: int) -> None:
        """Close one of the stores, and open another one on the same log."""
        self.stores[which].close()
        self.stores[which] = self.opener()

    @invariant()
    def the_log_is_the_model(self) -> None:
        """Compare streams, order, heads and commands with the model, and verify the chain."""
        for store in self.stores:
            assert list(store.streams()) == sorted(self.streams)
            assert [event.data["text"] for event in store.read_all()] == self.order
            for stream, texts in self.streams.items():
                assert [event.data["text"] for event in store.read(stream)] == texts
            commands = [(c.command_id, c.stream, c.digest) for c in store.commands()]
            assert commands == [
                (id_, k.stream, k.digest) for id_, k in sorted(self.commands.items())
            ]
        if self.stores:
            assert list(self.stores[0].verify()) == []

    def teardown(self) -> None:
        """Close all open stores."""
        for store in self.stores:
            store.close()


class LastingStore(MemoryStore):
    """A store in memory that can be used after it was closed, as a file can be reopened."""

    def close(self) -> None:
        """Do nothing, so that the store stays usable."""


def in_memory(_: Path) -> Opener:
    """Return an opener that always returns the same store in memory."""
    store = LastingStore(schema=SCHEMA, clock=ticking())
    return lambda: store


def in_a_file(journal: str) -> Callable[[Path], Opener]:
    """Return a function that creates a SQLite file and an opener of stores on it."""

    def log(folder: Path) -> Opener:
        path = fresh_database(folder)
        return lambda: sqlite_store(path, journal)

    return log


def check(opener: Callable[[], Opener], histories: int) -> None:
    """Run the given number of random histories, each with a new log."""
    chosen = settings(max_examples=histories, stateful_step_count=30)
    # The function accepts any callable that returns a machine, although its type hint is narrower.
    run_state_machine_as_test(
        lambda: Log(opener()),  # type: ignore[arg-type]
        settings=chosen,
    )


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.property
def test_log_on_a_server_equals_its_model(server: Server) -> None:
    """Two stores on one PostgreSQL database give the same answers as the model."""

    def on_the_server() -> Opener:
        return partial(opened, server.log())

    check(on_the_server, some(8))


LOGS = {"memory": in_memory, "wal": in_a_file("wal"), "truncate": in_a_file("truncate")}


@pytest.mark.slow
@pytest.mark.property
@pytest.mark.parametrize("kind", LOGS)
def test_log_equals_its_model(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """With each engine, two stores on one log give the same answers as the model."""
    check(lambda: LOGS[kind](tmp_path_factory.mktemp("log")), some(60))
