"""On PostgreSQL, protect the tables of commands and refusals against changes and deletions.

The events table is already protected in this way.
"""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the triggers that prevent changes. Do nothing on SQLite."""
    if op.get_bind().dialect.name != "postgresql":
        return
    op.execute(
        "CREATE FUNCTION kept_refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '% are append-only', TG_TABLE_NAME; END $$"
    )
    for table in ("commands", "refusals"):
        for verb in ("update", "delete", "truncate"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{verb} BEFORE {verb.upper()} ON {table} "
                "FOR EACH STATEMENT EXECUTE FUNCTION kept_refuse()"
            )
