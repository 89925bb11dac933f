"""Definitions of the database tables. A test compares them with the result of the migrations."""

from typing import Any

from sqlalchemy import (
    DDL,
    BigInteger,
    Column,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    event,
)
from sqlalchemy.types import TypeEngine

from eventstore.event import APPLICATION_ID, MARK, TRIGGERS

_TYPES: dict[str, TypeEngine[Any]] = {
    "": Text(),
    # SQLite assigns row numbers automatically only if the column type is exactly INTEGER.
    "number": BigInteger().with_variant(Integer(), "sqlite"),
    # Sort names by their bytes on every engine, independent of the server's locale.
    "name": Text().with_variant(Text(collation="C"), "postgresql"),
    "int": BigInteger(),
    "real": Double(),
    "bytes": LargeBinary(),
}


def build_table_columns(words: str) -> list[Column[Any]]:
    """Return the table columns that a string describes, one word per column.

    A word is `NAME` or `NAME:TYPE`. `*` means primary key, `!` means not null. Released migrations
    use this function, and therefore the meaning of a word must never change.
    """
    return [_build_column(word.rstrip("*!"), word[-1]) for word in words.split()]


def _build_column(word: str, mark: str) -> Column[Any]:
    name, _, type_ = word.partition(":")
    return Column(
        name,
        _TYPES[type_],
        primary_key=mark == "*",
        nullable=mark not in "*!",
        autoincrement="auto" if type_ == "number" else False,
    )


metadata = MetaData()

# The body has a text type on every engine, because a JSON type would not preserve the bytes that
# were hashed.
events = Table(
    "events",
    metadata,
    *build_table_columns(
        "position:number* stream:name! version:int! event_id! type! recorded_at! hash! body!"
    ),
    UniqueConstraint("stream", "version", name="events_stream_version"),
    UniqueConstraint("event_id", name="events_event_id"),
)
commands = Table(
    "commands",
    metadata,
    *build_table_columns(
        "command_id:name* stream:name! digest! first_version:int! last_version:int!"
    ),
    sqlite_with_rowid=False,
)
refusals = Table(
    "refusals",
    metadata,
    *build_table_columns("id:number* at! stream:name! actor! command! code! message! data!"),
)
folds = Table(
    "folds",
    metadata,
    *build_table_columns("stream:name* reducer* reducer_version:int! version:int! state:bytes!"),
)

_SQLITE = (
    "ALTER TABLE events ADD COLUMN command_digest TEXT",
    *TRIGGERS,
    f"PRAGMA application_id = {APPLICATION_ID}",
)
_FUNCTION = "CREATE FUNCTION {}_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {}; END $$"
_POSTGRESQL = (
    _FUNCTION.format("events", "RAISE EXCEPTION 'events are append-only'"),
    # A percent sign in a DDL statement must be written twice.
    _FUNCTION.format("kept", "RAISE EXCEPTION '%% are append-only', TG_TABLE_NAME"),
    *(
        f"CREATE TRIGGER {table}_no_{verb} BEFORE {verb.upper()} ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {function}_refuse()"
        for table, function in (("events", "events"), ("commands", "kept"), ("refusals", "kept"))
        for verb in ("update", "delete", "truncate")
    ),
    f"COMMENT ON TABLE events IS '{MARK}'",
)

for _dialect, _statements in (("sqlite", _SQLITE), ("postgresql", _POSTGRESQL)):
    for _statement in _statements:
        _made = DDL(_statement)  # type: ignore[no-untyped-call]
        event.listen(metadata, "after_create", _made.execute_if(dialect=_dialect))
