"""The event log in a database on a PostgreSQL server."""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from eventstore.chain import START, Link, Sealed
from eventstore.codec import Schema
from eventstore.errors import StoreClosed, StoreDamaged, StoreUnreachable
from eventstore.event import Clock, NewEvent, RecordedEvent
from eventstore.intake import in_the_way, unpacked
from eventstore.postgres.append import (
    BEGIN,
    CHANNEL,
    LOG_TURN,
    NOTIFY,
    Committed,
    PendingAppend,
    PostgresStatements,
    is_short,
    record_at_once,
    record_in_turn,
    take_turn,
)
from eventstore.postgres.connection import ServerConnection, foreign_rules, require_own_rules
from eventstore.postgres.driver import psycopg
from eventstore.private import public
from eventstore.sql import SqlStore
from eventstore.store import (
    Appended,
    Cargo,
    Claim,
    Command,
    Expected,
    require_same,
    require_version,
)

if TYPE_CHECKING:
    from eventstore.postgres.connection import Server

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


class PostgresStore(SqlStore):
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
        self.address = public(connection.address)
        super().__init__(self.address, PostgresStatements(), schema, clock, as_is)
        self._server = connection
        self._read_only = read_only
        self._rules_are_ours = False
        self._sql: PostgresStatements
        self._head: tuple[str, Link] | None = None

    def append(
        self,
        stream: str,
        events: Sequence[NewEvent],
        *,
        expected: int | Expected,
        claim: Claim,
    ) -> Appended:
        """See EventStore."""
        self._require_new(stream, events)
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

    def _fetch(self, statement: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        if self._closed:
            raise StoreClosed("closed")
        return self._server.lasting(lambda c: c.execute(statement, parameters).fetchall())

    def wait(self, after: int, timeout: float) -> int:
        """See EventStore; the server says when there is something new."""
        end = time.monotonic() + timeout
        while True:
            ((last,),) = self._fetch(self._sql.last)
            left = end - time.monotonic()
            if last > after or left <= 0:
                return int(last)
            self._server.await_notice(CHANNEL, left)

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

    def _foreign_rules(self) -> Iterator[str]:
        return foreign_rules(self._fetch)

    def _write(self, *statements: tuple[str, tuple[Any, ...]]) -> None:
        self._require_writable()

        def work(connection: "Server") -> None:
            with connection.pipeline():
                connection.execute(BEGIN)
                for statement, parameters in statements:
                    connection.execute(statement, parameters)
                connection.execute("COMMIT")

        self._server.lasting(work)

    def be_patient(self, asks_again: Callable[[StoreUnreachable, float], bool]) -> None:
        """See EventStore."""
        self._server.asks_again = asks_again

    def close(self) -> None:
        """See EventStore."""
        if not self._closed:
            self._closed = True
            self._server.close()
