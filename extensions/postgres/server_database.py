"""Access to a database on a PostgreSQL server for migrations."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from eventstore.database_url import url_without_password
from eventstore.errors import NotOurs
from eventstore.event import MARK
from extensions.postgres.connection import connect_to_server, translate_error
from extensions.postgres.driver import psycopg

# Lock that allows only one migration at a time in a database. The numbers encode "wfct" and "up".
_TURN = "SELECT pg_advisory_xact_lock(2003198836, 30064)"
_TABLES = """SELECT count(*) FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
AND relname IN ('events', 'commands', 'refusals', 'folds', 'alembic_version')"""


class ServerDatabase:
    """A database on a PostgreSQL server.

    Its tables are in the first schema of the search path.
    """

    def __init__(self, address: str, wait: float) -> None:
        self.address = address
        self.place = url_without_password(address)
        self._wait = wait

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction for a migration, after waiting for other migrations to end."""
        with self._open_engine() as engine, engine.begin() as connection:
            milliseconds = f"{max(1, round(self._wait * 1000))}"
            setting = text("SELECT set_config('lock_timeout', :wait, true)")
            connection.execute(setting, {"wait": milliseconds})
            connection.exec_driver_sql(_TURN)
            yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a connection that only reads and does not block other users."""
        with self._open_engine() as engine, engine.connect() as connection:
            connection.exec_driver_sql("SET TRANSACTION READ ONLY")
            yield connection

    @contextmanager
    def _open_engine(self) -> Iterator[Engine]:
        engine = create_engine(
            "postgresql+psycopg://",
            creator=lambda: connect_to_server(self.address, autocommit=False),
            poolclass=NullPool,
        )
        try:
            yield engine
        except DBAPIError as error:
            if isinstance(error.orig, psycopg.Error):
                raise translate_error(error.orig, self.address, self._wait) from error
            raise
        finally:
            engine.dispose()

    def require_ours(self, connection: Connection) -> None:
        """Raise `NotOurs` if the database has foreign tables or the wrong encoding."""
        encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
        if encoding != "UTF8":
            raise NotOurs(self.place, f"a database with the encoding {encoding} instead of UTF8")
        tables = connection.exec_driver_sql(_TABLES).scalar_one()
        mark = connection.exec_driver_sql(
            "SELECT obj_description(to_regclass('events'), 'pg_class')"
        ).scalar_one()
        if tables and mark != MARK:
            raise NotOurs(self.place, f"tables of these names, and the comment {mark!r}")
