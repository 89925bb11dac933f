"""Register the extension ``postgres`` with the core of wfctl."""

from __future__ import annotations

from typing import Any

from eventstore.event import Clock
from eventstore.schema import Schema
from eventstore.store import EventStore
from wfctl_eventstore.extension import Extension, MigratedDatabase


class PostgresExtension(Extension):
    """Store the event log in a database on a PostgreSQL server."""

    def open_server(
        self, address: str, *, schema: Schema, clock: Clock, read_only: bool, as_is: bool
    ) -> EventStore:
        """Open the event log at a database URL. See `store.open_server` for the errors."""
        from extensions.postgres.store import open_server

        return open_server(address, schema=schema, clock=clock, read_only=read_only, as_is=as_is)

    def open_server_database(self, address: str, wait: float) -> MigratedDatabase:
        """Open the database at a URL for migrations (`wfctl db upgrade`)."""
        from extensions.postgres.server_database import ServerDatabase

        return ServerDatabase(address, wait)

    def open_sql_desk(self, address: str) -> Any:
        """Open the database at a URL for queries (`wfctl audit sql`)."""
        from extensions.postgres.query_connection import PostgresQueryConnection

        return PostgresQueryConnection(address)


EXTENSION = PostgresExtension()
