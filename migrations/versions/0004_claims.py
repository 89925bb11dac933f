"""On SQLite, let an event also serve as the record of its command.

This concerns commands with one event that has the command's id. Triggers also protect the tables of
commands and refusals against changes and deletions.
"""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a column for the command's digest to the events table, and create the triggers.

    Do nothing on PostgreSQL.
    """
    if op.get_bind().dialect.name != "sqlite":
        return
    op.execute("ALTER TABLE events ADD COLUMN command_digest TEXT")
    op.execute(
        "CREATE TRIGGER commands_claimed_once BEFORE INSERT ON commands BEGIN "
        "SELECT RAISE(ABORT, 'the command is claimed by its event') WHERE EXISTS ( "
        "SELECT 1 FROM events WHERE event_id = NEW.command_id AND command_digest IS NOT NULL); "
        "END"
    )
    for table in ("commands", "refusals"):
        for verb in ("update", "delete"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{verb} BEFORE {verb.upper()} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} are append-only'); END"
            )
