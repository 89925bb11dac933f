"""The tables. What a migration builds and what these build is the same, by test."""

from sqlalchemy import (
    DDL,
    BigInteger,
    Column,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    event,
)

# The newest migration, so that a normal open needs one SELECT and no Alembic.
HEAD = "0001"
# "wfct" in ASCII: how a SQLite file says whose it is.
APPLICATION_ID = 0x77666374

# SQLite numbers rows by itself only for a column declared exactly INTEGER.
_POSITION = BigInteger().with_variant(Integer(), "sqlite")

metadata = MetaData()

events = Table(
    "events",
    metadata,
    Column("position", _POSITION, primary_key=True),
    Column("stream", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("event_id", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("recorded_at", Text, nullable=False),
    Column("hash", Text, nullable=False),
    # Text on every engine: a JSON type would not give back the bytes that were hashed.
    Column("body", Text, nullable=False),
    UniqueConstraint("stream", "version", name="events_stream_version"),
    UniqueConstraint("event_id", name="events_event_id"),
)

commands = Table(
    "commands",
    metadata,
    Column("command_id", Text, primary_key=True),
    Column("stream", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("first_version", BigInteger, nullable=False),
    Column("last_version", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

refusals = Table(
    "refusals",
    metadata,
    Column("id", _POSITION, primary_key=True),
    Column("at", Text, nullable=False),
    Column("stream", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("command", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("data", Text, nullable=False),
)

folds = Table(
    "folds",
    metadata,
    Column("stream", Text, primary_key=True),
    Column("reducer", Text, primary_key=True),
    Column("reducer_version", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("state", LargeBinary, nullable=False),
)

SQLITE_TRIGGERS = tuple(
    f"CREATE TRIGGER events_no_{verb} BEFORE {verb.upper()} ON events "
    "BEGIN SELECT RAISE(ABORT, 'events are append-only'); END"
    for verb in ("update", "delete")
)

for _statement in (*SQLITE_TRIGGERS, f"PRAGMA application_id = {APPLICATION_ID}"):
    _made = DDL(_statement)  # type: ignore[no-untyped-call]
    event.listen(metadata, "after_create", _made.execute_if(dialect="sqlite"))
