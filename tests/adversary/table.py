"""Access the events table directly, in a SQLite file or on a PostgreSQL server."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.adversary import raw

_NAMES = ("position", "stream", "version", "event_id", "type", "recorded_at", "hash", "body")
Row = tuple[raw.Body, str]
"""An envelope and its stored text."""


class Table:
    """The rows of an event log, as a database user with write access sees them.

    The address is the path of a SQLite file or the URL of a server.
    """

    def __init__(self, address: Path | str) -> None:
        self._address = address
        self._mark = "?" if isinstance(address, Path) else "%s"

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        if isinstance(self._address, Path):
            with closing(sqlite3.connect(self._address)) as database, database:
                yield database
        else:
            import psycopg

            with psycopg.connect(self._address.replace("+psycopg", "")) as connection:
                yield connection

    def last(self, stream: str) -> raw.Body:
        """Return the last envelope of a stream with the ``hash`` of its row."""
        question = f"SELECT body, hash FROM events WHERE stream = {self._mark} ORDER BY version"
        with self._connected() as database:
            text, hash_ = database.execute(question, (stream,)).fetchall()[-1]
        return {**json.loads(text), "hash": hash_}

    def add(self, rows: Iterable[Row]) -> None:
        """Append rows with valid hashes."""
        marks = ", ".join(self._mark for _ in _NAMES)
        insert = f"INSERT INTO events ({', '.join(_NAMES)}) VALUES ({marks})"
        with self._connected() as database:
            (position,) = database.execute("SELECT max(position) FROM events").fetchone()
            for body, text in rows:
                position += 1
                named = [body[name] for name in _NAMES[1:6]]
                database.execute(insert, (position, *named, raw.sha(text), text))
