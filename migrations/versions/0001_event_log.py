"""Create the tables of the event log: events, commands, refusals and folds (cached states)."""

import sqlalchemy as sa
from alembic import op

from eventstore.tables import build_table_columns

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create every table and its triggers, and mark the database as one of wfctl."""
    op.create_table(
        "events",
        *build_table_columns(
            "position:number* stream:name! version:int! event_id! type! recorded_at! hash! body!"
        ),
        sa.UniqueConstraint("stream", "version", name="events_stream_version"),
        sa.UniqueConstraint("event_id", name="events_event_id"),
    )
    op.create_table(
        "commands",
        *build_table_columns(
            "command_id:name* stream:name! digest! first_version:int! last_version:int!"
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "refusals",
        *build_table_columns("id:number* at! stream:name! actor! command! code! message! data!"),
    )
    op.create_table(
        "folds",
        *build_table_columns(
            "stream:name* reducer* reducer_version:int! version:int! state:bytes!"
        ),
    )
    if op.get_bind().dialect.name == "sqlite":
        _sqlite()
    else:
        _postgresql()


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
