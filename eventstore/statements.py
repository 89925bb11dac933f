"""The statements that every engine of the log has, in its own SQL.

Parameters are positional, in the order that each comment gives before the arrow; what the rows
hold stands after it.
"""

from typing import Protocol


class Statements(Protocol):
    """The texts for one engine."""

    @property
    def head(self) -> str:
        """stream -> version, position, hash."""
        ...

    @property
    def tip(self) -> str:
        """stream -> position and hash of the log's last event, version and hash of the stream's.

        The latter are null where there is none, and an empty log gives no row.
        """
        ...

    @property
    def extent(self) -> str:
        """Nothing -> number of events, last position (null in an empty log)."""
        ...

    @property
    def last(self) -> str:
        """Nothing -> last position, 0 in an empty log."""
        ...

    @property
    def insert_event(self) -> str:
        """position, stream, version, event id, type, recorded at, hash, body."""
        ...

    @property
    def insert_command(self) -> str:
        """command id, stream, digest, first version, last version."""
        ...

    @property
    def read(self) -> str:
        """stream, after, upto, limit -> every column of events."""
        ...

    @property
    def read_all(self) -> str:
        """after, limit -> every column of events."""
        ...

    @property
    def rows(self) -> str:
        """stream, after, limit -> every column of events."""
        ...

    @property
    def next_stream(self) -> str:
        """name -> the next name in order: one step in the index, however long the streams are."""
        ...

    @property
    def delete_fold(self) -> str:
        """stream, reducer."""
        ...

    @property
    def insert_fold(self) -> str:
        """stream, reducer, reducer version, version, state."""
        ...

    @property
    def fold(self) -> str:
        """stream, reducer, reducer version -> every column of folds."""
        ...

    @property
    def insert_refusal(self) -> str:
        """at, stream, actor, command, code, message, data."""
        ...

    @property
    def claims(self) -> str:
        """command id, limit -> every column of the commands after it, texts of its events.

        They are those of the first and of the last version it claims, null where there is none.
        """
        ...

    @property
    def refusals(self) -> str:
        """after, limit -> every column of refusals."""
        ...
