"""Where a log ends, as the store knows that wrote there last."""

import sqlite3
from typing import NamedTuple

from eventstore.chain import START, Link
from eventstore.expectation import is_met
from eventstore.store import Expected


class Tip(NamedTuple):
    """Where the log and a stream end, known for as long as nobody else changes the file."""

    #: SQLite's `data_version`, which every commit of another connection changes.
    changes: int
    stream: str
    position: int
    head: Link

    def fits(self, stream: str, expected: int | Expected) -> bool:
        """Whether this is the stream, and its head as expected."""
        return self.stream == stream and is_met(expected, self.head.version)


def tip_of(cursor: sqlite3.Cursor, statement: str, stream: str, known: Tip | None) -> Tip:
    """The tip in a transaction: what is known, unless others wrote, or what `statement` finds."""
    (changes,) = cursor.execute("PRAGMA data_version").fetchone()
    if known is not None and known.changes == changes and known.stream == stream:
        return known
    position, version, hash_ = cursor.execute(statement, (stream,)).fetchone()
    return Tip(changes, stream, position or 0, Link(version, hash_) if version else START)
