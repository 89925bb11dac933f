"""Bring a database to the tables of this program, forward only."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection

from eventstore.errors import NewerDatabase
from eventstore.event import HEAD
from eventstore.private import is_server
from migrations.file import DatabaseFile


class Engine(Protocol):
    """One database."""

    @property
    def place(self) -> str:
        """Its path or URL, without a password."""
        ...

    def exists(self) -> bool:
        """Whether there is anything to read."""
        ...

    def writing(self) -> AbstractContextManager[Connection]:
        """One transaction, in turn with other migrations."""
        ...

    def reading(self) -> AbstractContextManager[Connection]:
        """A connection that changes nothing and makes nobody wait."""
        ...

    def require_ours(self, connection: Connection) -> None:
        """Raises NotOurs for a database with tables of somebody else's."""
        ...


WAIT = 30.0


def database_of(address: Path | str, wait: float = WAIT) -> Engine:
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
    engine = database_of(address, wait)
    with engine.writing() as connection:
        engine.require_ours(connection)
        _require_known(engine, _revision(connection))
        config = Config()
        config.set_main_option("script_location", str(scripts))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        return _revision(connection)


def current(address: Path | str, *, wait: float = WAIT) -> str | None:
    """Version of the database at a path or URL, None if it has no tables.

    Takes no lock that a writer waits for, and changes nothing. Raises as `upgrade` does.
    """
    engine = database_of(address, wait)
    if not engine.exists():
        return None
    with engine.reading() as connection:
        engine.require_ours(connection)
        found = _revision(connection)
        _require_known(engine, found)
        return found


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _require_known(engine: Engine, found: str | None) -> None:
    if found is not None and found > HEAD:
        raise NewerDatabase(engine.place, found, HEAD)
