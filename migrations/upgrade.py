"""Bring a database to the tables of this program, forward only."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from eventstore.connection import connect, meaning
from eventstore.errors import NewerDatabase, NotOurs
from eventstore.tables import APPLICATION_ID, HEAD

SCRIPTS = Path(__file__).parent
_WAIT = 30.0


def upgrade(path: Path, *, wait: float = _WAIT, scripts: Path = SCRIPTS) -> str | None:
    """Make or upgrade the SQLite database at `path` and return its version.

    Several callers at once are safe: one does the work. A failure leaves the database as it was.
    `scripts` is the folder of Alembic's environment.
    Raises NotOurs, NewerDatabase, StoreBusy, StoreUnwritable, StoreDamaged.
    """
    with _begun(path, wait) as connection:
        _require_ours(connection, path)
        config = Config()
        config.set_main_option("script_location", str(scripts))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        return MigrationContext.configure(connection).get_current_revision()


def current(path: Path, *, wait: float = _WAIT) -> str | None:
    """Version of the database at `path`, None if it has no tables. Raises as `upgrade` does."""
    if not path.exists():
        return None
    with _begun(path, wait) as connection:
        return _require_ours(connection, path)


@contextmanager
def _begun(path: Path, wait: float) -> Iterator[Connection]:
    engine = _engine(path, wait)
    try:
        with engine.begin() as connection:
            yield connection
    except DBAPIError as error:
        if isinstance(error.orig, sqlite3.Error):
            raise meaning(error.orig, path, wait) from error
        raise
    except sqlite3.Error as error:
        raise meaning(error, path, wait) from error
    finally:
        engine.dispose()


def _engine(path: Path, wait: float) -> Engine:
    engine = create_engine(
        "sqlite://", creator=lambda: connect(path, "mode=rwc", wait), poolclass=NullPool
    )

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # The driver would begin only at the first row written, after tables were made.
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _require_ours(connection: Connection, path: Path) -> str | None:
    tables = connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one()
    if not tables:
        return None
    application = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
    if application != APPLICATION_ID:
        raise NotOurs(path, f"application id {application:#x} instead of {APPLICATION_ID:#x}")
    found = MigrationContext.configure(connection).get_current_revision()
    if found is not None and found > HEAD:
        raise NewerDatabase(path, found, HEAD)
    return found
