"""The event log in a database on a PostgreSQL server."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from eventstore.address import public
from eventstore.cargo import all_commands, all_raw, all_refusals, in_the_way, unpacked
from eventstore.chain import START, Link, Sealed, Stamp, seal, stamp
from eventstore.codec import Schema, canonical
from eventstore.driver import psycopg
from eventstore.errors import CommandConflict, EventIdReused, StoreClosed, StoreDamaged
from eventstore.event import NewEvent, RecordedEvent
from eventstore.expectation import Command, require_name, require_same, require_version
from eventstore.postgres_connection import ServerConnection
from eventstore.statements import Statements
from eventstore.store import (
    Appended,
    Cargo,
    Claim,
    Claimed,
    Expected,
    Head,
    Raw,
    Refusal,
    StoredFold,
)
from eventstore.verification import Finding, Row, findings

if TYPE_CHECKING:
    from eventstore.postgres_connection import Server

_CHUNK = 1000
_WAIT = 30.0
# From so many rows on, COPY is quicker than an INSERT each.
_MANY = 20

_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
# The writers of one stream take turns over the whole of an append, all writers of the log over its
# last step only, until the commit is seen by all: so positions are in commit order without a gap.
# Both locks are given in the order they were asked for. "wfct" and the table's number name the
# log's, as a database may hold several logs.
_STREAM_TURN = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 'events'::regclass::oid::bigint))"
_LOG_TURN = (
    "SELECT pg_advisory_xact_lock((2003198836::bigint << 32) | 'events'::regclass::oid::bigint)"
)
_COPY = (
    "COPY events (position, stream, version, event_id, type, recorded_at, hash, body) FROM STDIN"
)
CHANNEL = "wfctl_events"
_NOTIFY = f"SELECT pg_notify('{CHANNEL}', '')"


def open_server(
    address: str,
    *,
    schema: Schema,
    clock: Callable[[], datetime],
    read_only: bool = False,
    wait: float = _WAIT,
) -> "PostgresStore":
    """Open the database at a URL `postgresql+psycopg://…`, which a migration has made.

    `clock` gives aware local times; `wait` bounds the wait for other writers and for a server that
    went away, in seconds each.
    Raises DatabaseMissing, NotOurs, NewerDatabase, OlderDatabase, StoreUnreachable, DriverMissing.
    """
    connection = ServerConnection(address, wait, read_only=read_only)
    return PostgresStore(connection, schema, clock, read_only=read_only)


@cache
def _statements() -> Statements:
    return Statements(PGDialect_psycopg(paramstyle="format"))  # type: ignore[no-untyped-call]


class PostgresStore:
    """An EventStore in a PostgreSQL database, for the thread that opened it.

    A connection that is lost is made anew within the wait, and what was asked is asked again: an
    append under its claim, so that it is recorded once.
    """

    def __init__(
        self,
        connection: ServerConnection,
        schema: Schema,
        clock: Callable[[], datetime],
        *,
        read_only: bool,
    ) -> None:
        self._server = connection
        self._schema = schema
        self._clock = clock
        self._read_only = read_only
        self._closed = False
        self._sql = _statements()

    @property
    def address(self) -> str:
        """The URL without its password."""
        return public(self._server.address)

    def append(
        self,
        stream: str,
        events: Sequence[NewEvent],
        *,
        expected: int | Expected,
        claim: Claim,
    ) -> Appended:
        """See EventStore."""
        require_name(stream)
        for event in events:
            self._schema.check_new(event)
        self._require_writable()
        done = self._server.lasting(lambda c: self._append(c, stream, events, expected, claim))
        return self._answer(done, events) if isinstance(done, Command) else done

    def _require_writable(self) -> None:
        if self._read_only or self._closed:
            raise StoreClosed("closed" if self._closed else "open for reading only")

    def _append(
        self,
        connection: "Server",
        stream: str,
        events: Sequence[NewEvent],
        expected: int | Expected,
        claim: Claim,
    ) -> Appended | Command:
        version, hash_, *command = self._turn(connection, stream, claim)
        if command[0] is not None:
            known = Command(*command)
            require_same(claim, known, stream)
            return known
        after = Link(version, hash_) if version else START
        require_version(stream, expected, after.version)
        marked = stamp(stream, claim.command_id, self._clock())
        sealed = seal(events, after, marked)
        claimed = (
            *(claim.command_id, stream, claim.digest),
            *(after.version + 1, after.version + len(sealed)),
        )
        first = self._record(connection, marked, sealed, claimed)
        return Appended(self._decoded(sealed, first), False)

    def _turn(self, connection: "Server", stream: str, claim: Claim) -> tuple[Any, ...]:
        """Wait for the turn to write to the stream, then look at all that an append must know."""
        with connection.pipeline():
            connection.execute(_BEGIN)
            connection.execute(_STREAM_TURN, (stream,))
            found = connection.execute(self._sql.before, (stream, claim.command_id))
        row = found.fetchone()
        return row[1:] if row is not None else (None,) * 6

    def _record(
        self,
        connection: "Server",
        marked: Stamp,
        sealed: Sequence[Sealed],
        command: tuple[Any, ...],
    ) -> int:
        """Insert and commit; return the position of the first event."""
        rows = [_row(marked, link) for link in sealed]
        try:
            if len(rows) < _MANY:
                return self._inserted(connection, rows, command)
            return self._copied(connection, rows, command)
        except psycopg.errors.UniqueViolation as error:
            connection.execute("ROLLBACK")
            if error.diag.constraint_name == "commands_pkey":
                # Claimed at the same time by a writer of another stream.
                (known,) = connection.execute(self._sql.command, command[:1]).fetchall()
                raise CommandConflict(command[0], known[0]) from error
            if error.diag.constraint_name != "events_event_id":
                raise
            raise EventIdReused(marked.stream, [link.event.event_id for link in sealed]) from error

    def _inserted(
        self, connection: "Server", rows: Sequence[tuple[Any, ...]], command: tuple[Any, ...]
    ) -> int:
        """All in one go, as everybody waits meanwhile: the server itself numbers the events."""
        with connection.pipeline():
            connection.execute(_LOG_TURN)
            numbered = [connection.execute(self._sql.insert_next, row) for row in rows]
            self._commit(connection, command)
        first = numbered[0].fetchone() if numbered else None
        return first[0] if first is not None else 0

    def _copied(
        self, connection: "Server", rows: Sequence[tuple[Any, ...]], command: tuple[Any, ...]
    ) -> int:
        with connection.pipeline():
            connection.execute(_LOG_TURN)
            found = connection.execute(self._sql.last).fetchone()
        first = found[0] + 1 if found is not None else 1
        with connection.cursor().copy(_COPY) as copy:
            for position, row in enumerate(rows, first):
                copy.write_row((position, *row))
        with connection.pipeline():
            self._commit(connection, command)
        return first

    def _commit(self, connection: "Server", command: tuple[Any, ...]) -> None:
        connection.execute(self._sql.insert_command, command)
        connection.execute(_NOTIFY)
        connection.execute("COMMIT")

    def _decoded(self, sealed: Sequence[Sealed], first: int) -> Iterator[RecordedEvent]:
        decode = self._schema.decode
        return (decode(n, link.hash, link.text) for n, link in enumerate(sealed, first))

    def _answer(self, known: Command, asked: Sequence[NewEvent] = ()) -> Appended:
        """The first answer; it is no repetition where it was ours, and only its news was lost."""
        found = self.read(known.stream, after=known.first_version - 1, upto=known.last_version)
        events = tuple(found)
        ours = bool(events) and [e.event_id for e in events] == [e.event_id for e in asked]
        return Appended(events, not ours)

    def claimed(self, claim: Claim) -> Appended | None:
        """See EventStore."""
        rows = self._fetch(self._sql.command, (claim.command_id,))
        if not rows:
            return None
        known = Command(*rows[0])
        require_same(claim, known)
        return self._answer(known)

    def claim(self, command_id: str) -> Claim | None:
        """See EventStore."""
        rows = self._fetch(self._sql.command, (command_id,))
        return Claim(command_id, Command(*rows[0]).digest) if rows else None

    def _fetch(self, statement: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        if self._closed:
            raise StoreClosed("closed")
        return self._server.lasting(lambda c: c.execute(statement, parameters).fetchall())

    def read(
        self, stream: str, *, after: int = 0, upto: int | None = None
    ) -> Iterator[RecordedEvent]:
        """See EventStore."""
        end = sys.maxsize if upto is None else upto
        decode = self._schema.decode
        for rows in self._chunks(stream, after, end):
            for _, position, hash_, text in rows:
                yield decode(position, hash_, text)

    def _chunks(self, stream: str, after: int, upto: int) -> Iterator[list[tuple[Any, ...]]]:
        """Rows of version, position, hash and text."""
        while rows := self._fetch(self._sql.read, (stream, after, upto, _CHUNK)):
            yield rows
            after = self._onward(after, rows[-1][0])

    def _onward(self, before: int, after: int) -> int:
        """Where the next fetch begins: a damaged index may lead backwards, and so for ever."""
        if after <= before:
            raise StoreDamaged(self.address, f"rows out of order: {after!r} after {before!r}")
        return after

    def read_all(self, *, after: int = 0, limit: int | None = None) -> Iterator[RecordedEvent]:
        """See EventStore."""
        left = sys.maxsize if limit is None else limit
        decode = self._schema.decode
        while rows := self._fetch(self._sql.read_all, (after, min(_CHUNK, left))):
            for position, hash_, text in rows:
                yield decode(position, hash_, text)
            after = self._onward(after, rows[-1][0])
            left -= len(rows)

    def wait(self, after: int, timeout: float) -> int:
        """See EventStore; the server says when there is something new."""
        end = time.monotonic() + timeout
        while True:
            ((last,),) = self._fetch(self._sql.last)
            left = end - time.monotonic()
            if last > after or left <= 0:
                return int(last)
            self._server.await_notice(CHANNEL, left)

    def raw(self, stream: str, *, after: int = 0) -> Iterator[Raw]:
        """See EventStore."""
        for rows in self._chunks(stream, after, sys.maxsize):
            for _, position, hash_, text in rows:
                yield Raw(position, text, hash_)

    def all_raw(self) -> Iterator[Raw]:
        """See EventStore."""
        return all_raw(self._fetch, self._sql)

    def commands(self) -> Iterator[Claimed]:
        """See EventStore."""
        return all_commands(self._fetch, self._sql)

    def take_in(self, cargo: Cargo) -> None:
        """See EventStore. A lost connection is not made anew: what came of it must be looked up."""
        self._require_writable()
        self._server.once(lambda connection: self._take_in(connection, cargo))

    def _take_in(self, connection: "Server", cargo: Cargo) -> None:
        try:
            with connection.pipeline():
                connection.execute(_BEGIN)
                connection.execute(_LOG_TURN)
                found = connection.execute(self._sql.last).fetchone()
            with connection.pipeline():
                for statement, rows in unpacked(cargo, self._sql, found[0] if found else 0):
                    connection.cursor().executemany(statement, rows)
                connection.execute(_NOTIFY)
                connection.execute("COMMIT")
        except psycopg.errors.UniqueViolation as error:
            raise in_the_way(cargo, error) from error

    def rows(self, stream: str) -> Iterator[Row]:
        """Every column of a stream's rows, in order of version."""
        after = 0
        while found := self._fetch(self._sql.rows, (stream, after, _CHUNK)):
            yield from (Row(*row) for row in found)
            after = self._onward(after, found[-1][2])

    def extent(self) -> tuple[int, int]:
        """Number of events, and the last position."""
        ((count, last),) = self._fetch(self._sql.extent)
        return count, last or 0

    def head(self, stream: str) -> Head | None:
        """See EventStore."""
        rows = self._fetch(self._sql.head, (stream,))
        return Head(*rows[0]) if rows else None

    def streams(self) -> Iterator[str]:
        """See EventStore."""
        name = ""
        while rows := self._fetch(self._sql.next_stream, (name,)):
            name = rows[0][0]
            yield name

    def verify(
        self, stream: str | None = None, *, anchors: Mapping[str, Link] | None = None
    ) -> Iterator[Finding]:
        """See EventStore."""
        try:
            yield from findings(self, self._schema, stream, anchors or {})
        except StoreDamaged as error:
            yield Finding(stream, None, None, "engine", error.reason)

    def save_fold(self, fold: StoredFold) -> None:
        """See EventStore."""
        self._write(
            (self._sql.delete_fold, (fold.stream, fold.reducer)), (self._sql.insert_fold, fold)
        )

    def _write(self, *statements: tuple[str, tuple[Any, ...]]) -> None:
        self._require_writable()

        def work(connection: "Server") -> None:
            with connection.pipeline():
                connection.execute(_BEGIN)
                for statement, parameters in statements:
                    connection.execute(statement, parameters)
                connection.execute("COMMIT")

        self._server.lasting(work)

    def load_fold(self, stream: str, reducer: str, reducer_version: int) -> StoredFold | None:
        """See EventStore."""
        rows = self._fetch(self._sql.fold, (stream, reducer, reducer_version))
        return StoredFold(*rows[0]) if rows else None

    def record_refusal(self, refusal: Refusal) -> None:
        """See EventStore."""
        data = canonical(refusal.data, "refusal").decode()
        self._write((self._sql.insert_refusal, (*refusal[:-1], data)))

    def refusals(self, stream: str | None = None) -> Iterator[Refusal]:
        """See EventStore."""
        return all_refusals(self._fetch, self._sql, stream)

    def close(self) -> None:
        """See EventStore."""
        if not self._closed:
            self._closed = True
            self._server.close()


def _row(marked: Stamp, link: Sealed) -> tuple[Any, ...]:
    event = link.event
    columns = (event.event_id, event.type, marked.recorded_at, link.hash, link.text)
    return (marked.stream, link.version, *columns)
