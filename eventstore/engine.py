"""The engine that keeps a log, by its address."""

from pathlib import Path

from eventstore.chain import Schema
from eventstore.event import Clock
from eventstore.private import is_server
from eventstore.sqlite.store import open_store
from eventstore.store import EventStore


def open_log(
    address: Path | str,
    *,
    schema: Schema,
    clock: Clock,
    read_only: bool = False,
    as_is: bool = False,
    journal: str | None = None,
) -> EventStore:
    """Open the log at a path, or at the URL of a database on a server.

    `as_is`: the rows are read as they stand, unchecked. `journal` is for SQLite alone.
    Raises as `open_store` and `open_server` do.
    """
    if isinstance(address, Path):
        return open_store(
            address, schema=schema, clock=clock, read_only=read_only, as_is=as_is, journal=journal
        )
    if not is_server(address):
        raise ValueError(f"expected the URL of a server, found {address.partition(':')[0]!r}")
    from eventstore.postgres.store import open_server  # a log in a file must not pay for the driver

    return open_server(address, schema=schema, clock=clock, read_only=read_only, as_is=as_is)
