"""The event log: events, commands, refusals and stored folds."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_POSITION = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make every table, and the engine's triggers and mark of ownership."""
    _events()
    _commands()
    _refusals()
    _folds()
    if op.get_bind().dialect.name == "sqlite":
        _sqlite()
    else:
        _postgresql()


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("position", _POSITION, primary_key=True),
        sa.Column("stream", _NAME, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("event_id", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("recorded_at", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.UniqueConstraint("stream", "version", name="events_stream_version"),
        sa.UniqueConstraint("event_id", name="events_event_id"),
    )


def _commands() -> None:
    op.create_table(
        "commands",
        sa.Column("command_id", _NAME, primary_key=True),
        sa.Column("stream", _NAME, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("first_version", sa.BigInteger, nullable=False),
        sa.Column("last_version", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )


def _refusals() -> None:
    op.create_table(
        "refusals",
        sa.Column("id", _POSITION, primary_key=True),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("stream", _NAME, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("command", sa.Text, nullable=False),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
    )


def _folds() -> None:
    op.create_table(
        "folds",
        sa.Column("stream", _NAME, primary_key=True),
        sa.Column("reducer", sa.Text, primary_key=True),
        sa.Column("reducer_version", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
    )


def _sqlite() -> None:
    for verb in ("update", "delete"):
        op.execute(
            f"CREATE TRIGGER events_no_{verb} BEFORE {verb.upper()} ON events "
            "BEGIN SELECT RAISE(ABORT, 'events are append-only'); END"
        )
    op.execute(f"PRAGMA application_id = {0x77666374}")


def _postgresql() -> None:
    op.execute(
        "CREATE FUNCTION events_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'events are append-only'; END $$"
    )
    for verb in ("update", "delete", "truncate"):
        op.execute(
            f"CREATE TRIGGER events_no_{verb} BEFORE {verb.upper()} ON events "
            "FOR EACH STATEMENT EXECUTE FUNCTION events_refuse()"
        )
    op.execute("COMMENT ON TABLE events IS 'wfctl event log'")
