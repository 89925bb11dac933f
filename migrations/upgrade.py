"""Bring a database to the tables of this program, forward only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection

from eventstore.errors import NewerDatabase
from eventstore.event import HEAD
from eventstore.private import is_server
from migrations.file import DatabaseFile

if TYPE_CHECKING:
    from migrations.server import ServerDatabase

    Database = DatabaseFile | ServerDatabase


WAIT = 30.0


def database_of(address: Path | str, wait: float = WAIT) -> Database:
    """The database at a path or URL; `wait` bounds the wait for others, in seconds."""
    if isinstance(address, str) and is_server(address):
        from migrations.server import ServerDatabase  # its driver may not be installed

        return ServerDatabase(address, wait)
    return DatabaseFile(Path(address), wait)


SCRIPTS = Path(__file__).parent


def upgrade(address: Path | str, *, wait: float = WAIT, scripts: Path = SCRIPTS) -> str | None:
    """Make or upgrade the database at a path or URL and return its version.

    Several callers at once are safe: one does the work. A failure leaves the database as it was.
    `scripts` is the folder of Alembic's environment.
    Raises NotOurs, NewerDatabase, StoreBusy, StoreUnwritable, StoreDamaged, StoreUnreachable.
    """
    database = database_of(address, wait)
    with database.writing() as connection:
        _known(database, connection)
        config = Config()
        config.set_main_option("script_location", str(scripts))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        return _revision(connection)


def current(address: Path | str, *, wait: float = WAIT) -> str | None:
    """Version of the database at a path or URL, None if it has no tables.

    Takes no lock that a writer waits for, and changes nothing. Raises as `upgrade` does.
    """
    database = database_of(address, wait)
    if isinstance(database, DatabaseFile) and not database.path.exists():
        return None
    with database.reading() as connection:
        return _known(database, connection)


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _known(database: Database, connection: Connection) -> str | None:
    database.require_ours(connection)
    found = _revision(connection)
    if found is not None and found > HEAD:
        raise NewerDatabase(database.place, found, HEAD)
    return found
