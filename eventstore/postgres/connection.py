"""A connection to a PostgreSQL server, made anew where it was lost; what its errors mean."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

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
from eventstore.postgres import driver
from eventstore.postgres.driver import psycopg
from eventstore.private import conninfo, public

if TYPE_CHECKING:
    Server = psycopg.Connection[tuple[Any, ...]]


_Result = TypeVar("_Result")

# Seconds until a silent server counts as gone, unless the URL says otherwise.
_DEFAULTS = {
    "connect_timeout": 10,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "wfctl",
    "client_encoding": "UTF8",
}
# A writer whose machine dies in the middle of an append holds up all others no longer than this.
_IDLE_SECONDS = 10
_PAUSE_SECONDS = (0.05, 5.0)

# A fast commit that a server setting asks for would forget what was acknowledged.
_SETTINGS = """
SELECT set_config('lock_timeout', %s, false),
       set_config('idle_in_transaction_session_timeout', %s, false),
       set_config('default_transaction_read_only', %s, false),
       set_config('default_transaction_isolation', 'read committed', false),
       CASE WHEN current_setting('synchronous_commit') = 'off'
            THEN set_config('synchronous_commit', 'on', false) END,
       obj_description(to_regclass('events'), 'pg_class')
"""
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
    """Whether there is no connection any more; the driver may learn it later than we do."""
    severity = error.diag.severity_nonlocalized
    said_nothing = severity is None and isinstance(error, psycopg.OperationalError)
    return said_nothing or severity in ("FATAL", "PANIC")


def reason_of(error: psycopg.Error) -> str:
    """What the database says of an error, on one line."""
    return str(error).strip().partition("\n")[0]


def meaning(error: psycopg.Error, address: str, wait: float) -> EventStoreError:
    """Our error for one of the driver's; a wrong use of the driver is raised as it is."""
    place = public(address)
    reason = reason_of(error)
    if isinstance(error, _UNFINISHED):
        return StoreBusy(wait)
    if isinstance(error, _UNWRITABLE):
        return StoreUnwritable(place, reason)
    if isinstance(error, _NO_TABLES):
        return DatabaseMissing(place)
    if isinstance(error, _NO_VALUE):
        return InvalidData("a text for PostgreSQL", reason)
    if isinstance(error, psycopg.OperationalError):
        return StoreUnreachable(place, reason)
    if isinstance(error, psycopg.ProgrammingError | psycopg.InterfaceError):
        raise error
    return StoreDamaged(place, reason)


def connect(address: str, *, autocommit: bool = True) -> Server:
    """A connection that begins and commits only when told, or begins by itself.

    Raises StoreUnreachable.
    """
    try:
        given = driver.conninfo.conninfo_to_dict(conninfo(address))
    except psycopg.ProgrammingError:
        # The driver's message quotes the URL with its password.
        raise StoreUnreachable(public(address), "a URL that libpq cannot read") from None
    settings: dict[str, Any] = {**_DEFAULTS, **given}
    try:
        return psycopg.connect(driver.conninfo.make_conninfo("", **settings), autocommit=autocommit)
    except psycopg.OperationalError as error:
        raise meaning(error, address, 0) from error


class ServerConnection:
    """One process's way to a server; all that is done through it may be done twice."""

    def __init__(self, address: str, wait: float, *, read_only: bool) -> None:
        self.address = address
        self.wait = wait
        #: Whether a server is asked again that is away for so many seconds.
        self.asks_again: Callable[[StoreUnreachable, float], bool] = lambda _, away: away <= wait
        self._read_only = read_only
        self._listening = False
        self._connection = self._opened_patiently(time.monotonic() + wait)

    def _opened_patiently(self, end: float) -> Server:
        """A server that is just coming or going is waited for; another refusal is final."""
        while True:
            try:
                return self._opened()
            except StoreUnreachable as error:
                passing = "starting up" in error.reason or "shutting down" in error.reason
                if not passing or time.monotonic() > end:
                    raise
            time.sleep(_PAUSE_SECONDS[0])

    def _opened(self) -> Server:
        connection = connect(self.address)
        try:
            self._identify(connection)
        except BaseException as error:
            connection.close()
            if isinstance(error, psycopg.Error):
                raise meaning(error, self.address, self.wait) from error
            raise
        return connection

    def _identify(self, connection: Server) -> None:
        """Refuse a database that is not ours, newer, or older."""
        milliseconds = (str(max(1, round(s * 1000))) for s in (self.wait, _IDLE_SECONDS))
        settings = (*milliseconds, "on" if self._read_only else "off")
        found = connection.execute(_SETTINGS, settings).fetchone()
        mark = found[-1] if found else None
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        place = public(self.address)
        if mark != MARK:
            raise NotOurs(place, f"a table events with the comment {mark!r}")
        version = str(row[0]) if row else "none"
        if version > HEAD:
            raise NewerDatabase(place, version, HEAD)
        if version < HEAD:
            raise OlderDatabase(place, version, HEAD)

    def lasting(self, work: Callable[[Server], _Result]) -> _Result:
        """What `work` gives, done again on a new connection where the old one is lost.

        Raises StoreUnreachable where none can be made for as long as it is asked again.
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
        """What `work` gives; nothing half done stays. Raises StoreUnreachable where it is lost."""
        if self._connection.closed:
            self._listening = False
            self._connection = self._opened()
        try:
            return work(self._connection)
        except psycopg.Error as error:
            if _is_lost(error):
                self._connection.close()
                raise StoreUnreachable(public(self.address), reason_of(error)) from error
            raise meaning(error, self.address, self.wait) from error
        finally:
            self._end_transaction()

    def _end_transaction(self) -> None:
        """Nothing half done may stay: not after an error, not after a keyboard interrupt."""
        connection, idle = self._connection, driver.pq.TransactionStatus.IDLE
        if connection.closed or connection.info.transaction_status is idle:
            return
        try:
            connection.execute("ROLLBACK")
        except psycopg.OperationalError:
            connection.close()

    def await_notice(self, channel: str, timeout: float) -> None:
        """Sleep until the server has something to say on the channel, or the time is over.

        The first call on a connection only begins to listen: what came before must be looked for.
        """

        def work(connection: Server) -> None:
            if self._listening:
                list(connection.notifies(timeout=timeout, stop_after=1))
            else:
                connection.execute(f"LISTEN {channel}".encode())
                self._listening = True

        self.lasting(work)

    def close(self) -> None:
        """Give back the connection."""
        self._connection.close()


_GUARDED = ("commands", "events", "folds", "refusals")
#: What pg_trigger says of a trigger before a statement, by what it is for.
_BEFORE = {"delete": 2 | 8, "update": 2 | 16, "truncate": 2 | 32}
_BODIES = {
    "events": "BEGIN RAISE EXCEPTION 'events are append-only'; END",
    "commands": "BEGIN RAISE EXCEPTION '% are append-only', TG_TABLE_NAME; END",
    "refusals": "BEGIN RAISE EXCEPTION '% are append-only', TG_TABLE_NAME; END",
}
#: The triggers that the migrations make: table, name, kind, and the text of the function.
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
    """What would act on rows of the log and was not created by wfctl."""
    for kind, table, name, type_, body in fetch(_ASKED):
        if (table, name, type_, " ".join(body.split())) not in _TRIGGERS:
            yield f"the {kind} {name!r:.80} on the table {table}"
