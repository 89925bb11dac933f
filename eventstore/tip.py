"""Where a log ends, as the store knows that wrote there last."""

import sqlite3
from dataclasses import dataclass

from eventstore.chain import START, Link
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
    #: Of the last event of the log; version and hash are those of the stream's.
    position: int
    version: int
    hash: str

    @property
    def head(self) -> Link:
        """The end of the stream's chain."""
        return Link(self.version, self.hash)

    def fits(self, stream: str, expected: int | Expected) -> bool:
        """Whether this is the stream, and its head as expected."""
        if self.stream != stream:
            return False
        return self.version == expected or is_met(expected, self.version)


def tip_of(cursor: sqlite3.Cursor, statement: str, stream: str, known: Tip | None) -> Tip:
    """The tip in a transaction: what is known, unless others wrote, or what `statement` finds."""
    (changes,) = cursor.execute("PRAGMA data_version").fetchone()
    if known is not None and known.changes == changes and known.stream == stream:
        return known
    position, version, hash_ = cursor.execute(statement, (stream,)).fetchone()
    return Tip(changes, stream, position or 0, *(version, hash_) if version else START)
