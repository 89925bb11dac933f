"""The last events of a log and of one of its streams."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from eventstore.chain import START, ZERO, Link
from eventstore.store import Expected, is_expected_version


@dataclass(slots=True)
class StreamHead:
    """The last events of the log and of one stream.

    The values are valid as long as nobody else writes to the file. Each append updates the object,
    because creating a new object would be too slow.
    """

    #: SQLite's `data_version`. It changes when another connection commits, so an unchanged value
    #: means that nobody else wrote.
    changes: int
    stream: str
    #: Position and hash of the last event of the log, then version and hash of the last event of
    #: the stream.
    position: int
    last: str
    version: int
    hash: str

    @property
    def head(self) -> Link:
        """Version and hash of the last event of the stream."""
        return Link(self.version, self.hash)

    def meets(self, expected: int | Expected) -> bool:
        """Return whether the stream's last version satisfies the writer's expectation."""
        return self.version == expected or is_expected_version(expected, self.version)


def refresh_stream_head(
    cursor: sqlite3.Cursor, statement: str, stream: str, known: StreamHead | None
) -> StreamHead:
    """Return the last events of the log and of a stream.

    Return `known`, the result of an earlier call, if nobody else has written since then. Otherwise
    query the database.
    """
    (changes,) = cursor.execute("PRAGMA data_version").fetchone()
    if known is not None and known.changes == changes and known.stream == stream:
        return known
    found = cursor.execute(statement, (stream,)).fetchone()
    position, last, version, hash_ = found or (0, ZERO, *START)
    return StreamHead(changes, stream, position, last, *(version, hash_) if version else START)
