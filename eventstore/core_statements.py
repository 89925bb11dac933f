"""The statements of the log, compiled from the tables for the dialect of an engine.

Compiling and executing through Core costs more than a whole append, so the text is kept and
handed to the driver. A test holds the texts for SQLite, which no command compiles, equal to these.
"""

from functools import cached_property
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Dialect,
    FromClause,
    Select,
    and_,
    bindparam,
    func,
    insert,
    literal_column,
    select,
    true,
)
from sqlalchemy.sql.elements import ClauseElement

from eventstore.tables import commands, events, folds, refusals


class CoreStatements:
    """`Statements` for one dialect, each compiled when it is first asked for."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def _text(self, statement: ClauseElement) -> str:
        return str(statement.compile(dialect=self._dialect))

    @cached_property
    def head(self) -> str:
        """See Statements."""
        found = select(events.c.version, events.c.position, events.c.hash)
        last = found.where(events.c.stream == bindparam("stream"))
        return self._text(_first(last.order_by(events.c.version.desc()), literal_column("1")))

    @cached_property
    def before(self) -> str:
        """stream, command id -> all that an append must know, in one round trip.

        Last position of the log; version and hash of the stream's head; stream, digest, first and
        last version of the command. Each is null where there is none.
        """
        last = select(func.max(events.c.position).label("position")).subquery("last")
        found = select(events.c.version, events.c.hash).where(
            events.c.stream == bindparam("stream")
        )
        own = _first(found.order_by(events.c.version.desc()), literal_column("1")).subquery("own")
        claimed = commands.c.command_id == bindparam("id")
        columns = (last.c.position, own.c.version, own.c.hash, *list(commands.c)[1:])
        joined = last.outerjoin(own, true()).outerjoin(commands, claimed)
        return self._text(select(*columns).select_from(joined))

    @cached_property
    def tip(self) -> str:
        """See Statements."""
        one: ColumnElement[int] = literal_column("1")
        every = select(events.c.position, events.c.hash)
        last = _first(every.order_by(events.c.position.desc()), one).subquery("last")
        found = select(events.c.version, events.c.hash).where(
            events.c.stream == bindparam("stream")
        )
        own = _first(found.order_by(events.c.version.desc()), one).subquery("own")
        columns = (*last.c, own.c.version, own.c.hash.label("own_hash"))
        return self._text(select(*columns).select_from(last.outerjoin(own, true())))

    @cached_property
    def extent(self) -> str:
        """See Statements."""
        columns = (func.count().label("number"), func.max(events.c.position).label("last"))
        return self._text(select(*columns).select_from(events))

    @cached_property
    def last(self) -> str:
        """See Statements."""
        last = func.coalesce(func.max(events.c.position), literal_column("0"))
        return self._text(select(last.label("last")))

    @cached_property
    def command(self) -> str:
        """command id -> stream, digest, first version, last version."""
        columns = (c for c in commands.c if c.name != "command_id")
        return self._text(select(*columns).where(commands.c.command_id == bindparam("id")))

    @cached_property
    def insert_event(self) -> str:
        """See Statements."""
        return self._text(insert(events))

    @cached_property
    def insert_command(self) -> str:
        """See Statements."""
        return self._text(insert(commands))

    @cached_property
    def read(self) -> str:
        """See Statements."""
        found = select(events).where(
            events.c.stream == bindparam("stream"),
            events.c.version > bindparam("after"),
            events.c.version <= bindparam("upto"),
        )
        return self._text(_first(found.order_by(events.c.version), bindparam("limit")))

    @cached_property
    def read_all(self) -> str:
        """See Statements."""
        later = select(events).where(events.c.position > bindparam("after"))
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
        """See Statements."""
        found = select(events).where(
            events.c.stream == bindparam("stream"), events.c.version > bindparam("after")
        )
        return self._text(_first(found.order_by(events.c.version), bindparam("limit")))

    @cached_property
    def next_stream(self) -> str:
        """See Statements."""
        found = select(events.c.stream).where(events.c.stream > bindparam("name"))
        return self._text(_first(found.order_by(events.c.stream), literal_column("1")))

    @cached_property
    def delete_fold(self) -> str:
        """See Statements."""
        chosen = (folds.c.stream == bindparam("s"), folds.c.reducer == bindparam("r"))
        return self._text(folds.delete().where(*chosen))

    @cached_property
    def insert_fold(self) -> str:
        """See Statements."""
        return self._text(insert(folds))

    @cached_property
    def fold(self) -> str:
        """See Statements."""
        return self._text(
            select(folds).where(
                folds.c.stream == bindparam("s"),
                folds.c.reducer == bindparam("r"),
                folds.c.reducer_version == bindparam("v"),
            )
        )

    @cached_property
    def insert_refusal(self) -> str:
        """See Statements."""
        names = [name for name in refusals.c.keys() if name != "id"]  # noqa: SIM118
        return self._text(insert(refusals).values({name: bindparam(name) for name in names}))

    @cached_property
    def claims(self) -> str:
        """See Statements."""
        first, last = events.alias("first"), events.alias("last")
        columns = (*commands.c, first.c.body.label("first_body"), last.c.body.label("last_body"))
        joined: FromClause = commands
        for end, version in ((first, commands.c.first_version), (last, commands.c.last_version)):
            at = and_(end.c.stream == commands.c.stream, end.c.version == version)
            joined = joined.outerjoin(end, at)
        found = select(*columns).select_from(joined)
        later = found.where(commands.c.command_id > bindparam("after"))
        return self._text(_first(later.order_by(commands.c.command_id), bindparam("limit")))

    @cached_property
    def refusals(self) -> str:
        """See Statements."""
        found = select(refusals).where(refusals.c.id > bindparam("after"))
        return self._text(_first(found.order_by(refusals.c.id), bindparam("limit")))


def _first(found: Select[Any], limit: ColumnElement[int]) -> Select[Any]:
    """With the offset spelled out, as some dialects would add a parameter for it."""
    return found.limit(limit).offset(literal_column("0"))
