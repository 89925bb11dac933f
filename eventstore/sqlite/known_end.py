"""Where a log ends, as the store knows that wrote there last."""

import sqlite3
from dataclasses import dataclass

from eventstore.chain import START, ZERO, Link
from eventstore.expectation import is_met
from eventstore.store import Expected


@dataclass(slots=True)
class Tip:
    """Where the log and a stream end, known for as long as nobody else changes the file.

    It moves on with each append, as making another costs more than the rest of what it is for.
    """

    #: SQLite's `data_version`, which every commit of another connection changes.
    changes: int
    stream: str
    #: Position and hash of the log's last event; version and hash are those of the stream's.
    position: int
    last: str
    version: int
    hash: str

    @property
    def head(self) -> Link:
        """The end of the stream's chain."""
        return Link(self.version, self.hash)

    def meets(self, expected: int | Expected) -> bool:
        """Whether the head of the stream is as expected."""
        return self.version == expected or is_met(expected, self.version)


def tip_of(cursor: sqlite3.Cursor, statement: str, stream: str, known: Tip | None) -> Tip:
    """The tip within the turn: what is known, unless others wrote, or what `statement` finds."""
    (changes,) = cursor.execute("PRAGMA data_version").fetchone()
    if known is not None and known.changes == changes and known.stream == stream:
        return known
    found = cursor.execute(statement, (stream,)).fetchone()
    position, last, version, hash_ = found or (0, ZERO, *START)
    return Tip(changes, stream, position, last, *(version, hash_) if version else START)
