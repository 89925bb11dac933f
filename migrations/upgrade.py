"""Create the tables of a log database, or upgrade them to the current version."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection

from eventstore.database_url import is_postgres_url
from eventstore.errors import NewerDatabase
from eventstore.event import HEAD
from migrations.sqlite_file import DatabaseFile
from wfctl_eventstore.extension import MigratedDatabase, require_extension

Database: TypeAlias = DatabaseFile | MigratedDatabase

WAIT = 30.0


def select_migration_database(address: Path | str, wait: float = WAIT) -> Database:
    """Return the database at a path or URL, for migrations.

    `wait` is the maximum time in seconds to wait for other processes.
    """
    if isinstance(address, str) and is_postgres_url(address):
        postgres = require_extension("postgres", "a log on a PostgreSQL server")
        return postgres.open_server_database(address, wait)
    return DatabaseFile(Path(address), wait)


SCRIPTS = Path(__file__).parent


def upgrade_database(
    address: Path | str, *, wait: float = WAIT, scripts: Path = SCRIPTS
) -> str | None:
    """Create or upgrade the tables of the database at a path or URL, and return their version.

    If several processes call this at the same time, one of them does the work. If the upgrade
    fails, the database is unchanged. `scripts` is the folder with Alembic's migration scripts.

    Raises NotOurs, NewerDatabase, StoreBusy, StoreUnwritable, StoreDamaged, StoreUnreachable.
    """
    database = select_migration_database(address, wait)
    with database.writing() as connection:
        _read_known_revision(database, connection)
        config = Config()
        config.set_main_option("script_location", str(scripts))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        return _read_revision(connection)


def current_revision(address: Path | str, *, wait: float = WAIT) -> str | None:
    """Return the version of the tables in a database, or None if it has no tables.

    This changes nothing and takes no lock that blocks writers. Raises the errors of
    `upgrade_database`.
    """
    database = select_migration_database(address, wait)
    if isinstance(database, DatabaseFile) and not database.path.exists():
        return None
    with database.reading() as connection:
        return _read_known_revision(database, connection)


def _read_revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _read_known_revision(database: Database, connection: Connection) -> str | None:
    database.require_ours(connection)
    found = _read_revision(connection)
    if found is not None and found > HEAD:
        raise NewerDatabase(database.place, found, HEAD)
    return found
