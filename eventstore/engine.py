"""Open an event log with the database engine that its address names."""

from pathlib import Path

from eventstore.database_url import is_postgres_url
from eventstore.event import Clock
from eventstore.schema import Schema
from eventstore.sqlite.store import open_store
from eventstore.store import EventStore
from wfctl_eventstore.extension import require_extension


def open_log(
    address: Path | str,
    *,
    schema: Schema,
    clock: Clock,
    read_only: bool = False,
    as_is: bool = False,
    journal: str | None = None,
) -> EventStore:
    """Open the event log at a path, or at the URL of a database on a server.

    With `as_is`, events are read without checking their hashes. `journal` (the journal mode)
    applies only to SQLite. Raises any error of `open_store` and `open_server`.
    """
    if isinstance(address, Path):
        return open_store(
            address, schema=schema, clock=clock, read_only=read_only, as_is=as_is, journal=journal
        )
    if not is_postgres_url(address):
        raise ValueError(f"expected the URL of a server, found {address.partition(':')[0]!r}")
    postgres = require_extension("postgres", "a log on a PostgreSQL server")
    return postgres.open_server(
        address, schema=schema, clock=clock, read_only=read_only, as_is=as_is
    )
