"""Store the event log in a database on a PostgreSQL server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from eventstore.chain import START, Link, Sealed, Stamp, build_chained_rows
from eventstore.database_url import url_without_password
from eventstore.errors import (
    CommandConflict,
    EventIdReused,
    StoreClosed,
    StoreDamaged,
    StoreUnreachable,
)
from eventstore.event import Clock, NewEvent
from eventstore.import_rows import build_import_statements, build_transfer_conflict
from eventstore.schema import Schema
from eventstore.sql import CLAIMED, EVENT, Statements
from eventstore.store import (
    AppendResult,
    Claim,
    EventStore,
    ExecutedCommand,
    Expected,
    ImportBatch,
    require_expected_version,
    require_no_foreign_rules,
    require_same_command,
)
from extensions.postgres.connection import WRITE_TURN, ServerConnection, foreign_rules
from extensions.postgres.driver import psycopg

if TYPE_CHECKING:
    from extensions.postgres.connection import Server

    Cursor = psycopg.Cursor[tuple[Any, ...]]
    Begin = Callable[[Server], None]


# Minimum number of events for which the SQL command COPY is faster than one INSERT.
_MANY = 20
# Number of events to hash at a time, while the server indexes the previous ones.
_SEALED_AT_ONCE = 50

CHANNEL = "wfctl_events"
NOTIFY = f"SELECT pg_notify('{CHANNEL}', '')"

_COPY = f"COPY events ({EVENT}) FROM STDIN"
_AT_ONCE = f"""
WITH new (number, event_id, type, hash, body) AS (VALUES {{rows}}), recorded AS (
  INSERT INTO events ({EVENT})
  SELECT (SELECT coalesce(max(position), 0) FROM events) + number, %(stream)s,
    %(head)s::bigint + number, event_id, type, %(recorded_at)s, hash, body
  FROM new WHERE %(hash)s = coalesce(
    (SELECT hash FROM events WHERE stream = %(stream)s ORDER BY version DESC LIMIT 1),
    '{START.hash}')
  RETURNING position
), claimed AS (
  INSERT INTO commands (command_id, stream, digest, first_version, last_version)
  SELECT %(command_id)s, %(stream)s, %(digest)s, %(head)s::bigint + 1, %(head)s::bigint + {{last}}
  FROM recorded LIMIT 1
)
SELECT min(position), pg_notify('{CHANNEL}', '') FROM recorded HAVING count(*) > 0"""


class PostgresStatements(Statements):
    """The SQL statements for PostgreSQL, with the parameters of its driver."""

    command = """
SELECT stream, digest, first_version, last_version FROM commands WHERE command_id = ?"""
    #: The parameter of this query is an array of command ids.
    spans = """
SELECT command_id, stream, first_version, last_version FROM commands WHERE command_id = any(?)"""
    commands = f"""
SELECT {CLAIMED} FROM commands WHERE command_id > ? ORDER BY command_id LIMIT ?"""
    #: Parameters: stream and command id. Returns everything that an append must know, in one round
    #: trip: the last position of the log; the version and hash of the stream's newest event; and
    #: the stream, the digest, and the first and last version of the command. A value is null if it
    #: does not exist.
    before = """
SELECT last.position, own.version, own.hash, c.stream, c.digest, c.first_version, c.last_version
FROM (SELECT max(position) AS position FROM events) AS last
LEFT OUTER JOIN (
  SELECT version, hash FROM events WHERE stream = ? ORDER BY version DESC LIMIT 1
) AS own ON true
LEFT OUTER JOIN commands AS c ON c.command_id = ?"""

    def __init__(self) -> None:
        for name in (name for name in dir(self) if not name.startswith("_")):
            setattr(self, name, getattr(self, name).replace("?", "%s"))


class PendingAppend(NamedTuple):
    """The events to append to a stream, and the last event of the stream before them."""

    events: Sequence[NewEvent]
    claim: Claim
    after: Link
    marked: Stamp

    def sealed(self) -> list[Sealed]:
        """Return the events as links of the stream's hash chain.

        Raises `InvalidData` if an event cannot be encoded.
        """
        return build_chained_rows(self.events, self.after, self.marked)[0]

    def iterate_sealed_events(self) -> Iterator[Sealed]:
        """Yield the links of the hash chain one by one, computed when needed."""
        after = self.after
        for first in range(0, len(self.events), _SEALED_AT_ONCE):
            events = self.events[first : first + _SEALED_AT_ONCE]
            part, after = build_chained_rows(events, after, self.marked)
            yield from part


class Committed(NamedTuple):
    """The events as they were committed, and the position of the first event in the log."""

    sealed: list[Sealed]
    first: int


def begin_locked_append(
    connection: Server, begin: Begin, sql: PostgresStatements, stream: str, claim: Claim
) -> tuple[Any, ...] | None:
    """Start a transaction, take the lock for writing, and read the data for an append.

    The lock is released by the commit. Positions therefore follow the order of commits, without
    gaps.
    """
    with connection.pipeline():
        begin(connection)
        connection.execute(WRITE_TURN)
        found = connection.execute(sql.before, (stream, claim.command_id))
    return found.fetchone()


def append_in_one_round_trip(
    connection: Server, begin: Begin, entry: PendingAppend
) -> Committed | None:
    """Append a few events after a known last event, in one round trip.

    Returns None and records nothing if the stream has another last event, or if the command or an
    event is already recorded. The caller must then take the lock and read the stream.
    """
    try:
        with connection.pipeline():
            begin(connection)
            connection.execute(WRITE_TURN)
            sealed, done = _insert_events(connection, entry)
    except psycopg.errors.UniqueViolation:
        connection.execute("ROLLBACK")
        return None
    row = done.fetchone()
    return None if row is None else Committed(sealed, row[0])


def _insert_events(connection: Server, entry: PendingAppend) -> tuple[list[Sealed], Cursor]:
    """Insert and commit the events, as part of the caller's pipeline.

    The server numbers the events.
    """
    sealed = entry.sealed()
    done = connection.execute(
        _build_one_trip_statement(len(sealed)).encode(), _build_parameters(entry, sealed)
    )
    connection.execute("COMMIT")
    return sealed, done


def record_in_turn(
    connection: Server, sql: PostgresStatements, entry: PendingAppend
) -> Committed | None:
    """Insert and commit the events in the transaction that holds the lock for writing.

    Returns None if the stream has another last event. Raises `EventIdReused`, `CommandConflict` or
    `InvalidData`.
    """
    try:
        if not 0 < len(entry.events) < _MANY:
            return _copy_events(connection, sql, entry)
        with connection.pipeline():
            sealed, done = _insert_events(connection, entry)
        row = done.fetchone()
        return None if row is None else Committed(sealed, row[0])
    except psycopg.errors.UniqueViolation as error:
        connection.execute("ROLLBACK")
        # Another writer recorded the command or one of the events at the same time. The reported
        # constraint does not tell which of the two conflicts came first, so check the command.
        command_id = entry.claim.command_id
        known = connection.execute(sql.command, (command_id,)).fetchone()
        if known is not None:
            raise CommandConflict(command_id, known[0]) from error
        if error.diag.constraint_name != "events_event_id":
            raise
        reused = [event.event_id for event in entry.events]
        raise EventIdReused(entry.marked[0], reused) from error


def _copy_events(connection: Server, sql: PostgresStatements, entry: PendingAppend) -> Committed:
    """Write many events with COPY and commit them.

    Each group of events is hashed while the server indexes the previous group.
    """
    found = connection.execute(sql.last).fetchone()
    recorded = Committed([], found[0] + 1 if found is not None else 1)
    with connection.cursor().copy(_COPY) as copy:
        for position, link in enumerate(entry.iterate_sealed_events(), recorded.first):
            copy.write_row((position, *link))
            recorded.sealed.append(link)
    claim, head = entry.claim, entry.after.version
    row = (claim.command_id, entry.marked[0], claim.digest, head + 1, head + len(entry.events))
    with connection.pipeline():
        connection.execute(sql.insert_command, row)
        connection.execute(NOTIFY)
        connection.execute("COMMIT")
    return recorded


@cache
def _build_one_trip_statement(number: int) -> str:
    rows = ", ".join(
        f"({n}, %(event_id_{n})s, %(type_{n})s, %(hash_{n})s, %(body_{n})s)"
        for n in range(1, number + 1)
    )
    return _AT_ONCE.format(rows=rows, last=number)


def _build_parameters(entry: PendingAppend, sealed: Sequence[Sealed]) -> dict[str, Any]:
    stream, command_id, recorded_at, _ = entry.marked
    values: dict[str, Any] = {
        "stream": stream,
        "head": entry.after.version,
        "hash": entry.after.hash,
        "recorded_at": recorded_at,
        "command_id": command_id,
        "digest": entry.claim.digest,
    }
    for n, (_, _, *told, _, hash_, text) in enumerate(sealed, 1):
        names = (f"event_id_{n}", f"type_{n}", f"hash_{n}", f"body_{n}")
        values.update(zip(names, (*told, hash_, text), strict=True))
    return values


_WAIT = 30.0


def open_server(
    address: str,
    *,
    schema: Schema,
    clock: Clock,
    read_only: bool = False,
    as_is: bool = False,
    wait: float = _WAIT,
) -> PostgresStore:
    """Open the event log in a database at a URL `postgresql+psycopg://…`.

    The database must have been created by a migration. `clock` returns the recording time of an
    event. With `as_is`, rows are read without checks. `wait` is the maximum number of seconds to
    wait for other writers and for an unreachable server. Raises `DatabaseMissing`, `NotOurs`,
    `NewerDatabase`, `OlderDatabase`, `StoreUnreachable` or `DriverMissing`.
    """
    connection = ServerConnection(address, wait, read_only=read_only)
    return PostgresStore(connection, schema, clock, read_only=read_only, as_is=as_is)


class PostgresStore(EventStore):
    """An event store in a PostgreSQL database. Only the thread that opened it may use it.

    If the connection is lost, it is opened again and the operation is repeated, within the
    permitted time. A repeated append has the same command id, so its events are recorded only once.
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
        self.address = url_without_password(connection.address)
        super().__init__(self.address, PostgresStatements(), schema, clock, as_is)
        self._server = connection
        self._read_only = read_only
        self._rules_are_ours = False
        self._sql: PostgresStatements
        self._head: tuple[str, Link] | None = None

    def append(
        self, stream: str, events: Sequence[NewEvent], *, expected: int | Expected, claim: Claim
    ) -> AppendResult:
        """Append events to a stream. See `EventStore.append`."""
        self._require_new(stream, events)
        self._require_writable()
        tries = count()
        lost, done = self._server.run_with_reconnect(
            lambda c: (next(tries), self._append(c, stream, events, expected, claim))
        )
        return (
            self._load_recorded_events(done, events if lost else ())
            if isinstance(done, ExecutedCommand)
            else done
        )

    def _require_writable(self) -> None:
        if self._read_only or self._closed:
            raise StoreClosed("closed" if self._closed else "open for reading only")
        if not self._rules_are_ours:
            require_no_foreign_rules(self._foreign_rules(), self.address)
            self._rules_are_ours = True

    def _append(
        self,
        connection: Server,
        stream: str,
        events: Sequence[NewEvent],
        expected: int | Expected,
        claim: Claim,
    ) -> AppendResult | ExecutedCommand:
        """Append events and return them, or return the earlier record of the same command.

        If this store wrote the last event of the stream, the events are appended in one round trip.
        If other writers have appended events, this and the next append take the lock first.
        """

        def entry(after: Link) -> PendingAppend:
            return PendingAppend(events, claim, after, (stream, claim.command_id, *self._clock()))

        known = self._known_head(stream, len(events), expected)
        if known is not None:
            recorded = append_in_one_round_trip(connection, self._server.begin, entry(known))
            if recorded is not None:
                return self._build_appended(stream, recorded, uncontested=True)
        row = (
            begin_locked_append(connection, self._server.begin, self._sql, stream, claim)
            or (None,) * 7
        )
        _, version, hash_, *command = row
        if command[0] is not None:
            first = ExecutedCommand(claim.command_id, *command)
            require_same_command(claim, first, stream)
            return first
        after = Link(version, hash_) if version else START
        require_expected_version(stream, expected, after.version)
        recorded = record_in_turn(connection, self._sql, entry(after))
        if recorded is None:
            raise StoreDamaged(
                self.address,
                f"the last event of the log {stream} does not match the index of this log",
            )
        return self._build_appended(stream, recorded, uncontested=known is None)

    def _known_head(self, stream: str, number: int, expected: int | Expected) -> Link | None:
        """Return the last event if this store wrote it and may append directly after it.

        Returns None if the lock must be taken first.
        """
        known, self._head = self._head, None
        if known is None or known[0] != stream or not 0 < number < _MANY:
            return None
        link = known[1]
        return link if expected in (link.version, Expected.ANY, Expected.STREAM_EXISTS) else None

    def _build_appended(
        self, stream: str, recorded: Committed, *, uncontested: bool
    ) -> AppendResult:
        if recorded.sealed and uncontested:
            _, version, *_, hash_, _ = recorded.sealed[-1]
            self._head = (stream, Link(version, hash_))
        numbered = enumerate(recorded.sealed, recorded.first)
        decode = self._schema.decode
        return AppendResult((decode(n, hash_, text) for n, (*_, hash_, text) in numbered), False)

    def _load_recorded_events(
        self, known: ExecutedCommand, lost: Sequence[NewEvent] = ()
    ) -> AppendResult:
        """Return the recorded events of a command.

        They are marked as a repetition, unless they are the events in ``lost``: this call recorded
        them, but lost the connection before the server's answer arrived.
        """
        found = self.read(known.stream, after=known.first_version - 1, upto=known.last_version)
        events = tuple(found)
        ours = bool(events) and [e.event_id for e in events] == [e.event_id for e in lost]
        return AppendResult(events, not ours)

    def _fetch(self, statement: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        if self._closed:
            raise StoreClosed("closed")
        return self._server.fetch(statement, parameters)

    def wait(self, after: int, timeout: float) -> int:
        """Wait for a new event and return the last position in the log.

        The server notifies this connection about new events. See `EventStore.wait`.
        """
        end = time.monotonic() + timeout
        while True:
            ((last,),) = self._fetch(self._sql.last)
            left = end - time.monotonic()
            if last > after or left <= 0:
                return int(last)
            self._server.await_notice(CHANNEL, left)

    def import_batch(self, cargo: ImportBatch) -> None:
        """Import rows of another log. See `EventStore.import_batch`.

        If the connection is lost, the caller must check which rows were recorded.
        """
        self._require_writable()
        self._server.once(lambda connection: self._take_in(connection, cargo))

    def _take_in(self, connection: Server, cargo: ImportBatch) -> None:
        try:
            with connection.pipeline():
                self._server.begin(connection)
                connection.execute(WRITE_TURN)
                found = connection.execute(self._sql.last).fetchone()
            with connection.pipeline():
                for statement, rows in build_import_statements(
                    cargo, self._sql, found[0] if found else 0
                ):
                    connection.cursor().executemany(statement, rows)
                connection.execute(NOTIFY)
                connection.execute("COMMIT")
        except psycopg.errors.UniqueViolation as error:
            raise build_transfer_conflict(cargo, error) from error

    def _foreign_rules(self) -> Iterator[str]:
        return foreign_rules(self._fetch)

    def _write(self, *statements: tuple[str, tuple[Any, ...]]) -> None:
        self._require_writable()

        def work(connection: Server) -> None:
            with connection.pipeline():
                self._server.begin(connection)
                for statement, parameters in statements:
                    connection.execute(statement, parameters)
                connection.execute("COMMIT")

        self._server.run_with_reconnect(work)

    def session_user(self) -> str | None:
        """Return the name of the database user. See `EventStore.session_user`."""
        ((name,),) = self._fetch("SELECT session_user::text")
        return str(name)

    def retry_while_unreachable(
        self, asks_again: Callable[[StoreUnreachable, float], bool]
    ) -> None:
        """Set the function that decides whether to wait longer for an unreachable server."""
        self._server.asks_again = asks_again

    def release_connection(self) -> None:
        """Close a connection that goes through a connection pooler."""
        self._server.release()

    def close(self) -> None:
        """Close the event store and its connection."""
        if not self._closed:
            self._closed = True
            self._server.close()
