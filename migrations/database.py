"""The database at an address, whatever engine keeps it."""

from pathlib import Path

from eventstore.address import is_server
from migrations.engine import Engine
from migrations.file import DatabaseFile

WAIT = 30.0


def database_of(address: Path | str, wait: float = WAIT) -> Engine:
    """The database at a path or URL; `wait` bounds the wait for others, in seconds."""
    if isinstance(address, str) and is_server(address):
        from migrations.server import ServerDatabase  # its driver may not be installed

        return ServerDatabase(address, wait)
    return DatabaseFile(Path(address), wait)
