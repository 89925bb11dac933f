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

from eventstore.event import APPLICATION_ID, MARK

# SQLite numbers rows by itself only for a column declared exactly INTEGER.
_POSITION = BigInteger().with_variant(Integer(), "sqlite")

# Names in the order of their bytes on every engine, whatever language a server speaks.
_NAME = Text().with_variant(Text(collation="C"), "postgresql")

metadata = MetaData()

events = Table(
    "events",
    metadata,
    Column("position", _POSITION, primary_key=True),
    Column("stream", _NAME, nullable=False),
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
    Column("command_id", _NAME, primary_key=True),
    Column("stream", _NAME, nullable=False),
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
    Column("stream", _NAME, nullable=False),
    Column("actor", Text, nullable=False),
    Column("command", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("data", Text, nullable=False),
)

folds = Table(
    "folds",
    metadata,
    Column("stream", _NAME, primary_key=True),
    Column("reducer", Text, primary_key=True),
    Column("reducer_version", BigInteger, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("state", LargeBinary, nullable=False),
)

_KEPT = ("events", "commands", "refusals")

_SQLITE = (
    *(
        f"CREATE TRIGGER {table}_no_{verb} BEFORE {verb.upper()} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{table} are append-only'); END"
        for table in _KEPT
        for verb in ("update", "delete")
    ),
    # A command of one event that bears its id is claimed by that event, so that an append writes a
    # page less. Nobody claims it a second time with a row among the commands.
    "ALTER TABLE events ADD COLUMN command_digest TEXT",
    """CREATE TRIGGER commands_claimed_once BEFORE INSERT ON commands BEGIN
  SELECT RAISE(ABORT, 'the command is claimed by its event') WHERE EXISTS (
    SELECT 1 FROM events WHERE event_id = NEW.command_id AND command_digest IS NOT NULL);
END""",
    f"PRAGMA application_id = {APPLICATION_ID}",
)

_FUNCTION = "CREATE FUNCTION {}_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {}; END $$"
_POSTGRESQL = (
    _FUNCTION.format("events", "RAISE EXCEPTION 'events are append-only'"),
    # A percent sign in DDL is written twice.
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
