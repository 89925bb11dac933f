"""Create tables with the history of workflows, and the documented SQL views of them."""

from alembic import op

from eventstore.tables import build_table_columns

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_TABLES = {
    "events": """stream:name* version:int* stage attempt amendment actor! session:int command_id!
        causation_id occurred_at! message""",
    "transitions": """stream:name* version:int* stage* from_status to_status! type! reason attempt
        amendment actor! session:int occurred_at! recorded_at! since seconds:real""",
    "attempts": """stream:name* stage* attempt* version:int! mode! host started_at! launched_at
        computing_from ended_at queue_seconds:real compute_seconds:real outcome exit_code:int
        verdict verdict_row:int action reason evidence relaunches:int! recovers diagnostic:int!
        job_ids! submission_sha256!""",
    "amendments": """stream:name* amendment* type! stage state! description! reason changes!
        affected! workflow_version:int proposed_version:int proposed_at! proposed_by
        decided_version:int decided_at decided_by policy signer""",
    "sessions": """stream:name* session:int* first_version:int! last_version:int! started_at!
        started_by! ended_at ended! cost:real! charges:int! completed:int! failed:int!""",
}
_DATA = {
    "sqlite": "json_extract(e.body, '$.data')",
    "postgresql": "(e.body::jsonb -> 'data')::text",
}


def upgrade() -> None:
    """Create the history tables, which are filled when they are needed, and the views."""
    names = {}
    for table, words in _TABLES.items():
        made = op.create_table(f"history_{table}", *build_table_columns(words))
        names[table] = [column.name for column in made.columns]
    ours = names.pop("events")
    theirs = ("position", "event_id", "type", "recorded_at", "hash")
    shown = ", ".join([*(f"h.{name}" for name in ours), *(f"e.{name}" for name in theirs)])
    op.execute(
        f"CREATE VIEW v_events AS SELECT {shown}, {_DATA[op.get_bind().dialect.name]} AS data "
        f"FROM events e JOIN (SELECT {', '.join(ours)} FROM history_events) h "
        "ON h.stream = e.stream AND h.version = e.version"
    )
    for table, own in names.items():
        op.execute(f"CREATE VIEW v_{table} AS SELECT {', '.join(own)} FROM history_{table}")
