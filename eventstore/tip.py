"""Where a log ends, as the store knows that wrote there last."""

from collections.abc import Sequence
from typing import NamedTuple

from eventstore.chain import Link, Sealed


class Tip(NamedTuple):
    """Where the log and a stream end, known for as long as nobody else changes the file."""

    #: SQLite's `data_version`, which every commit of another connection changes.
    changes: int
    stream: str
    position: int
    head: Link

    def moved(self, by: Sequence[Sealed]) -> "Tip":
        """Once these are recorded too."""
        if not by:
            return self
        position, last = self.position + len(by), by[-1]
        return Tip(self.changes, self.stream, position, Link(last.version, last.hash))
