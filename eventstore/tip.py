"""Where a log ends, as the store knows that wrote there last."""

from typing import NamedTuple

from eventstore.chain import Link


class Tip(NamedTuple):
    """Where the log and a stream end, known for as long as nobody else changes the file."""

    #: SQLite's `data_version`, which every commit of another connection changes.
    changes: int
    stream: str
    position: int
    head: Link
