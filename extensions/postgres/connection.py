"""Connect to a PostgreSQL server, reconnect after failures, and translate its errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from eventstore.database_url import libpq_url, url_without_password
from eventstore.errors import (
    DatabaseMissing,
    EventStoreError,
    InvalidData,
    NewerDatabase,
    NotOurs,
    OlderDatabase,
    StoreBusy,
    StoreDamaged,
    StoreUnreachable,
    StoreUnwritable,
)
from eventstore.event import HEAD, MARK
from extensions.postgres import driver
from extensions.postgres.driver import psycopg

if TYPE_CHECKING:
    Server = psycopg.Connection[tuple[Any, ...]]


_Result = TypeVar("_Result")

# Connection settings that the URL does not override. They limit how long a server that does not
# answer is waited for.
_DEFAULTS = {
    "connect_timeout": 10,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "wfctl",
    "client_encoding": "UTF8",
}
# Seconds after which the server ends an idle transaction, for example after the crash of a client
# machine. Its lock is then released.
_IDLE_SECONDS = 10
_PAUSE_SECONDS = (0.05, 5.0)

# The settings apply only to this transaction, because a connection pooler passes the session on to
# other programs. Asynchronous commit is turned off, because it could lose events that were reported
# as recorded.
_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ {mode}"
_SETTINGS = """
SELECT set_config('lock_timeout', %s, true),
       set_config('idle_in_transaction_session_timeout', %s, true),
       CASE WHEN current_setting('synchronous_commit') = 'off'
            THEN set_config('synchronous_commit', 'on', true) END
"""
# Returns the process id of the server session. A connection pooler reports another process id when
# the connection is opened.
_IDENTITY = "SELECT pg_backend_pid(), obj_description(to_regclass('events'), 'pg_class')"
# Only a role with write permission can take this lock. Other users can still read and write the
# table, and every role can see the holder of the lock.
WRITE_TURN = "LOCK TABLE folds IN SHARE UPDATE EXCLUSIVE MODE"
_HOLDER = """
SELECT a.usename, a.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.relation = 'folds'::regclass AND l.mode = 'ShareUpdateExclusiveLock' AND l.granted
AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
# Number of times that the driver sends a statement before it prepares the statement. Used only
# without a connection pooler.
_PREPARED_AFTER = 5
# Seconds between two checks for new events if the server cannot notify this connection.
_POLL_SECONDS = 0.2
_UNWRITABLE = (
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.DiskFull,
)
_UNFINISHED = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
)
_NO_TABLES = (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName)
_NO_VALUE = (psycopg.errors.DataError, UnicodeEncodeError)


def _is_lost(error: psycopg.Error) -> bool:
    """Return whether an error means that the connection is lost.

    The driver may notice the loss only later.
    """
    severity = error.diag.severity_nonlocalized
    said_nothing = severity is None and isinstance(error, psycopg.OperationalError)
    return said_nothing or severity in ("FATAL", "PANIC")


def reason_of(error: psycopg.Error) -> str:
    """Return the first line of the database's error message."""
    return str(error).strip().partition("\n")[0]


def translate_error(error: psycopg.Error, address: str, wait: float) -> EventStoreError:
    """Return the wfctl error that corresponds to an error of the database driver.

    Programming errors are raised unchanged.
    """
    place = url_without_password(address)
    reason = reason_of(error)
    if isinstance(error, _UNFINISHED):
        return StoreBusy(wait)
    if isinstance(error, _UNWRITABLE):
        return StoreUnwritable(place, reason)
    if isinstance(error, _NO_TABLES):
        return DatabaseMissing(place)
    if isinstance(error, _NO_VALUE):
        return InvalidData("the text for PostgreSQL", reason)
    if isinstance(error, psycopg.OperationalError):
        return StoreUnreachable(place, reason)
    if isinstance(error, psycopg.ProgrammingError | psycopg.InterfaceError):
        raise error
    return StoreDamaged(place, reason)


def connect_to_server(address: str, *, autocommit: bool = True) -> Server:
    """Open a connection to the server. Raise `StoreUnreachable` if this fails.

    With ``autocommit``, statements do not start transactions implicitly.
    """
    try:
        given = driver.conninfo.conninfo_to_dict(libpq_url(address))
    except psycopg.ProgrammingError:
        # Do not chain the driver's error, because its message contains the URL with the password.
        raise StoreUnreachable(
            url_without_password(address), "a URL that libpq cannot read"
        ) from None
    settings: dict[str, Any] = {**_DEFAULTS, **given}
    try:
        # Do not prepare statements yet. Behind a connection pooler, the next statement may run in
        # another session that does not know them.
        return psycopg.connect(
            driver.conninfo.make_conninfo("", **settings),
            autocommit=autocommit,
            prepare_threshold=None,
        )
    except psycopg.OperationalError as error:
        raise translate_error(error, address, 0) from error


class ServerConnection:
    """The connection of one process to a database server.

    An operation may be repeated after a failure, so it must be safe to run twice.
    """

    def __init__(self, address: str, wait: float, *, read_only: bool) -> None:
        self.address = address
        self.wait = wait
        #: Function that decides whether to try again after the server was unreachable for a number
        #: of seconds.
        self.asks_again: Callable[[StoreUnreachable, float], bool] = lambda _, away: away <= wait
        self._read_only = read_only
        self._listening = False
        self._is_pooled = False
        self._connection = self._open_with_retries(time.monotonic() + wait)

    def _open_with_retries(self, end: float) -> Server:
        """Open a connection, waiting until ``end`` for a server that starts or stops.

        Any other error is raised immediately.
        """
        while True:
            try:
                return self._open_connection()
            except StoreUnreachable as error:
                passing = "starting up" in error.reason or "shutting down" in error.reason
                if not passing or time.monotonic() > end:
                    raise
            time.sleep(_PAUSE_SECONDS[0])

    def _open_connection(self) -> Server:
        connection = connect_to_server(self.address)
        try:
            self._check_identity(connection)
        except BaseException as error:
            connection.close()
            if isinstance(error, psycopg.Error):
                raise translate_error(error, self.address, self.wait) from error
            raise
        return connection

    def _check_identity(self, connection: Server) -> None:
        """Raise an error if the database does not belong to wfctl or has another version."""
        process, mark = connection.execute(_IDENTITY).fetchone() or (0, None)
        self._is_pooled = process != connection.info.backend_pid
        if not self._is_pooled:
            connection.prepare_threshold = _PREPARED_AFTER
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        place = url_without_password(self.address)
        if mark != MARK:
            raise NotOurs(place, f"a table 'events' with the comment {mark!r}")
        version = str(row[0]) if row else "none"
        if version > HEAD:
            raise NewerDatabase(place, version, HEAD)
        if version < HEAD:
            raise OlderDatabase(place, version, HEAD)

    def begin(self, connection: Server) -> None:
        """Start a transaction with limited waiting times, in the caller's pipeline."""
        milliseconds = [str(max(1, round(s * 1000))) for s in (self.wait, _IDLE_SECONDS)]
        connection.execute(_BEGIN.format(mode="ONLY" if self._read_only else "WRITE").encode())
        connection.execute(_SETTINGS, milliseconds)

    def fetch(self, statement: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Run one statement in its own transaction, and return the rows of its result."""

        def work(connection: Server) -> list[tuple[Any, ...]]:
            with connection.pipeline():
                self.begin(connection)
                found = connection.execute(statement.encode(), parameters)
                connection.execute("COMMIT")
            return found.fetchall()

        return self.run_with_reconnect(work)

    def _find_lock_holder(self) -> str:
        """Return the session that holds the lock for writing, or an empty string.

        The string is empty if the holder is unknown.
        """
        try:
            self._end_transaction()
            found = self._connection.execute(_HOLDER).fetchall()
        except psycopg.Error:
            return ""
        return ", ".join(f"{name} (process {pid} of the server)" for name, pid in found)

    def run_with_reconnect(self, work: Callable[[Server], _Result]) -> _Result:
        """Run `work` and return its result, repeated if the connection is lost.

        Raises `StoreUnreachable` if the server stays unreachable for too long.
        """
        lost, pause = None, _PAUSE_SECONDS[0]
        while True:
            try:
                return self.once(work)
            except StoreUnreachable as error:
                lost = time.monotonic() if lost is None else lost
                away = time.monotonic() - lost
                if not (self._connection.closed and self.asks_again(error, away)):
                    raise
            time.sleep(pause)
            pause = min(pause * 2, _PAUSE_SECONDS[1])

    def once(self, work: Callable[[Server], _Result]) -> _Result:
        """Run `work` once and return its result. Roll back an unfinished transaction.

        Raises `StoreUnreachable` if the connection is lost.
        """
        if self._connection.closed:
            self._listening = False
            self._connection = self._open_connection()
        try:
            return work(self._connection)
        except psycopg.Error as error:
            if _is_lost(error):
                self._connection.close()
                raise StoreUnreachable(
                    url_without_password(self.address), reason_of(error)
                ) from error
            if isinstance(error, psycopg.errors.LockNotAvailable):
                raise StoreBusy(self.wait, self._find_lock_holder() or None) from error
            raise translate_error(error, self.address, self.wait) from error
        finally:
            self._end_transaction()

    def _end_transaction(self) -> None:
        """Roll back a transaction that an error or an interrupt left unfinished."""
        connection, idle = self._connection, driver.pq.TransactionStatus.IDLE
        if connection.closed or connection.info.transaction_status is idle:
            return
        try:
            connection.execute("ROLLBACK")
        except psycopg.OperationalError:
            connection.close()

    def await_notice(self, channel: str, timeout: float) -> None:
        """Wait for a notice of the server on the channel, at most ``timeout`` seconds.

        The first call on a connection only starts to listen and returns immediately. The caller
        must therefore check for earlier events. Behind a connection pooler, notices are impossible;
        the call then only sleeps for a moment.
        """
        if self._is_pooled:
            time.sleep(min(timeout, _POLL_SECONDS))
            return

        def work(connection: Server) -> None:
            if self._listening:
                list(connection.notifies(timeout=timeout, stop_after=1))
            else:
                connection.execute(f"LISTEN {channel}".encode())
                self._listening = True

        self.run_with_reconnect(work)

    def release(self) -> None:
        """Close a connection that goes through a connection pooler.

        The next operation opens it again. Other connections stay open.
        """
        if self._is_pooled:
            self._connection.close()

    def close(self) -> None:
        """Close the connection to the server."""
        self._connection.close()


_GUARDED = ("commands", "events", "folds", "refusals")
#: Action → the bits in PostgreSQL's table pg_trigger for a trigger before such a statement.
_BEFORE = {"delete": 2 | 8, "update": 2 | 16, "truncate": 2 | 32}
_BODIES = {
    "events": "BEGIN RAISE EXCEPTION 'events are append-only'; END",
    "commands": "BEGIN RAISE EXCEPTION '% are append-only', TG_TABLE_NAME; END",
    "refusals": "BEGIN RAISE EXCEPTION '% are append-only', TG_TABLE_NAME; END",
}
#: The triggers that the migrations create: table, name, kind, and text of the function.
_TRIGGERS = frozenset(
    (table, f"{table}_no_{verb}", kind, body)
    for table, body in _BODIES.items()
    for verb, kind in _BEFORE.items()
)
_TABLES = ", ".join(f"to_regclass('{table}')" for table in _GUARDED)
_ASKED = f"""
SELECT 'trigger', c.relname, t.tgname, t.tgtype::int, p.prosrc
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
WHERE t.tgrelid IN ({_TABLES}) AND NOT t.tgisinternal
UNION ALL
SELECT 'rule', c.relname, r.rulename, 0, ''
FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class WHERE r.ev_class IN ({_TABLES})
UNION ALL
SELECT 'policy', c.relname, o.polname, 0, ''
FROM pg_policy o JOIN pg_class c ON c.oid = o.polrelid WHERE o.polrelid IN ({_TABLES})
ORDER BY 1, 2, 3"""

Fetch = Callable[[str], list[tuple[Any, ...]]]


def foreign_rules(fetch: Fetch) -> Iterator[str]:
    """Yield each trigger, rule and policy on the log's tables that wfctl did not create."""
    for kind, table, name, type_, body in fetch(_ASKED):
        if (table, name, type_, " ".join(body.split())) not in _TRIGGERS:
            yield f"the {kind} {name!r:.80} on the table {table}"
