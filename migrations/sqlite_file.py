"""Access to a SQLite database for migrations."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from eventstore.errors import NotOurs
from eventstore.event import APPLICATION_ID
from eventstore.private_files import create_private_file
from eventstore.sqlite.connection import open_connection, open_unchecked_reader, translate_error


class DatabaseFile:
    """A SQLite database file, opened by migrations."""

    def __init__(self, path: Path, wait: float) -> None:
        self.path = path
        self.place = str(path)
        self._wait = wait

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a connection with a write transaction. Create the file if needed.

        Wait until other migrations have ended.
        """
        with suppress(OSError):  # SQLite says better what is in the way
            create_private_file(self.path)
        with self._open_engine(
            lambda: open_connection(self.path, "mode=rwc", self._wait)
        ) as engine:

            @event.listens_for(engine, "begin")
            def _begin(connection: Connection) -> None:
                # Start the transaction explicitly. The driver would start it only when the first
                # row is written, after the tables were created.
                connection.exec_driver_sql("BEGIN IMMEDIATE")

            with engine.begin() as connection:
                yield connection

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a connection that changes nothing and blocks no other process."""
        with (
            self._open_engine(lambda: open_unchecked_reader(self.path, self._wait)) as engine,
            engine.connect() as connection,
        ):
            yield connection

    @contextmanager
    def _open_engine(self, creator: Callable[[], sqlite3.Connection]) -> Iterator[Engine]:
        engine = create_engine("sqlite://", creator=creator, poolclass=NullPool)
        try:
            yield engine
        except DBAPIError as error:
            if isinstance(error.orig, sqlite3.Error):
                raise translate_error(error.orig, self.path, self._wait) from error
            raise
        except sqlite3.Error as error:
            raise translate_error(error, self.path, self._wait) from error
        finally:
            engine.dispose()

    def require_ours(self, connection: Connection) -> None:
        """Raise NotOurs if the database contains tables of another program."""
        tables = connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one()
        application = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
        if tables and application != APPLICATION_ID:
            found = f"application id {application:#x} instead of {APPLICATION_ID:#x}"
            raise NotOurs(self.path, found)
