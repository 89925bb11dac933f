"""The event log in a database on a PostgreSQL server."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any

from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from eventstore.chain import START, Link, Sealed
from eventstore.codec import Schema, canonical
from eventstore.core_statements import CoreStatements
from eventstore.errors import StoreClosed, StoreDamaged, StoreUnreachable
from eventstore.event import Clock, NewEvent, RecordedEvent
from eventstore.intake import all_commands, all_raw, all_refusals, in_the_way, unpacked
from eventstore.postgres.append import (
    BEGIN,
    CHANNEL,
    LOG_TURN,
    NOTIFY,
    Committed,
    PendingAppend,
    is_short,
    record_at_once,
    record_in_turn,
    take_turn,
)
from eventstore.postgres.connection import ServerConnection, foreign_rules, require_own_rules
from eventstore.postgres.driver import psycopg
from eventstore.private import public
from eventstore.reading import Reader
from eventstore.store import (
    Appended,
    Cargo,
    Claim,
    Claimed,
    Command,
    Expected,
    Head,
    Raw,
    Refusal,
    StoredFold,
    require_name,
    require_same,
    require_version,
)
from eventstore.strays import strays
from eventstore.verification import CommandSpan, Finding, StoredRow, findings

if TYPE_CHECKING:
    from eventstore.postgres.connection import Server

_CHUNK = 1000
_WAIT = 30.0


def open_server(
    address: str,
    *,
    schema: Schema,
    clock: Clock,
    read_only: bool = False,
    as_is: bool = False,
    wait: float = _WAIT,
) -> "PostgresStore":
    """Open the database at a URL `postgresql+psycopg://…`, which a migration has made.

    `clock` says when an event is recorded; `as_is`: the rows are read as they stand, unchecked;
    `wait` bounds the wait for other writers and for a
    server that went away, in seconds each.
    Raises DatabaseMissing, NotOurs, NewerDatabase, OlderDatabase, StoreUnreachable, DriverMissing.
    """
    connection = ServerConnection(address, wait, read_only=read_only)
    return PostgresStore(connection, schema, clock, read_only=read_only, as_is=as_is)


@cache
def _statements() -> CoreStatements:
    return CoreStatements(PGDialect_psycopg(paramstyle="format"))  # type: ignore[no-untyped-call]


class PostgresStore:
    """An EventStore in a PostgreSQL database, for the thread that opened it.

    A connection that is lost is made anew within the wait, and what was asked is asked again: an
    append under its claim, so that it is recorded once.
    """

    def __init__(
        self,
        connection: ServerConnection,
        schema: Schema,
        clock: Clock,
        *,
        read_only: bool,
        as_is: bool = False,
    ) -> None:
        self._server = connection
        self._schema = schema
        self._events = Reader(schema, as_is)
        self._clock = clock
        self._read_only = read_only
        self._closed = False
        self._rules_are_ours = False
        self._sql = _statements()
        self._head: tuple[str, Link] | None = None

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
        tries = count()
        lost, done = self._server.lasting(
            lambda c: (next(tries), self._append(c, stream, events, expected, claim))
        )
        return self._answer(done, events if lost else ()) if isinstance(done, Command) else done

    def _require_writable(self) -> None:
        if self._read_only or self._closed:
            raise StoreClosed("closed" if self._closed else "open for reading only")
        if not self._rules_are_ours:
            require_own_rules(self._fetch, self.address)
            self._rules_are_ours = True

    def _append(
        self,
        connection: "Server",
        stream: str,
        events: Sequence[NewEvent],
        expected: int | Expected,
        claim: Claim,
    ) -> Appended | Command:
        """At once where the stream's head is known and nobody is in the way, else in turn.

        Who found others there waits in line the next time too, and does not try first.
        """
        known = self._known_head(stream, len(events), expected)
        if known is not None:
            recorded = record_at_once(connection, self._entry(events, claim, stream, known))
            if recorded is not None:
                return self._appended(stream, recorded, uncontested=True)
        row = take_turn(connection, self._sql, stream, claim) or (None,) * 7
        _, version, hash_, *command = row
        if command[0] is not None:
            first = Command(*command)
            require_same(claim, first, stream)
            return first
        after = Link(version, hash_) if version else START
        require_version(stream, expected, after.version)
        entry = self._entry(events, claim, stream, after)
        recorded = record_in_turn(connection, self._sql, entry)
        if recorded is None:
            raise StoreDamaged(self.address, f"another head of {stream} than its index has")
        return self._appended(stream, recorded, uncontested=known is None)

    def _entry(
        self, events: Sequence[NewEvent], claim: Claim, stream: str, after: Link
    ) -> PendingAppend:
        return PendingAppend(events, claim, after, (stream, claim.command_id, *self._clock()))

    def _known_head(self, stream: str, number: int, expected: int | Expected) -> Link | None:
        """Where the stream ended when this store last wrote, if one statement may go on there."""
        known, self._head = self._head, None
        if known is None or known[0] != stream or not is_short(number):
            return None
        link = known[1]
        return link if expected in (link.version, Expected.ANY, Expected.STREAM_EXISTS) else None

    def _appended(self, stream: str, recorded: Committed, *, uncontested: bool) -> Appended:
        if recorded.sealed and uncontested:
            _, version, *_, hash_, _ = recorded.sealed[-1]
            self._head = (stream, Link(version, hash_))
        return Appended(self._decoded(recorded.sealed, recorded.first), False)

    def _decoded(self, sealed: Sequence[Sealed], first: int) -> Iterator[RecordedEvent]:
        decode = self._schema.decode
        return (decode(n, hash_, text) for n, (*_, hash_, text) in enumerate(sealed, first))

    def _answer(self, known: Command, lost: Sequence[NewEvent] = ()) -> Appended:
        """The first answer; it is no repetition of what was recorded here and its news `lost`."""
        found = self.read(known.stream, after=known.first_version - 1, upto=known.last_version)
        events = tuple(found)
        ours = bool(events) and [e.event_id for e in events] == [e.event_id for e in lost]
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
        self, stream: str, *, after: int | Link = 0, upto: int | None = None
    ) -> Iterator[RecordedEvent]:
        """See EventStore."""
        link = after if isinstance(after, Link) else self._link(stream, after)
        rows = self._stored(stream, link.version, sys.maxsize if upto is None else upto)
        yield from self._events.events(rows, stream, link)

    def _link(self, stream: str, version: int) -> Link:
        if version <= 0:
            return START
        before = self._fetch(self._sql.read, (stream, version - 1, version, 1))
        return self._events.link(before, stream, version)

    def _stored(self, stream: str, after: int, upto: int) -> Iterator[Any]:
        """The rows of a stream, with every column, in order of version."""
        while rows := self._fetch(self._sql.read, (stream, after, upto, _CHUNK)):
            yield from rows
            after = self._onward(after, rows[-1][2])

    def _onward(self, before: int, after: int) -> int:
        """Where the next fetch begins: a damaged index may lead backwards, and so for ever."""
        if after <= before:
            raise StoreDamaged(self.address, f"rows out of order: {after!r} after {before!r}")
        return after

    def read_all(self, *, after: int = 0, limit: int | None = None) -> Iterator[RecordedEvent]:
        """See EventStore."""
        return self._events.all_events(self._all_stored(after, limit), self._link)

    def _all_stored(self, after: int, limit: int | None) -> Iterator[Any]:
        left = sys.maxsize if limit is None else limit
        while rows := self._fetch(self._sql.read_all, (after, min(_CHUNK, left))):
            yield from rows
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

    def raw(self, stream: str, *, after: int = 0, upto: int | None = None) -> Iterator[Raw]:
        """See EventStore."""
        end = sys.maxsize if upto is None else upto
        for position, *_, hash_, text in self._stored(stream, after, end):
            yield Raw(position, text, hash_)

    def all_raw(self) -> Iterator[Raw]:
        """See EventStore."""
        return all_raw(self._fetch, self._sql)

    def commands(self) -> Iterator[Claimed]:
        """See EventStore."""
        return all_commands(self._fetch, self._sql.commands)

    def take_in(self, cargo: Cargo) -> None:
        """See EventStore. A lost connection is not made anew: what came of it must be looked up."""
        self._require_writable()
        self._server.once(lambda connection: self._take_in(connection, cargo))

    def _take_in(self, connection: "Server", cargo: Cargo) -> None:
        try:
            with connection.pipeline():
                connection.execute(BEGIN)
                connection.execute(LOG_TURN)
                found = connection.execute(self._sql.last).fetchone()
            with connection.pipeline():
                for statement, rows in unpacked(cargo, self._sql, found[0] if found else 0):
                    connection.cursor().executemany(statement, rows)
                connection.execute(NOTIFY)
                connection.execute("COMMIT")
        except psycopg.errors.UniqueViolation as error:
            raise in_the_way(cargo, error) from error

    def rows(self, stream: str) -> Iterator[StoredRow]:
        """Every column of a stream's rows, in order of version."""
        after = 0
        while found := self._fetch(self._sql.rows, (stream, after, _CHUNK)):
            yield from (StoredRow(*row) for row in found)
            after = self._onward(after, found[-1][2])

    def extent(self) -> tuple[int, int]:
        """Number of events, and the last position."""
        ((count, last),) = self._fetch(self._sql.extent)
        return count, last or 0

    def spans(self, command_ids: Sequence[str]) -> dict[str, CommandSpan]:
        """What each of these commands recorded."""
        rows = self._fetch(self._sql.spans, (list(command_ids),))
        return {id_: CommandSpan(*span) for id_, *span in rows}

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
            for rule in foreign_rules(self._fetch):
                message = f"expected the triggers and tables that wfctl made, found {rule}"
                yield Finding(stream, None, None, "foreign_rule", message)
            yield from findings(self, self._schema, stream, anchors or {})
        except StoreDamaged as error:
            yield Finding(stream, None, None, "engine", error.reason)

    def strays(self) -> Iterator[Finding]:
        """See EventStore."""
        return strays(self._fetch, self._sql)

    def save_fold(self, fold: StoredFold) -> None:
        """See EventStore."""
        self._write(
            (self._sql.delete_fold, (fold.stream, fold.reducer)), (self._sql.insert_fold, fold)
        )

    def _write(self, *statements: tuple[str, tuple[Any, ...]]) -> None:
        self._require_writable()

        def work(connection: "Server") -> None:
            with connection.pipeline():
                connection.execute(BEGIN)
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

    def be_patient(self, asks_again: Callable[[StoreUnreachable, float], bool]) -> None:
        """See EventStore."""
        self._server.asks_again = asks_again

    def close(self) -> None:
        """See EventStore."""
        if not self._closed:
            self._closed = True
            self._server.close()
