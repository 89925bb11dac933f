"""Statements in an engine's own SQL, compiled once from the Core tables.

Compiling and executing through Core costs more than a whole append, so the text is kept and
handed to the driver. Parameters are positional, in the order each docstring gives.
"""

from functools import cached_property
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Dialect,
    Select,
    bindparam,
    func,
    insert,
    literal_column,
    select,
    true,
)
from sqlalchemy.sql.elements import ClauseElement

from eventstore.tables import commands, events, folds, refusals


class Statements:
    """The texts for one dialect."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def _text(self, statement: ClauseElement) -> str:
        return str(statement.compile(dialect=self._dialect))

    @cached_property
    def head(self) -> str:
        """stream -> version, position, hash."""
        found = select(events.c.version, events.c.position, events.c.hash)
        last = found.where(events.c.stream == bindparam("stream"))
        return self._text(_first(last.order_by(events.c.version.desc()), literal_column("1")))

    @cached_property
    def before(self) -> str:
        """stream, command id -> all that an append must know, in one round trip.

        Last position of the log; version and hash of the stream's head; stream, digest, first and
        last version of the command. Each is null where there is none.
        """
        last = select(func.max(events.c.position).label("position")).subquery()
        found = select(events.c.version, events.c.hash).where(
            events.c.stream == bindparam("stream")
        )
        newest = _first(found.order_by(events.c.version.desc()), literal_column("1")).subquery()
        claimed = commands.c.command_id == bindparam("id")
        columns = (last.c.position, newest.c.version, newest.c.hash, *list(commands.c)[1:])
        joined = last.outerjoin(newest, true()).outerjoin(commands, claimed)
        return self._text(select(*columns).select_from(joined))

    @cached_property
    def tip(self) -> str:
        """stream -> position and hash of the log's last event, version and hash of the stream's.

        The latter are null where there is none, and an empty log gives no row.
        """
        one: ColumnElement[int] = literal_column("1")
        every = select(events.c.position, events.c.hash)
        last = _first(every.order_by(events.c.position.desc()), one).subquery()
        own = select(events.c.version, events.c.hash).where(events.c.stream == bindparam("stream"))
        head = _first(own.order_by(events.c.version.desc()), one).subquery()
        return self._text(select(last, head).select_from(last.outerjoin(head, true())))

    @cached_property
    def extent(self) -> str:
        """Nothing -> number of events, last position (null in an empty log)."""
        return self._text(select(func.count(), func.max(events.c.position)).select_from(events))

    @cached_property
    def last(self) -> str:
        """Nothing -> last position, 0 in an empty log."""
        return self._text(select(func.coalesce(func.max(events.c.position), literal_column("0"))))

    @cached_property
    def command(self) -> str:
        """command id -> stream, digest, first version, last version."""
        columns = (c for c in commands.c if c.name != "command_id")
        return self._text(select(*columns).where(commands.c.command_id == bindparam("id")))

    @cached_property
    def insert_event(self) -> str:
        """position, stream, version, event id, type, recorded at, hash, body."""
        return self._text(insert(events))

    @cached_property
    def insert_command(self) -> str:
        """command id, stream, digest, first version, last version."""
        return self._text(insert(commands))

    @cached_property
    def read(self) -> str:
        """stream, after, upto, limit -> version, position, hash, body."""
        found = select(events.c.version, events.c.position, events.c.hash, events.c.body).where(
            events.c.stream == bindparam("stream"),
            events.c.version > bindparam("after"),
            events.c.version <= bindparam("upto"),
        )
        return self._text(_first(found.order_by(events.c.version), bindparam("limit")))

    @cached_property
    def read_all(self) -> str:
        """after, limit -> position, hash, body."""
        found = select(events.c.position, events.c.hash, events.c.body)
        later = found.where(events.c.position > bindparam("after"))
        return self._text(_first(later.order_by(events.c.position), bindparam("limit")))

    @cached_property
    def commands(self) -> str:
        """command id, limit -> every column of the commands after it."""
        found = select(commands).where(commands.c.command_id > bindparam("after"))
        return self._text(_first(found.order_by(commands.c.command_id), bindparam("limit")))

    @cached_property
    def spans(self) -> str:
        """command ids, as an array -> command id, stream, first version, last version of each."""
        columns = (c for c in commands.c if c.name != "digest")
        any_of = commands.c.command_id == func.any(bindparam("ids"))
        return self._text(select(*columns).where(any_of))

    @cached_property
    def rows(self) -> str:
        """stream, after, limit -> every column of events."""
        found = select(events).where(
            events.c.stream == bindparam("stream"), events.c.version > bindparam("after")
        )
        return self._text(_first(found.order_by(events.c.version), bindparam("limit")))

    @cached_property
    def next_stream(self) -> str:
        """name -> the next name in order: one step in the index, however long the streams are."""
        found = select(events.c.stream).where(events.c.stream > bindparam("name"))
        return self._text(_first(found.order_by(events.c.stream), literal_column("1")))

    @cached_property
    def delete_fold(self) -> str:
        """stream, reducer."""
        chosen = (folds.c.stream == bindparam("s"), folds.c.reducer == bindparam("r"))
        return self._text(folds.delete().where(*chosen))

    @cached_property
    def insert_fold(self) -> str:
        """stream, reducer, reducer version, version, state."""
        return self._text(insert(folds))

    @cached_property
    def fold(self) -> str:
        """stream, reducer, reducer version -> every column of folds."""
        return self._text(
            select(folds).where(
                folds.c.stream == bindparam("s"),
                folds.c.reducer == bindparam("r"),
                folds.c.reducer_version == bindparam("v"),
            )
        )

    @cached_property
    def insert_refusal(self) -> str:
        """at, stream, actor, command, code, message, data."""
        names = [name for name in refusals.c.keys() if name != "id"]  # noqa: SIM118
        return self._text(insert(refusals).values({name: bindparam(name) for name in names}))

    @cached_property
    def refusals(self) -> str:
        """after, limit -> every column of refusals."""
        found = select(refusals).where(refusals.c.id > bindparam("after"))
        return self._text(_first(found.order_by(refusals.c.id), bindparam("limit")))


def _first(found: Select[Any], limit: ColumnElement[int]) -> Select[Any]:
    """With the offset spelled out, as some dialects would add a parameter for it."""
    return found.limit(limit).offset(literal_column("0"))
